//! Streams that are made known while others' calls are about them.

use pool_core::{PoolError, StreamId};
use pool_mock::device::{Pacing, SimStream, StreamKind};

use crate::explore::{Bound, Seen, explore};
use crate::world::{PATIENT, Stream, World};

/// Makes a stream of the program's known, or finds that it is.
#[expect(unsafe_code, reason = "the model retires the stream before it closes it")]
fn adopt(world: &World, raw: SimStream) -> (StreamId, bool) {
    // SAFETY: the caller retires it before it closes it.
    match unsafe { world.pool.adopt(raw) } {
        Ok(id) => (id, true),
        Err(PoolError::KnownStream(id)) => (id, false),
        Err(error) => panic!("{error}"),
    }
}

/// Two threads make one stream known: one of them does, and the name that the other is told is good at
/// once.
#[test]
fn two_who_make_one_stream_known() {
    static FIRST: Seen = Seen::new("the first makes it known");
    static SECOND: Seen = Seen::new("the second makes it known");
    let name = "two_who_make_one_stream_known";
    explore(name, Bound::Preemptions(2), &[&FIRST, &SECOND], |order| {
        let world = World::new(2, Pacing::Idle, PATIENT);
        let raw = world.device.open_stream(StreamKind::NonBlocking);
        let make = move |world: &World| {
            let (id, made) = adopt(world, raw);
            let stream = Stream { id, raw };
            let block = world.allocate(stream, 1);
            world.free(stream, block);
            (id, made)
        };
        let ((one, made), (other, made_by_other)) = order.race(&world, make, make);
        assert_eq!(one, other);
        assert_ne!(made, made_by_other);
        FIRST.note_if(made);
        SECOND.note_if(made_by_other);
        world.pool.retire(one).unwrap();
        world.device.close_stream(raw);
        world.finish();
    });
}
