//! A trace twice: under a configuration, and under the one that this run recommends.

use core::error::Error;

use pool_core::{Advice, Pool, policy::Settings};
use pool_mock::{
    device::SimConfig,
    replay::{Cost, Pooled},
};

use crate::{
    advice_row::{AdviceRow, Pass, Run, Runs},
    options::{Options, PacingChoice},
    pool::PoolJob,
    progress::Progress,
    simulated::Simulated,
};

/// Passes of a run: the first is cold, the others are warm.
const PASSES: u32 = 3;

impl PoolJob {
    /// All runs.
    pub(crate) fn advise(
        &self,
        options: &Options,
        progress: &Progress,
    ) -> Result<AdviceRow, Box<dyn Error>> {
        progress.show(&format!("{}: replaying", self.path));
        let had = options.settings();
        let mut runs = Vec::new();
        for choice in &options.pacing {
            let (first, advice) = self.run_under(had, options, choice)?;
            let (second, advice_again) = self.run_under(advice.settings, options, choice)?;
            let is_stable = advice_again.reasons.is_empty();
            let pacing = choice.name.clone();
            runs.push(Runs { pacing, first, advice, second, is_stable });
        }
        Ok(AdviceRow {
            trace: self.path.clone(),
            operations: self.all.operations(),
            streams: self.all.streams(),
            threads: self.all.threads(),
            peak_live_bytes: self.all.peak_live_bytes(options.granule_bytes()),
            min_limit_bytes: self.min_limit(&Simulated(options), &self.all, options, progress)?,
            runs,
        })
    }

    /// A run, with work, and what it recommends.
    fn run_under(
        &self,
        settings: Settings,
        options: &Options,
        choice: &PacingChoice,
    ) -> Result<(Run, Advice), Box<dyn Error>> {
        let config = SimConfig::new().pacing(choice.pacing);
        let device = Simulated(options).device(config, self.most_bytes(options));
        let pool = Pool::new(device, settings.into())?;
        let mut pooled = Pooled::with_work(&pool, &self.all)?;
        let mut passes = Vec::new();
        let mut before = pool.stats();
        let start_calls = before.calls.allocations;
        pooled.passes(PASSES, |failures| {
            let after = pool.stats();
            let cost = Cost::between(&before, &after);
            let peak_reserved_bytes = after.peak_reserved_bytes;
            passes.push(Pass { cost, failures, peak_reserved_bytes });
            before = after;
        })?;
        pool.verify()?;
        let violations = pool.device().violations();
        let violations = violations.iter().map(ToString::to_string).collect();
        Ok((Run { start_calls, passes, violations }, pool.advice()))
    }
}
