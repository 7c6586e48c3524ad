"""The shim, compiled against stand-ins for PyTorch's headers, and its hooks called as PyTorch calls them."""

import ctypes
import unittest
from ctypes import byref, c_char_p, c_double, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

import bed
import torch
from bed import MIB

import pool_cuda_torch
from pool_cuda_torch import build

TORCH = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"))
TORCH.stand_in_message.restype = c_char_p
TORCH.stand_in_pool_stream.restype = c_void_p
TORCH.stand_in_get_fraction.restype = c_double
TORCH.stand_in_largest.restype = c_size_t

OUT_OF_MEMORY, ERROR = 1, 2
POOL = (c_uint64(5), c_uint64(0))


def message():
    return TORCH.stand_in_message().decode()


def ask(size, stream=None, device=0):
    """PyTorch's malloc: what it throws, and the block."""
    block = c_void_p()
    thrown = TORCH.stand_in_malloc(byref(block), c_size_t(size), device, c_void_p(stream))
    return thrown, block.value


def take(size, stream=None):
    thrown, block = ask(size, stream)
    assert thrown == 0, message()
    return block


def give(block):
    assert TORCH.stand_in_free(c_void_p(block)) == 0, message()


class Shim(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        bed.enter()
        pool_cuda_torch.install()
        # Once is enough.
        pool_cuda_torch.install()

    def test_blocks_come_and_go_and_are_in_the_snapshot(self):
        stream = TORCH.stand_in_pool_stream(0, 0)
        block = take(5000, stream)
        bed.write(block, 5000, stream)
        shot = pool_cuda_torch.snapshot()
        (segment,) = [segment for segment in shot["segments"] if segment["address"] == block]
        self.assertEqual((segment["requested_size"], segment["stream"]), (5000, stream))
        self.assertEqual(segment["total_size"], segment["blocks"][0]["size"])
        self.assertEqual(len(shot["device_traces"]), 1)
        give(block)
        self.assertEqual(pool_cuda_torch.snapshot()["segments"], [])
        self.assertEqual(ask(0), (0, None))

    def test_no_memory_is_pytorchs_error_and_the_program_goes_on(self):
        before = pool_cuda_torch.memory_stats(0)["num_ooms"]
        self.assertEqual(TORCH.stand_in_fraction(c_double(0.01), 0), 0)
        self.assertAlmostEqual(TORCH.stand_in_get_fraction(0), 0.01, places=4)
        largest = TORCH.stand_in_largest(0)
        thrown, block = ask(1 << 30)
        self.assertEqual((thrown, block), (OUT_OF_MEMORY, None))
        for part in ("CUDA out of memory", str(1 << 30), "raise the limit"):
            self.assertIn(part, message())
        self.assertEqual(pool_cuda_torch.memory_stats(0)["num_ooms"], before + 1)
        give(take(largest // 2))
        self.assertEqual(TORCH.stand_in_fraction(c_double(1.0), 0), 0)
        give(take(1 << 30))
        self.assertEqual(TORCH.stand_in_fraction(c_double(2.0), 0), ERROR)
        self.assertEqual(ask(1, device=9)[0], ERROR)
        self.assertIn("no device", message())

    def test_streams_of_pytorchs_pool_are_kept_and_others_are_not(self):
        own = {TORCH.stand_in_pool_stream(priority, 0) for priority in (0, -1) for _ in range(3)}
        self.assertEqual(len(own), 6)
        for stream in own:
            give(take(MIB, stream))
        before = pool_cuda_torch.memory_stats(0)["pool.hits"]
        for stream in own:
            give(take(MIB, stream))
        self.assertEqual(pool_cuda_torch.memory_stats(0)["pool.hits"], before + 6)
        # One that is destroyed without a word.
        other = bed.stream()
        for _ in range(3):
            block = take(MIB, other)
            bed.write(block, MIB, other)
            give(block)
        self.assertEqual(pool_cuda_torch.memory_stats(0)["pool.hits"], before + 6)
        bed.driver("cuStreamDestroy_v2", c_void_p(other))
        for stream in (None, *own):
            give(take(8 * MIB, stream))

    def test_uses_on_other_streams_are_noted(self):
        stream, user = TORCH.stand_in_pool_stream(0, 0), TORCH.stand_in_pool_stream(-1, 0)
        block = take(MIB, stream)
        self.assertEqual(TORCH.stand_in_record_stream(c_void_p(block), c_void_p(user)), 0)
        # Memory of others is theirs.
        self.assertEqual(TORCH.stand_in_record_stream(c_void_p(0x1234), c_void_p(user)), 0)
        give(block)

    def test_graphs_share_a_pool(self):
        stream, other = TORCH.stand_in_pool_stream(0, 0), TORCH.stand_in_pool_stream(0, 0)
        TORCH.stand_in_set_current_stream(0, c_void_p(stream))
        graphs, kept = [], []
        for uses in (1, 2):
            self.assertEqual(TORCH.stand_in_begin(0, *POOL, c_void_p(stream)), 0, message())
            graph = bed.Capture(stream)
            with graph:
                block, passing = take(MIB, stream), take(2 * MIB, stream)
                bed.write(block, MIB, stream)
                give(passing)
            graphs.append(graph)
            kept.append(block)
            self.assertEqual(TORCH.stand_in_end(0, *POOL), 0, message())
            self.assertEqual(TORCH.stand_in_pool_uses(0, *POOL), uses)
        beside = [take(size * MIB, other) for size in (1, 2, 3)]
        self.assertFalse(set(beside) & set(kept))
        for graph in graphs:
            graph.launch(stream)
        for block in beside + kept:
            give(block)
        for uses in (1, 0):
            self.assertEqual(TORCH.stand_in_release(0, *POOL), 0)
            self.assertEqual(TORCH.stand_in_pool_uses(0, *POOL), uses)
        # From a destructor: said, and not thrown.
        self.assertEqual(TORCH.stand_in_release(0, *POOL), 0)
        self.assertEqual(TORCH.stand_in_end(0, *POOL), ERROR)

    def test_memory_pools_are_counted_and_have_no_allocator(self):
        pool = (c_uint64(0), c_uint64(9))
        self.assertEqual(TORCH.stand_in_create_pool(0, *pool, 0), 0)
        self.assertEqual(TORCH.stand_in_pool_uses(0, *pool), 1)
        self.assertEqual(TORCH.stand_in_create_pool(0, *pool, 1), ERROR)
        self.assertIn("mem_pool_allocator", message())
        self.assertEqual(TORCH.stand_in_destroy_pool(0, *pool), 0)
        with self.assertRaisesRegex(RuntimeError, "whole process"):
            pool_cuda_torch.mem_pool_allocator()

    def test_figures_are_pytorchs_too(self):
        block = take(MIB)
        live, peak = c_int64(), c_int64()
        self.assertEqual(TORCH.stand_in_live_bytes(0, byref(live), byref(peak)), 0)
        self.assertEqual(live.value, pool_cuda_torch.memory_allocated(0))
        self.assertEqual(peak.value, pool_cuda_torch.max_memory_allocated(0))
        self.assertGreaterEqual(pool_cuda_torch.memory_reserved(0), live.value)
        give(block)
        pool_cuda_torch.reset_peak_memory_stats()
        self.assertEqual(pool_cuda_torch.max_memory_allocated(0), pool_cuda_torch.memory_allocated(0))
        self.assertEqual(TORCH.stand_in_reset_peaks(0), 0)
        self.assertLessEqual(pool_cuda_torch.max_memory_reserved(0), 1 << 31)
        self.assertIn("refused for want of memory", pool_cuda_torch.memory_summary())
        begin, size = c_void_p(), c_size_t()
        block = take(5000)
        self.assertEqual(TORCH.stand_in_base(byref(begin), c_void_p(block), byref(size)), 0)
        self.assertEqual((begin.value, size.value >= 5000), (block, True))
        self.assertEqual(TORCH.stand_in_base(byref(begin), c_void_p(block + 64), byref(size)), ERROR)
        give(block)

    def test_p084_each_thing_that_a_program_does_reaches_the_pool(self):
        """Emptying the cache did not reach a plug-in's allocator: memory never came back."""
        names = ("allocation.all.allocated", "allocation.all.freed")
        before = [pool_cuda_torch.memory_stats(0)[name] for name in names]
        block = take(64 * MIB)
        give(block)
        after = [pool_cuda_torch.memory_stats(0)[name] for name in names]
        self.assertEqual(after, [count + 1 for count in before])
        self.assertGreaterEqual(pool_cuda_torch.memory_reserved(0), 64 * MIB)
        bed.driver("cuCtxSynchronize")
        self.assertEqual(TORCH.stand_in_reset(), 0)
        self.assertLess(pool_cuda_torch.memory_reserved(0), 64 * MIB)

    def test_segments_for_pytorchs_own_pools(self):
        from pool_cuda_torch.allocator import _shim

        shim, _ = _shim()
        shim.pool_shim_segment_malloc.restype = c_void_p
        segment = shim.pool_shim_segment_malloc(c_size_t(20 * MIB), 0, None)
        self.assertTrue(segment)
        self.assertIsNone(shim.pool_shim_segment_malloc(c_size_t(1 << 50), 0, None))
        live = pool_cuda_torch.memory_allocated(0)
        shim.pool_shim_segment_free(c_void_p(segment), c_size_t(20 * MIB), 0, None)
        self.assertEqual(pool_cuda_torch.memory_allocated(0), live - 20 * MIB)

    def test_a_shim_is_compiled_once(self):
        kept = list(build.cache().glob("torch-*.so"))
        self.assertEqual(len(kept), 1)
        self.assertFalse([path for path in build.cache().iterdir() if path.is_dir()])


class Others(unittest.TestCase):
    """CuPy and RMM."""

    @classmethod
    def setUpClass(cls):
        bed.enter()

    def test_cupys_functions(self):
        from pool_cuda_torch import cupy

        malloc, free, shim = cupy.functions()
        block = c_void_p()
        self.assertEqual(TORCH.stand_in_cupy_malloc(c_void_p(malloc), c_size_t(5000), byref(block)), 0)
        shim.pool_shim_cupy_free(None, block, 0)
        self.assertEqual(TORCH.stand_in_cupy_malloc(c_void_p(malloc), c_size_t(1 << 50), byref(block)), 1)
        self.assertIn("can never fit", message())
        self.assertTrue(free)

    def test_rmms_callbacks(self):
        from pool_cuda_torch import rmm

        class Stream:
            """As RMM's."""

            def __init__(self, handle):
                self.handle = handle

            def __cuda_stream__(self):
                return 0, self.handle

        allocate, deallocate = rmm.callbacks(0)
        for stream in (Stream(0), Stream(bed.stream())):
            block = allocate(5000, stream)
            bed.write(block, 5000, stream.handle)
            deallocate(block, 5000, stream)
        self.assertEqual(allocate(0, Stream(0)), 0)
        deallocate(0, 0, Stream(0))
        with self.assertRaisesRegex(MemoryError, "can never fit"):
            allocate(1 << 50, Stream(0))
        with self.assertRaisesRegex(RuntimeError, "which stream"):
            allocate(1, object())
