"""Shows on a machine with a GPU that PyTorch, CuPy and RMM work on the pool's memory, and what it did.

usage: gpu_check.py [CHECK ...]      (all, if none is named)

Each check is a process of its own. Its last line says what came of it; the script ends with 1 if one failed.
"""

import subprocess
import sys
import time

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def installed():
    """The package, and PyTorch on its memory."""
    import torch

    import pool_cuda_torch

    start = time.perf_counter()
    pool_cuda_torch.install()
    print(
        f"install(): {time.perf_counter() - start:.2f} s, PyTorch {torch.__version__}, {pool_cuda_torch.library_path()}"
    )
    return torch, pool_cuda_torch


def trained(torch):
    """The losses of a small training, which allocates much."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 1024),
        torch.nn.GELU(),
        torch.nn.Linear(1024, 1024),
        torch.nn.GELU(),
        torch.nn.Linear(1024, 16),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in range(50):
        batch = torch.randn(32 + 7 * (step % 9), 256, device="cuda")
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


@check
def native():
    import torch

    print(f"losses {trained(torch)[::10]}")


@check
def training():
    torch, pool = installed()
    losses = trained(torch)
    print(f"losses {losses[::10]}")
    said = subprocess.run([sys.executable, __file__, "native"], capture_output=True, text=True, check=True).stdout
    assert f"losses {losses[::10]}" in said, f"PyTorch's own allocator: {said}"
    print(pool.memory_summary())
    assert torch.cuda.memory_allocated() == pool.memory_allocated()
    assert pool.memory_allocated() > 0 and pool.max_memory_allocated() > pool.memory_allocated()
    shot = pool.snapshot()
    live = sum(segment["allocated_size"] for segment in shot["segments"])
    print(
        f"snapshot: {len(shot['segments'])} live blocks, {live} bytes; missing: {'; '.join(pool.MISSING_IN_SNAPSHOT)}"
    )
    pool.reset_peak_memory_stats()
    assert pool.max_memory_allocated() == pool.memory_allocated()
    return "losses as with PyTorch's own allocator"


@check
def first_allocation():
    torch, pool = installed()
    torch.zeros(1, device="cuda")
    reserved = pool.memory_reserved()
    assert reserved <= 4 << 20, reserved
    return f"{reserved} bytes reserved after the first small allocation"


@check
def record_stream():
    torch, _ = installed()
    side = torch.cuda.Stream()
    ones = torch.ones(1 << 22, device="cuda")
    wrong = 0
    for _ in range(200):
        with torch.cuda.stream(side):
            used = ones * 2
            torch.cuda._sleep(200_000)
            total = used.sum()
            used.record_stream(side)
        block = torch.full((1 << 22,), 3.0, device="cuda")
        block.record_stream(side)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000)
            seen = block.sum()
        del block, used
        # It would have the block, if the use had not been noted.
        torch.full((1 << 22,), 5.0, device="cuda")
        side.synchronize()
        wrong += int(total.item() != 2 * (1 << 22)) + int(seen.item() != 3 * (1 << 22))
    assert wrong == 0, f"{wrong} of 400 sums are wrong"
    return "400 sums on another stream are right"


def captured(torch, pool=None):
    """A graph, what goes in and what comes out."""
    into = torch.zeros(1 << 16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        between = into * 2
        out = between + 1
        del between
    return graph, into, out


@check
def graphs():
    torch, pool = installed()
    first = captured(torch)
    second = captured(torch, first[0].pool())
    wrong = 0
    for step in range(50):
        junk = [torch.full((1 << size,), 7.0, device="cuda") for size in range(8, 22)]
        for graph, into, out in (first, second):
            into.fill_(step)
            graph.replay()
            wrong += int((out != 2 * step + 1).any().item())
        wrong += sum(int((block != 7.0).any().item()) for block in junk)
    assert wrong == 0, f"{wrong} are wrong"
    held = pool.memory_reserved()
    del first, second, graph, into, out, junk
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.empty_cache()
    return f"two graphs share a pool; {held} bytes reserved while they are, {pool.memory_reserved()} after"


@check
def out_of_memory():
    torch, pool = installed()
    kept = torch.ones(1 << 20, device="cuda")
    for _ in range(3):
        try:
            torch.empty(1 << 44, dtype=torch.uint8, device="cuda")
            raise AssertionError("there were 16 TiB")
        except torch.OutOfMemoryError as error:
            said = str(error)
    torch.cuda.set_per_process_memory_fraction(0.01)
    try:
        blocks = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(10_000)]
        raise AssertionError(f"{len(blocks)} blocks in a hundredth of the memory")
    except torch.OutOfMemoryError as error:
        said = str(error)
    torch.cuda.set_per_process_memory_fraction(1.0)
    blocks = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    assert kept.sum().item() == 1 << 20 and blocks.numel() == 4 << 30
    assert pool.memory_stats()["num_ooms"] == 4
    return f"went on after: {said}"


@check
def other_streams():
    """Streams that the program makes and destroys by itself."""
    torch, _ = installed()
    runtime = torch.cuda.cudart()
    if not hasattr(runtime, "cudaStreamCreate"):
        return "skipped: this PyTorch makes no foreign streams"
    import ctypes

    for step in range(20):
        # PyTorch's binding writes the handle where it is told.
        handle = ctypes.c_uint64()
        runtime.cudaStreamCreate(ctypes.addressof(handle))
        with torch.cuda.stream(torch.cuda.ExternalStream(handle.value)):
            block = torch.full((1 << 20,), float(step), device="cuda")
            total = block.sum().item()
            del block
        runtime.cudaStreamDestroy(handle.value)
        assert total == step * (1 << 20)
    return "20 streams came and went"


@check
def memory_pools():
    torch, pool = installed()
    own = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(own):
        block = torch.ones(1 << 20, device="cuda")
    assert block.sum().item() == 1 << 20
    try:
        torch.cuda.MemPool(torch.cuda.memory._get_current_allocator().allocator())
        raise AssertionError("MemPool took an allocator")
    except RuntimeError as error:
        return f"MemPool() works; with an allocator: {str(error).splitlines()[0]}"


@check
def segments():
    """PyTorch's own allocator, with a pool of segments from ours. Which calls reach us."""
    import torch

    import pool_cuda_torch

    pool = torch.cuda.MemPool(pool_cuda_torch.mem_pool_allocator())
    with torch.cuda.use_mem_pool(pool):
        block = torch.ones(1 << 28, device="cuda")
    assert block.sum().item() == 1 << 28
    steps = [("allocated", pool_cuda_torch.memory_stats(0))]
    del block
    steps.append(("deleted", pool_cuda_torch.memory_stats(0)))
    torch.cuda.empty_cache()
    steps.append(("cache emptied", pool_cuda_torch.memory_stats(0)))
    del pool
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    steps.append(("pool dropped", pool_cuda_torch.memory_stats(0)))
    for name, stats in steps:
        print(f"{name:<14} given out {stats['allocation.all.allocated']}, freed {stats['allocation.all.freed']}")
    assert steps[0][1]["allocation.all.current"] >= 1
    assert steps[-1][1]["allocation.all.current"] == 0
    return "all segments came back"


@check
def forked():
    torch, _ = installed()
    block = torch.ones(1 << 20, device="cuda")
    import os

    for _ in range(10):
        child = os.fork()
        if child == 0:
            del block
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert block.sum().item() == 1 << 20
    return "10 of 10 children ended"


@check
def cupy():
    try:
        import cupy as found
    except ImportError:
        return "skipped: there is no CuPy"
    from pool_cuda_torch import cupy as ours
    from pool_cuda_torch import memory_stats

    ours.install()
    total = float(sum((found.ones(1 << 16) * step).sum() for step in range(100)))
    assert total == (1 << 16) * sum(range(100)), total
    try:
        found.empty(1 << 44, dtype=found.uint8)
        raise AssertionError("there were 16 TiB")
    except MemoryError as error:
        said = str(error)
    assert memory_stats(0)["allocation.all.allocated"] > 100
    return f"sums are right; went on after: {said}"


@check
def rmm():
    try:
        import rmm as found
    except ImportError:
        return "skipped: there is no RMM"
    from pool_cuda_torch import rmm as ours

    found.mr.set_per_device_resource(0, ours.resource(0))
    buffers = [found.DeviceBuffer(size=1 << (8 + step % 16)) for step in range(200)]
    assert all(buffer.ptr % 256 == 0 for buffer in buffers)
    del buffers
    try:
        found.DeviceBuffer(size=1 << 44)
        raise AssertionError("there were 16 TiB")
    except MemoryError as error:
        return f"200 buffers; went on after: {error}"


def main():
    names = sys.argv[1:]
    if len(names) == 1:
        said = CHECKS[names[0]]()
        print(f"{names[0]}: {said or 'done'}")
        return 0
    failed = []
    for name in names or [name for name in CHECKS if name != "native"]:
        print(f"==> {name}", flush=True)
        if subprocess.run([sys.executable, __file__, name]).returncode != 0:
            failed.append(name)
    print(f"failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
