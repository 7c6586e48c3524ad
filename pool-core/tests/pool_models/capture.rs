//! Captures that begin while others' calls are under way.

use pool_core::GraphId;
use pool_mock::device::Pacing;

use crate::explore::{Bound, Seen, explore};
use crate::world::{PATIENT, Stream, World};

/// Captures nothing: the capture must be whole in the end.
fn capture(world: &World, stream: Stream) {
    world.pool.begin_capture(stream.id, GraphId(1)).unwrap();
    world.turn();
    world.device.begin_capture(stream.raw).unwrap();
    world.turn();
    let graph = world.device.end_capture(stream.raw).expect("the capture is whole");
    world.pool.end_capture(stream.id).unwrap();
    world.device.drop_graph(graph).unwrap();
    world.pool.release_graph(GraphId(1)).unwrap();
}

/// A stream is captured while another thread takes back what is done: once the pool knows of the
/// capture, it asks and waits for nothing, which would break it.
#[test]
fn a_capture_against_the_poll() {
    static CLOSED: Seen = Seen::new("closed and not asked for");
    static FREED: Seen = Seen::new("freed");
    explore("a_capture_against_the_poll", Bound::Preemptions(2), &[&CLOSED, &FREED], |order| {
        let world = World::new(1, Pacing::Eager, PATIENT);
        let (owner, other) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        let reclaim = move |world: &World| {
            world.free(other, block);
            world.pool.reclaim().unwrap()
        };
        let capture = move |world: &World| capture(&world, owner);
        let ((), reclaimed) = order.race(&world, capture, reclaim);
        CLOSED.note_if(reclaimed.deferred_bytes > 0);
        FREED.note_if(reclaimed.freed_bytes > 0);
        world.allocate(owner, 1);
        world.finish();
    });
}

/// A stream is captured while another takes its memory: no fence is recorded in the capture, and
/// nobody outside waits for one.
#[test]
fn a_capture_against_a_steal() {
    static STOLEN: Seen = Seen::new("stolen");
    explore("a_capture_against_a_steal", Bound::Preemptions(2), &[&STOLEN], |order| {
        let world = World::new(1, Pacing::Idle, PATIENT);
        let (old, new) = (world.stream(), world.stream());
        let block = world.allocate(old, 1);
        world.free(old, block);
        let capture = move |world: &World| capture(&world, old);
        let steal = move |world: &World| world.try_allocate(new, 1).is_ok();
        let ((), stolen) = order.race(&world, capture, steal);
        STOLEN.note_if(stolen);
        if !stolen {
            world.allocate(new, 1);
        }
        world.finish();
    });
}
