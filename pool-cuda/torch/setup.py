"""Puts the library and its header into the wheel, which is for this kind of machine, and for any Python."""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

ROOT = Path(__file__).resolve().parent.parent.parent


def library():
    """A libpool_cuda.so: the one that POOL_CUDA_LIBRARY names, or one that cargo makes now."""
    named = os.environ.get("POOL_CUDA_LIBRARY")
    if named:
        return Path(named)
    # What debuggers want of it is three quarters of it.
    stripped = ["--config", 'profile.release.strip="debuginfo"']
    subprocess.run(["cargo", "build", "--release", "-p", "pool-cuda-library", *stripped], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release" / "libpool_cuda.so"


class Build(build_py):
    def run(self):
        super().run()
        package = Path(self.build_lib) / "pool_cuda_torch"
        (package / "include").mkdir(parents=True, exist_ok=True)
        shutil.copy(library(), package / "libpool_cuda.so")
        shutil.copy(ROOT / "pool-cuda" / "c" / "include" / "pool_cuda.h", package / "include")


class Wheel(bdist_wheel):
    def get_tag(self):
        # Nothing of it is for one version of Python.
        _, _, platform = super().get_tag()
        return "py3", "none", platform


class OfThisMachine(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=OfThisMachine)
