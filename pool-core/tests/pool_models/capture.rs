//! Captures that begin while others' calls are under way.

use pool_core::GraphId;
use pool_mock::device::Pacing;

use crate::explore::{Bound, Seen, explore};
use crate::world::{PATIENT, World};

/// A stream is captured while another thread takes back what is done: once the pool knows of the
/// capture, it asks and waits for nothing, which would break it.
#[test]
fn a_capture_against_the_poll() {
    static CLOSED: Seen = Seen::new("closed and not asked for");
    static FREED: Seen = Seen::new("freed");
    explore("a_capture_against_the_poll", Bound::Preemptions(3), &[&CLOSED, &FREED], |order| {
        let world = World::new(1, Pacing::Eager, PATIENT);
        let (owner, other) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        let capture = move |world: World| {
            world.pool.begin_capture(owner.id, GraphId(1)).unwrap();
            world.turn();
            world.device.begin_capture(owner.raw).unwrap();
            world.turn();
            let graph = world.device.end_capture(owner.raw).expect("the capture is whole");
            world.pool.end_capture(owner.id).unwrap();
            world.device.drop_graph(graph).unwrap();
            world.pool.release_graph(GraphId(1)).unwrap();
        };
        let reclaim = move |world: World| {
            world.free(other, block);
            world.pool.reclaim().unwrap()
        };
        let ((), reclaimed) = order.race(world.clone(), capture, reclaim);
        CLOSED.note_if(reclaimed.deferred_bytes > 0);
        FREED.note_if(reclaimed.freed_bytes > 0);
        world.allocate(owner, 1);
        world.finish();
    });
}
