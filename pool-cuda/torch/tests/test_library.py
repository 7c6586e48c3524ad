"""Every function of libpool_cuda.so, called by ctypes, with good input and bad."""

import ctypes
import re
import unittest
from ctypes import byref, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p

import bed
from bed import INVALID_DEVICE, INVALID_VALUE, MEMORY, MIB
from pool_cuda_torch import library
from pool_cuda_torch.build import headers

HEADER = (headers() / "pool_cuda.h").read_text()
DECLARED = re.compile(r"^(int|void \*|void|uint64_t|const char \*) ?(pool\w+)\(([^;]*)\);", re.MULTILINE)
#: What each function is, as the header says.
FUNCTIONS = {name: (answer, takes) for answer, name, takes in DECLARED.findall(HEADER)}

ANSWERS = {"int": c_int, "void *": c_void_p, "void": None, "uint64_t": c_uint64, "const char *": c_char_p}


def taken(parameter):
    """The type of a parameter, as ctypes has it."""
    if "*" in parameter:
        return c_void_p
    kind = parameter.split()[0]
    return {"size_t": c_size_t, "int": c_int, "uint64_t": c_uint64, "double": c_double}[kind]


class Pool:
    """The library; it notes which functions were called."""

    def __init__(self):
        self.loaded = ctypes.CDLL(str(library.library_path()))
        self.called = set()

    def __getattr__(self, name):
        answer, takes = FUNCTIONS[name]
        function = getattr(self.loaded, name)
        function.restype = ANSWERS[answer]
        function.argtypes = [taken(part) for part in re.split(r",\s*", takes) if part != "void"]
        self.called.add(name)
        return function


POOL = Pool()


def words(count):
    """Room for a structure of the library's."""
    return (c_uint64 * count)()


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        bed.enter()

    @classmethod
    def tearDownClass(cls):
        missing = set(FUNCTIONS) - POOL.called
        assert not missing, f"not called: {missing}"

    def test_memory_in_the_order_of_a_stream(self):
        stream, other, block = bed.stream(), bed.stream(), c_void_p(7)
        self.assertEqual(POOL.poolMallocAsync(byref(block), MIB, stream), 0)
        self.assertEqual(block.value % 256, 0)
        bed.write(block.value, MIB, stream)
        self.assertEqual(POOL.poolRecordStream(block, other), 0)
        self.assertEqual(POOL.poolRecordStream(block.value + 256, other), INVALID_VALUE)
        self.assertEqual(POOL.poolFreeAsync(block, stream), 0)
        self.assertEqual(POOL.poolFreeAsync(block, stream), INVALID_VALUE)
        self.assertEqual(POOL.poolLastError(), INVALID_VALUE)
        self.assertIn(b"invalid value", POOL.poolLastErrorMessage())
        self.assertEqual(POOL.poolMallocAsync(None, 1, stream), INVALID_VALUE)
        before = block.value
        self.assertEqual(POOL.poolMallocAsync(byref(block), 2**64 - 1, stream), MEMORY)
        self.assertEqual(block.value, before)
        self.assertEqual(POOL.poolStreamDestroyed(stream), 0)
        self.assertEqual(POOL.poolStreamDestroyed(None), INVALID_VALUE)

    def test_memory_without_a_stream(self):
        block = c_void_p()
        self.assertEqual(POOL.poolMalloc(byref(block), 5000), 0)
        self.assertEqual(POOL.poolFree(block), 0)
        self.assertEqual(POOL.poolFree(block), INVALID_VALUE)
        self.assertEqual(POOL.poolFree(None), 0)
        self.assertEqual(POOL.poolMalloc(None, 1), INVALID_VALUE)
        self.assertEqual(POOL.poolMalloc(byref(block), 2**63), MEMORY)

    def test_captures(self):
        stream, block = bed.stream(), c_void_p()
        self.assertEqual(POOL.poolBeginCapture(stream, 7), 0)
        with bed.Capture(stream):
            self.assertEqual(POOL.poolMallocAsync(byref(block), MIB, stream), 0)
            self.assertEqual(POOL.poolFreeAsync(block, stream), 0)
        self.assertEqual(POOL.poolEndCapture(stream), 0)
        self.assertEqual(POOL.poolEndCapture(stream), INVALID_VALUE)
        self.assertEqual(POOL.poolReleaseGraph(0, 7), 0)
        self.assertEqual(POOL.poolReleaseGraph(0, 7), INVALID_VALUE)

    def test_a_device_as_a_whole(self):
        figures = words(32)
        self.assertEqual(POOL.poolGetStats(0, figures), 0)
        self.assertEqual(POOL.poolGetStats(0, None), INVALID_VALUE)
        self.assertEqual(POOL.poolSetLimit(0, 64 * MIB), 0)
        self.assertEqual(POOL.poolGetStats(0, figures), 0)
        self.assertEqual(figures[5], 64 * MIB)
        self.assertEqual(POOL.poolSetLimit(0, 0), 0)
        for function in (POOL.poolSetLimit, POOL.poolTrim, POOL.poolGetStats):
            self.assertEqual(function(99, 0), INVALID_DEVICE if function != POOL.poolGetStats else INVALID_VALUE)
        self.assertEqual(POOL.poolTrim(0, 0), 0)
        self.assertEqual(POOL.poolResetPeaks(0), 0)
        self.assertEqual(POOL.poolResetPeaks(-1), INVALID_DEVICE)

    def test_memory_by_pytorchs_types(self):
        stream, size = bed.stream(), c_size_t()
        listed = (c_void_p * 1)(stream)
        self.assertEqual(POOL.pool_torch_list_streams(0, listed, 1), 0)
        self.assertEqual(POOL.pool_torch_list_streams(0, None, 1), INVALID_VALUE)
        block = POOL.pool_torch_malloc(MIB, 0, stream)
        self.assertEqual(POOL.pool_torch_base(block, byref(size)), block)
        self.assertEqual(size.value, MIB)
        self.assertIsNone(POOL.pool_torch_base(block + 1, byref(size)))
        self.assertEqual(POOL.pool_torch_record_stream(block, None), 0)
        self.assertEqual(POOL.pool_torch_record_stream(block + 1, None), INVALID_VALUE)
        POOL.pool_torch_free(block, MIB, 0, stream)
        segment = POOL.pool_torch_allocate_segment(20 * MIB, 0, stream)
        self.assertEqual(POOL.poolFree(segment), 0)
        self.assertIsNone(POOL.pool_torch_allocate_segment(2**50, 0, stream))
        block = POOL.pool_torch_allocate(MIB, 0, bed.stream())
        self.assertEqual(POOL.pool_torch_release(block, 0, stream), 0)
        self.assertEqual(POOL.pool_torch_release(block, 0, stream), INVALID_VALUE)
        self.assertIsNone(POOL.pool_torch_allocate(2**50, 0, stream))
        self.assertEqual(POOL.poolLastError(), MEMORY)
        self.assertIsNone(POOL.pool_torch_allocate(1, 9, stream))
        self.assertEqual(POOL.poolLastError(), INVALID_DEVICE)

    def test_pools_of_graphs(self):
        stream = bed.stream()
        self.assertEqual(POOL.pool_torch_begin_pool(0, 3, 0, stream), 0)
        with bed.Capture(stream):
            block = POOL.pool_torch_allocate_in_pool(MIB, 0, stream, 3, 0)
            self.assertTrue(block)
            self.assertEqual(POOL.pool_torch_release(block, 0, stream), 0)
        self.assertEqual(POOL.pool_torch_end_pool(0, 3, 0, stream), 0)
        self.assertEqual(POOL.pool_torch_end_pool(0, 3, 0, stream), INVALID_VALUE)
        self.assertEqual(POOL.pool_torch_hold_pool(0, 3, 0), 0)
        self.assertEqual(POOL.pool_torch_pool_uses(0, 3, 0), 2)
        self.assertEqual(POOL.pool_torch_release_pool(0, 3, 0), 0)
        self.assertEqual(POOL.pool_torch_release_pool(0, 3, 0), 0)
        self.assertEqual(POOL.pool_torch_release_pool(0, 3, 0), INVALID_VALUE)
        self.assertIsNone(POOL.pool_torch_allocate_in_pool(MIB, 0, stream, 3, 0))

    def test_figures_and_limits_by_pytorchs_names(self):
        figures = library.Stats()
        self.assertEqual(POOL.pool_torch_set_fraction(0.5, 0), 0)
        self.assertEqual(POOL.pool_torch_stats(0, byref(figures)), 0)
        self.assertEqual(figures.limitBytes, figures.totalBytes // 2)
        self.assertEqual(POOL.pool_torch_set_fraction(1.5, 0), INVALID_VALUE)
        self.assertEqual(POOL.pool_torch_set_fraction(1.0, 0), 0)
        self.assertEqual(POOL.pool_torch_stats(0, None), INVALID_VALUE)
        self.assertEqual(POOL.poolResetPeaks(0), 0)
        self.assertEqual(POOL.pool_torch_empty_cache(), 0)

    def test_the_structure_is_the_headers(self):
        body = re.search(r"typedef struct poolTorchStats \{(.*?)\} poolTorchStats;", HEADER, re.DOTALL)[1]
        names = re.findall(r"uint64_t (\w+);", body)
        self.assertEqual(names, [name for name, _ in library.Stats._fields_])
        self.assertLessEqual(set(library.FUNCTIONS), set(FUNCTIONS))
