//! The smallest range that serves a script.
//!
//! More room is not always better. A larger range shifts where blocks lie, and under every policy
//! that fits blocks into holes a program may fail at some capacity and succeed at a smaller one.
//! So bisection alone finds some edge between failure and success, by luck a low or a high one;
//! and a single capacity that works may be an island. The search here is the same for every
//! allocator and depends on no luck of its own:
//!
//! - a capacity counts only if those 1, 2 and 5 % larger work too;
//! - every capacity of a grid from the peak upward, each 0.1 % larger than the last, is tried
//!   until one counts;
//! - between it and the one before, which does not count, bisection finds the edge.

use super::{placer::Placer, script::Script, timing::Stage};

/// How much larger the next capacity of the grid is, in thousandths.
const GRID_PER_MILLE: u64 = 1;

/// What else must work for a capacity to count, in thousandths of it.
const MARGINS_PER_MILLE: [u64; 3] = [10, 20, 50];

/// Capacities past this multiple of the peak are not tried.
const MOST_PEAKS: u64 = 8;

/// The capacity that a replay has if none is asked for: 1.25 times the peak, rounded up to a
/// granule, and one granule at least.
///
/// # Example
///
/// ```
/// use pool_mock::{Trace, replay::{Script, roomy_capacity}};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1280,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
/// assert_eq!(roomy_capacity(&script), 7);
/// # Ok::<(), pool_mock::LogError>(())
/// ```
#[must_use]
pub fn roomy_capacity(script: &Script) -> u64 {
    grown(script.peak_live_granules(), 250).max(1)
}

/// Whether a script is served at a capacity and also at 1, 2 and 5 % more, each rounded up to a
/// granule. `make` makes an allocator of so many granules.
///
/// # Errors
///
/// Those of `make`.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
/// use pool_mock::{Trace, reference::BestFit, replay::{Script, is_sufficient}};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1280,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
/// let make = |granules| Ok::<_, Infallible>(BestFit::new(granules));
/// assert!(!is_sufficient(&script, 4, make)?);
/// assert!(is_sufficient(&script, 5, make)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn is_sufficient<P: Placer, E>(
    script: &Script,
    capacity_granules: u64,
    make: impl FnMut(u64) -> Result<P, E>,
) -> Result<bool, E> {
    let mut search = Search { stage: Stage::new(script), make };
    with_margins(capacity_granules, &mut |granules| search.serves(granules))
}

/// Finds the smallest capacity in granules that is [sufficient](is_sufficient), as the module
/// says; `None` if none up to eight times the peak is.
///
/// # Errors
///
/// Those of `make`, which makes an allocator of so many granules. It is called once for each
/// replay, so it is also the place to show progress or to give up.
///
/// # Complexity
///
/// A replay for each 0.1 % from the peak to the capacity found, most of them cut short by a
/// refusal, and four for each step of a bisection.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
/// use pool_mock::{Trace, reference::BestFit, replay::{Script, smallest_capacity}};
///
/// let log = "Action,Pointer,Size,Stream\n\
///            allocate,0xa0,256,0\n\
///            allocate,0xb0,256,0\n\
///            free,0xa0,256,0\n\
///            allocate,0xc0,512,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
/// let make = |granules| Ok::<_, Infallible>(BestFit::new(granules));
/// assert_eq!(script.peak_live_granules(), 3);
/// assert_eq!(smallest_capacity(&script, make)?, Some(4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn smallest_capacity<P: Placer, E>(
    script: &Script,
    make: impl FnMut(u64) -> Result<P, E>,
) -> Result<Option<u64>, E> {
    let mut search = Search { stage: Stage::new(script), make };
    smallest_that_serves(script.peak_live_granules(), |granules| search.serves(granules))
}

/// The same search for anything that has a capacity: `serves` says whether one is enough, before
/// any margin. No capacity below `peak_granules` is.
///
/// # Errors
///
/// Those of `serves`.
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
/// use pool_mock::replay::smallest_that_serves;
///
/// let found = smallest_that_serves(100, |granules| Ok::<_, Infallible>(granules >= 123));
/// assert_eq!(found, Ok(Some(123)));
/// ```
pub fn smallest_that_serves<E>(
    peak_granules: u64,
    mut serves: impl FnMut(u64) -> Result<bool, E>,
) -> Result<Option<u64>, E> {
    let peak = peak_granules.max(1);
    let most = peak.saturating_mul(MOST_PEAKS);
    let (mut fails, mut counts) = (peak - 1, peak);
    while !with_margins(counts, &mut serves)? {
        if counts >= most {
            return Ok(None);
        }
        (fails, counts) = (counts, grown(counts, GRID_PER_MILLE));
    }
    // `fails` does not count (it is below the peak or was tried), `counts` does.
    while counts - fails > 1 {
        let middle = fails.midpoint(counts);
        if with_margins(middle, &mut serves)? {
            counts = middle;
        } else {
            fails = middle;
        }
    }
    Ok(Some(counts))
}

struct Search<'a, B, F> {
    stage: Stage<'a, B>,
    make: F,
}

impl<P: Placer, E, F: FnMut(u64) -> Result<P, E>> Search<'_, P::Block, F> {
    fn serves(&mut self, capacity_granules: u64) -> Result<bool, E> {
        let mut placer = (self.make)(capacity_granules)?;
        Ok(self.stage.serves(&mut placer))
    }
}

/// Whether a capacity is enough, and those that are larger by the margins.
fn with_margins<E>(
    capacity_granules: u64,
    serves: &mut impl FnMut(u64) -> Result<bool, E>,
) -> Result<bool, E> {
    for per_mille in [0].into_iter().chain(MARGINS_PER_MILLE) {
        if !serves(grown(capacity_granules, per_mille))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// So many thousandths more, rounded up; past `u64::MAX`, that.
fn grown(granules: u64, per_mille: u64) -> u64 {
    let grown = (u128::from(granules) * u128::from(1000 + per_mille)).div_ceil(1000);
    u64::try_from(grown).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use core::convert::Infallible;

    use super::*;
    use crate::Trace;

    /// Serves everything, or nothing.
    struct Fixed(bool);

    impl Placer for Fixed {
        type Block = ();

        fn place(&mut self, _granules: u64) -> Option<()> {
            self.0.then_some(())
        }

        fn release(&mut self, (): ()) {}
    }

    /// A program of one block of 10,000 granules.
    fn script() -> Script {
        let log = "Action,Pointer,Size,Stream\nallocate,0xa0,10000,0\n";
        Script::new(&Trace::read(log.as_bytes()).unwrap(), 1)
    }

    fn found(serves: impl Fn(u64) -> bool) -> Option<u64> {
        let make = |granules| Ok::<_, Infallible>(Fixed(serves(granules)));
        smallest_capacity(&script(), make).unwrap()
    }

    #[test]
    fn the_edge_is_found_to_the_granule() {
        for edge in [10_000, 10_001, 10_010, 10_011, 12_345, 79_999] {
            assert_eq!(found(|granules| granules >= edge), Some(edge));
        }
    }

    #[test]
    fn an_island_does_not_count() {
        // Each misses one of the margins.
        assert_eq!(found(|n| n >= 15_000 || (11_000..11_110).contains(&n)), Some(15_000));
        assert_eq!(found(|n| n >= 15_000 || (11_000..11_220).contains(&n)), Some(15_000));
        assert_eq!(found(|n| n >= 15_000 || (11_000..11_550).contains(&n)), Some(15_000));
    }

    #[test]
    fn a_gap_above_the_margins_does_not_hide_a_capacity() {
        assert_eq!(found(|n| n >= 15_000 || (11_000..12_000).contains(&n)), Some(11_000));
    }

    #[test]
    fn what_never_works_ends_and_what_cannot_be_made_is_an_error() {
        assert_eq!(found(|_| false), None);
        let refused = smallest_capacity(&script(), |granules| {
            if granules > 11_000 { Err(granules) } else { Ok(Fixed(false)) }
        });
        assert!(refused.is_err_and(|granules| granules > 11_000));
    }

    #[test]
    fn no_blocks_need_one_granule_and_no_size_overflows() {
        let log = "Action,Pointer,Size,Stream\nfree,0xa0,1,0\n";
        let empty = Script::new(&Trace::read(log.as_bytes()).unwrap(), 256);
        assert_eq!(roomy_capacity(&empty), 1);
        let make = |_| Ok::<_, Infallible>(Fixed(true));
        assert_eq!(smallest_capacity(&empty, make), Ok(Some(1)));

        let log = "Action,Pointer,Size,Stream\nallocate,0xa0,18446744073709551615,0\n";
        let huge = Script::new(&Trace::read(log.as_bytes()).unwrap(), 1);
        assert_eq!(roomy_capacity(&huge), u64::MAX);
        let make = |_| Ok::<_, Infallible>(Fixed(false));
        assert_eq!(smallest_capacity(&huge, make), Ok(None));
    }
}
