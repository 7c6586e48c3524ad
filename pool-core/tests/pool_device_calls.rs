//! What a pool calls the device for, counted by the device.

#[path = "faults_pool/support.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod support;
#[path = "common/threads.rs"]
mod threads;

use pool_core::device::Call;
use pool_core::{Deferred, On, Request};

use support::{KIB, LATE, MIB, World, each_way};
use threads::on_threads;

/// With one stream nothing is called once the memory is there, whatever the sizes.
#[test]
fn one_stream_makes_no_calls() {
    each_way(|way| {
        let world = way.fixed(16 * MIB);
        let stream = world.stream();
        let mut random = fastrand::Rng::with_seed(1);
        let mut live = Vec::new();
        let first = world.allocate(stream, 16 * MIB);
        world.free(stream, first);
        let before = world.device.calls();
        for _ in 0..3000 {
            if live.len() < 60 && random.bool() {
                let bits = random.u32(8..18);
                let size_bytes = random.u64(1..=1 << bits);
                let align_bytes = 1 << random.u32(0..13);
                let request = Request::new(size_bytes).align_bytes(align_bytes);
                live.push(world.used(stream, request));
            } else if !live.is_empty() {
                let buffer = live.swap_remove(random.usize(0..live.len()));
                world.free(stream, buffer);
            }
        }
        for buffer in live {
            world.free(stream, buffer);
        }
        assert_eq!(world.device.calls().since(&before).total(), 0);
        world.end();
    });
}

/// Several streams that each use their own memory make none either, where there is no limit; where
/// memory is short, it is moved rather than refused.
#[test]
fn streams_on_their_own_make_no_calls() {
    each_way(|way| {
        for fixed in [false, true] {
            let world = if fixed { way.fixed(16 * MIB) } else { way.growing() };
            let streams: [_; 4] = world.streams();
            let round = |size_bytes| {
                let buffers = streams.map(|stream| (stream, world.used(stream, size_bytes)));
                for (stream, buffer) in buffers {
                    world.free(stream, buffer);
                }
            };
            let sizes = [MIB, 4 * KIB, 300];
            for _ in 0..3 {
                sizes.into_iter().for_each(round);
            }
            let before = world.device.calls();
            for _ in 0..300 {
                sizes.into_iter().for_each(round);
            }
            let calls = world.device.calls().since(&before).total();
            let most = if fixed { 300 * 12 } else { 0 };
            assert!(calls <= most, "{calls} calls, fixed: {fixed}");
            world.end();
        }
    });
}

/// A hit on several threads that share one stream.
#[test]
fn threads_on_one_stream_make_no_calls() {
    let device = LATE.device().detector(false).marks(false);
    let world = World::new(device, LATE.pool().initial_bytes(64 * MIB).limit_bytes(64 * MIB));
    let stream = world.stream();
    let first = world.allocate(stream, 64 * MIB);
    world.free(stream, first);
    let before = world.device.calls();
    on_threads(4, |_| {
        for round in 0..2000_u64 {
            let block = world.pool.allocate_on(stream, 300 << (round % 10)).unwrap();
            world.pool.free_on(stream, block.handle()).unwrap();
        }
    });
    assert_eq!(world.device.calls().since(&before).total(), 0);
    world.end();
}

/// P092: the number of fences does not grow with how often a use is declared.
#[test]
fn p092_fences_do_not_grow_with_declarations() {
    let fences = [1, 10, 1000, 100_000].map(|times| {
        let world = LATE.fixed(MIB);
        let [home, one, other] = world.streams();
        let buffer = world.used(home, MIB);
        let before = world.device.calls();
        for time in 0..times {
            world.pool.record_use(buffer.handle, [one, other][time % 2]).unwrap();
        }
        assert_eq!(world.device.calls().since(&before).total(), 0);
        world.share(&buffer, one);
        world.share(&buffer, other);
        world.free(home, buffer);
        world.pass(home, MIB);
        let fences = world.device.calls().since(&before).of(Call::Record);
        world.end();
        fences
    });
    assert!(fences[0] <= 3 && fences == [fences[0]; 4], "{fences:?}");
}

/// P100: fences that exist at a time are few, over many blocks that each have a use elsewhere.
#[test]
fn p100_fences_are_bounded_over_many_blocks() {
    for (deferred, blocks) in
        [(Deferred::Queue { blocks: 256, bytes: u64::MAX }, 100_000), (Deferred::AtOnce, 10_000)]
    {
        let device = LATE.device().pacing(pool_mock::device::Pacing::Lag(64));
        let config = LATE.pool().deferred(deferred).initial_bytes(MIB).limit_bytes(MIB);
        let world = World::new(device.detector(false).marks(false), config);
        let [home, side, third] = world.streams();
        let (mut most, mut most_deferred) = (0, 0);
        for round in 0..blocks {
            let block = world.pool.allocate_on(home, 4 * KIB).unwrap();
            world.pool.record_use(block.handle(), side).unwrap();
            match round % 10 {
                0 => world.pool.free(block.handle()),
                1 => world.pool.free_on(third, block.handle()),
                _ => world.pool.free_on(home, block.handle()),
            }
            .unwrap();
            if round % 16 == 0 {
                most = most.max(world.device.balance().fences);
                most_deferred = most_deferred.max(world.pool.stats().deferred_blocks);
            }
        }
        let calls = world.device.calls();
        println!(
            "{blocks} blocks, {deferred:?}: at most {most} fences and {most_deferred} blocks wait; \
             {} records, {} queries, {} waits",
            calls.of(Call::Record) + calls.of(Call::RecordAll),
            calls.of(Call::IsDone),
            calls.of(Call::Wait) + calls.of(Call::WaitOnHost),
        );
        assert!(most <= 300, "{most} fences at a time");
        world.end();
    }
}

/// What a stream takes of another's memory costs a fence and a wait, not one for each block.
#[test]
fn memory_that_moves_costs_few_calls() {
    each_way(|way| {
        let world = way.fixed(16 * MIB);
        let [one, other] = world.streams();
        for turn in 0..10 {
            let stream = [one, other][turn % 2];
            let before = world.device.calls();
            let buffers: Vec<_> = (0..15).map(|_| world.used(stream, MIB)).collect();
            for buffer in buffers {
                world.free(stream, buffer);
            }
            let calls = world.device.calls().since(&before);
            let moves = calls.of(Call::Record) + calls.of(Call::Wait) + calls.of(Call::WaitOnHost);
            assert!(moves <= 40, "{calls:?}");
        }
        world.end();
    });
}

/// A request without a stream is no reason to ask for anything while there is clean memory.
#[test]
fn clean_memory_costs_no_calls() {
    each_way(|way| {
        let world = way.fixed(16 * MIB);
        let before = world.device.calls();
        let buffers: Vec<_> = (0..16).map(|_| world.allocate(On::Nothing, MIB)).collect();
        assert_eq!(world.device.calls().since(&before).total(), 0);
        for buffer in buffers {
            world.free(On::Nothing, buffer);
        }
        // Frees without a stream are fenced together.
        let before = world.device.calls();
        let whole = world.allocate(On::Nothing, 16 * MIB);
        let calls = world.device.calls().since(&before);
        assert!(calls.of(Call::RecordAll) <= 16, "{calls:?}");
        world.free(On::Nothing, whole);
        world.end();
    });
}
