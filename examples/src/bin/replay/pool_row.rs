//! What is reported of one trace on pools.

use pool_mock::replay::Cost;
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// One line of the output. Figures that were not asked for are `None` (null). All are of all
/// copies together, but for the time.
#[derive(Debug, Serialize)]
pub(crate) struct PoolRow {
    /// The path given, or `pipeline`.
    pub(crate) trace: String,
    /// Allocations and frees of one pass.
    pub(crate) operations: usize,
    /// Frees of one pass: so many fences would be recorded if each recorded one.
    pub(crate) frees: usize,
    pub(crate) streams: u32,
    pub(crate) threads: u32,
    pub(crate) limit_bytes: Option<u64>,
    /// The most live at once, each block rounded up to a granule.
    pub(crate) peak_live_bytes: u64,
    #[serde(flatten)]
    pub(crate) memory: Memory,
    #[serde(flatten)]
    pub(crate) time: Option<Time>,
    /// The most requests that one pass refused.
    pub(crate) failures: u64,
    /// What each pass with work asked of the device.
    pub(crate) device: Vec<Spent>,
    /// What a pass needs at the smallest limit, if memory is in pages.
    pub(crate) at_smallest: Option<AtSmallest>,
    /// What in the log was odd, a line each; for people only.
    #[serde(skip)]
    pub(crate) oddities: String,
}

impl PoolRow {
    /// Whether every request was served, and nothing could have raced.
    pub(crate) fn is_well(&self) -> bool {
        self.failures == 0 && self.device.iter().all(|spent| spent.violations.is_empty())
    }

    /// Whether memory came in pages.
    pub(crate) fn is_paged(&self) -> bool {
        self.device.iter().any(|spent| spent.cost.calls.creations > 0)
    }

    /// The row as one line of JSON.
    pub(crate) fn json(&self) -> String {
        // Only maps with odd keys and failing writers make this fail, and there are none.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// How many bytes pools need.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "each is a number of bytes")]
pub(crate) struct Memory {
    /// The most reserved at once by a pool that grows by arenas; with a limit, by that.
    pub(crate) peak_reserved_bytes: u64,
    /// The smallest limit that serves everything.
    pub(crate) min_limit_bytes: Option<u64>,
    /// The smallest limits of pools that keep to one stream each, summed up.
    pub(crate) unmoved_limit_bytes: Option<u64>,
}

/// The time an operation of one copy, with no work queued.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Time {
    /// In the best of several passes on a fresh pool.
    pub(crate) ns_per_operation: f64,
    /// On a shared allocator, in the best of as many.
    pub(crate) shared_ns_per_operation: f64,
    /// What the last timed pass asked of the device.
    pub(crate) timed_calls: u64,
}

impl Time {
    /// Of the pool's, over the shared allocator's.
    pub(crate) fn ratio(&self) -> f64 {
        self.ns_per_operation / self.shared_ns_per_operation
    }
}

/// What a pass is like that has no more than it needs, with no work queued.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AtSmallest {
    #[serde(skip)]
    pub(crate) cost: Cost,
    pub(crate) ns_per_operation: f64,
    pub(crate) paging_ns_per_operation: f64,
    pub(crate) moved_pages: u64,
}

/// What a pass asked of the device.
#[derive(Debug)]
pub(crate) struct Spent {
    pub(crate) pacing: String,
    pub(crate) pass: &'static str,
    pub(crate) cost: Cost,
    /// Requests that free memory served: at least so many, as each growth, each wait and each stretch
    /// that went from stream to stream counts as a request that was none.
    pub(crate) hits: u64,
    pub(crate) failures: u64,
    /// What the device proved wrong up to the end of the pass; kept with the last one.
    pub(crate) violations: Vec<String>,
}

impl Serialize for Spent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Cost { calls, steals, growths, moved_pages, .. } = &self.cost;
        let mut fields = serializer.serialize_struct("Spent", 18)?;
        fields.serialize_field("pacing", &self.pacing)?;
        fields.serialize_field("pass", self.pass)?;
        fields.serialize_field("records", &calls.records)?;
        fields.serialize_field("device_waits", &calls.device_waits)?;
        fields.serialize_field("host_waits", &calls.host_waits)?;
        fields.serialize_field("queries", &calls.queries)?;
        fields.serialize_field("allocations", &calls.allocations)?;
        fields.serialize_field("frees", &calls.frees)?;
        fields.serialize_field("creations", &calls.creations)?;
        fields.serialize_field("destructions", &calls.destructions)?;
        fields.serialize_field("commits", &calls.commits)?;
        fields.serialize_field("decommits", &calls.decommits)?;
        fields.serialize_field("moved_pages", moved_pages)?;
        fields.serialize_field("steals", steals)?;
        fields.serialize_field("growths", growths)?;
        fields.serialize_field("hits", &self.hits)?;
        fields.serialize_field("failures", &self.failures)?;
        fields.serialize_field("violations", &self.violations)?;
        fields.end()
    }
}
