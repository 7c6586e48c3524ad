"""CuPy's device memory from the pool."""

import ctypes
import functools

from .build import compiled
from .library import library


@functools.cache
def functions():
    """The addresses of the functions that CuPy calls, and what has to be kept as long as they are."""
    library()
    shim = ctypes.CDLL(str(compiled("cupy.cpp")))
    malloc, free = (
        ctypes.cast(function, ctypes.c_void_p).value
        for function in (shim.pool_shim_cupy_malloc, shim.pool_shim_cupy_free)
    )
    return malloc, free, shim


def allocator():
    """A ``cupy.cuda.CFunctionAllocator``. Where there is no memory it raises ``MemoryError`` with the reason.

    CuPy names no stream: a block may be used on any from the start, and serves again behind all work of its
    device.
    """
    import cupy

    malloc, free, shim = functions()
    return cupy.cuda.CFunctionAllocator(0, malloc, free, shim)


def install():
    """Has CuPy take all its device memory from the pool."""
    import cupy

    cupy.cuda.set_allocator(allocator().malloc)
