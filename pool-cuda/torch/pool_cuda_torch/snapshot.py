"""What is where, in the format of ``torch.cuda.memory._snapshot()``."""

import ctypes

from .allocator import live_blocks
from .library import library

#: What the format has and a snapshot of the pool has not.
MISSING_IN_SNAPSHOT = (
    "free memory: a segment is one live block, as the pool does not list what is free",
    "blocks that were freed and wait for another stream",
    "frames: where an allocation was made",
    "device_traces: what happened before",
    "segment_pool_id: which graph's memory a block is",
)

#: PyTorch calls what is larger so.
_LARGE_BYTES = 1 << 20


def _segment(address, requested, device, stream):
    size = ctypes.c_size_t(requested)
    # Freed by now, or memory that was asked for otherwise: what was asked for has to do.
    library().pool_torch_base(address, ctypes.byref(size))
    block = {
        "address": address,
        "size": size.value,
        "requested_size": requested,
        "state": "active_allocated",
        "frames": [],
    }
    return {
        "device": device,
        "address": address,
        "total_size": size.value,
        "allocated_size": size.value,
        "active_size": size.value,
        "requested_size": requested,
        "stream": stream,
        "segment_type": "large" if size.value > _LARGE_BYTES else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block],
    }


def snapshot():
    """The live blocks of PyTorch's, in the format of ``torch.cuda.memory._snapshot()``.

    ``MISSING_IN_SNAPSHOT`` says what is not in it. ``pickle.dump`` of it can be looked at with PyTorch's viewer.
    """
    segments = [_segment(*block) for block in live_blocks()]
    devices = max((segment["device"] for segment in segments), default=-1) + 1
    return {
        "segments": segments,
        "device_traces": [[] for _ in range(devices)],
        "allocator_settings": {"backend": "pool-cuda"},
        "external_annotations": [],
    }
