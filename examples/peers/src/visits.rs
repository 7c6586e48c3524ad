//! The most blocks that one request visits.

use fastrand::Rng;
use pool_core::{OffsetAllocator, Request, Storage};

use crate::{churn::MOST_GRANULES, ours::GRANULE_BYTES};

/// The most visits seen, by how the request ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MostVisits {
    /// Served by the first look.
    pub first_look: u32,
    /// Served by the second.
    pub second_look: u32,
    /// Refused.
    pub refused: u32,
}

impl MostVisits {
    /// Asks a range what some requests would visit: one of `granules`, the largest that it would
    /// serve, one that is a granule larger, and one at a random alignment.
    pub fn probe<S: Storage>(&mut self, range: &OffsetAllocator<S>, granules: u32, rng: &mut Rng) {
        let size_bytes = u64::from(granules) * GRANULE_BYTES;
        let largest_bytes = range.largest_free_bytes();
        let align_bytes = GRANULE_BYTES << rng.u32(0..12);
        for request in [
            Request::new(size_bytes),
            Request::new(largest_bytes.max(1)),
            Request::new(largest_bytes + GRANULE_BYTES),
            Request::new(size_bytes).align_bytes(align_bytes),
        ] {
            self.add(range, request);
        }
    }

    fn add<S: Storage>(&mut self, range: &OffsetAllocator<S>, request: Request) {
        let visits = range.visits(request);
        let most = match (visits.served, visits.first_look) {
            (true, true) => &mut self.first_look,
            (true, false) => &mut self.second_look,
            (false, _) => &mut self.refused,
        };
        *most = visits.blocks.max(*most);
    }
}

/// Churns in a range that is full, so that many requests are refused, and probes as it goes.
/// Returns the most visits.
///
/// ```
/// use pool_core::{OffsetAllocator, RangeConfig};
/// use peers::visits::in_a_full_range;
///
/// let mut range = OffsetAllocator::new(&RangeConfig::new(64 << 20))?;
/// let most = in_a_full_range(&mut range, 1000, 7);
/// assert!(most.refused > 0);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
pub fn in_a_full_range<S: Storage>(
    range: &mut OffsetAllocator<S>,
    exchanges: u32,
    seed: u64,
) -> MostVisits {
    let mut rng = Rng::with_seed(seed);
    let mut most = MostVisits::default();
    let mut live = Vec::new();
    let draw = |rng: &mut Rng| 1 << rng.u32(0..MOST_GRANULES.ilog2());
    let size = |granules: u32| u64::from(granules) * GRANULE_BYTES;
    // Odd sizes around powers of two, until nothing fits.
    let mut granules: u32 = draw(&mut rng) + rng.u32(0..7);
    while let Ok(block) = range.allocate(size(granules)) {
        live.push(block.handle());
        granules = draw(&mut rng) + rng.u32(0..7);
    }
    for _ in 0..exchanges {
        if !live.is_empty() {
            let gone = live.swap_remove(rng.usize(0..live.len()));
            // It was live.
            let _ = range.free(gone);
        }
        let granules = draw(&mut rng) + rng.u32(0..7);
        most.probe(range, granules, &mut rng);
        if let Ok(block) = range.allocate(size(granules)) {
            live.push(block.handle());
        }
    }
    most
}

/// Frees blocks of one size class, apart from each other, and asks for sizes just above them:
/// every free block of the class is too small for the request. Returns the most visits.
///
/// ```
/// use pool_core::{OffsetAllocator, RangeConfig, Spans};
/// use peers::visits::behind_a_wall;
///
/// let mut range = OffsetAllocator::new(&RangeConfig::new(64 << 20).spans(Spans::Off))?;
/// let most = behind_a_wall(&mut range, 520, 7);
/// assert!(most.first_look + most.refused > 0);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
pub fn behind_a_wall<S: Storage>(
    range: &mut OffsetAllocator<S>,
    granules: u32,
    seed: u64,
) -> MostVisits {
    let mut rng = Rng::with_seed(seed);
    let mut most = MostVisits::default();
    let size = |granules: u32| u64::from(granules) * GRANULE_BYTES;
    let mut free = Vec::new();
    // Blocks of 8 lengths in a row, with one granule between them that stays.
    while let Ok(block) = range.allocate(size(granules + rng.u32(0..8))) {
        free.push(block.handle());
        if range
            .allocate(Request::new(GRANULE_BYTES).options(pool_core::Options::OUTSIDE_SPANS))
            .is_err()
        {
            break;
        }
    }
    rng.shuffle(&mut free);
    for handle in free {
        // It was live.
        let _ = range.free(handle);
        most.probe(range, granules + rng.u32(0..12), &mut rng);
    }
    most
}
