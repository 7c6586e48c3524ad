//! One trace on one placement.

use std::{io, path::Path};

use pool_core::{ConfigError, Placement, RangeConfig, VerifyError, Work};
use pool_mock::{
    Trace,
    replay::{Best, Script, Survey},
};

use crate::{
    options::Options,
    progress::Progress,
    row::{self, Row, Sharing},
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

/// What replays have found: one that looked at every block, several for the time, and many for
/// the smallest capacity if it was asked for.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) seen: Survey,
    pub(crate) best: Best,
    /// The most requests that one replay refused.
    pub(crate) failures: u64,
    /// In granules.
    pub(crate) min_capacity: Option<u64>,
    pub(crate) capacity_bytes: u64,
    /// Of a shared allocator, which layer did the work in the last timed replay.
    pub(crate) work: Option<Work>,
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
    /// The copies have more blocks than a replay counts.
    #[error("so many copies have more than 4,294,967,295 blocks live at once: use fewer --threads")]
    TooManyBlocks,
    /// The system has no more threads.
    #[error("cannot start a thread for each copy, use fewer --threads: {0}")]
    Threads(io::Error),
}

impl Job<'_> {
    /// Replays, on a bare range or a shared allocator.
    pub(crate) fn run(&self, progress: &Progress) -> Result<Row, JobError> {
        progress.show(&format!("{}: replaying", self.label()));
        let figures = if self.options.shared {
            self.on_a_shared_allocator(progress)?
        } else {
            self.on_a_range(progress)?
        };
        Ok(self.row(&figures))
    }

    fn row(&self, figures: &Figures) -> Row {
        let Self { script, trace, options, .. } = self;
        let Figures { seen, best, .. } = figures;
        let granule_bytes = script.granule_bytes();
        let min_capacity_bytes = figures.min_capacity.map(|granules| granules * granule_bytes);
        let peak_live_bytes = script.peak_live_bytes().saturating_mul(u64::from(options.copies()));
        let ns_per_operation = best.ns_per_operation(script.operations());
        Row {
            trace: self.path.display().to_string(),
            placement: row::name(self.placement),
            operations: script.operations().saturating_mul(options.copies() as usize),
            peak_live_bytes,
            peak_reserved_bytes: seen.peak_reserved_granules * granule_bytes,
            min_capacity_bytes,
            min_capacity_ratio: min_capacity_bytes
                .and_then(|bytes| row::ratio(bytes, peak_live_bytes)),
            ns_per_operation,
            failures: figures.failures,
            unknown_frees: trace.unknown_frees(),
            recorded_failures: trace.recorded_failures(),
            capacity_bytes: figures.capacity_bytes,
            requested_bytes: seen.waste.requested_bytes,
            rounding_bytes: seen.waste.rounding_bytes,
            holes_bytes: seen.waste.holes_bytes,
            sharing: figures.work.map(|work| Sharing::new(options, ns_per_operation, work)),
            oddities: trace.report().to_string(),
        }
    }

    /// The capacity to replay at: what was asked for, else a roomy one.
    pub(crate) fn capacity_bytes(&self, roomy_granules: u64) -> u64 {
        match self.options.capacity {
            Some(capacity) => capacity.as_u64(),
            None => roomy_granules.saturating_mul(self.script.granule_bytes()),
        }
    }

    /// Shows that a capacity is being tried, and gives it in bytes.
    pub(crate) fn trying(&self, granules: u64, progress: &Progress) -> u64 {
        let capacity_bytes = granules.saturating_mul(self.script.granule_bytes());
        progress.show(&format!("{}: trying {}", self.label(), row::human(capacity_bytes)));
        capacity_bytes
    }

    /// A range for a script, with room for twice the most live blocks.
    pub(crate) fn range_config(&self, capacity_bytes: u64, script: &Script) -> RangeConfig {
        RangeConfig::new(capacity_bytes)
            .granule_bytes(script.granule_bytes())
            .placement(self.placement)
            .expect_blocks(script.peak_live_blocks().saturating_mul(2))
    }

    fn label(&self) -> String {
        format!("{}, {}", self.path.display(), row::name(self.placement))
    }
}
