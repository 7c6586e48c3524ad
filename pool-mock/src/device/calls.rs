//! Which calls were made.

use std::collections::{BTreeMap, VecDeque};

use pool_core::device::Call;

/// How many of the last calls are kept.
const KEPT: usize = 64;

/// A call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallRecord {
    /// Its number among the calls of its device, from 1.
    pub number: u64,
    /// What was called.
    pub call: Call,
    /// What was said if it failed.
    pub error: Option<String>,
}

/// How many calls of each kind a device got through the trait, failed ones included.
///
/// # Example
///
/// ```
/// use pool_core::device::{Call, Device};
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// let device = SimDevice::new(SimConfig::new());
/// let before = device.calls();
/// let stream = device.create_stream()?;
/// let fence = device.record(&stream)?;
/// device.discard(fence);
/// let since = device.calls().since(&before);
/// assert_eq!((since.of(Call::Record), since.discards(), since.total()), (1, 1, 2));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    by_kind: BTreeMap<Call, u64>,
    total: u64,
    discards: u64,
}

impl CallCounts {
    /// Calls of one kind.
    #[must_use]
    pub fn of(&self, call: Call) -> u64 {
        self.by_kind.get(&call).copied().unwrap_or(0)
    }

    /// All of them: those that a fault can be injected into, so without
    /// [discards](Self::discards).
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Fences that were taken back: a call that cannot fail.
    #[must_use]
    pub const fn discards(&self) -> u64 {
        self.discards
    }

    /// The kinds that were called, each with how often.
    pub fn kinds(&self) -> impl Iterator<Item = (Call, u64)> {
        self.by_kind.iter().map(|(&call, &count)| (call, count))
    }

    /// What came after an earlier count.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let by_kind = self
            .by_kind
            .iter()
            .map(|(&call, &count)| (call, count.saturating_sub(before.of(call))))
            .filter(|&(_, count)| count > 0)
            .collect();
        Self {
            by_kind,
            total: self.total.saturating_sub(before.total),
            discards: self.discards.saturating_sub(before.discards),
        }
    }
}

/// Counts and the last calls.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) counts: CallCounts,
    last: VecDeque<CallRecord>,
}

impl Calls {
    /// Counts a call and gives its number.
    pub(super) fn begin(&mut self, call: Call) -> u64 {
        self.counts.total += 1;
        *self.counts.by_kind.entry(call).or_default() += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(CallRecord { number: self.counts.total, call, error: None });
        self.counts.total
    }

    /// A call failed.
    pub(super) fn failed(&mut self, number: u64, error: &impl ToString) {
        if let Some(record) = self.last.iter_mut().rev().find(|record| record.number == number) {
            record.error = Some(error.to_string());
        }
    }

    pub(super) const fn count_discard(&mut self) {
        self.counts.discards += 1;
    }

    pub(super) fn last(&self) -> Vec<CallRecord> {
        self.last.iter().cloned().collect()
    }
}
