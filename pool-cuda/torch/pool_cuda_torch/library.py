"""libpool_cuda.so, and its functions with their types."""

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path

HERE = Path(__file__).resolve().parent

#: Names a libpool_cuda.so other than the package's own.
VARIABLE = "POOL_CUDA_LIBRARY"


class PoolError(RuntimeError):
    """A call that the library refused, with its code (a ``cudaError_t``) and its reason."""

    def __init__(self, code, reason):
        super().__init__(f"pool-cuda: {reason} ({code})")
        self.code = code
        self.reason = reason


class Stats(ctypes.Structure):
    """``poolTorchStats`` of the header."""

    _fields_ = [
        (name, c_uint64)
        for name in (
            "liveBytes",
            "peakLiveBytes",
            "allocatedBytes",
            "freedBytes",
            "allocations",
            "frees",
            "hits",
            "reservedBytes",
            "peakReservedBytes",
            "deferredBytes",
            "deferredBlocks",
            "freeBytes",
            "cachedBytes",
            "limitBytes",
            "totalBytes",
            "deviceFreeBytes",
            "arenas",
            "growths",
            "deviceAllocations",
            "deviceFrees",
            "hostWaits",
            "refusals",
        )
    ]


#: What each function that is called from here takes and gives.
FUNCTIONS = {
    "poolLastError": (c_int, []),
    "poolLastErrorMessage": (c_char_p, []),
    "poolMalloc": (c_int, [POINTER(c_void_p), c_size_t]),
    "poolFree": (c_int, [c_void_p]),
    "pool_torch_allocate": (c_void_p, [c_size_t, c_int, c_void_p]),
    "pool_torch_allocate_in_pool": (c_void_p, [c_size_t, c_int, c_void_p, c_uint64, c_uint64]),
    "pool_torch_allocate_segment": (c_void_p, [c_size_t, c_int, c_void_p]),
    "pool_torch_base": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "pool_torch_begin_pool": (c_int, [c_int, c_uint64, c_uint64, c_void_p]),
    "pool_torch_empty_cache": (c_int, []),
    "pool_torch_end_pool": (c_int, [c_int, c_uint64, c_uint64, c_void_p]),
    "pool_torch_free": (None, [c_void_p, c_size_t, c_int, c_void_p]),
    "pool_torch_hold_pool": (c_int, [c_int, c_uint64, c_uint64]),
    "pool_torch_list_streams": (c_int, [c_int, POINTER(c_void_p), c_size_t]),
    "pool_torch_malloc": (c_void_p, [c_size_t, c_int, c_void_p]),
    "pool_torch_pool_uses": (c_uint64, [c_int, c_uint64, c_uint64]),
    "pool_torch_record_stream": (c_int, [c_void_p, c_void_p]),
    "pool_torch_release": (c_int, [c_void_p, c_int, c_void_p]),
    "pool_torch_release_pool": (c_int, [c_int, c_uint64, c_uint64]),
    "poolResetPeaks": (c_int, [c_int]),
    "pool_torch_set_fraction": (c_int, [c_double, c_int]),
    "pool_torch_stats": (c_int, [c_int, POINTER(Stats)]),
}


def library_path():
    """Where libpool_cuda.so is: the package's own, unless ``POOL_CUDA_LIBRARY`` names another."""
    path = Path(os.environ.get(VARIABLE) or HERE / "libpool_cuda.so").resolve()
    if not path.exists():
        raise FileNotFoundError(
            f"there is no {path}: install the package by pip, or have {VARIABLE} name a libpool_cuda.so"
        )
    return path


@functools.cache
def library():
    """The library, loaded. It stays loaded."""
    # For all to see, so that the shims find it by its name.
    loaded = ctypes.CDLL(str(library_path()), mode=ctypes.RTLD_GLOBAL)
    for name, (answer, takes) in FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = answer, takes
    return loaded


def last_error():
    """The code and the reason of the last call of this thread that was refused; 0 and "" if none was."""
    message = library().poolLastErrorMessage()
    return library().poolLastError(), message.decode(errors="replace")


def check(code):
    """Raises :class:`PoolError` for a code that is no success."""
    if code != 0:
        raise PoolError(code, last_error()[1])


def stats(device):
    """A device's figures, by its number."""
    figures = Stats()
    check(library().pool_torch_stats(device, ctypes.byref(figures)))
    return figures
