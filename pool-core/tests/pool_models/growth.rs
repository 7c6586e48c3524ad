//! Threads that take memory from the device, or give it back, at once.

use pool_core::PoolConfig;
use pool_mock::device::Pacing;

use crate::explore::{Bound, Order, Seen, explore};
use crate::world::{GRANULE, PATIENT, World};

/// The least that a pool takes from the device.
const ARENA: u64 = 2 * GRANULE;

/// Two streams allocate in a pool that has nothing and may take so much. What was refused is
/// served once both have come to an end.
fn two_grow(order: Order, limit_bytes: u64) -> (bool, bool, u64) {
    let config = PoolConfig::new().arena_bytes(ARENA).limit_bytes(limit_bytes);
    let world = World::of(config, Pacing::Idle, PATIENT);
    let (first, second) = (world.stream(), world.stream());
    // The tables of all granules: what makes them, the checker does not know.
    let blocks = [(); 4].map(|()| world.try_allocate(first, 1).ok());
    blocks.into_iter().flatten().for_each(|block| world.free(first, block));
    world.pool.trim_waiting(0).unwrap();
    assert_eq!(world.device.balance().bytes, 0);
    let one = move |world: &World| world.try_allocate(first, 1).is_ok();
    let other = move |world: &World| world.try_allocate(second, 1).is_ok();
    let (one, other) = order.race(&world, one, other);
    for (served, stream) in [(one, first), (other, second)] {
        if !served {
            world.allocate(stream, 1);
        }
    }
    let stats = world.pool.stats();
    assert!(stats.peak_reserved_bytes <= limit_bytes, "more than the limit: {stats:?}");
    assert_eq!(world.device.balance().bytes, stats.reserved_bytes);
    world.finish();
    (one, other, stats.arenas)
}

/// There is room for both to grow: both are served, from one arena or two. Unless one of them
/// takes what the other brought.
#[test]
fn two_threads_grow_within_the_limit() {
    static ONE: Seen = Seen::new("one arena");
    static TWO: Seen = Seen::new("two arenas");
    explore("two_threads_grow_within_the_limit", Bound::Preemptions(2), &[&ONE, &TWO], |order| {
        let (one, other, arenas) = two_grow(order, 2 * ARENA);
        assert!(one || other, "both were refused");
        ONE.note_if(arenas == 1);
        TWO.note_if(arenas == 2);
    });
}

/// There is room for one of them to grow, which has enough for both.
#[test]
fn two_threads_grow_to_the_limit() {
    static SERVED: Seen = Seen::new("both served");
    explore("two_threads_grow_to_the_limit", Bound::Preemptions(2), &[&SERVED], |order| {
        let (one, other, arenas) = two_grow(order, ARENA);
        assert!(one || other, "both were refused");
        assert_eq!(arenas, 1);
        SERVED.note_if(one && other);
    });
}

/// All that is idle is given back while a stream allocates: it has the arena, or another.
#[test]
fn a_trim_against_an_allocation() {
    static KEPT: Seen = Seen::new("kept");
    static RELEASED: Seen = Seen::new("released");
    explore("a_trim_against_an_allocation", Bound::Preemptions(2), &[&KEPT, &RELEASED], |order| {
        let world = World::new(2, Pacing::Eager, PATIENT);
        let (old, new) = (world.stream(), world.stream());
        let block = world.allocate(old, 2);
        world.free(old, block);
        let trim = |world: &World| world.pool.trim(0).unwrap();
        let allocate = move |world: &World| world.try_allocate(new, 1).is_ok();
        let (trimmed, served) = order.race(&world, trim, allocate);
        KEPT.note_if(trimmed.released_bytes == 0);
        RELEASED.note_if(trimmed.released_bytes > 0);
        if !served {
            world.allocate(new, 1);
        }
        assert_eq!(world.device.balance().bytes, world.pool.stats().reserved_bytes);
        world.finish();
    });
}

/// A block is used and freed while all that is idle is given back: not that, before it is done.
#[test]
fn a_trim_against_a_free() {
    static EARLY: Seen = Seen::new("before the free");
    static PENDING: Seen = Seen::new("pending");
    explore("a_trim_against_a_free", Bound::None, &[&EARLY, &PENDING], |order| {
        let world = World::new(1, Pacing::Idle, PATIENT);
        let stream = world.stream();
        let block = world.allocate(stream, 1);
        let trim = |world: &World| world.pool.trim(0).unwrap();
        let free = move |world: &World| world.free(stream, block);
        let (trimmed, ()) = order.race(&world, trim, free);
        assert_eq!(trimmed.released_bytes, 0, "given back while it is in use");
        EARLY.note_if(trimmed.pending_bytes == 0);
        PENDING.note_if(trimmed.pending_bytes > 0);
        world.finish();
    });
}
