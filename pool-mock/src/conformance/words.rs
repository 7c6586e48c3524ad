//! What a device says of itself, and the calls that it does not have.

use core::fmt::Debug;

use pool_core::device::{Capabilities, Device, Failure, Severity};

use super::case::listed;
use super::report::{Outcome, Stop};
use super::trial::{Pace, Trial};
use super::world::{PIECE, World, demand};

listed! { "words", Parts:
    capabilities_never_change, [],
        "`capabilities`: which calls it has, and they never change";
    what_it_has_not_is_refused, [],
        "`capabilities`: a call that the device does not have is refused, and does nothing";
    its_sizes_make_sense, [],
        "`granule_bytes` is a power of two, and a range that is no longer than `most_range_bytes` may be \
         had; `total_bytes` is what `memory` says";
    it_is_alive, [],
        "`is_alive`: whether the device can still be called, which it can";
    notices_change_nothing, [],
        "`quarantine`, `release`: notices, by which nothing else happens";
    its_clock_goes_forward, [C::CLOCK],
        "`now`: time since some moment that never changes";
}

fn capabilities_never_change<D: Trial>(world: &World<D>) -> Outcome {
    let before = world.capabilities();
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    world.fill(&queue, &memory, 1, Pace::Soon)?;
    world.settle()?;
    drop(memory);
    let after = world.capabilities();
    demand(before == after, || format!("{before:?} became {after:?}"))
}

/// Refused, and not as if the device were lost.
fn refused<D: Trial, T>(
    world: &World<D>,
    what: &str,
    outcome: Result<T, Failure<D::Error>>,
) -> Outcome {
    match outcome {
        Ok(_) => {
            Err(Stop::broken(format!("`{what}` went well, and the device says it has it not")))
        }
        Err(Failure::Lost) => Err(Stop::broken(format!("`{what}`: the device is lost"))),
        Err(Failure::Device(error)) if world.severity(&error) == Severity::Fatal => {
            Err(Stop::broken(format!("`{what}` is fatal: {error}")))
        }
        Err(_) => Ok(()),
    }
}

fn none<T: Debug>(what: &str, value: Option<&T>) -> Outcome {
    demand(value.is_none(), || format!("`{what}` is {value:?}, and the device says it has it not"))
}

fn what_it_has_not_is_refused<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    world.fill(&queue, &memory, 1, Pace::Soon)?;
    world.settle()?;
    let lacks = |capability| !world.capabilities().contains(capability);
    if lacks(Capabilities::FENCES) {
        refused(world, "record", world.record(&queue.stream))?;
    }
    if lacks(Capabilities::STREAMS) {
        refused(world, "create_stream", world.create_stream())?;
    }
    if lacks(Capabilities::ADDRESSES) {
        none("address", world.address(memory.range()).as_ref())?;
    }
    if lacks(Capabilities::EXTEND) {
        refused(world, "extend", world.extend(memory.range(), PIECE, 2 * PIECE))?;
    }
    if lacks(Capabilities::PAGES) {
        none("page_sizes", world.page_sizes().first())?;
        refused(world, "reserve", world.reserve(2 << 20))?;
        refused(world, "create_pages", world.create_pages(2 << 20))?;
    }
    if lacks(Capabilities::COPY) {
        let half = PIECE / 2;
        let range = memory.range();
        refused(world, "copy", world.copy(&queue.stream, (range, 0), (range, half), half))?;
    }
    if lacks(Capabilities::MEMORY) {
        refused(world, "memory", world.device.memory())?;
    }
    if lacks(Capabilities::CLOCK) {
        none("now", world.now().as_ref())?;
    }
    if lacks(Capabilities::STREAM_IDS) {
        refused(world, "stream_id", world.stream_id(&queue.stream))?;
    }
    world.expect(&memory, 1, "after calls that the device does not have")
}

fn its_sizes_make_sense<D: Trial>(world: &World<D>) -> Outcome {
    let (granule, most) = (world.granule_bytes(), world.most_range_bytes());
    demand(granule.is_power_of_two(), || format!("`granule_bytes` is {granule}"))?;
    world.memory(granule.max(16).min(most).max(1))?;
    let total = Device::total_bytes(&world.device);
    match (world.device.memory(), total) {
        (Ok(memory), Some(total)) => demand(memory.total_bytes == total, || {
            format!("`total_bytes` is {total}, and `memory` says {}", memory.total_bytes)
        }),
        _ => Ok(()),
    }
}

fn it_is_alive<D: Trial>(world: &World<D>) -> Outcome {
    demand(world.is_alive(), || "it says that it cannot be called".into())
}

fn notices_change_nothing<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    world.fill(&queue, &memory, 1, Pace::Soon)?;
    world.settle()?;
    world.quarantine(memory.range(), 0, PIECE);
    world.expect(&memory, 1, "while the bytes rest")?;
    world.release(memory.range(), 0, PIECE);
    world.fill(&queue, &memory, 2, Pace::Soon)?;
    world.settle()?;
    world.expect(&memory, 2, "when the bytes rest no more")
}

fn its_clock_goes_forward<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, memory) = (world.queue()?, world.memory(PIECE)?);
    let now = || world.now().ok_or_else(|| Stop::broken("there is no time"));
    let mut last = now()?;
    for mark in 1..=32 {
        world.fill(&queue, &memory, mark, Pace::Soon)?;
        let next = now()?;
        demand(next >= last, || format!("it was {last:?}, and then {next:?}"))?;
        last = next;
    }
    world.settle()?;
    Ok(())
}
