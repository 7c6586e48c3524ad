//! What fuzzing found in the pool, each in as few calls as show it.

use pool_core::device::{Call, Capabilities};
use pool_core::policy::Growth;
use pool_core::{Block, GraphId, Pool, PoolConfig, PoolError, Remedy, Request, Tag};
use pool_mock::device::{Access, Owner, Pacing, SimConfig, SimDevice, SimStream, StreamKind};

const MIB: u64 = 1 << 20;

fn pool(config: PoolConfig) -> (SimDevice, Pool<SimDevice>) {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    (device.clone(), Pool::new(device, config.address_bytes(32 * MIB)).unwrap())
}

/// As much as this and no more, from the start.
fn of(bytes: u64) -> PoolConfig {
    PoolConfig::new().initial_bytes(bytes).limit_bytes(bytes).arena_bytes(bytes)
}

/// Queues a write of a whole block.
fn write(pool: &Pool<SimDevice>, stream: SimStream, block: &Block, owner: Owner) {
    let location = pool.location(block.handle()).unwrap();
    let (range, at) = (location.arena.range(), location.offset_bytes);
    let device = pool.device();
    device.queue_use(stream, range, at, block.size_bytes(), owner, Access::Write).unwrap();
}

/// Drops the pool, runs everything, and looks at what was found.
fn end(device: &SimDevice, pool: Pool<SimDevice>) {
    pool.verify().unwrap();
    drop(pool);
    device.run_all();
    device.assert_clean();
    assert!(device.balance().is_zero(), "{}", device.balance());
}

#[test]
fn a_live_block_of_a_released_graph_waits_for_its_launches() {
    let (device, pool) = pool(of(MIB));
    let home = pool.create_stream().unwrap();
    let captured = device.open_stream(StreamKind::NonBlocking);
    let launching = device.open_stream(StreamKind::NonBlocking);
    let other = device.open_stream(StreamKind::NonBlocking);
    let block = pool.allocate_on(home, MIB).unwrap();
    let owner = device.new_owner();

    pool.begin_capture(&captured, GraphId(1)).unwrap();
    device.begin_capture(captured).unwrap();
    pool.record_use(block.handle(), &captured).unwrap();
    write(&pool, captured, &block, owner);
    let graph = device.end_capture(captured).unwrap();
    pool.end_capture(&captured).unwrap();
    device.launch_graph(graph, launching).unwrap();
    pool.release_graph(GraphId(1)).unwrap();
    device.drop_graph(graph).unwrap();

    pool.free_on(home, block.handle()).unwrap();
    let next = pool.allocate_on(&other, MIB).unwrap();
    write(&pool, other, &next, device.new_owner());
    end(&device, pool);
}

#[test]
fn a_block_that_a_quota_refuses_still_waits_for_who_had_it() {
    let (device, pool) = pool(of(MIB));
    let home = pool.create_stream().unwrap();
    let (first, second) =
        (device.open_stream(StreamKind::NonBlocking), device.open_stream(StreamKind::NonBlocking));
    let block = pool.allocate_on(home, MIB).unwrap();
    write(&pool, pool.stream(home).unwrap(), &block, device.new_owner());
    pool.free_on(home, block.handle()).unwrap();

    // What is asked for is within the quota, the granules that it takes are not.
    pool.set_quota(Tag(1), Some(700_000));
    let refused = pool.allocate_tagged(&first, Tag(1), 699_999);
    assert!(matches!(refused, Err(PoolError::Quota { .. })), "{refused:?}");
    assert_eq!(pool.tag_live_bytes(Tag(1)), 0);

    // The rest of the memory still has its wait, so this is of that part.
    let next = pool.allocate_on(&second, 600_000).unwrap();
    write(&pool, second, &next, device.new_owner());
    end(&device, pool);
}

#[test]
fn an_arena_that_the_device_did_not_take_back_has_its_place_still() {
    let (device, pool) = pool(PoolConfig::new().arena_bytes(MIB));
    let stream = pool.create_stream().unwrap();
    let block = pool.allocate_on(stream, MIB).unwrap();
    pool.free_on(stream, block.handle()).unwrap();

    // While it goes back, another thread grows the pool; then the device refuses to take it.
    let (inner, blocks) = (pool.clone(), std::sync::Arc::new(std::sync::Mutex::new(Vec::new())));
    let kept = blocks.clone();
    device.on_call(move |call| {
        if call == Call::Free && kept.lock().unwrap().is_empty() {
            let block = inner.allocate(4 * MIB).unwrap();
            kept.lock().unwrap().push(block);
        }
    });
    device.fail_next(Call::Free, 1);
    assert!(matches!(pool.trim_waiting(0), Err(PoolError::Device(_))));
    device.clear_hooks();

    let mut blocks: Vec<Block> = blocks.lock().unwrap().clone();
    assert_eq!(blocks.len(), 1);
    blocks.push(pool.allocate_on(stream, MIB).unwrap());
    blocks.sort_by_key(Block::offset_bytes);
    assert!(blocks[0].offset_bytes() + blocks[0].size_bytes() <= blocks[1].offset_bytes());
    for block in &blocks {
        pool.free(block.handle()).unwrap();
    }
    end(&device, pool);
}

#[test]
fn what_is_clean_serves_where_a_stream_cannot_be_waited_for() {
    let (device, pool) = pool(of(2 * MIB));
    let (captured, asking) = (pool.create_stream().unwrap(), pool.create_stream().unwrap());
    let block = pool.allocate_on(captured, 64 << 10).unwrap();
    let handle = pool.stream(captured).unwrap();
    write(&pool, handle, &block, device.new_owner());
    pool.free_on(captured, block.handle()).unwrap();
    device.hold(handle).unwrap();

    pool.begin_capture(captured, GraphId(1)).unwrap();
    device.begin_capture(handle).unwrap();
    // What fits best was used by the stream that is captured now.
    let next = pool.allocate_on(asking, 64 << 10).unwrap();
    write(&pool, pool.stream(asking).unwrap(), &next, device.new_owner());
    let graph = device.end_capture(handle).unwrap();
    pool.end_capture(captured).unwrap();
    device.drop_graph(graph).unwrap();
    pool.release_graph(GraphId(1)).unwrap();
    end(&device, pool);
}

#[test]
fn what_can_be_waited_for_serves_where_what_fits_best_cannot() {
    let (device, pool) = pool(of(4 * MIB));
    let stream = || pool.create_stream().unwrap();
    let (captured, other, asker) = (stream(), stream(), stream());
    let handles = [captured, other].map(|stream| pool.stream(stream).unwrap());
    let blocks = [(captured, MIB), (other, 2 * MIB), (asker, MIB)]
        .map(|(stream, bytes)| pool.allocate_on(stream, bytes).unwrap());
    // From here on all that is free is kept together.
    assert!(pool.allocate_on(asker, 4 * MIB).is_err());
    for (&handle, block) in handles.iter().zip(&blocks) {
        write(&pool, handle, block, device.new_owner());
        device.hold(handle).unwrap();
    }
    pool.free_on(captured, blocks[0].handle()).unwrap();
    pool.free_on(other, blocks[1].handle()).unwrap();
    // In the stream that used what fits best no fence can be recorded from here on.
    device.begin_capture(handles[0]).unwrap();
    pool.begin_capture(captured, GraphId(1)).unwrap();
    let next = pool.allocate_on(asker, MIB).unwrap();
    write(&pool, pool.stream(asker).unwrap(), &next, device.new_owner());
    for handle in handles {
        device.go(handle).unwrap();
    }
    let graph = device.end_capture(handles[0]).unwrap();
    pool.end_capture(captured).unwrap();
    device.drop_graph(graph).unwrap();
    pool.release_graph(GraphId(1)).unwrap();
    for block in [blocks[2], next] {
        pool.free_on(asker, block.handle()).unwrap();
    }
    end(&device, pool);
}

#[test]
fn a_stream_that_joined_the_second_of_two_captures_is_of_that_one() {
    let (device, pool) = pool(of(4 * MIB));
    let streams: Vec<SimStream> =
        (0..3).map(|_| device.open_stream(StreamKind::NonBlocking)).collect();
    for (stream, graph) in [(streams[0], GraphId(1)), (streams[1], GraphId(2))] {
        pool.begin_capture(&stream, graph).unwrap();
        device.begin_capture(stream).unwrap();
    }
    let fence = device.queue_record(streams[1]).unwrap();
    device.queue_wait(streams[2], &fence).unwrap();
    device.discard_fence(fence);
    // The first that is heard of any capture.
    let block = pool.allocate_on(&streams[2], 4096).unwrap();
    let first = pool.allocate_on(&streams[0], 4096).unwrap();
    let second = pool.allocate_on(&streams[1], 4096).unwrap();
    let owner = device.new_owner();
    write(&pool, streams[2], &block, owner);
    pool.free_on(&streams[2], block.handle()).unwrap();
    let fence = device.queue_record(streams[2]).unwrap();
    device.queue_wait(streams[1], &fence).unwrap();
    device.discard_fence(fence);
    let graphs: Vec<_> = streams[..2].iter().map(|&s| device.end_capture(s).unwrap()).collect();
    streams[..2].iter().for_each(|stream| pool.end_capture(stream).unwrap());

    // The other's release leaves its memory alone.
    pool.release_graph(GraphId(1)).unwrap();
    let next = pool.allocate_on(&streams[0], 2 * MIB).unwrap();
    write(&pool, streams[0], &next, device.new_owner());
    device.launch_graph(graphs[1], streams[1]).unwrap();
    pool.release_graph(GraphId(2)).unwrap();
    for block in [first, second, next] {
        pool.free(block.handle()).unwrap();
    }
    for graph in graphs {
        device.drop_graph(graph).unwrap();
    }
    end(&device, pool);
}

#[test]
fn a_block_that_a_captured_stream_uses_by_handle_waits_without_a_fence_of_the_capture() {
    let (device, pool) = pool(of(MIB));
    let (home, other) = (pool.create_stream().unwrap(), pool.create_stream().unwrap());
    let used = device.open_stream(StreamKind::NonBlocking);
    let block = pool.allocate_on(home, MIB).unwrap();
    pool.record_use(block.handle(), &used).unwrap();
    pool.begin_capture(&used, GraphId(1)).unwrap();
    device.begin_capture(used).unwrap();
    pool.free_on(other, block.handle()).unwrap();
    let graph = device.end_capture(used).unwrap();
    pool.end_capture(&used).unwrap();
    device.drop_graph(graph).unwrap();
    pool.release_graph(GraphId(1)).unwrap();
    let next = pool.allocate_on(home, MIB).unwrap();
    pool.free_on(home, next.handle()).unwrap();
    end(&device, pool);
}

#[test]
fn an_aligned_request_in_a_capture_is_served_by_the_first_call() {
    let (device, pool) = pool(of(4 * MIB));
    let stream = pool.create_stream().unwrap();
    let handle = pool.stream(stream).unwrap();
    pool.begin_capture(stream, GraphId(1)).unwrap();
    device.begin_capture(handle).unwrap();
    let mut blocks = Vec::new();
    for size_bytes in [100_000, 256, 4096, 20_000, 4096] {
        let request = Request::new(size_bytes).align_bytes(64 << 10);
        blocks.push(pool.allocate_on(stream, request).unwrap());
    }
    for block in blocks {
        pool.free_on(stream, block.handle()).unwrap();
    }
    let graph = device.end_capture(handle).unwrap();
    pool.end_capture(stream).unwrap();
    device.drop_graph(graph).unwrap();
    pool.release_graph(GraphId(1)).unwrap();
    end(&device, pool);
}

#[test]
fn a_refusal_for_want_of_addresses_says_so() {
    let config = PoolConfig::new().arena_bytes(8 * MIB);
    let (device, pool) = pool(config);
    let stream = pool.create_stream().unwrap();
    let held = pool.allocate_on(stream, 30 * MIB).unwrap();
    let Err(PoolError::OutOfMemory { shortage, .. }) = pool.allocate_on(stream, 16 * MIB) else {
        panic!("more than there are addresses for");
    };
    assert_eq!(shortage.remedy, Remedy::MoreAddresses, "{shortage}");
    pool.free_on(stream, held.handle()).unwrap();
    end(&device, pool);
}

/// A range that lies where no arena can be, and that the device then does not take back, is not
/// lost: it counts as reserved, and goes back later.
#[test]
fn a_range_that_cannot_be_entered_goes_back_in_the_end() {
    let device = SimDevice::new(SimConfig::new().misalign_bytes(512).without(Capabilities::EXTEND));
    let growth = Growth { ahead: None, ..Growth::new() };
    // Off by 512 bytes, the second one ends behind the last offset.
    let config = PoolConfig::new().growth(growth).arena_bytes(2 * MIB).address_bytes(4 * MIB);
    let pool = Pool::new(device.clone(), config).unwrap();
    let stream = pool.create_stream().unwrap();
    let held = pool.allocate_on(stream, MIB).unwrap();
    device.fail_next(Call::Free, 1);
    assert!(pool.allocate_on(stream, 2 * MIB).is_err());
    assert_eq!(device.injected(), 1, "it was not taken back");
    pool.verify().unwrap();
    assert_eq!(pool.stats().reserved_bytes, device.balance().bytes);
    pool.trim(0).unwrap();
    assert_eq!(pool.stats().reserved_bytes, 2 * MIB);
    pool.free_on(stream, held.handle()).unwrap();
    end(&device, pool);
}

/// A space that is being made for a new stream is not yet anybody's when another thread puts
/// together what is free.
#[test]
fn a_stream_that_is_being_made_has_nothing_of_others() {
    for _ in 0..20 {
        let (device, pool) = pool(of(8 * MIB));
        let home = pool.create_stream().unwrap();
        let low = pool.allocate_on(home, MIB).unwrap();
        std::thread::scope(|scope| {
            let creating = scope.spawn(|| {
                for _ in 0..40 {
                    pool.create_stream().unwrap();
                }
            });
            while !creating.is_finished() {
                assert!(pool.allocate_on(home, 9 * MIB).is_err());
            }
        });
        pool.free_on(home, low.handle()).unwrap();
        let whole = pool.allocate_on(home, 8 * MIB).unwrap();
        pool.free_on(home, whole.handle()).unwrap();
        end(&device, pool);
    }
}

#[test]
fn what_a_device_refused_is_in_no_peak() {
    let (device, pool) = pool(PoolConfig::new().arena_bytes(MIB));
    device.fail_next(Call::Allocate, 1);
    assert!(pool.allocate(16 * MIB).is_err());
    assert_eq!(pool.stats().peak_reserved_bytes, 0);
    let block = pool.allocate(MIB).unwrap();
    assert_eq!(pool.stats().peak_reserved_bytes, pool.stats().reserved_bytes);
    pool.free(block.handle()).unwrap();
    end(&device, pool);
}

#[test]
fn a_lower_limit_takes_the_last_idle_arena_too() {
    let apart = SimConfig::new().pacing(Pacing::Idle).without(Capabilities::EXTEND);
    let device = SimDevice::new(apart);
    let pool = Pool::new(device.clone(), PoolConfig::new().arena_bytes(4 * MIB)).unwrap();
    let stream = pool.create_stream().unwrap();
    let blocks = [2, 6].map(|size| pool.allocate_on(stream, size * MIB).unwrap());
    for block in blocks {
        pool.free_on(stream, block.handle()).unwrap();
    }
    assert!(pool.stats().arenas > 1);
    for _ in 0..2 {
        // Their memory waits for a fence, which passes with the next work.
        pool.set_limit(Some(MIB)).unwrap();
        device.run_all();
    }
    assert_eq!(pool.stats().reserved_bytes, 0);
    assert_eq!(pool.stats().limit_bytes, Some(MIB));
    end(&device, pool);
}
