//! Fences: done when their work is, waited for by the host and by streams.

use super::case::listed;
use super::report::Outcome;
use super::trial::{Pace, Trial};
use super::world::{PIECE, World, demand};

listed! { "fences", Parts:
    slow_work_is_slow, [C::FENCES],
        "`Trial::mark`: slow work lasts while some dozens of calls are made, and no call but a wait \
         waits for it";
    a_fence_is_done_after_its_work, [C::FENCES],
        "`record`, `is_done`: a fence is behind all work that is queued in the stream, and done when \
         that is";
    asking_does_not_wait, [C::FENCES],
        "`record`, `is_done`: do not wait";
    the_host_waits_for_a_fence, [C::FENCES],
        "`wait_on_host`: has the host wait for a fence";
    a_stream_waits_for_a_fence, [C::FENCES],
        "`wait`: a stream waits for a fence before it runs what is queued in it from then on";
    a_wait_of_a_stream_is_not_the_hosts, [C::FENCES],
        "`wait`: the host does not wait";
    a_fence_carries_what_its_stream_waited_for, [C::FENCES],
        "`wait`, `record`: a fence is behind what its stream waits for, too";
    a_stream_may_wait_for_itself, [C::FENCES],
        "`wait`: also for a fence of the stream's own, which changes nothing";
    the_host_waits_for_everything, [C::FENCES],
        "`synchronize`: has the host wait for all work of the device so far";
    a_fence_behind_everything_covers_all_streams, [C::FENCES],
        "`record_all`: fences behind all work of the device so far, on whatever streams";
    a_fence_outlasts_its_stream, [C::FENCES],
        "`Fence`: lasts longer than its stream";
    a_fence_may_be_discarded_before_it_is_done, [C::FENCES],
        "`discard`: takes a fence back that nobody needs any more, done or not";
    fences_come_back, [C::FENCES],
        "`discard`: takes a fence back, so that there are always more";
}

fn slow_work_is_slow<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    world.does_not_wait("a dozen looks at memory", &memory, |mark| {
        world.fill(&queue, &memory, mark, Pace::Slow)?;
        for _ in 0..12 {
            let _ = world.look(memory.range(), 0, PIECE, mark)?;
        }
        Ok(())
    })
}

fn a_fence_is_done_after_its_work<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    for mark in 1..=3 {
        world.fill(&queue, &memory, mark, Pace::Slow)?;
        let point = world.point(&queue)?;
        for _ in 0..3 {
            if world.is_done(point.fence())? {
                world.expect(&memory, mark, "when the fence was done at once")?;
            }
        }
        world.until("the fence done", || world.is_done(point.fence()))?;
        world.expect(&memory, mark, "when the fence was done")?;
        demand(world.is_done(point.fence())?, || "the fence was done, and then was not".into())?;
    }
    Ok(())
}

fn asking_does_not_wait<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    world.does_not_wait("fences that were recorded and asked for", &memory, |mark| {
        world.fill(&queue, &memory, mark, Pace::Slow)?;
        for _ in 0..4 {
            let point = world.point(&queue)?;
            world.is_done(point.fence())?;
        }
        Ok(())
    })
}

fn the_host_waits_for_a_fence<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    for mark in 1..=3 {
        world.fill(&queue, &memory, mark, Pace::Slow)?;
        let point = world.point(&queue)?;
        world.wait_on_host(point.fence())?;
        world.expect(&memory, mark, "when the host had waited")?;
        world.wait_on_host(point.fence())?;
        let done = world.is_done(point.fence())?;
        demand(done, || "the host had waited for the fence, and it is not done".into())?;
    }
    Ok(())
}

/// The later mark wins: whoever did not wait is overwritten.
fn a_stream_waits_for_a_fence<D: Trial>(world: &World<D>) -> Outcome {
    let (first, second, memory) = (world.queue()?, world.queue()?, world.memory(PIECE)?);
    for mark in [1, 3, 5] {
        world.fill(&first, &memory, mark, Pace::Slow)?;
        let point = world.point(&first)?;
        world.wait(&second.stream, point.fence())?;
        world.fill(&second, &memory, mark + 1, Pace::Soon)?;
        let last = world.point(&second)?;
        // The waits were told, so the fences are not needed any more.
        drop(point);
        world.wait_on_host(last.fence())?;
        world.expect(&memory, mark + 1, "in the stream that waited")?;
        world.settle()?;
        world.expect(&memory, mark + 1, "when what was waited for had to be done long since")?;
    }
    Ok(())
}

fn a_wait_of_a_stream_is_not_the_hosts<D: Trial>(world: &World<D>) -> Outcome {
    let (first, second, memory) = (world.queue()?, world.queue()?, world.memory(PIECE)?);
    world.does_not_wait("a stream's wait", &memory, |mark| {
        world.fill(&first, &memory, mark, Pace::Slow)?;
        let point = world.point(&first)?;
        Ok(world.wait(&second.stream, point.fence())?)
    })
}

fn a_fence_carries_what_its_stream_waited_for<D: Trial>(world: &World<D>) -> Outcome {
    let queues = [world.queue()?, world.queue()?, world.queue()?];
    let memory = world.memory(PIECE)?;
    world.fill(&queues[0], &memory, 1, Pace::Slow)?;
    let mut point = world.point(&queues[0])?;
    for queue in &queues[1..] {
        world.wait(&queue.stream, point.fence())?;
        point = world.point(queue)?;
    }
    if world.is_done(point.fence())? {
        world.expect(&memory, 1, "when the last fence of a chain was done")?;
    }
    world.wait_on_host(point.fence())?;
    world.expect(&memory, 1, "when the host had waited for the last fence of a chain")
}

fn a_stream_may_wait_for_itself<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    world.fill(&queue, &memory, 1, Pace::Slow)?;
    let point = world.point(&queue)?;
    world.wait(&queue.stream, point.fence())?;
    world.fill(&queue, &memory, 2, Pace::Soon)?;
    let last = world.point(&queue)?;
    world.wait_on_host(last.fence())?;
    world.expect(&memory, 2, "behind the stream's own fence")
}

fn the_host_waits_for_everything<D: Trial>(world: &World<D>) -> Outcome {
    let queues = [world.queue()?, world.queue()?, world.queue()?, world.queue()?];
    let ranges = [world.memory(PIECE)?, world.memory(PIECE)?, world.memory(PIECE)?];
    let last = world.memory(PIECE)?;
    for mark in 1..=3 {
        for (queue, memory) in queues.iter().zip(&ranges) {
            world.fill(queue, memory, mark, Pace::Slow)?;
        }
        // A stream that is gone counts, too.
        let gone = world.queue()?;
        world.fill(&gone, &last, mark, Pace::Slow)?;
        drop(gone);
        world.synchronize()?;
        for memory in ranges.iter().chain([&last]) {
            world.expect(memory, mark, "when the host had waited for everything")?;
        }
    }
    Ok(())
}

fn a_fence_behind_everything_covers_all_streams<D: Trial>(world: &World<D>) -> Outcome {
    let queues = [world.queue()?, world.queue()?, world.queue()?];
    let ranges = [world.memory(PIECE)?, world.memory(PIECE)?];
    let last = world.memory(PIECE)?;
    for round in 0..3 {
        let mark = round + 1;
        for (queue, memory) in queues.iter().zip(&ranges) {
            world.fill(queue, memory, mark, Pace::Slow)?;
        }
        let gone = world.queue()?;
        world.fill(&gone, &last, mark, Pace::Slow)?;
        drop(gone);
        let fences = world.record_all()?;
        let waited = fences.iter().try_for_each(|fence| match round {
            0 => world.wait_on_host(fence),
            // By a stream that has nothing to do itself.
            _ => world.wait(&queues[2].stream, fence),
        });
        for fence in fences {
            world.discard(fence);
        }
        waited?;
        world.wait_on_host(world.point(&queues[2])?.fence())?;
        for memory in ranges.iter().chain([&last]) {
            world.expect(memory, mark, "when every fence of `record_all` had been waited for")?;
        }
    }
    Ok(())
}

fn a_fence_outlasts_its_stream<D: Trial>(world: &World<D>) -> Outcome {
    let (other, memory) = (world.queue()?, world.memory(PIECE)?);
    for mark in [1, 3, 5] {
        let queue = world.queue()?;
        world.fill(&queue, &memory, mark, Pace::Slow)?;
        let point = world.point(&queue)?;
        drop(queue);
        if world.is_done(point.fence())? {
            world.expect(&memory, mark, "when the fence of a stream that is gone was done")?;
        }
        world.wait(&other.stream, point.fence())?;
        world.wait_on_host(point.fence())?;
        world.expect(
            &memory,
            mark,
            "when the host had waited for the fence of a stream that is gone",
        )?;
        world.fill(&other, &memory, mark + 1, Pace::Soon)?;
        world.settle()?;
        world.expect(&memory, mark + 1, "in a stream that waited for one that is gone")?;
    }
    Ok(())
}

fn a_fence_may_be_discarded_before_it_is_done<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    world.does_not_wait("the discard of a fence", &memory, |mark| {
        world.fill(&queue, &memory, mark, Pace::Slow)?;
        drop(world.point(&queue)?);
        Ok(())
    })?;
    world.fill(&queue, &memory, 99, Pace::Slow)?;
    let early = world.point(&queue)?;
    // Whoever uses a fence's place again must not find it done.
    drop(early);
    let late = world.point(&queue)?;
    world.wait_on_host(late.fence())?;
    world.expect(&memory, 99, "when the fence after a discarded one was waited for")
}

fn fences_come_back<D: Trial>(world: &World<D>) -> Outcome {
    let queue = world.queue()?;
    for _ in 0..4096 {
        let point = world.point(&queue)?;
        world.is_done(point.fence())?;
    }
    world.settle()?;
    Ok(())
}
