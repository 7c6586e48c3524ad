//! One trace on one placement.

use std::path::Path;

use pool_core::{Chunked, ConfigError, OffsetAllocator, Placement, RangeConfig, VerifyError};
use pool_mock::{
    Trace,
    replay::{Best, Script, Stage, roomy_capacity, smallest_capacity, survey},
};

use crate::{
    options::Options,
    progress::Progress,
    row::{self, Row},
};

/// What is to be replayed, and how.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) path: &'a Path,
    pub(crate) trace: &'a Trace,
    pub(crate) script: &'a Script,
    pub(crate) placement: Placement,
    pub(crate) options: &'a Options,
}

/// Why a trace gives no row.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// There is no such range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The range is damaged: a fault of pool-core.
    #[error("the range is damaged after the replay, which is a fault of the allocator: {0}")]
    Damaged(#[from] VerifyError),
}

impl Job<'_> {
    /// Replays: once to look at every block, several times for the time, and many times for
    /// the smallest capacity if it is asked for.
    pub(crate) fn run(&self, progress: &Progress) -> Result<Row, JobError> {
        let script = self.script;
        let label = format!("{}, {}", self.path.display(), row::name(self.placement));
        progress.show(&format!("{label}: replaying"));
        let granule_bytes = script.granule_bytes();
        let capacity_bytes = match self.options.capacity {
            Some(capacity) => capacity.as_u64(),
            None => roomy_capacity(script).saturating_mul(granule_bytes),
        };
        let mut range = self.range(capacity_bytes)?;
        let seen = survey(script, &mut range);
        range.verify()?;

        let mut best = Best::default();
        let mut stage = Stage::new(script);
        while !best.is_settled() {
            best.add(stage.pass(&mut self.range(capacity_bytes)?));
        }

        let min_capacity = if self.options.find_capacity {
            smallest_capacity(script, |granules| {
                let capacity_bytes = granules.saturating_mul(granule_bytes);
                progress.show(&format!("{label}: trying {}", row::human(capacity_bytes)));
                self.range(capacity_bytes)
            })?
        } else {
            None
        };
        let min_capacity_bytes = min_capacity.map(|granules| granules * granule_bytes);
        let peak_live_bytes = script.peak_live_bytes();
        Ok(Row {
            trace: self.path.display().to_string(),
            placement: row::name(self.placement),
            operations: script.operations(),
            peak_live_bytes,
            peak_reserved_bytes: seen.peak_reserved_granules * granule_bytes,
            min_capacity_bytes,
            min_capacity_ratio: min_capacity_bytes
                .and_then(|bytes| row::ratio(bytes, peak_live_bytes)),
            ns_per_operation: best.ns_per_operation(script.operations()),
            failures: seen.failures,
            unknown_frees: self.trace.unknown_frees(),
            recorded_failures: self.trace.recorded_failures(),
            capacity_bytes: range.capacity_bytes(),
            requested_bytes: seen.waste.requested_bytes,
            rounding_bytes: seen.waste.rounding_bytes,
            holes_bytes: seen.waste.holes_bytes,
            oddities: self.trace.report().to_string(),
        })
    }

    /// An empty range, with room for twice the most live blocks.
    fn range(&self, capacity_bytes: u64) -> Result<OffsetAllocator<Chunked>, ConfigError> {
        OffsetAllocator::new(
            &RangeConfig::new(capacity_bytes)
                .granule_bytes(self.script.granule_bytes())
                .placement(self.placement)
                .expect_blocks(self.script.peak_live_blocks().saturating_mul(2)),
        )
    }
}
