//! Copies between ranges, in a stream.

use super::case::listed;
use super::report::Outcome;
use super::trial::{Pace, Trial};
use super::world::{PIECE, World};

listed! { "copies", Parts:
    bytes_go_where_they_should, [C::COPY],
        "`copy`: copies bytes from one place to another, and no others";
    a_copy_is_in_its_streams_order, [C::COPY],
        "`copy`: in a stream, after what is queued there and before what comes";
    a_copy_is_before_the_next_fence, [C::COPY, C::FENCES],
        "`copy`, `record`: a fence is behind the copies in its stream";
    a_copy_waits_for_what_its_stream_does, [C::COPY, C::FENCES],
        "`copy`, `wait`: a copy comes after what its stream waits for";
    a_copy_does_not_hold_up_the_host, [C::COPY, C::FENCES],
        "`copy`: is queued, and the host goes on";
}

/// A part of a piece.
const PART: u64 = PIECE / 8;

fn bytes_go_where_they_should<D: Trial>(world: &World<D>) -> Outcome {
    let queue = world.queue()?;
    let (one, other) = (world.memory(PIECE)?, world.memory(PIECE)?);
    for (place, mark) in (0..8).zip(1..) {
        world.mark(&queue.stream, one.range(), place * PART, PART, mark, Pace::Soon)?;
    }
    world.fill(&queue, &other, 99, Pace::Soon)?;
    // There, from elsewhere than to; back; and from a range to itself.
    world.copy(&queue.stream, (one.range(), 2 * PART), (other.range(), 5 * PART), 2 * PART)?;
    world.copy(&queue.stream, (one.range(), 0), (other.range(), 0), 256)?;
    world.copy(&queue.stream, (other.range(), 5 * PART), (one.range(), 6 * PART), PART)?;
    world.copy(&queue.stream, (one.range(), 7 * PART), (one.range(), 0), PART)?;
    world.settle()?;
    let found = [(0, 256, 1), (256, 5 * PART - 256, 99), (5 * PART, PART, 3), (6 * PART, PART, 4)];
    for (offset, bytes, mark) in found {
        world.expect_at(other.range(), offset, bytes, mark, "where bytes were copied to")?;
    }
    world.expect_at(other.range(), 7 * PART, PART, 99, "behind what was copied")?;
    for (place, mark) in [8, 2, 3, 4, 5, 6, 3, 8].into_iter().enumerate() {
        let offset = place as u64 * PART;
        world.expect_at(one.range(), offset, PART, mark, "in what was copied from and to")?;
    }
    Ok(())
}

fn a_copy_is_in_its_streams_order<D: Trial>(world: &World<D>) -> Outcome {
    let queue = world.queue()?;
    let (from, to) = (world.memory(PIECE)?, world.memory(PIECE)?);
    world.fill(&queue, &from, 1, Pace::Soon)?;
    world.settle()?;
    world.fill(&queue, &from, 2, Pace::Slow)?;
    world.copy(&queue.stream, (from.range(), 0), (to.range(), 0), PIECE)?;
    world.fill(&queue, &from, 3, Pace::Soon)?;
    world.settle()?;
    world.expect(&to, 2, "in a copy between two marks")?;
    world.expect(&from, 3, "in what was copied and then marked")
}

fn a_copy_is_before_the_next_fence<D: Trial>(world: &World<D>) -> Outcome {
    let queue = world.queue()?;
    let (from, to) = (world.memory(PIECE)?, world.memory(PIECE)?);
    for mark in 1..=3 {
        world.fill(&queue, &from, mark, Pace::Slow)?;
        world.copy(&queue.stream, (from.range(), 0), (to.range(), 0), PIECE)?;
        let point = world.point(&queue)?;
        world.wait_on_host(point.fence())?;
        world.expect(&to, mark, "when the fence behind the copy was waited for")?;
    }
    Ok(())
}

fn a_copy_waits_for_what_its_stream_does<D: Trial>(world: &World<D>) -> Outcome {
    let (first, second) = (world.queue()?, world.queue()?);
    let (from, to) = (world.memory(PIECE)?, world.memory(PIECE)?);
    for mark in 1..=3 {
        world.fill(&first, &from, mark, Pace::Slow)?;
        let point = world.point(&first)?;
        world.wait(&second.stream, point.fence())?;
        world.copy(&second.stream, (from.range(), 0), (to.range(), 0), PIECE)?;
        let last = world.point(&second)?;
        world.wait_on_host(last.fence())?;
        world.expect(&to, mark, "in a copy in a stream that waited for another")?;
        // The next mark of the first stream comes behind the copy.
        world.wait(&first.stream, last.fence())?;
    }
    Ok(())
}

fn a_copy_does_not_hold_up_the_host<D: Trial>(world: &World<D>) -> Outcome {
    let queue = world.queue()?;
    let (from, to) = (world.memory(PIECE)?, world.memory(PIECE)?);
    world.does_not_wait("a copy behind it", &from, |mark| {
        world.fill(&queue, &from, mark, Pace::Slow)?;
        Ok(world.copy(&queue.stream, (from.range(), 0), (to.range(), 0), PIECE)?)
    })
}
