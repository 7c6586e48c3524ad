//! Addresses, where bases are not what one hopes.

use pool_core::policy::Pages;
use pool_core::{On, PoolConfig, Request};
use pool_mock::device::SimConfig;

use crate::support::{GRANULE, KIB, LATE, MIB, World, each_way};

/// Addresses are aligned, whatever the arenas' bases are.
#[test]
fn p059_addresses_are_aligned_on_any_base() {
    for misalign in [0_u64, 1, 64, 256, 4096 + 64, MIB, 2 * MIB - 64] {
        for initial in [0, 8 * MIB] {
            let config = LATE.pool().initial_bytes(initial).arena_bytes(8 * MIB);
            let world = World::new(SimConfig::new().misalign_bytes(misalign), config);
            let stream = world.stream();
            let mut buffers = Vec::new();
            for align_bytes in [1, 256, 512, 4096, 64 * KIB, MIB, 2 * MIB] {
                for size_bytes in [100, 5000, 300 * KIB] {
                    for on in [On::Nothing, stream.into()] {
                        let request = Request::new(size_bytes).align_bytes(align_bytes);
                        let buffer = world.allocate(on, request);
                        let block = world.pool.block(buffer.handle).unwrap();
                        let address = world.pool.address(&block).unwrap();
                        assert_eq!(address % align_bytes.max(256), 0, "{misalign}: {request:?}");
                        world.touch(&buffer, world.raw(stream));
                        buffers.push(buffer);
                    }
                }
            }
            for buffer in buffers {
                world.free(On::Nothing, buffer);
            }
            world.end();
        }
    }
}

/// The address and the place in the arena are the same bytes.
#[test]
fn p059_address_and_place_agree() {
    use pool_core::Device;
    each_way(|way| {
        for misalign in [0, 64, 4096] {
            let config = way.pool().arena_bytes(2 * MIB);
            let world = World::new(way.device().misalign_bytes(misalign), config);
            let stream = world.stream();
            let buffers: Vec<_> = (0..20).map(|_| world.used(stream, 300 * KIB)).collect();
            for buffer in &buffers {
                let block = world.pool.block(buffer.handle).unwrap();
                let location = world.pool.location(buffer.handle).unwrap();
                let base = world.device.address(location.arena.range()).unwrap();
                assert_eq!(world.pool.address(&block), Some(base + location.offset_bytes));
                assert!(location.offset_bytes + block.size_bytes() <= location.arena.size_bytes());
            }
            for buffer in buffers {
                world.free(stream, buffer);
            }
            world.end();
        }
    });
}

/// A block that leaves a little of its pages, or nothing, is refused where it would not be aligned.
#[test]
fn p026_blocks_that_nearly_fill_pages_are_aligned() {
    const PAGE: u64 = 32 * KIB;
    let (mut served, mut refused) = (0, 0);
    for align_bytes in [512, 4096, PAGE] {
        for lacking in 1..=5 {
            for small in [100, 600] {
                let config = PoolConfig::new().pages(Pages::new());
                let config = config.initial_bytes(8 * PAGE).limit_bytes(8 * PAGE);
                let device = SimConfig::new().page_sizes(vec![PAGE]).memory_bytes(64 * MIB);
                let world = World::new(device, config);
                let [first, second] = world.streams();
                let stays = world.allocate(On::Nothing, small);
                let passes = world.used(first, 4 * PAGE);
                world.free(second, passes);
                let request = Request::new(8 * PAGE - lacking * GRANULE).align_bytes(align_bytes);
                match world.try_allocate(second, request) {
                    Ok(buffer) => {
                        let block = world.pool.block(buffer.handle).unwrap();
                        let address = world.pool.address(&block).unwrap();
                        assert_eq!(address % align_bytes, 0, "{request:?}");
                        world.free(second, buffer);
                        served += 1;
                    }
                    Err(_) => refused += 1,
                }
                world.free(On::Nothing, stays);
                world.end();
            }
        }
    }
    assert!(served > 0 && refused > 0, "{served} served, {refused} refused");
}
