// Stands in for PyTorch's header: what the shim uses of it.
#pragma once

#include <cstdint>
#include <utility>

#include <cuda_runtime_api.h>

namespace c10 {

using DeviceIndex = int8_t;

namespace cuda {

using MempoolId_t = std::pair<unsigned long long, unsigned long long>;

inline constexpr int max_compile_time_stream_priorities = 4;

class CUDAStream {
  public:
    explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
    cudaStream_t stream() const { return stream_; }

  private:
    cudaStream_t stream_;
};

CUDAStream getStreamFromPool(int priority, DeviceIndex device);
CUDAStream getCurrentCUDAStream(DeviceIndex device);

}  // namespace cuda
}  // namespace c10
