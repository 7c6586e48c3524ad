//! Streams: their order, their names, their ends.

use std::collections::BTreeSet;

use super::case::listed;
use super::report::Outcome;
use super::trial::{Pace, Trial};
use super::world::{PIECE, World, demand};

listed! { "streams", Parts:
    work_of_a_stream_runs_in_order, [],
        "`Stream`: a queue of work that runs in order";
    living_streams_have_different_keys, [C::FENCES],
        "`stream_key`: two streams that exist at the same time have different ones";
    made_streams_are_streams, [C::STREAMS, C::FENCES],
        "`create_stream`: makes a stream, other than those that there are";
    a_destroyed_stream_runs_its_work, [C::STREAMS, C::FENCES],
        "`destroy_stream`: work that is queued still runs, and its fences last";
    to_destroy_a_stream_does_not_wait, [C::STREAMS, C::FENCES],
        "`destroy_stream`: ends a stream, whose work still runs";
    identities_are_never_used_twice, [C::STREAM_IDS],
        "`stream_id`: an identity that no other stream ever had or will have";
    no_stream_is_captured, [],
        "`capture_id`: the capture that a stream is in; here none is in any";
}

fn work_of_a_stream_runs_in_order<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    for mark in 1..=16 {
        let pace = if mark == 1 { Pace::Slow } else { Pace::Soon };
        world.fill(&queue, &memory, mark, pace)?;
    }
    world.settle()?;
    world.expect(&memory, 16, "after sixteen marks in a row")
}

fn living_streams_have_different_keys<D: Trial>(world: &World<D>) -> Outcome {
    for _ in 0..3 {
        let queues = (0..8).map(|_| world.queue()).collect::<Result<Vec<_>, _>>()?;
        let mut keys = BTreeSet::new();
        for queue in &queues {
            let key = world.stream_key(&queue.stream);
            demand(world.stream_key(&queue.stream.clone()) == key, || {
                format!("the stream {key:#x} has another key as a clone")
            })?;
            demand(keys.insert(key), || format!("two streams have the key {key:#x}"))?;
        }
    }
    Ok(())
}

fn made_streams_are_streams<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, ranges) = (world.queue()?, [world.memory(PIECE)?, world.memory(PIECE)?]);
    let mut keys = BTreeSet::from([world.stream_key(&queue.stream)]);
    let made = [world.create_stream()?, world.create_stream()?];
    for (stream, mark) in made.iter().zip(1..) {
        let key = world.stream_key(stream);
        demand(keys.insert(key), || format!("another stream has the key {key:#x}"))?;
        let memory = &ranges[usize::from(mark > 1)];
        world.mark(stream, memory.range(), 0, PIECE, mark, Pace::Slow)?;
        let fence = world.record(stream)?;
        let waited = world.wait_on_host(&fence);
        world.discard(fence);
        waited?;
        world.expect(memory, mark, "behind the work of a stream that the device made")?;
    }
    for stream in &made {
        world.destroy_stream(stream)?;
    }
    Ok(())
}

fn a_destroyed_stream_runs_its_work<D: Trial>(world: &World<D>) -> Outcome {
    let memory = world.memory(PIECE)?;
    for mark in 1..=4 {
        let stream = world.create_stream()?;
        world.mark(&stream, memory.range(), 0, PIECE, mark, Pace::Slow)?;
        let fence = world.record(&stream)?;
        world.destroy_stream(&stream)?;
        let waited = if mark % 2 == 0 { world.synchronize() } else { world.wait_on_host(&fence) };
        world.discard(fence);
        waited?;
        world.expect(&memory, mark, "when a stream that was destroyed had to be done")?;
    }
    Ok(())
}

fn to_destroy_a_stream_does_not_wait<D: Trial>(world: &World<D>) -> Outcome {
    let memory = world.memory(PIECE)?;
    world.does_not_wait("the end of a stream", &memory, |mark| {
        let stream = world.create_stream()?;
        world.mark(&stream, memory.range(), 0, PIECE, mark, Pace::Slow)?;
        Ok(world.destroy_stream(&stream)?)
    })
}

fn identities_are_never_used_twice<D: Trial>(world: &World<D>) -> Outcome {
    let mut ids = BTreeSet::new();
    for _ in 0..16 {
        // What is gone makes place, and must not be mistaken for what comes.
        let queues = [world.queue()?, world.queue()?];
        for queue in &queues {
            let id = world.stream_id(&queue.stream)?;
            let again = world.stream_id(&queue.stream)?;
            demand(id == again, || format!("a stream has the identity {id}, and then {again}"))?;
            demand(ids.insert(id), || format!("two streams have the identity {id}"))?;
        }
    }
    Ok(())
}

fn no_stream_is_captured<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    let capture = world.capture_id(&queue.stream)?;
    demand(capture.is_none(), || format!("an idle stream is in the capture {capture:?}"))?;
    world.fill(&queue, &memory, 1, Pace::Slow)?;
    let capture = world.capture_id(&queue.stream)?;
    world.hurry();
    world.settle()?;
    demand(capture.is_none(), || format!("a busy stream is in the capture {capture:?}"))
}
