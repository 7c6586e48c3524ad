"""Compiles a shim once, and keeps it."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .library import HERE, library_path

#: Where compiled shims are kept, if not in the user's cache.
VARIABLE = "POOL_CUDA_CACHE"


def compiler():
    """The C++ compiler: ``CXX``, else g++."""
    name = os.environ.get("CXX") or "g++"
    found = shutil.which(name)
    if found is None:
        raise RuntimeError(
            f"pool_cuda_torch compiles a small file once, and there is no {name} (CXX names another). "
            "Without it, torch.cuda.memory.CUDAPluggableAllocator(pool_cuda_torch.library_path(), "
            "'pool_torch_malloc', 'pool_torch_free') is the pool without its hooks, and ends the process "
            "where there is no memory."
        )
    return found


def headers():
    """The folder with the library's header: the package's, or that of its sources."""
    for folder in (HERE / "include", HERE.parent.parent / "c" / "include"):
        if (folder / "pool_cuda.h").exists():
            return folder
    raise FileNotFoundError("pool_cuda.h is not there: install the package by pip")


def cache():
    """The folder that compiled shims are kept in."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pool_cuda_torch"


def compiled(source, flags=(), libraries=(), versions=()):
    """The path of a shim, compiled now if it was not for these versions, flags and sources.

    ``libraries`` come behind the source on the command line.
    """
    source = HERE / "shim" / source
    header = headers()
    library = library_path()
    command = [compiler(), "-std=c++20", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", f"-I{header}", *flags]
    links = [*libraries, f"-L{library.parent}", "-lpool_cuda", f"-Wl,-rpath,{library.parent}"]
    identity = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
    key = hashlib.sha256()
    for part in (*versions, identity, *command, *links, sys.version):
        key.update(str(part).encode() + b"\0")
    for file in (source, header / "pool_cuda.h"):
        key.update(file.read_bytes())
    folder = cache()
    kept = folder / f"{source.stem}-{key.hexdigest()[:24]}.so"
    if kept.exists():
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    # Another process may be at it: whoever is last leaves the same.
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = Path(work) / "shim.so"
        done = subprocess.run([*command, str(source), "-o", str(made), *links], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{source.name} does not compile: {' '.join(command)}\n{done.stderr}")
        os.replace(made, kept)
    return kept
