"""CuPy's arrays in the pool's memory."""

import cupy

import pool_cuda_torch.cupy

pool_cuda_torch.cupy.install()

array = cupy.arange(1 << 20, dtype=cupy.float32)
print("sum", float(array.sum()))
try:
    cupy.empty(1 << 44, dtype=cupy.uint8)
except MemoryError as error:
    print("no memory:", error)
print(pool_cuda_torch.memory_summary(0))
