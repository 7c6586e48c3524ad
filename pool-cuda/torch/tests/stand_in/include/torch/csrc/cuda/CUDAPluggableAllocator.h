// Stands in for PyTorch's header: what the shim uses of it.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

namespace c10 {

namespace CachingAllocator {

struct Stat {
    int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};
enum struct StatType : uint64_t { AGGREGATE = 0 };
using StatArray = std::array<Stat, 3>;

}  // namespace CachingAllocator

namespace CachingDeviceAllocator {

struct DeviceStats {
    CachingAllocator::StatArray allocation, segment, active, allocated_bytes, reserved_bytes, active_bytes,
        inactive_split_bytes;
    int64_t num_ooms = 0, num_sync_all_streams = 0, num_device_alloc = 0, num_device_free = 0;
};

}  // namespace CachingDeviceAllocator

namespace cuda::CUDACachingAllocator {

struct CUDAAllocator {
    virtual ~CUDAAllocator() = default;
    virtual CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex device) = 0;
    virtual void resetPeakStats(DeviceIndex device) = 0;
    virtual double getMemoryFraction(DeviceIndex device) = 0;
    virtual void cacheInfo(DeviceIndex device, size_t *largest) = 0;
    virtual void createOrIncrefPool(DeviceIndex device, MempoolId_t id, std::shared_ptr<CUDAAllocator> allocator) = 0;
    // Refused, unless a class says otherwise, and called at the end of each torch.cuda.MemPool.
    virtual void setUseOnOOM(DeviceIndex, MempoolId_t, bool) { TORCH_CHECK(false, "does not support setUseOnOOM"); }
    virtual int getPoolUseCount(DeviceIndex device, MempoolId_t id) = 0;
};

}  // namespace cuda::CUDACachingAllocator
}  // namespace c10

namespace torch::cuda::CUDAPluggableAllocator {

struct Known {
    size_t size;
    c10::DeviceIndex device_idx;
    cudaStream_t stream;
};

// Its hooks can be called by all, for tests.
struct CUDAPluggableAllocator : c10::cuda::CUDACachingAllocator::CUDAAllocator {
    using Id = c10::cuda::MempoolId_t;
    using Predicate = std::function<bool(cudaStream_t)>;
    using Give = std::function<void *(size_t, int, cudaStream_t)>;
    using Take = std::function<void(void *, size_t, int, cudaStream_t)>;

    CUDAPluggableAllocator(Give give, Take take) : give(std::move(give)), take(std::move(take)) {}

    void set_init_fn(std::function<void(int)> hook) { init = std::move(hook); }
    void set_reset_fn(std::function<void()> hook) { reset = std::move(hook); }
    void set_memory_fraction_fn(std::function<void(double, int)> hook) { fraction = std::move(hook); }
    void set_base_alloc_fn(std::function<void *(void *, size_t *)> hook) { base = std::move(hook); }
    void set_record_stream_fn(std::function<void(void *, cudaStream_t)> hook) { record = std::move(hook); }
    void set_begin_allocate_to_pool(std::function<void(int, Id, Predicate)> hook) { begin = std::move(hook); }
    void set_end_allocate_to_pool_fn(std::function<void(int, Id)> hook) { end = std::move(hook); }
    void set_release_pool(std::function<void(int, Id)> hook) { release = std::move(hook); }

    void *malloc(size_t size, c10::DeviceIndex device, cudaStream_t stream);
    void raw_delete(void *block);

    Give give;
    Take take;
    std::function<void(int)> init;
    std::function<void()> reset;
    std::function<void(double, int)> fraction;
    std::function<void *(void *, size_t *)> base;
    std::function<void(void *, cudaStream_t)> record;
    std::function<void(int, Id, Predicate)> begin;
    std::function<void(int, Id)> end, release;

  protected:
    std::mutex allocator_mutex_;
    std::unordered_map<void *, Known> allocation_metadata_;
};

void changeCurrentAllocator(const std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> &allocator);

}  // namespace torch::cuda::CUDAPluggableAllocator
