//! What is reported of one trace on one placement.

use bytesize::ByteSize;
use pool_core::{Placement, Work};
use serde::Serialize;

use crate::options::Options;

/// One line of the output. Figures that were not asked for are `None` (null).
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// The path given.
    pub(crate) trace: String,
    pub(crate) placement: &'static str,
    /// Allocations and frees of the program; recorded failures and unknown frees apart.
    pub(crate) operations: usize,
    /// The most live at once, each block rounded up to a granule.
    pub(crate) peak_live_bytes: u64,
    /// The highest end of a live block.
    pub(crate) peak_reserved_bytes: u64,
    pub(crate) min_capacity_bytes: Option<u64>,
    /// Over the peak live bytes.
    pub(crate) min_capacity_ratio: Option<f64>,
    /// In the best of several passes.
    pub(crate) ns_per_operation: Option<f64>,
    /// Requests that this replay refused.
    pub(crate) failures: u64,
    /// Frees of pointers that the log does not allocate.
    pub(crate) unknown_frees: u64,
    /// Requests that failed when the log was recorded; not attempted.
    pub(crate) recorded_failures: u64,
    /// The range that was replayed on.
    pub(crate) capacity_bytes: u64,
    /// What the program asked for, when the highest end was reached; with the two below it
    /// adds up to the peak reserved.
    pub(crate) requested_bytes: u64,
    /// What was lost inside blocks by rounding sizes up, at that moment.
    pub(crate) rounding_bytes: u64,
    /// What was free between blocks, at that moment.
    pub(crate) holes_bytes: u64,
    /// Of a shared allocator, the fields of [`Sharing`].
    #[serde(flatten)]
    pub(crate) sharing: Option<Sharing>,
    /// What in the log was odd, a line each; for people only.
    #[serde(skip)]
    pub(crate) oddities: String,
}

impl Row {
    /// The row as one line of JSON.
    pub(crate) fn json(&self) -> String {
        // Only maps with odd keys and failing writers make this fail, and there are none.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// How a shared allocator was used, and which layer did the work in the last timed replay.
#[derive(Debug, Serialize)]
pub(crate) struct Sharing {
    /// Copies of the program; all figures but the time an operation are those of all of them.
    pub(crate) threads: u32,
    pub(crate) shards: u32,
    pub(crate) cache_bytes: u64,
    /// Of all threads, in the best of several passes.
    pub(crate) operations_per_second: Option<f64>,
    /// Operations that a cache did alone.
    pub(crate) in_cache: u64,
    /// Magazines that went from cache to cache.
    pub(crate) magazines: u64,
    /// Locks taken at the centre.
    pub(crate) locks: u64,
    /// Of these, those that another thread held.
    pub(crate) lock_waits: u64,
    /// Atomic steps that had to be tried again.
    pub(crate) retries: u64,
    /// Times that all shards were merged to serve a request.
    pub(crate) recalls: u64,
    /// Times that all caches were emptied to serve a request.
    pub(crate) flushes: u64,
}

impl Sharing {
    pub(crate) fn new(options: &Options, ns_per_operation: Option<f64>, work: Work) -> Self {
        Self {
            threads: options.copies(),
            shards: options.shards,
            cache_bytes: options.cache_bytes(),
            operations_per_second: ns_per_operation
                .filter(|ns| *ns > 0.0)
                .map(|ns| f64::from(options.copies()) * 1e9 / ns),
            in_cache: work.in_cache,
            magazines: work.magazines,
            locks: work.locks,
            lock_waits: work.lock_waits,
            retries: work.retries,
            recalls: work.recalls,
            flushes: work.flushes,
        }
    }
}

/// A placement's name, as the command line spells it.
pub(crate) fn name(placement: Placement) -> &'static str {
    match placement {
        Placement::FirstFit => "first-fit",
        Placement::Buddy => "buddy",
        _ => "best-fit",
    }
}

/// `part / whole`; `None` if the whole is zero.
#[expect(clippy::cast_precision_loss, reason = "a ratio is read to a few digits")]
pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole != 0).then(|| part as f64 / whole as f64)
}

/// A size for people: `247.3 MiB`.
pub(crate) fn human(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}
