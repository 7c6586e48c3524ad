//! Copies of a program on one shared allocator.

use pool_core::{ConfigError, SharedAllocator, SharedConfig};
use pool_mock::replay::{
    Best, Cached, Lockstep, Script, pass_together, roomy_capacity, smallest_capacity, survey,
};

use crate::{
    job::{Figures, Job, JobError},
    progress::Progress,
};

impl Job<'_> {
    /// Replays on a shared allocator: the time with a thread for each copy, everything else
    /// with the copies in lockstep, so that it is the same in every run.
    pub(crate) fn on_a_shared_allocator(&self, progress: &Progress) -> Result<Figures, JobError> {
        let threads = self.options.copies();
        let script = &self.script.copies(threads).ok_or(JobError::TooManyBlocks)?;
        let capacity_bytes = self.capacity_bytes(roomy_capacity(script));
        let shared = self.shared(capacity_bytes, script)?;
        let seen = survey(script, &mut Lockstep::new(self.caches(&shared)));
        shared.verify()?;

        let mut best = Best::default();
        let mut failures = seen.failures;
        let mut work = shared.stats().work;
        while !best.is_settled() {
            let shared = self.shared(capacity_bytes, script)?;
            let pass =
                pass_together(self.script, &mut self.caches(&shared)).map_err(JobError::Threads)?;
            shared.verify()?;
            best.add(pass);
            failures = failures.max(pass.failures);
            work = shared.stats().work;
        }

        let min_capacity = if self.options.find_capacity {
            smallest_capacity(script, |granules| {
                let shared = self.shared(self.trying(granules, progress), script)?;
                Ok::<_, ConfigError>(Lockstep::new(self.caches(&shared)))
            })?
        } else {
            None
        };
        let capacity_bytes = shared.capacity_bytes();
        Ok(Figures { seen, best, failures, min_capacity, capacity_bytes, work: Some(work) })
    }

    /// An empty shared allocator, with room for twice the most live blocks.
    fn shared(&self, capacity_bytes: u64, script: &Script) -> Result<SharedAllocator, ConfigError> {
        SharedAllocator::new(
            SharedConfig::new(self.range_config(capacity_bytes, script))
                .shards(self.options.shards)
                .cache_bytes(self.options.cache_bytes()),
        )
    }

    /// A cache for each copy, each on its own shard as long as there are any.
    fn caches(&self, shared: &SharedAllocator) -> Vec<Cached> {
        Cached::copies(shared, self.options.copies(), self.options.shards)
    }
}
