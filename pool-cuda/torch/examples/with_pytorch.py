"""PyTorch's tensors in the pool's memory."""

import torch

import pool_cuda_torch

pool_cuda_torch.install()

tensor = torch.ones(1 << 20, device="cuda")
print("sum", tensor.sum().item())
try:
    torch.empty(1 << 44, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    print("no memory:", error)
print(pool_cuda_torch.memory_summary())
