"""Makes the pool PyTorch's allocator."""

import ctypes
import functools
import os
from pathlib import Path

from .build import compiled
from .library import library

_installed = False


def _cuda_headers(torch_folder):
    """The folder of the runtime's headers: the toolkit's, or those that came with PyTorch."""
    packages = torch_folder.parent
    candidates = [Path(os.environ[name]) / "include" for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    candidates += [Path("/usr/local/cuda/include")]
    # Where the wheels of CUDA 13 and of CUDA 12 have them; and Triton, which has those that they lack.
    candidates += sorted(packages.glob("nvidia/cu[0-9]*/include"), reverse=True)
    candidates += [packages / "nvidia/cuda_runtime/include", packages / "triton/backends/nvidia/include"]
    for folder in candidates:
        if (folder / "cuda_runtime_api.h").exists() and (folder / "crt/host_defines.h").exists():
            return folder
    raise RuntimeError("cuda_runtime_api.h and crt/host_defines.h are not there: have CUDA_HOME name a CUDA toolkit")


@functools.cache
def _shim():
    import torch

    library()
    folder = Path(torch.__file__).resolve().parent
    include, libraries = folder / "include", folder / "lib"
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    path = compiled(
        "torch.cpp",
        # Others' headers: their warnings are theirs.
        flags=[
            f"-isystem{include}",
            f"-isystem{_cuda_headers(folder)}",
            f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
            f"-DPOOL_SHIM_TORCH={100 * major + minor}",
        ],
        libraries=[f"-L{libraries}", "-ltorch_cuda", "-lc10_cuda", "-lc10", f"-Wl,-rpath,{libraries}"],
        versions=[torch.__version__],
    )
    shim = ctypes.CDLL(str(path))
    shim.pool_shim_install.restype = ctypes.c_char_p
    return shim, path


def install():
    """Makes the pool the allocator of PyTorch's CUDA memory, with all hooks that there are.

    To be called before the GPU is used; a second call does nothing. The first time for a version of PyTorch
    it compiles a small file with g++, and keeps it in ``~/.cache/pool_cuda_torch``. ``POOL_CONF`` in the
    environment sets up the pool.

    Raises ``RuntimeError`` if PyTorch has used the GPU already, or the file does not compile.
    """
    global _installed
    if _installed:
        return
    shim, _ = _shim()
    why = shim.pool_shim_install()
    if why is not None:
        raise RuntimeError(why.decode(errors="replace"))
    _installed = True


def is_installed():
    """Whether :func:`install` has been."""
    return _installed


def mem_pool_allocator():
    """An allocator for ``torch.cuda.MemPool(...)`` under PyTorch's own, which asks it for segments.

    Not with :func:`install`: then the pool serves all of the process.
    """
    import torch

    if _installed:
        raise RuntimeError(
            "pool_cuda_torch.install() has the pool serve the whole process: MemPool needs no allocator then, "
            "and PyTorch's own, which would use it, is not current"
        )
    _, path = _shim()
    made = torch.cuda.memory.CUDAPluggableAllocator(str(path), "pool_shim_segment_malloc", "pool_shim_segment_free")
    return made.allocator()


def live_blocks():
    """The live blocks of PyTorch's: address, bytes asked for, device and stream of each."""
    if not _installed:
        raise RuntimeError("pool_cuda_torch.install() comes first")
    found = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
    def note(_, address, size, device, stream):
        found.append((address, size, device, stream or 0))

    _shim()[0].pool_shim_each_live(note, None)
    return sorted(found)
