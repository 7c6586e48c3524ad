//! Work for the device that grows with what it need not grow with.

use pool_core::device::Call;

use crate::support::{KIB, MIB, each_way};

/// A use that is declared again costs nothing; the fences of a block are at most as many as its
/// streams.
#[test]
fn p092_a_use_that_is_declared_again_costs_nothing() {
    each_way(|way| {
        for (notes, streams) in [(10_000_usize, 2), (100, 7)] {
            let world = way.fixed(MIB);
            let home = world.stream();
            let others: Vec<_> = (0..streams).map(|_| world.stream()).collect();
            let unknown = world.foreign();
            let buffer = world.used(home, MIB);
            let before = world.device.calls();
            for note in 0..notes {
                world.pool.record_use(buffer.handle, others[note % streams]).unwrap();
                world.pool.record_use(buffer.handle, home).unwrap();
                if note % 10 == 0 {
                    world.pool.record_use(buffer.handle, &unknown).unwrap();
                }
            }
            let declared = world.device.calls().since(&before);
            assert_eq!(declared.of(Call::Record) + declared.of(Call::IsDone), 0);
            for &other in &others {
                world.share(&buffer, other);
            }
            world.free(home, buffer);
            world.pass(home, MIB);
            let calls = world.device.calls().since(&before);
            assert!(calls.of(Call::Record) <= streams as u64 + 2, "{calls:?}");
            world.end();
        }
    });
}

/// What many blocks wait for is recorded once for all of them.
#[test]
fn p092_one_fence_is_for_many_blocks() {
    each_way(|way| {
        let world = way.fixed(4 * MIB);
        let [home, side] = world.streams();
        let buffers: Vec<_> = (0..1000).map(|_| world.allocate(home, 4 * KIB)).collect();
        for buffer in &buffers {
            world.pool.record_use(buffer.handle, side).unwrap();
        }
        let before = world.device.calls();
        for buffer in buffers {
            world.free(home, buffer);
        }
        world.pass(home, 4 * MIB);
        let records = world.device.calls().since(&before).of(Call::Record);
        let most = match way.deferred {
            pool_core::Deferred::Queue { blocks, .. } if blocks > 2 => 2,
            // As often as the program wants it.
            _ => 2001,
        };
        assert!(records <= most, "{records} records");
        world.end();
    });
}
