// What PyTorch calls. It takes null as success, so a refusal has to be thrown; and what throws is this file's
// C++, after the library's function has returned: no exception passes through a frame of Rust.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include "pool_cuda.h"

// PyTorch's version, as 100 times its first number and its second: since when its class has what is overridden
// below, with these types.
#ifndef POOL_SHIM_TORCH
#error "POOL_SHIM_TORCH is not set"
#endif
#define HAS_STATISTICS (POOL_SHIM_TORCH >= 208)
#define HAS_POOLS (POOL_SHIM_TORCH >= 211)

namespace {

using c10::cuda::MempoolId_t;
using Plugin = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

// The library's codes that are treated by themselves.
constexpr int INVALID_VALUE = 1;
constexpr int OUT_OF_MEMORY = 2;

// Messages are put together as strings, and each check gets one whole: several parts it would write to a stream,
// and the compiler may bring a copy of the streams of its own, which is not of the version that PyTorch loaded.
std::string said(const std::string &what) { return what + ". pool-cuda: " + poolLastErrorMessage(); }

void check(int code, const std::string &what) {
    TORCH_CHECK(code == 0, "pool-cuda: " + what + ": " + poolLastErrorMessage());
}

// Streams of PyTorch's own pool are never destroyed, so the library may keep them. They are listed once for
// each device, when the first stream that is no default one is seen there: then PyTorch has made them.
void list_streams(int device) {
    std::set<void *> found;
    for (int priority = 0; priority > -c10::cuda::max_compile_time_stream_priorities; priority--) {
        // They come round and round.
        size_t known = 0;
        do {
            known = found.size();
            for (int i = 0; i < 32; i++)
                found.insert(c10::cuda::getStreamFromPool(priority, static_cast<c10::DeviceIndex>(device)).stream());
        } while (found.size() > known);
    }
    std::vector<void *> streams(found.begin(), found.end());
    check(pool_torch_list_streams(device, streams.data(), streams.size()), "a list of streams");
}

void meet(int device, cudaStream_t stream) {
    static std::array<std::once_flag, 128> listed;
    const bool is_default = reinterpret_cast<std::uintptr_t>(stream) <= 2;
    if (!is_default && device >= 0 && static_cast<size_t>(device) < listed.size())
        std::call_once(listed[static_cast<size_t>(device)], list_streams, device);
}

// Pools that graphs are captured into, while they are open, and which streams they take.
struct OpenPool {
    int device;
    MempoolId_t id;
    std::function<bool(cudaStream_t)> takes;
};
std::mutex open_lock;
std::vector<OpenPool> open_pools;
std::atomic<size_t> open_count{0};

bool find_open(int device, cudaStream_t stream, MempoolId_t &id) {
    if (open_count.load(std::memory_order_acquire) == 0) return false;
    std::lock_guard<std::mutex> guard(open_lock);
    for (const OpenPool &pool : open_pools) {
        if (pool.device == device && pool.takes(stream)) {
            id = pool.id;
            return true;
        }
    }
    return false;
}

[[noreturn]] void refuse(size_t size, int device) {
    const int code = poolLastError();
    const std::string what = std::to_string(size) + " bytes on GPU " + std::to_string(device);
    TORCH_CHECK_WITH(OutOfMemoryError, code != OUT_OF_MEMORY,
                     said("CUDA out of memory. Tried to allocate " + what));
    TORCH_CHECK(false, said("Tried to allocate " + what));
    std::terminate();
}

void *give(size_t size, int device, cudaStream_t stream) {
    meet(device, stream);
    MempoolId_t id;
    void *block = find_open(device, stream, id)
                      ? pool_torch_allocate_in_pool(size, device, stream, id.first, id.second)
                      : pool_torch_allocate(size, device, stream);
    if (block == nullptr && size > 0) refuse(size, device);
    return block;
}

void take(void *block, size_t size, int device, cudaStream_t stream) {
    // Called from destructors: what fails is said, and nothing thrown.
    pool_torch_free(block, size, device, stream);
}

void record_stream(void *block, cudaStream_t stream) {
    const int code = pool_torch_record_stream(block, stream);
    // Memory of others is none of our business.
    if (code != INVALID_VALUE) check(code, "a use on another stream");
}

cudaStream_t current_stream(int device) {
    return c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream();
}

void begin_pool(int device, MempoolId_t id, std::function<bool(cudaStream_t)> takes) {
    // The one that is about to be captured, if any is.
    const cudaStream_t stream = current_stream(device);
    meet(device, stream);
    check(pool_torch_begin_pool(device, id.first, id.second, stream), "the beginning of a capture");
    std::lock_guard<std::mutex> guard(open_lock);
    open_pools.push_back({device, id, std::move(takes)});
    open_count.store(open_pools.size(), std::memory_order_release);
}

void end_pool(int device, MempoolId_t id) {
    {
        std::lock_guard<std::mutex> guard(open_lock);
        const auto found = std::find_if(open_pools.begin(), open_pools.end(), [&](const OpenPool &pool) {
            return pool.device == device && pool.id == id;
        });
        if (found != open_pools.end()) open_pools.erase(found);
        open_count.store(open_pools.size(), std::memory_order_release);
    }
    check(pool_torch_end_pool(device, id.first, id.second, current_stream(device)), "the end of a capture");
}

void release_pool(int device, MempoolId_t id) {
    // Called from destructors.
    if (pool_torch_release_pool(device, id.first, id.second) != 0)
        std::fprintf(stderr, "pool-cuda: a graph's pool could not be released: %s\n", poolLastErrorMessage());
}

void *base(void *block, size_t *size) {
    void *begin = pool_torch_base(block, size);
    TORCH_CHECK(begin != nullptr, said("No allocation begins there"));
    return begin;
}

poolTorchStats figures_of(int device) {
    poolTorchStats figures{};
    check(pool_torch_stats(device, &figures), "figures");
    return figures;
}

// PyTorch's class, and what it refuses for others.
class Allocator final : public Plugin {
  public:
    using Plugin::Plugin;

    // Calls back for each live block.
    void each_live(void (*with)(void *, const void *, size_t, int, void *), void *context) {
        std::lock_guard<std::mutex> guard(allocator_mutex_);
        for (const auto &[block, known] : allocation_metadata_)
            if (block != nullptr) with(context, block, known.size, known.device_idx, known.stream);
    }

#if HAS_STATISTICS
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
        const poolTorchStats figures = figures_of(device);
        const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
        const auto number = [](uint64_t value) { return static_cast<int64_t>(value); };
        c10::CachingDeviceAllocator::DeviceStats stats;
        auto &bytes = stats.allocated_bytes[all];
        bytes.current = number(figures.liveBytes);
        bytes.peak = number(figures.peakLiveBytes);
        bytes.allocated = number(figures.allocatedBytes);
        bytes.freed = number(figures.freedBytes);
        auto &blocks = stats.allocation[all];
        blocks.current = number(figures.allocations - figures.frees);
        blocks.allocated = number(figures.allocations);
        blocks.freed = number(figures.frees);
        stats.active[all].current = number(figures.allocations - figures.frees + figures.deferredBlocks);
        stats.active_bytes[all].current = number(figures.liveBytes + figures.deferredBytes);
        stats.reserved_bytes[all].current = number(figures.reservedBytes);
        stats.reserved_bytes[all].peak = number(figures.peakReservedBytes);
        stats.inactive_split_bytes[all].current = number(figures.freeBytes + figures.cachedBytes);
        stats.segment[all].current = number(figures.arenas);
        stats.num_ooms = number(figures.refusals);
        stats.num_sync_all_streams = number(figures.hostWaits);
        stats.num_device_alloc = number(figures.deviceAllocations);
        stats.num_device_free = number(figures.deviceFrees);
        return stats;
    }

    void resetPeakStats(c10::DeviceIndex device) override { check(poolResetPeaks(device), "peaks"); }

    double getMemoryFraction(c10::DeviceIndex device) override {
        const poolTorchStats figures = figures_of(device);
        if (figures.limitBytes == 0 || figures.totalBytes == 0) return 1.0;
        return static_cast<double>(figures.limitBytes) / static_cast<double>(figures.totalBytes);
    }

    // What the largest request may be, for cuDNN's choice of an algorithm.
    void cacheInfo(c10::DeviceIndex device, size_t *largest) override {
        const poolTorchStats figures = figures_of(device);
        uint64_t more = figures.deviceFreeBytes;
        if (figures.limitBytes > 0) more = std::min(more, figures.limitBytes - std::min(figures.limitBytes, figures.reservedBytes));
        *largest = std::max(*largest, static_cast<size_t>(more + figures.freeBytes));
    }

#endif

#if HAS_POOLS
    void createOrIncrefPool(c10::DeviceIndex device, MempoolId_t id,
                            std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> allocator) override {
        TORCH_CHECK(allocator == nullptr,
                    "pool-cuda serves this whole process, so that torch.cuda.MemPool cannot have an allocator of its "
                    "own. Use MemPool(pool_cuda_torch.mem_pool_allocator()) without pool_cuda_torch.install().");
        check(pool_torch_hold_pool(device, id.first, id.second), "a memory pool");
    }

    // Whatever is free serves when memory is short, a pool's too: nothing is set apart, and PyTorch says at each
    // pool's end that it is not to be used so any more.
    void setUseOnOOM(c10::DeviceIndex, MempoolId_t, bool) override {}

    int getPoolUseCount(c10::DeviceIndex device, MempoolId_t id) override {
        return static_cast<int>(pool_torch_pool_uses(device, id.first, id.second));
    }
#endif
};

// As long as the process.
std::shared_ptr<Allocator> &installed() {
    static auto *allocator = new std::shared_ptr<Allocator>;
    return *allocator;
}

void install() {
    if (installed()) return;
    auto allocator = std::make_shared<Allocator>(give, take);
    allocator->set_init_fn([](int) {});
    allocator->set_reset_fn([] { check(pool_torch_empty_cache(), "what is free could not go back"); });
    allocator->set_memory_fraction_fn([](double fraction, int device) {
        check(pool_torch_set_fraction(fraction, device), "a memory fraction");
    });
    allocator->set_base_alloc_fn(base);
    allocator->set_record_stream_fn(record_stream);
    allocator->set_begin_allocate_to_pool(begin_pool);
    allocator->set_end_allocate_to_pool_fn(end_pool);
    allocator->set_release_pool(release_pool);
    torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(allocator);
    installed() = std::move(allocator);
}

}  // namespace

// Makes the pool PyTorch's allocator. Null, or why it is not: text that stays until the thread asks again.
extern "C" const char *pool_shim_install() {
    static thread_local std::string why;
    try {
        install();
        return nullptr;
    } catch (const std::exception &error) {
        why = error.what();
    }
    return why.c_str();
}

// Calls back with each live block of PyTorch's: its address, the bytes asked for, its device and its stream.
extern "C" void pool_shim_each_live(void (*with)(void *, const void *, size_t, int, void *), void *context) {
    if (installed()) installed()->each_live(with, context);
}

// Segments for PyTorch's own allocator, which has pools of them (torch.cuda.MemPool): it takes null for want of
// memory, and lends each segment to whichever stream it likes.
extern "C" void *pool_shim_segment_malloc(size_t size, int device, cudaStream_t stream) {
    return pool_torch_allocate_segment(size, device, stream);
}

extern "C" void pool_shim_segment_free(void *segment, size_t, int, cudaStream_t) {
    if (poolFree(segment) != 0)
        std::fprintf(stderr, "pool-cuda: a segment was not freed: %s\n", poolLastErrorMessage());
}
