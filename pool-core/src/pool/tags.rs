//! What is charged to whom.

use hashbrown::HashMap;

use super::stream::Tag;
use crate::sync::Lock;
use crate::threads::Threads;

/// What a tag has, and may have, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    live: u64,
    quota: Option<u64>,
}

/// A tag has more than its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverQuota {
    pub(crate) live_bytes: u64,
    pub(crate) quota_bytes: u64,
}

/// The accounts of all tags.
pub(crate) struct Tags<T: Threads>(T::Lock<HashMap<Tag, Account>>);

impl<T: Threads> Tags<T> {
    pub(crate) fn new() -> Self {
        Self(Lock::new(HashMap::new()))
    }

    /// Charges bytes to a tag, if its quota has them.
    pub(crate) fn charge(&self, tag: Tag, size_bytes: u64) -> Result<(), OverQuota> {
        let mut accounts = self.0.lock();
        let account = accounts.entry(tag).or_default();
        let live_bytes = account.live.saturating_add(size_bytes);
        if let Some(quota_bytes) = account.quota
            && live_bytes > quota_bytes
        {
            return Err(OverQuota { live_bytes: account.live, quota_bytes });
        }
        account.live = live_bytes;
        Ok(())
    }

    /// Takes a charge back.
    pub(crate) fn credit(&self, tag: Tag, size_bytes: u64) {
        let mut accounts = self.0.lock();
        if let Some(account) = accounts.get_mut(&tag) {
            account.live = account.live.saturating_sub(size_bytes);
            if account.live == 0 && account.quota.is_none() {
                accounts.remove(&tag);
            }
        }
    }

    pub(crate) fn set_quota(&self, tag: Tag, quota_bytes: Option<u64>) {
        let mut accounts = self.0.lock();
        accounts.entry(tag).or_default().quota = quota_bytes;
    }

    pub(crate) fn live_bytes(&self, tag: Tag) -> u64 {
        self.0.lock().get(&tag).map_or(0, |account| account.live)
    }
}
