"""What the tests have in common: the simulated driver, and streams of it."""

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

DRIVER = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
MIB = 1 << 20

# The library's codes.
INVALID_VALUE, MEMORY, INVALID_DEVICE = 1, 2, 101


def driver(name, *arguments):
    """Makes a call of the driver, which has to succeed."""
    code = getattr(DRIVER, name)(*arguments)
    assert code == 0, (name, code)


def enter():
    """Makes the first device's primary context current, as the runtime does."""
    device, context = c_int(), c_void_p()
    driver("cuInit", 0)
    driver("cuDeviceGet", byref(device), 0)
    driver("cuDevicePrimaryCtxRetain", byref(context), device)
    driver("cuCtxSetCurrent", context)


def stream():
    """A stream of the driver's, which is not ordered with the default one."""
    made = c_void_p()
    driver("cuStreamCreate", byref(made), 1)
    return made.value


def write(block, size, on):
    """Queues work that writes."""
    driver("cuMemsetD8Async", c_uint64(block), 1, c_size_t(size), c_void_p(on))


class Capture:
    """Captures a stream, and ends with the graph."""

    def __init__(self, on):
        self.on = c_void_p(on)

    def __enter__(self):
        driver("cuStreamBeginCapture_v2", self.on, 0)
        return self

    def __exit__(self, *_):
        self.graph = c_void_p()
        driver("cuStreamEndCapture", self.on, byref(self.graph))

    def launch(self, on):
        """Runs it."""
        executable = c_void_p()
        driver("cuGraphInstantiateWithFlags", byref(executable), self.graph, c_uint64(0))
        driver("cuGraphLaunch", executable, c_void_p(on))
        driver("cuStreamSynchronize", c_void_p(on))
        driver("cuGraphExecDestroy", executable)
