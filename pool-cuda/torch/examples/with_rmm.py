"""RMM's buffers, and what is built on them, in the pool's memory."""

import rmm

import pool_cuda_torch.rmm

rmm.mr.set_per_device_resource(0, pool_cuda_torch.rmm.resource(0))

buffer = rmm.DeviceBuffer(size=1 << 20)
print("a buffer of", buffer.size, "bytes at", hex(buffer.ptr))
try:
    rmm.DeviceBuffer(size=1 << 44)
except MemoryError as error:
    print("no memory:", error)
print(pool_cuda_torch.memory_summary(0))
