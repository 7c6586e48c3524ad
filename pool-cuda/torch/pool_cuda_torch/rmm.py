"""RMM's device memory from the pool."""

from .library import last_error, library


def _handle(stream):
    """The ``cudaStream_t`` behind RMM's object."""
    named = getattr(stream, "__cuda_stream__", None)
    if named is None:
        raise RuntimeError("this version of RMM does not say which stream a request is for")
    return (named() if callable(named) else named)[1]


def callbacks(device=0):
    """The two functions that ``rmm.mr.CallbackMemoryResource`` takes, for a device by its number."""
    pool = library()

    def allocate(size, stream):
        block = pool.pool_torch_allocate(size, device, _handle(stream))
        if block is None and size > 0:
            raise MemoryError(f"pool-cuda: {size} bytes on device {device}: {last_error()[1]}")
        return block or 0

    def deallocate(pointer, size, stream):
        pool.pool_torch_free(pointer, size, device, _handle(stream))

    return allocate, deallocate


def resource(device=0):
    """A ``rmm.mr.CallbackMemoryResource``, for ``rmm.mr.set_per_device_resource(device, ...)``."""
    import rmm

    return rmm.mr.CallbackMemoryResource(*callbacks(device))
