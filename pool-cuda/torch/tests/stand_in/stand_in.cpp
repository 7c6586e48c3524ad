// Stands in for PyTorch's libraries: enough of them that the shim's hooks can be called as PyTorch calls them, over
// the simulated driver. Its functions answer 0, 1 where PyTorch's error for want of memory was thrown, and 2 for any
// other, with the message.

#include <cstring>
#include <dlfcn.h>
#include <map>
#include <new>
#include <vector>

#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

using Plugin = torch::cuda::CUDAPluggableAllocator::CUDAPluggableAllocator;

namespace {

std::shared_ptr<Plugin> current;
std::map<int, cudaStream_t> current_streams;
thread_local char message[1024];

// Three streams of each priority, made when the first is asked for, that come round.
struct Streams {
    std::vector<cudaStream_t> all;
    size_t next = 0;
};
std::map<std::pair<int, int>, Streams> pools;

cudaStream_t make_stream() {
    static void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    static auto make = reinterpret_cast<int (*)(cudaStream_t *, unsigned)>(dlsym(driver, "cuStreamCreate"));
    cudaStream_t stream = nullptr;
    if (make(&stream, 1) != 0) throw c10::Error("no stream");
    return stream;
}

template <typename Work>
int outcome(Work work) {
    message[0] = 0;
    try {
        work();
        return 0;
    } catch (const c10::OutOfMemoryError &error) {
        std::strncpy(message, error.what(), sizeof message - 1);
        return 1;
    } catch (const std::exception &error) {
        std::strncpy(message, error.what(), sizeof message - 1);
        return 2;
    }
}

}  // namespace

namespace c10::cuda {

CUDAStream getStreamFromPool(int priority, DeviceIndex device) {
    Streams &streams = pools[{device, priority}];
    while (streams.all.size() < 3) streams.all.push_back(make_stream());
    return CUDAStream(streams.all[streams.next++ % streams.all.size()]);
}

CUDAStream getCurrentCUDAStream(DeviceIndex device) { return CUDAStream(current_streams[device]); }

}  // namespace c10::cuda

namespace torch::cuda::CUDAPluggableAllocator {

void *CUDAPluggableAllocator::malloc(size_t size, c10::DeviceIndex device, cudaStream_t stream) {
    void *block = give(size, device, stream);
    std::lock_guard<std::mutex> guard(allocator_mutex_);
    allocation_metadata_[block] = {size, device, stream};
    return block;
}

void CUDAPluggableAllocator::raw_delete(void *block) {
    Known known;
    {
        std::lock_guard<std::mutex> guard(allocator_mutex_);
        known = allocation_metadata_.at(block);
        allocation_metadata_.erase(block);
    }
    take(block, known.size, known.device_idx, known.stream);
}

void changeCurrentAllocator(const std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> &allocator) {
    if (current) throw c10::Error("there is an allocator already");
    current = std::dynamic_pointer_cast<Plugin>(allocator);
    current->init(1);
}

}  // namespace torch::cuda::CUDAPluggableAllocator

extern "C" {

const char *stand_in_message() { return message; }

cudaStream_t stand_in_pool_stream(int priority, int device) {
    return c10::cuda::getStreamFromPool(priority, static_cast<c10::DeviceIndex>(device)).stream();
}
void stand_in_set_current_stream(int device, cudaStream_t stream) { current_streams[device] = stream; }

int stand_in_malloc(void **block, size_t size, int device, cudaStream_t stream) {
    return outcome([&] { *block = current->malloc(size, static_cast<c10::DeviceIndex>(device), stream); });
}
int stand_in_free(void *block) {
    return outcome([&] { current->raw_delete(block); });
}
int stand_in_record_stream(void *block, cudaStream_t stream) {
    return outcome([&] { current->record(block, stream); });
}
int stand_in_reset() {
    return outcome([&] { current->reset(); });
}
int stand_in_fraction(double fraction, int device) {
    return outcome([&] { current->fraction(fraction, device); });
}
int stand_in_base(void **begin, void *block, size_t *size) {
    return outcome([&] { *begin = current->base(block, size); });
}
// A pool that takes what is asked for on one stream.
int stand_in_begin(int device, uint64_t first, uint64_t second, cudaStream_t takes) {
    return outcome([&] { current->begin(device, {first, second}, [takes](cudaStream_t stream) { return stream == takes; }); });
}
int stand_in_end(int device, uint64_t first, uint64_t second) {
    return outcome([&] { current->end(device, {first, second}); });
}
int stand_in_release(int device, uint64_t first, uint64_t second) {
    return outcome([&] { current->release(device, {first, second}); });
}
int stand_in_create_pool(int device, uint64_t first, uint64_t second, int with_allocator) {
    return outcome([&] {
        std::shared_ptr<c10::cuda::CUDACachingAllocator::CUDAAllocator> allocator;
        if (with_allocator) allocator = current;
        current->createOrIncrefPool(static_cast<c10::DeviceIndex>(device), {first, second}, allocator);
    });
}
// As torch.cuda.MemPool ends.
int stand_in_destroy_pool(int device, uint64_t first, uint64_t second) {
    return outcome([&] {
        current->setUseOnOOM(static_cast<c10::DeviceIndex>(device), {first, second}, false);
        current->release(device, {first, second});
    });
}
int stand_in_pool_uses(int device, uint64_t first, uint64_t second) {
    return current->getPoolUseCount(static_cast<c10::DeviceIndex>(device), {first, second});
}
int stand_in_live_bytes(int device, int64_t *bytes, int64_t *peak) {
    return outcome([&] {
        const auto stats = current->getDeviceStats(static_cast<c10::DeviceIndex>(device));
        *bytes = stats.allocated_bytes[0].current;
        *peak = stats.allocated_bytes[0].peak;
    });
}
int stand_in_reset_peaks(int device) {
    return outcome([&] { current->resetPeakStats(static_cast<c10::DeviceIndex>(device)); });
}
double stand_in_get_fraction(int device) { return current->getMemoryFraction(static_cast<c10::DeviceIndex>(device)); }
size_t stand_in_largest(int device) {
    size_t largest = 0;
    current->cacheInfo(static_cast<c10::DeviceIndex>(device), &largest);
    return largest;
}

// As CuPy calls a function for memory: an exception is for want of it.
int stand_in_cupy_malloc(void *(*give)(void *, size_t, int), size_t size, void **block) {
    message[0] = 0;
    try {
        *block = give(nullptr, size, 0);
        return 0;
    } catch (const std::bad_alloc &error) {
        std::strncpy(message, error.what(), sizeof message - 1);
        return 1;
    }
}

}  // extern "C"
