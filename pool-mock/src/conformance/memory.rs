//! Memory that is allocated and freed.

use super::case::listed;
use super::report::Outcome;
use super::trial::{Pace, Trial};
use super::world::{PIECE, World};

listed! { "memory":
    ranges_do_not_overlap, [],
        "two ranges that are allocated at the same time are different memory";
}

/// Each range keeps its own mark, while others come and go.
fn ranges_do_not_overlap<D: Trial>(world: World<D>) -> Outcome {
    let queue = world.queue()?;
    let mut ranges = Vec::new();
    for mark in 1..=8 {
        let memory = world.memory(PIECE)?;
        world.fill(&queue, &memory, mark, Pace::Soon)?;
        ranges.push((memory, mark));
    }
    world.settle()?;
    for (memory, mark) in &ranges {
        world.expect(memory, *mark, "when other ranges had been marked with other values")?;
    }
    Ok(())
}
