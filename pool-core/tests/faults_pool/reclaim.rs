//! What is done comes back, whatever else is not.

use pool_core::On;
use pool_core::device::Call;

use crate::support::{KIB, LATE, MIB, each_way};

/// One slow stream, whose block was freed first, does not keep back what quick ones used.
#[test]
fn p042_a_slow_stream_holds_back_only_its_own() {
    each_way(|way| {
        for quick_blocks in [3_u64, 50, if way.deferred == LATE.deferred { 1000 } else { 100 }] {
            let block_bytes = 4 * KIB;
            let world = way.fixed((quick_blocks + 1) * block_bytes);
            let [home, slow, quick, quicker] = world.streams();
            let blocks: Vec<_> =
                (0..=quick_blocks).map(|_| world.used(home, block_bytes)).collect();
            for (place, block) in blocks.iter().enumerate() {
                world.share(
                    block,
                    [slow, quick, quicker][if place == 0 { 0 } else { 1 + place % 2 }],
                );
            }
            world.device.hold(world.raw(slow)).unwrap();
            world.touch(&blocks[0], world.raw(slow));
            let kept = blocks[0].offset_bytes;
            for block in blocks {
                world.free(home, block);
            }
            for _ in 0..2 {
                for done in [home, quick, quicker] {
                    world.device.host_wait_stream(world.raw(done)).unwrap();
                }
                world.pool.reclaim().unwrap();
            }
            // At most so many fences are asked for at a time.
            for _ in 0..quick_blocks / 32 {
                drop(world.pool.reclaim());
            }
            assert_eq!(world.pool.stats().deferred_bytes, block_bytes);
            let before = world.calls(Call::WaitOnHost);
            for _ in 0..quick_blocks {
                let block = world.used(home, block_bytes);
                assert_ne!(block.offset_bytes, kept);
            }
            assert_eq!(world.calls(Call::WaitOnHost), before);
            assert!(world.device.queued(world.raw(slow)).unwrap() > 0);
            world.device.go(world.raw(slow)).unwrap();
            world.check();
        }
    });
}

/// Nor do many: each of them has a block that waits, and all were freed before the quick ones.
#[test]
fn p042_many_slow_streams_hold_back_only_their_own() {
    for slow_streams in [1_u64, 63, 64, 65, 200] {
        let block_bytes = 4 * KIB;
        let world = LATE.fixed((slow_streams + 10) * block_bytes);
        let [home, quick] = world.streams();
        let slow: Vec<_> = (0..slow_streams).map(|_| world.stream()).collect();
        let blocked: Vec<_> = slow.iter().map(|_| world.used(home, block_bytes)).collect();
        for (block, &stream) in blocked.iter().zip(&slow) {
            world.share(block, stream);
            world.device.hold(world.raw(stream)).unwrap();
            world.touch(block, world.raw(stream));
        }
        let free: Vec<_> = (0..10).map(|_| world.used(home, block_bytes)).collect();
        for block in &free {
            world.share(block, quick);
        }
        for block in blocked {
            world.free(home, block);
        }
        world.pool.reclaim().unwrap();
        for block in free {
            world.free(home, block);
        }
        world.pool.reclaim().unwrap();
        world.device.host_wait_stream(world.raw(home)).unwrap();
        world.device.host_wait_stream(world.raw(quick)).unwrap();
        // A bounded look each time; some calls see everything.
        for _ in 0..=slow_streams / 32 {
            world.pool.reclaim().unwrap();
        }
        let waits = world.pool.stats().deferred_bytes;
        assert_eq!(waits, slow_streams * block_bytes, "with {slow_streams} slow streams");
        for _ in 0..10 {
            world.used(home, block_bytes);
        }
        assert_eq!(world.calls(Call::WaitOnHost), 0);
        world.check();
    }
}

/// A request that must wait for the host waits for what frees most, and no longer.
#[test]
fn p042_the_host_waits_for_what_frees_most() {
    let world = LATE.fixed(16 * MIB);
    let [home, small, large] = world.streams();
    let little = world.used(home, MIB);
    let much = world.used(home, 15 * MIB);
    for (block, stream) in [(&little, small), (&much, large)] {
        world.share(block, stream);
        world.device.hold(world.raw(stream)).unwrap();
        world.touch(block, world.raw(stream));
    }
    world.free(home, little);
    world.free(home, much);
    let clean = world.allocate(On::Nothing, 8 * MIB);
    assert!(world.device.queued(world.raw(small)).unwrap() > 0, "waited for too much");
    world.touch(&clean, world.foreign());
    world.free(On::Nothing, clean);
    world.end();
}
