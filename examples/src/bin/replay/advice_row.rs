//! What is reported of one trace that was replayed twice.

use core::fmt::Write;

use pool_core::{Advice, Reason};
use pool_mock::replay::Cost;
use serde::{Serialize, Serializer, ser::SerializeStruct};

use crate::table::short;

/// One line of the output. All figures are of all copies together.
#[derive(Debug, Serialize)]
pub(crate) struct AdviceRow {
    /// The path given, or `pipeline`.
    pub(crate) trace: String,
    /// Allocations and frees of one pass.
    pub(crate) operations: usize,
    pub(crate) streams: u32,
    pub(crate) threads: u32,
    /// The most live at once, each block rounded up to a granule.
    pub(crate) peak_live_bytes: u64,
    /// The smallest limit that serves everything, if it was asked for.
    pub(crate) min_limit_bytes: Option<u64>,
    /// For each pacing.
    pub(crate) runs: Vec<Runs>,
}

/// Two runs at one pacing.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) pacing: String,
    pub(crate) first: Run,
    /// What the first recommends.
    pub(crate) advice: Advice,
    pub(crate) second: Run,
    /// Whether the second recommends what it had.
    pub(crate) is_stable: bool,
}

/// A run: some passes on one pool.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    /// Arenas asked of the device before the first pass.
    pub(crate) start_calls: u64,
    /// The first one is cold.
    pub(crate) passes: Vec<Pass>,
    /// What the device proved wrong.
    pub(crate) violations: Vec<String>,
}

/// A pass of a run.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) cost: Cost,
    /// Requests that were refused.
    pub(crate) failures: u64,
    /// The most reserved at once, up to its end.
    pub(crate) peak_reserved_bytes: u64,
}

impl AdviceRow {
    /// Whether every request was served, and nothing could have raced.
    pub(crate) fn is_well(&self) -> bool {
        self.runs.iter().all(|runs| runs.first.is_well() && runs.second.is_well())
    }

    /// What the smallest pool would have reserved, or else what no pool goes below.
    pub(crate) fn least_bytes(&self) -> u64 {
        self.min_limit_bytes.unwrap_or(self.peak_live_bytes)
    }

    /// The row as one line of JSON.
    pub(crate) fn json(&self) -> String {
        // Only maps with odd keys and failing writers make this fail, and there are none.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The configurations that are recommended, as `--config` reads them, and why.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut last = None;
        for runs in &self.runs {
            let settings = &runs.advice.settings;
            if last.replace(settings) == Some(settings) {
                continue;
            }
            let config = serde_json::to_string_pretty(settings).unwrap_or_default();
            // A string takes whatever is written.
            let _ = writeln!(
                text,
                "{}, {}:\n{config}\n{}\n",
                short(&self.trace),
                runs.pacing,
                runs.advice,
            );
        }
        text
    }
}

impl Run {
    fn is_well(&self) -> bool {
        self.violations.is_empty() && self.passes.iter().all(|pass| pass.failures == 0)
    }

    /// Growths of the cold pass, and of all others.
    pub(crate) fn growths(&self) -> (u64, u64) {
        self.split(|cost| cost.growths)
    }

    /// Arenas asked of the device, in the cold pass and before, and in all others.
    pub(crate) fn arena_calls(&self) -> (u64, u64) {
        let (cold, warm) = self.split(|cost| cost.calls.allocations);
        (self.start_calls + cold, warm)
    }

    /// Waits of the cold pass, and of all others.
    pub(crate) fn waits(&self) -> (u64, u64) {
        self.split(Cost::waits)
    }

    /// The most reserved at once.
    pub(crate) fn peak_reserved_bytes(&self) -> u64 {
        self.passes.iter().map(|pass| pass.peak_reserved_bytes).max().unwrap_or(0)
    }

    fn split(&self, of: impl Fn(&Cost) -> u64) -> (u64, u64) {
        let mut each = self.passes.iter().map(|pass| of(&pass.cost));
        (each.next().unwrap_or(0), each.sum())
    }
}

impl Serialize for Runs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let why: Vec<String> = self.advice.reasons.iter().map(Reason::to_string).collect();
        let mut fields = serializer.serialize_struct("Runs", 8)?;
        fields.serialize_field("pacing", &self.pacing)?;
        fields.serialize_field("first", &self.first)?;
        fields.serialize_field("settings", &self.advice.settings)?;
        fields.serialize_field("reasons", &self.advice.reasons)?;
        fields.serialize_field("why", &why)?;
        fields.serialize_field("evidence", &self.advice.evidence)?;
        fields.serialize_field("second", &self.second)?;
        fields.serialize_field("stable", &self.is_stable)?;
        fields.end()
    }
}

impl Serialize for Pass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Pass", 5)?;
        fields.serialize_field("growths", &self.cost.growths)?;
        fields.serialize_field("arena_calls", &self.cost.calls.allocations)?;
        fields.serialize_field("waits", &self.cost.waits())?;
        fields.serialize_field("failures", &self.failures)?;
        fields.serialize_field("peak_reserved_bytes", &self.peak_reserved_bytes)?;
        fields.end()
    }
}
