//! A pool over the device, one thing at a time.

mod support;

use pool_core::device::Device;
use pool_core::policy::{Growth, Way};
use pool_core::{Pool, PoolConfig, PoolError, Remedy, StreamId};
use pool_opencl::{ClDevice, ClError, ClPart, ClRange, ClStream, Kernels, Unwaiting};
use support::Gate;

const MIB: u64 = 1 << 20;

/// A pool's stream and its queue.
fn stream<D>(pool: &Pool<D>) -> (StreamId, ClStream)
where
    D: Device<Range = ClRange, Stream = ClStream, Error = ClError>,
{
    let id = pool.create_stream().unwrap();
    (id, pool.stream(id).unwrap())
}

/// Memory that a stream has not done with is another's next. How many bytes of that one's block are
/// not its own in the end.
fn hand_over<D>(opened: &ClDevice, device: D, waits: bool) -> u32
where
    D: Device<Range = ClRange, Stream = ClStream, Error = ClError>,
{
    let config = PoolConfig::new().initial_bytes(4 * MIB).limit_bytes(4 * MIB);
    let pool = Pool::new(device, config).unwrap();
    let ((one, one_queue), (other, other_queue)) = (stream(&pool), stream(&pool));
    let mut kernels = Kernels::of(opened).unwrap();
    let counter = opened.allocate(4).unwrap();
    let wrong = counter.part(0, 4).unwrap();
    kernels.fill(&other_queue, &wrong, 0..4, 0).unwrap();

    let gate = Gate::shut(&one_queue);
    let first = pool.allocate_on(one, 4 * MIB).unwrap();
    kernels.mark(&one_queue, &ClPart::of(&pool, &first).unwrap(), 1).unwrap();
    pool.free_on(one, first.handle()).unwrap();
    let second = pool.allocate_on(other, 4 * MIB).unwrap();
    assert_eq!(second.offset_bytes(), first.offset_bytes());
    let part = ClPart::of(&pool, &second).unwrap();
    kernels.mark(&other_queue, &part, 2).unwrap();
    let calls = pool.stats().calls;
    assert_eq!((calls.records, calls.device_waits, calls.host_waits), (1, 1, 0));

    let fence = opened.record(&other_queue).unwrap();
    if !waits {
        // Nothing holds it back: let it be first.
        opened.wait_on_host(&fence).unwrap();
    }
    assert_eq!(opened.is_done(&fence).unwrap(), !waits, "the gate is shut");
    gate.open();
    one_queue.finish().unwrap();
    kernels.check(&other_queue, &part, 2, &wrong).unwrap();
    let found = wrong.read(&other_queue).unwrap();
    pool.free_on(other, second.handle()).unwrap();
    u32::from_ne_bytes(found.try_into().unwrap())
}

#[test]
fn a_queue_gets_anothers_memory_behind_one_event() {
    let Some(device) = support::device() else { return };
    assert_eq!(hand_over(&device, device.clone(), true), 0);
}

#[test]
fn a_queue_that_does_not_wait_for_the_event_finds_the_others_bytes() {
    let Some(device) = support::device() else { return };
    assert!(hand_over(&device, Unwaiting(device.clone()), false) > 0);
}

#[test]
fn a_queue_has_its_own_memory_again_without_a_call() {
    let Some(device) = support::device() else { return };
    let pool = Pool::new(device, PoolConfig::new()).unwrap();
    let (id, _) = stream(&pool);
    let first = pool.allocate_on(id, MIB).unwrap();
    pool.free_on(id, first.handle()).unwrap();
    let before = pool.stats().calls;
    for size_bytes in (1..500).map(|step| step * 1000) {
        let block = pool.allocate_on(id, size_bytes).unwrap();
        pool.free_on(id, block.handle()).unwrap();
    }
    assert_eq!(pool.stats().calls, before);
}

#[test]
fn blocks_are_parts_that_do_not_touch_each_other() {
    let Some(device) = support::device() else { return };
    let pool = Pool::new(device.clone(), PoolConfig::new().granule_bytes(16)).unwrap();
    let (id, queue) = stream(&pool);
    let mut kernels = Kernels::of(&device).unwrap();
    let blocks = (0..64_u32).map(|number| {
        let block = pool.allocate_on(id, u64::from(number) * 777 + 1).unwrap();
        // Though the program asked for smaller granules than the device has parts for.
        assert_eq!(block.offset_bytes() % device.granule_bytes(), 0);
        let part = ClPart::of(&pool, &block).unwrap();
        kernels.mark(&queue, &part, number).unwrap();
        (block, part)
    });
    let blocks: Vec<_> = blocks.collect();
    let counter = device.allocate(4).unwrap();
    let wrong = counter.part(0, 4).unwrap();
    kernels.fill(&queue, &wrong, 0..4, 0).unwrap();
    for ((block, part), number) in blocks.iter().zip(0..) {
        kernels.check(&queue, part, number, &wrong).unwrap();
        pool.free_on(id, block.handle()).unwrap();
        assert!(matches!(ClPart::of(&pool, block), Err(ClError::Handle(_))));
    }
    assert_eq!(wrong.read(&queue).unwrap(), [0; 4]);
    pool.verify().unwrap();
}

#[test]
fn a_pool_grows_by_ranges_as_the_device_gives_them() {
    let Some(device) = support::device() else { return };
    let small = device.giving_at_most(4 * MIB);
    let config = PoolConfig::new().initial_bytes(10 * MIB).arena_bytes(64 * MIB);
    let pool = Pool::new(small, config).unwrap();
    assert_eq!((pool.stats().arenas, pool.stats().reserved_bytes), (3, 10 * MIB));
    let blocks: Vec<_> = (0..10).map(|_| pool.allocate(3 * MIB).unwrap()).collect();
    assert!(pool.stats().growths >= 7);
    let refused = pool.allocate(4 * MIB + 1).unwrap_err();
    let PoolError::OutOfMemory { shortage, cause } = refused else { panic!("{refused}") };
    assert_eq!(shortage.remedy, Remedy::AskForLess);
    assert!(cause.to_string().contains("clCreateBuffer"), "{cause}");
    for block in blocks {
        pool.free(block.handle()).unwrap();
    }
    pool.trim(0).unwrap();
    assert_eq!(pool.stats().reserved_bytes, 0);
    pool.verify().unwrap();
}

#[test]
fn a_limit_is_kept_and_what_is_freed_serves_again() {
    let Some(device) = support::device() else { return };
    let pool = Pool::new(device, PoolConfig::new().limit_bytes(8 * MIB)).unwrap();
    let ((one, queue), (other, _)) = (stream(&pool), stream(&pool));
    let gate = Gate::shut(&queue);
    let block = pool.allocate_on(one, 6 * MIB).unwrap();
    let refused = pool.allocate_on(other, 4 * MIB).unwrap_err();
    let PoolError::OutOfMemory { shortage, .. } = refused else { panic!("{refused}") };
    assert_eq!((shortage.live_bytes, shortage.remedy), (6 * MIB, Remedy::RaiseLimit));
    pool.free_on(one, block.handle()).unwrap();
    // Its work is behind the gate still: the other queue waits for it, and the host does not.
    let block = pool.allocate_on(other, 4 * MIB).unwrap();
    assert_eq!(pool.stats().calls.host_waits, 0);
    pool.free_on(other, block.handle()).unwrap();
    gate.open();
}

#[test]
fn clean_memory_waits_for_all_queues_also_for_those_that_are_retired() {
    let Some(device) = support::device() else { return };
    let config = PoolConfig::new().initial_bytes(4 * MIB).limit_bytes(4 * MIB);
    let pool = Pool::new(device.clone(), config).unwrap();
    let mut kernels = Kernels::of(&device).unwrap();
    let (id, queue) = stream(&pool);
    let sink = device.allocate(4).unwrap();
    let block = pool.allocate_on(id, 4 * MIB).unwrap();
    kernels.dawdle(&queue, &sink.part(0, 4).unwrap(), 1 << 24).unwrap();
    kernels.mark(&queue, &ClPart::of(&pool, &block).unwrap(), 9).unwrap();
    pool.free(block.handle()).unwrap();
    pool.retire(id).unwrap();
    drop(queue);
    let block = pool.allocate(4 * MIB).unwrap();
    // All that was queued for the memory is done: a new queue finds it as it was left.
    let (queue, counter) = (device.create_stream().unwrap(), device.allocate(4).unwrap());
    let wrong = counter.part(0, 4).unwrap();
    kernels.fill(&queue, &wrong, 0..4, 0).unwrap();
    kernels.check(&queue, &ClPart::of(&pool, &block).unwrap(), 9, &wrong).unwrap();
    assert_eq!(wrong.read(&queue).unwrap(), [0; 4]);
}

#[test]
fn movable_buffers_keep_their_bytes_when_they_are_moved() {
    let Some(device) = support::device() else { return };
    let growth = Growth { order: [Way::Migration, Way::Never, Way::Never], ..Growth::new() };
    let config = PoolConfig::new().initial_bytes(16 * MIB).limit_bytes(16 * MIB).growth(growth);
    let pool = Pool::new(device.clone(), config).unwrap();
    let (id, queue) = stream(&pool);
    let mut kernels = Kernels::of(&device).unwrap();
    let counter = device.allocate(4).unwrap();
    let wrong = counter.part(0, 4).unwrap();
    kernels.fill(&queue, &wrong, 0..4, 0).unwrap();
    let buffers: Vec<_> = (0..8).map(|_| pool.allocate_movable(id, 2 * MIB).unwrap()).collect();
    for (&buffer, number) in buffers.iter().zip(0..) {
        let guard = pool.guard(buffer, id).unwrap();
        kernels.mark(&queue, &ClPart::of(&pool, &guard.block()).unwrap(), number).unwrap();
    }
    for &buffer in buffers.iter().skip(1).step_by(2) {
        pool.free_movable(buffer, id).unwrap();
    }
    // Half is free, in pieces of 2 MiB.
    pool.allocate_on(id, 7 * MIB).unwrap();
    assert!(pool.stats().migrations > 0 && pool.stats().calls.copies > 0);
    for (&buffer, number) in buffers.iter().zip(0..).step_by(2) {
        let guard = pool.guard(buffer, id).unwrap();
        kernels.check(&queue, &ClPart::of(&pool, &guard.block()).unwrap(), number, &wrong).unwrap();
    }
    assert_eq!(wrong.read(&queue).unwrap(), [0; 4]);
}

#[test]
fn work_that_fails_is_told_and_no_memory_serves_behind_it() {
    let Some(device) = support::device() else { return };
    let config = PoolConfig::new().initial_bytes(4 * MIB).limit_bytes(4 * MIB);
    let pool = Pool::new(device.clone(), config).unwrap();
    let ((one, queue), (other, _)) = (stream(&pool), stream(&pool));
    // Nothing but events is behind the gate: PoCL 3.1 aborts where a command fails whose event the
    // program has let go of.
    let gate = Gate::shut(&queue);
    let block = pool.allocate_on(other, 4 * MIB).unwrap();
    pool.record_use(block.handle(), one).unwrap();
    pool.free_on(other, block.handle()).unwrap();
    pool.reclaim().unwrap();
    assert_eq!(pool.stats().deferred_bytes, 4 * MIB);
    gate.fail();
    let refused = pool.allocate_on(other, 4 * MIB).unwrap_err();
    assert!(refused.to_string().contains("queued work ended with OpenCL error"), "{refused}");
    // What that leaves of the device OpenCL does not say, so the pool calls it no more.
    assert!(matches!(pool.allocate_on(one, 4096), Err(PoolError::Poisoned)));
    assert_eq!(pool.stats().deferred_bytes, 4 * MIB);
    pool.verify().unwrap();
}

#[cfg(unix)]
#[test]
fn a_forked_child_leaves_the_runtime_alone() {
    let Some(device) = support::device() else { return };
    let pool = Pool::new(device.clone(), PoolConfig::new().initial_bytes(MIB)).unwrap();
    let (_, queue) = stream(&pool);
    // SAFETY: the child makes no call of the runtime, and ends without the process's handlers.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let alive = device.is_alive();
        let refused =
            device.record(&queue).is_err() && matches!(ClDevice::open(0), Err(ClError::Forked));
        drop((pool, queue, device));
        // SAFETY: nothing of the process is needed any more.
        unsafe { libc::_exit(i32::from(alive || !refused)) };
    }
    let mut status = 0;
    // SAFETY: the pointer is to a local.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
}
