//! What is charged to whom.

use alloc::vec::Vec;
use core::cmp::Reverse;

use hashbrown::HashMap;

use super::Pool;
use super::advice::TagPeak;
use super::stream::Tag;
use crate::device::Device;
use crate::sync::Lock;
use crate::threads::Threads;

/// What a tag has, and may have, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    live: u64,
    /// The most that it had.
    peak: u64,
    quota: Option<u64>,
}

impl Account {
    fn is_idle(&self) -> bool {
        self.live == 0 && self.quota.is_none()
    }
}

/// So many accounts are kept for their peaks alone, those with the highest ones: programs may make
/// up a tag for each piece of work.
const KEPT: usize = 256;

/// The accounts, and how many there may be before those are forgotten that nobody needs.
#[derive(Default)]
struct Accounts {
    of: HashMap<Tag, Account>,
    most: usize,
}

impl Accounts {
    /// Forgets idle accounts with low peaks, if there are many accounts. Linear, once in as many
    /// new ones as there are.
    fn forget_some(&mut self) {
        if self.of.len() <= self.most.max(2 * KEPT) {
            return;
        }
        let idle = self.of.iter().filter(|(_, account)| account.is_idle());
        let mut idle: Vec<(u64, Tag)> = idle.map(|(&tag, account)| (account.peak, tag)).collect();
        idle.sort_unstable();
        let surplus = idle.len().saturating_sub(KEPT);
        for (_, tag) in idle.into_iter().take(surplus) {
            self.of.remove(&tag);
        }
        self.most = 2 * self.of.len();
    }
}

/// A tag has more than its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverQuota {
    pub(crate) live_bytes: u64,
    pub(crate) quota_bytes: u64,
}

/// The accounts of all tags.
pub(crate) struct Tags<T: Threads>(T::Lock<Accounts>);

impl<T: Threads> Tags<T> {
    pub(crate) fn new() -> Self {
        Self(Lock::new(Accounts::default()))
    }

    /// Charges bytes to a tag, if its quota has them.
    pub(crate) fn charge(&self, tag: Tag, size_bytes: u64) -> Result<(), OverQuota> {
        let mut accounts = self.0.lock();
        let account = accounts.of.entry(tag).or_default();
        let live_bytes = account.live.saturating_add(size_bytes);
        if let Some(quota_bytes) = account.quota
            && live_bytes > quota_bytes
        {
            return Err(OverQuota { live_bytes: account.live, quota_bytes });
        }
        account.live = live_bytes;
        account.peak = account.peak.max(live_bytes);
        Ok(())
    }

    /// Takes a charge back.
    pub(crate) fn credit(&self, tag: Tag, size_bytes: u64) {
        let mut accounts = self.0.lock();
        if let Some(account) = accounts.of.get_mut(&tag) {
            account.live = account.live.saturating_sub(size_bytes);
            if account.is_idle() {
                accounts.forget_some();
            }
        }
    }

    /// The tags with the highest peaks, the highest first; at most so many.
    pub(crate) fn peaks(&self, most: usize) -> Vec<TagPeak> {
        let accounts = self.0.lock();
        let peaks =
            accounts.of.iter().map(|(&tag, account)| TagPeak { tag, peak_bytes: account.peak });
        let mut peaks: Vec<TagPeak> = peaks.filter(|peak| peak.peak_bytes > 0).collect();
        peaks.sort_unstable_by_key(|peak| (Reverse(peak.peak_bytes), peak.tag));
        peaks.truncate(most);
        peaks
    }

    pub(crate) fn peak_bytes(&self, tag: Tag) -> u64 {
        self.0.lock().of.get(&tag).map_or(0, |account| account.peak)
    }

    /// Starts the peaks anew from what is charged now.
    pub(crate) fn reset_peaks(&self) {
        let mut accounts = self.0.lock();
        accounts.of.retain(|_, account| {
            account.peak = account.live;
            !account.is_idle()
        });
    }

    pub(crate) fn set_quota(&self, tag: Tag, quota_bytes: Option<u64>) {
        let mut accounts = self.0.lock();
        accounts.of.entry(tag).or_default().quota = quota_bytes;
    }

    pub(crate) fn live_bytes(&self, tag: Tag) -> u64 {
        self.0.lock().of.get(&tag).map_or(0, |account| account.live)
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// The most bytes that were charged to a tag at once. Of tags that have nothing now and no
    /// quota, those with the highest peaks are remembered, at least 256.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{On, Pool, PoolConfig, Tag};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let block = pool.allocate_tagged(On::Nothing, Tag(7), 1 << 20)?;
    /// pool.free(block.handle())?;
    /// assert_eq!((pool.tag_live_bytes(Tag(7)), pool.tag_peak_bytes(Tag(7))), (0, 1 << 20));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn tag_peak_bytes(&self, tag: Tag) -> u64 {
        self.inner().tags.peak_bytes(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::BareThreads;

    #[test]
    fn of_many_idle_tags_the_highest_peaks_are_remembered() {
        let tags = Tags::<BareThreads>::new();
        tags.set_quota(Tag(7), Some(1 << 30));
        for number in 0..10_000 {
            // The higher the number, the lower the peak.
            let bytes = 10_000 - u64::from(number);
            tags.charge(Tag(number), bytes).unwrap();
            tags.credit(Tag(number), bytes);
        }
        assert!(tags.0.lock().of.len() <= 2 * KEPT);
        assert!((0..200).all(|number| tags.peak_bytes(Tag(number)) == 10_000 - u64::from(number)));
        assert_eq!(tags.peak_bytes(Tag(5000)), 0);
        let peaks = tags.peaks(3);
        let expected = [(0, 10_000), (1, 9999), (2, 9998)];
        assert_eq!(peaks, expected.map(|(tag, peak_bytes)| TagPeak { tag: Tag(tag), peak_bytes }));
        tags.reset_peaks();
        // What has a quota stays.
        assert_eq!(tags.peaks(3), []);
        assert_eq!(tags.0.lock().of.len(), 1);
    }

    #[test]
    fn live_tags_are_never_forgotten_however_many() {
        let tags = Tags::<BareThreads>::new();
        for number in 0..5000 {
            tags.charge(Tag(number), 1).unwrap();
            tags.charge(Tag(1 << 20 | number), 2).unwrap();
            tags.credit(Tag(1 << 20 | number), 2);
        }
        assert!((0..5000).all(|number| tags.live_bytes(Tag(number)) == 1));
        assert!(tags.0.lock().of.len() <= 3 * 5000);
    }
}
