//! A program on a range of its own.

use pool_core::{Chunked, ConfigError, OffsetAllocator};
use pool_mock::replay::{Best, Stage, roomy_capacity, smallest_capacity, survey};

use crate::{
    job::{Figures, Job, JobError},
    progress::Progress,
};

impl Job<'_> {
    /// Replays on a bare range.
    pub(crate) fn on_a_range(&self, progress: &Progress) -> Result<Figures, JobError> {
        let script = self.script;
        let capacity_bytes = self.capacity_bytes(roomy_capacity(script));
        let mut range = self.range(capacity_bytes)?;
        let seen = survey(script, &mut range);
        range.verify()?;

        let mut best = Best::default();
        let mut stage = Stage::new(script);
        while !best.is_settled() {
            best.add(stage.pass(&mut self.range(capacity_bytes)?));
        }

        let min_capacity = if self.options.find_capacity {
            smallest_capacity(script, |granules| self.range(self.trying(granules, progress)))?
        } else {
            None
        };
        Ok(Figures {
            seen,
            best,
            failures: seen.failures,
            min_capacity,
            capacity_bytes: range.capacity_bytes(),
            work: None,
        })
    }

    /// An empty range, with room for twice the most live blocks.
    fn range(&self, capacity_bytes: u64) -> Result<OffsetAllocator<Chunked>, ConfigError> {
        OffsetAllocator::new(&self.range_config(capacity_bytes, self.script))
    }
}
