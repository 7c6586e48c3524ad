"""PyTorch's device memory from pool-cuda: ``install()`` before the first use of the GPU.

The statistics that PyTorch has of its own allocator are here, by the names that people know.
"""

from .allocator import install, is_installed, mem_pool_allocator
from .figures import (
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_peak_memory_stats,
)
from .library import PoolError, last_error, library_path
from .snapshot import MISSING_IN_SNAPSHOT, snapshot

__version__ = "0.1.0"

__all__ = [
    "MISSING_IN_SNAPSHOT",
    "PoolError",
    "install",
    "is_installed",
    "last_error",
    "library_path",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_pool_allocator",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "snapshot",
]
