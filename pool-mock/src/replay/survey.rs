//! One replay that looks at every block: how high it reached, what it refused, where the waste is.

use super::{
    placer::{Extent, Locate},
    script::{Script, Step},
};

/// What a replay needed. [`survey`] finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Requests that were refused.
    pub failures: u64,
    /// The highest end of a live block.
    pub peak_reserved_granules: u64,
    /// What lay below that end, the first time it was reached.
    pub waste: Waste,
}

/// The bytes below the highest end of a replay at the moment it was reached. They add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waste {
    /// Bytes that the program had asked for and not freed.
    pub requested_bytes: u64,
    /// Bytes inside blocks that the program had not asked for: sizes are rounded up to a
    /// granule, in spans and under buddy placement to a power of two of granules.
    pub rounding_bytes: u64,
    /// Free bytes between blocks.
    pub holes_bytes: u64,
}

/// Replays a script on a fresh allocator and looks at where each block lies.
///
/// # Complexity
///
/// Linear in the steps, one [`Locate::locate`] for each block.
///
/// # Example
///
/// ```
/// use pool_core::{OffsetAllocator, Placement, RangeConfig};
/// use pool_mock::{Trace, replay::{Script, survey}};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,700,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
/// let config = RangeConfig::new(4096).placement(Placement::Buddy);
/// let seen = survey(&script, &mut OffsetAllocator::new(&config)?);
/// assert_eq!(seen.peak_reserved_granules, 4);
/// assert_eq!(seen.waste.rounding_bytes, 1024 - 700);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn survey<P: Locate>(script: &Script, placer: &mut P) -> Survey {
    let granule_bytes = script.granule_bytes();
    let mut slots: Vec<Option<Live<P::Block>>> = Vec::new();
    slots.resize_with(script.peak_live_blocks() as usize, || None);
    let mut seen = Survey::default();
    let (mut requested_bytes, mut live_granules) = (0_u64, 0_u64);
    for (step, size_bytes) in script.steps_and_bytes() {
        match step {
            Step::Allocate { slot, granules } => {
                let Some(block) = placer.place(granules) else {
                    seen.failures += 1;
                    continue;
                };
                let extent = placer.locate(&block);
                // Served, so all of it fits the range and no sum overflows.
                requested_bytes += size_bytes;
                live_granules += extent.granules;
                if let Some(entry) = slots.get_mut(slot as usize) {
                    *entry = Some(Live { block, extent, size_bytes });
                }
                let end_granules = extent.end_granules();
                if end_granules > seen.peak_reserved_granules {
                    seen.peak_reserved_granules = end_granules;
                    seen.waste = Waste {
                        requested_bytes,
                        rounding_bytes: (live_granules * granule_bytes)
                            .saturating_sub(requested_bytes),
                        holes_bytes: end_granules.saturating_sub(live_granules) * granule_bytes,
                    };
                }
            }
            Step::Free { slot } => {
                let Some(live) = slots.get_mut(slot as usize).and_then(Option::take) else {
                    continue;
                };
                requested_bytes -= live.size_bytes;
                live_granules -= live.extent.granules;
                placer.release(live.block);
            }
        }
    }
    seen
}

/// A live block.
struct Live<B> {
    block: B,
    extent: Extent,
    size_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Trace, reference::BestFit};

    fn script(log: &str) -> Script {
        let log = format!("Action,Pointer,Size,Stream\n{log}");
        Script::new(&Trace::read(log.as_bytes()).unwrap(), 256)
    }

    #[test]
    fn holes_and_rounding_are_told_apart() {
        let script = script(
            "allocate,0xa0,256,0\n\
             allocate,0xb0,256,0\n\
             free,0xa0,256,0\n\
             allocate,0xc0,257,0\n\
             allocate,0xa0,1,0\n",
        );
        let seen = survey(&script, &mut BestFit::new(100));
        assert_eq!(seen.failures, 0);
        assert_eq!(seen.peak_reserved_granules, 4);
        // At the third block, before the fourth filled the hole.
        assert_eq!(
            seen.waste,
            Waste { requested_bytes: 513, rounding_bytes: 255, holes_bytes: 256 }
        );
    }

    #[test]
    fn a_refused_blocks_free_is_skipped() {
        let script = script(
            "allocate,0xa0,1024,0\n\
             allocate,0xb0,1024,0\n\
             free,0xb0,1024,0\n\
             free,0xa0,1024,0\n\
             allocate,0xc0,1536,0\n",
        );
        let seen = survey(&script, &mut BestFit::new(7));
        assert_eq!((seen.failures, seen.peak_reserved_granules), (1, 6));
    }
}
