"""Statistics, by the names that ``torch.cuda`` has for those of its own allocator.

What the pool does not count is not there: sizes as they were asked for, what is small and what is large, and
peaks of numbers of blocks. What only the pool has is under ``pool.``.
"""

import collections

from .library import check, library, stats


def ordinal(device=None):
    """A device's number: of a number, a ``torch.device``, or None for the current one."""
    if isinstance(device, int):
        return device
    index = getattr(device, "index", None)
    if index is not None:
        return index
    import torch

    if device is not None:
        device = torch.device(device)
        if device.index is not None:
            return device.index
    return torch.cuda.current_device()


def memory_stats(device=None):
    """A device's statistics, as ``torch.cuda.memory_stats`` names them."""
    figures = stats(ordinal(device))
    live = figures.allocations - figures.frees
    names = {
        "allocated_bytes.all.current": figures.liveBytes,
        "allocated_bytes.all.peak": figures.peakLiveBytes,
        "allocated_bytes.all.allocated": figures.allocatedBytes,
        "allocated_bytes.all.freed": figures.freedBytes,
        "allocation.all.current": live,
        "allocation.all.allocated": figures.allocations,
        "allocation.all.freed": figures.frees,
        "active.all.current": live + figures.deferredBlocks,
        "active_bytes.all.current": figures.liveBytes + figures.deferredBytes,
        "inactive_split_bytes.all.current": figures.freeBytes + figures.cachedBytes,
        "reserved_bytes.all.current": figures.reservedBytes,
        "reserved_bytes.all.peak": figures.peakReservedBytes,
        "segment.all.current": figures.arenas,
        "num_device_alloc": figures.deviceAllocations,
        "num_device_free": figures.deviceFrees,
        "num_ooms": figures.refusals,
        "num_sync_all_streams": figures.hostWaits,
        "pool.hits": figures.hits,
        "pool.growths": figures.growths,
        "pool.deferred_bytes": figures.deferredBytes,
        "pool.cached_bytes": figures.cachedBytes,
        "pool.limit_bytes": figures.limitBytes,
        "pool.total_bytes": figures.totalBytes,
    }
    return collections.OrderedDict(sorted(names.items()))


def memory_allocated(device=None):
    """Bytes of live blocks."""
    return stats(ordinal(device)).liveBytes


def max_memory_allocated(device=None):
    """The most of them at once."""
    return stats(ordinal(device)).peakLiveBytes


def memory_reserved(device=None):
    """Bytes that the pool has of the device."""
    return stats(ordinal(device)).reservedBytes


def max_memory_reserved(device=None):
    """The most of them at once."""
    return stats(ordinal(device)).peakReservedBytes


def reset_peak_memory_stats(device=None):
    """Starts the peaks anew from what is there now."""
    check(library().poolResetPeaks(ordinal(device)))


def _size(count):
    """Bytes, for people."""
    unit = "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if count < 10 * 1024:
            break
        count, unit = count / 1024, larger
    return f"{count:.0f} {unit}"


def memory_summary(device=None):
    """The statistics as a table, for people."""
    number = ordinal(device)
    figures = stats(number)
    limit = _size(figures.limitBytes) if figures.limitBytes else "none"
    hits = f"{100 * figures.hits / figures.allocations:.1f} %" if figures.allocations else "-"
    rows = [
        ("", "now", "peak"),
        ("allocated", _size(figures.liveBytes), _size(figures.peakLiveBytes)),
        ("reserved", _size(figures.reservedBytes), _size(figures.peakReservedBytes)),
        ("freed, and waiting for the device", _size(figures.deferredBytes), ""),
        ("free", _size(figures.freeBytes + figures.cachedBytes), ""),
        ("limit", limit, ""),
        ("the device's free memory", f"{_size(figures.deviceFreeBytes)} of {_size(figures.totalBytes)}", ""),
        ("blocks", str(figures.allocations - figures.frees), ""),
        ("given out, at once", f"{figures.allocations}, {hits}", ""),
        ("growths", str(figures.growths), ""),
        ("refused for want of memory", str(figures.refusals), ""),
    ]
    lines = [f"{name:<36}{now:>24}{peak:>14}".rstrip() for name, now, peak in rows]
    title = f"pool-cuda, device {number}"
    return "\n".join([title, "=" * len(title), *lines])
