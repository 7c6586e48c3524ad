"""Runs the package's tests over the simulated driver, without a GPU and without PyTorch.

usage: run.py LIBPOOL_CUDA SIMULATED_DRIVER

PyTorch is stood in for: its headers, its libraries and its module, in so far as the shim uses them. Where PyTorch
is installed, it is itself tested as far as that goes without a GPU.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STAND_IN = HERE / "stand_in"
#: What the shim is linked to.
LIBRARIES = ("torch_cuda", "c10_cuda", "c10")
FLAGS = ["-std=c++20", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror"]


def stand_in(folder):
    """PyTorch as the tests have it."""
    shutil.copytree(STAND_IN / "torch", folder / "torch")
    shutil.copytree(STAND_IN / "include", folder / "torch" / "include")
    # Where the runtime's headers come from.
    shutil.copytree(STAND_IN / "include", folder / "cuda" / "include")
    libraries = folder / "torch" / "lib"
    libraries.mkdir()
    compiler = os.environ.get("CXX") or "g++"
    for library in LIBRARIES:
        # All that there is is in the first.
        source = STAND_IN / "stand_in.cpp" if library == LIBRARIES[0] else os.devnull
        subprocess.run(
            [compiler, *FLAGS, f"-I{STAND_IN / 'include'}", "-x", "c++", str(source)]
            + ["-o", str(libraries / f"lib{library}.so"), f"-Wl,-soname,lib{library}.so", "-ldl"],
            check=True,
        )


def runtime(folder):
    """The functions of the runtime that PyTorch itself asks for."""
    made = folder / "runtime.so"
    compiler = os.environ.get("CXX") or "g++"
    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", str(STAND_IN / "runtime.c"), "-o", str(made)], check=True)
    return made


def main():
    library, driver = (Path(argument).resolve() for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as work:
        work = Path(work)
        stand_in(work)
        drivers = work / "driver"
        drivers.mkdir()
        (drivers / "libcuda.so.1").symlink_to(driver)
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": f"{drivers}:{library.parent}",
            "POOL_CUDA_LIBRARY": str(library),
            "POOL_CUDA_CACHE": str(work / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment.pop("POOL_CONF", None)
        # Each file is a process of its own: an allocator is installed once.
        for test in sorted(HERE.glob("test_*.py")):
            if test.name == "test_pytorch.py":
                own = {"LD_PRELOAD": str(runtime(work)), "PYTHONPATH": f"{HERE.parent}:{HERE}"}
                own["POOL_CUDA_CACHE"] = str(work / "cache-of-pytorch")
            else:
                own = {"CUDA_HOME": str(work / "cuda"), "PYTHONPATH": f"{work}:{HERE.parent}:{HERE}"}
            subprocess.run(
                [sys.executable, "-m", "unittest", "-q", test.stem], cwd=HERE, env={**environment, **own}, check=True
            )


if __name__ == "__main__":
    main()
