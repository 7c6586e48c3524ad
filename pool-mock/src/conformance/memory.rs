//! Memory that is allocated, made longer and freed.

use core::ops::Range;
use std::thread;

use pool_core::device::Capabilities;

use super::case::listed;
use super::report::{Outcome, Stop};
use super::trial::{Pace, Trial};
use super::world::{PIECE, World, demand};

listed! { "memory", Parts:
    ranges_do_not_overlap, [],
        "`allocate`: two ranges that exist at the same time are different memory";
    contents_outlast_what_others_do, [],
        "`allocate`, `free`: what is in a range stays, whatever other ranges come and go";
    calls_come_from_any_thread, [],
        "`Device`: its calls are made from whichever thread uses the pool";
    what_is_freed_can_be_had_again, [],
        "`free`: gives a range back";
    too_much_is_out_of_memory, [],
        "`severity`: a request for which there is no memory is `OutOfMemory`, and less may succeed";
    a_full_device_refuses_and_goes_on, [C::MEMORY],
        "`allocate`: refused for want of memory, nothing is allocated, and what was there stays";
    memory_falls_and_rises, [C::MEMORY],
        "`memory`: the bytes that could still be allocated, and all there are";
    an_address_is_where_a_range_begins, [C::ADDRESSES],
        "`address`: where a range begins";
    a_longer_range_is_the_same, [C::EXTEND],
        "`extend`: makes a range longer where it is";
    a_free_waits_for_nothing, [C::FENCES],
        "`FREE_WAITS`: without, freeing a range waits for no work";
}

/// Each range keeps its own mark, while others get theirs.
fn ranges_do_not_overlap<D: Trial>(world: &World<D>) -> Outcome {
    let queue = world.queue()?;
    let mut ranges = Vec::new();
    for mark in 1..=8 {
        // Of many sizes, so that what is rounded too little shows.
        let memory = world.memory(PIECE + u64::from(mark * 3 % 8) * 256)?;
        world.fill(&queue, &memory, mark, Pace::Soon)?;
        ranges.push((memory, mark));
    }
    world.settle()?;
    for (memory, mark) in &ranges {
        world.expect(memory, *mark, "when other ranges had been marked")?;
    }
    Ok(())
}

fn contents_outlast_what_others_do<D: Trial>(world: &World<D>) -> Outcome {
    let queue = world.queue()?;
    let kept = [world.memory(PIECE)?, world.memory(16 * PIECE)?];
    world.fill(&queue, &kept[0], 1, Pace::Soon)?;
    world.fill(&queue, &kept[1], 2, Pace::Soon)?;
    for size_bytes in [PIECE, 4 * PIECE, 256, 64 * PIECE, PIECE] {
        let others = [world.memory(size_bytes)?, world.memory(size_bytes)?];
        for other in &others {
            world.fill(&queue, other, 3, Pace::Soon)?;
        }
        world.settle()?;
        for other in others {
            other.free()?;
        }
    }
    world.expect(&kept[0], 1, "after others were freed")?;
    world.expect(&kept[1], 2, "after others were freed")
}

fn calls_come_from_any_thread<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    let there = thread::scope(|scope| {
        let device = &world.device;
        let (stream, range) = (&queue.stream, memory.range());
        let other = scope.spawn(move || {
            device.mark(stream, range, 0, PIECE, 5, Pace::Soon)?;
            device.allocate(PIECE)
        });
        other.join()
    });
    let there = there.map_err(|_| Stop::broken("a call from another thread panicked"))??;
    world.device.mark(&queue.stream, &there, 0, PIECE, 6, Pace::Soon)?;
    world.settle()?;
    world.expect(&memory, 5, "after another thread marked it")?;
    world.expect_at(&there, 0, PIECE, 6, "in a range of another thread")?;
    Ok(world.free(&there)?)
}

/// More than there is.
fn too_many<D: Trial>(world: &World<D>) -> Result<u64, Stop> {
    let bytes = world.too_many_bytes();
    bytes.ok_or_else(|| Stop::passed_over("nobody knows how much is too much"))
}

/// A large part of what there is that is served now.
fn large<D: Trial>(world: &World<D>) -> Result<u64, Stop> {
    let mut size_bytes = too_many(world)? / 2;
    loop {
        size_bytes = (size_bytes / 2).next_multiple_of(PIECE);
        match world.memory(size_bytes) {
            Ok(memory) => {
                memory.free()?;
                return Ok(size_bytes);
            }
            Err(error) if size_bytes <= PIECE => return Err(error.into()),
            Err(_) => {}
        }
    }
}

/// Again and again, many times what there is.
fn what_is_freed_can_be_had_again<D: Trial>(world: &World<D>) -> Outcome {
    let (too_many, size_bytes) = (too_many(world)?, large(world)?);
    let times = (too_many / size_bytes).saturating_mul(4).clamp(16, 4096);
    for time in 0..times {
        let memory = world.memory(size_bytes).map_err(|error| {
            Stop::broken(format!("{size_bytes} bytes were freed {time} times, and then: {error}"))
        })?;
        memory.free()?;
    }
    Ok(())
}

fn too_much_is_out_of_memory<D: Trial>(world: &World<D>) -> Outcome {
    let (too_many, size_bytes) = (too_many(world)?, large(world)?);
    let (queue, before) = (world.queue()?, world.memory(PIECE)?);
    world.fill(&queue, &before, 1, Pace::Soon)?;
    // Often, so that what a refusal keeps is missed.
    for _ in 0..8 {
        let refused = world.allocate(too_many);
        world.expect_out_of_memory(&format!("a range of {too_many} bytes"), refused)?;
        let after = world.memory(PIECE)?;
        world.fill(&queue, &after, 2, Pace::Soon)?;
        world.settle()?;
        world.expect(&after, 2, "after a refusal")?;
        after.free()?;
    }
    // Half of it, for there is one range more now.
    world.memory(size_bytes / 2)?.free()?;
    world.expect(&before, 1, "after a refusal")
}

fn a_full_device_refuses_and_goes_on<D: Trial>(world: &World<D>) -> Outcome {
    let queue = world.queue()?;
    let free_bytes = world.free_bytes()?;
    let part = (free_bytes / 8 / PIECE).max(1) * PIECE;
    let mut ranges = Vec::new();
    let refused = loop {
        match world.memory(part) {
            Ok(memory) => {
                let mark = u8::try_from(ranges.len() + 1).unwrap_or(u8::MAX);
                world.mark(&queue.stream, memory.range(), 0, PIECE, mark, Pace::Soon)?;
                ranges.push((memory, mark));
            }
            Err(error) => break Err::<(), _>(error),
        }
        if ranges.len() > 32 {
            return Err(Stop::passed_over("it gives more than it says that there is"));
        }
    };
    world.expect_out_of_memory("more than what was left", refused)?;
    world.settle()?;
    for (memory, mark) in &ranges {
        world.expect_at(memory.range(), 0, PIECE, *mark, "after a refusal")?;
    }
    // Where one was, another finds place, however often one more was refused.
    for _ in 0..8 {
        let (memory, mark) = ranges.pop().ok_or_else(|| {
            Stop::broken(format!(
                "nothing was served, of {free_bytes} bytes that are said to be free"
            ))
        })?;
        world.settle()?;
        memory.free()?;
        let again = world.memory(part)?;
        world.mark(&queue.stream, again.range(), 0, PIECE, mark, Pace::Soon)?;
        let one_more = world.memory(part).map(drop);
        world.expect_out_of_memory("more than what was left", one_more)?;
        ranges.push((again, mark));
    }
    world.settle()?;
    for (memory, mark) in &ranges {
        world.expect_at(memory.range(), 0, PIECE, *mark, "after refusals and frees")?;
    }
    Ok(())
}

/// By half of what is taken at least: a device may round, and others may use it, too.
fn memory_falls_and_rises<D: Trial>(world: &World<D>) -> Outcome {
    let info = world.device.memory()?;
    demand(info.free_bytes <= info.total_bytes && info.total_bytes > 0, || format!("{info:?}"))?;
    let size_bytes = (info.free_bytes / 8 / PIECE).max(1) * PIECE;
    let memory = world.memory(size_bytes)?;
    let during = world.device.memory()?;
    demand(during.free_bytes + size_bytes / 2 <= info.free_bytes, || {
        format!("{size_bytes} bytes were allocated, and {info:?} became {during:?}")
    })?;
    memory.free()?;
    world.settle()?;
    let after = world.device.memory()?;
    demand(during.free_bytes + size_bytes / 2 <= after.free_bytes, || {
        format!("{size_bytes} bytes were freed, and {during:?} became {after:?}")
    })?;
    demand(after.total_bytes == info.total_bytes, || {
        format!("the total was {} and is {}", info.total_bytes, after.total_bytes)
    })
}

fn an_address_is_where_a_range_begins<D: Trial>(world: &World<D>) -> Outcome {
    let ranges = [world.memory(PIECE)?, world.memory(3 * PIECE)?, world.memory(PIECE)?];
    let mut places: Vec<Range<u64>> = Vec::new();
    for memory in &ranges {
        let start = world.address(memory.range());
        let start = start.ok_or_else(|| Stop::broken("a range has none"))?;
        demand(world.address(memory.range()) == Some(start), || {
            format!("it was {start:#x}, and then another")
        })?;
        let place = start..start.saturating_add(memory.size_bytes);
        if let Some(other) =
            places.iter().find(|other| other.start < place.end && place.start < other.end)
        {
            return Err(Stop::broken(format!("ranges are at {place:x?} and at {other:x?}")));
        }
        places.push(place);
    }
    Ok(())
}

fn a_longer_range_is_the_same<D: Trial>(world: &World<D>) -> Outcome {
    let queue = world.queue()?;
    let (memory, other) = (world.memory(PIECE)?, world.memory(PIECE)?);
    world.fill(&queue, &memory, 1, Pace::Soon)?;
    world.fill(&queue, &other, 2, Pace::Soon)?;
    world.settle()?;
    let before = world.address(memory.range());
    world.extend(memory.range(), PIECE, 4 * PIECE)?;
    let after = world.address(memory.range());
    demand(before == after, || format!("it went from {before:x?} to {after:x?}"))?;
    world.expect(&memory, 1, "after the range became longer")?;
    world.mark(&queue.stream, memory.range(), PIECE, 3 * PIECE, 3, Pace::Soon)?;
    world.settle()?;
    world.expect(&memory, 1, "after what was added was marked")?;
    world.expect_at(memory.range(), PIECE, 3 * PIECE, 3, "in what was added")?;
    world.expect(&other, 2, "in another range, after one became longer")
}

fn a_free_waits_for_nothing<D: Trial>(world: &World<D>) -> Outcome {
    if world.capabilities().contains(Capabilities::FREE_WAITS) {
        return Err(Stop::passed_over("its frees may wait"));
    }
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    world.does_not_wait("the free of another range", &memory, |mark| {
        let other = world.memory(PIECE)?;
        world.fill(&queue, &memory, mark, Pace::Slow)?;
        Ok(other.free()?)
    })
}
