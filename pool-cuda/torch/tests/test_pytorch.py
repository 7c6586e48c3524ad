"""PyTorch itself, as far as its allocator goes without a GPU: the shim compiled against its headers, and its own
functions for raw memory and statistics. Skipped where there is no PyTorch with CUDA."""

import unittest

import bed
from bed import MIB

import pool_cuda_torch

try:
    import torch

    HAS_CUDA = torch.version.cuda is not None
except ImportError:
    HAS_CUDA = False


@unittest.skipUnless(HAS_CUDA, "there is no PyTorch with CUDA")
class PyTorch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        bed.enter()
        pool_cuda_torch.install()

    def test_no_memory_is_its_error_and_the_program_goes_on(self):
        give, take = torch._C._cuda_cudaCachingAllocator_raw_delete, torch._C._cuda_cudaCachingAllocator_raw_alloc
        block = take(MIB, 0)
        self.assertEqual([found["address"] for found in pool_cuda_torch.snapshot()["segments"]], [block])
        with self.assertRaisesRegex(torch.OutOfMemoryError, "pool-cuda: .*can never fit"):
            take(1 << 50, 0)
        give(take(MIB, 0))
        give(block)
        stats = torch._C._cuda_memoryStats(0)
        self.assertEqual(stats["num_ooms"], 1)
        self.assertEqual(stats["allocated_bytes"]["all"]["peak"], 2 * MIB)
        torch._C._cuda_resetPeakMemoryStats(0)
        self.assertEqual(torch._C._cuda_memoryStats(0)["allocated_bytes"]["all"]["peak"], 0)

    def test_limits_and_what_goes_back(self):
        torch._C._cuda_setMemoryFraction(0.5, 0)
        self.assertEqual(torch._C._cuda_getMemoryFraction(0), 0.5)
        torch._C._cuda_setMemoryFraction(1.0, 0)
        torch._C._cuda_emptyCache()

    def test_its_own_memory_pools_want_its_own_allocator(self):
        with self.assertRaisesRegex(RuntimeError, "whole process"):
            pool_cuda_torch.mem_pool_allocator()
