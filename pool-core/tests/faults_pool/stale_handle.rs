//! Handles of what is gone.

use crate::support::{MIB, World, each_way};

/// A handle names its block whatever arenas come and go, and nothing once the block is freed.
#[test]
fn p099_a_handle_names_its_block_whatever_goes() {
    each_way(|way| {
        let world = World::new(way.device(), way.pool().arena_bytes(2 * MIB));
        let stream = world.stream();
        let mut buffers: Vec<_> = (0..6).map(|_| world.used(stream, 2 * MIB)).collect();
        let kept = buffers.remove(4);
        let (copy, place) = (kept.handle, world.pool.block(kept.handle).unwrap());
        let dead: Vec<_> = buffers.iter().map(|buffer| buffer.handle).collect();
        for buffer in buffers {
            world.free(stream, buffer);
            world.pool.trim_waiting(0).unwrap();
            assert_eq!(world.pool.block(copy), Ok(place));
            world.touch(&kept, world.raw(stream));
        }
        assert_eq!(world.pool.stats().arenas, 1);
        let again: Vec<_> = (0..6).map(|_| world.used(stream, 2 * MIB)).collect();
        for &handle in &dead {
            assert!(world.pool.block(handle).is_err());
            assert!(world.pool.location(handle).is_err());
            assert!(world.pool.free_on(stream, handle).is_err());
        }
        world.free(stream, kept);
        assert!(world.pool.free_on(stream, copy).is_err());
        for buffer in again {
            world.free(stream, buffer);
        }
        world.end();
    });
}
