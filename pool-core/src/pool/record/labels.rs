//! What threads are at, and how many bytes are live for that.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use hashbrown::HashMap;

use super::event::LabelId;
use crate::range::Handle;
use crate::sync::{AtomicU64, Lock, Ordering, Padded};
use crate::threads::{NoTable, Threads, filled};

/// Locks that blocks are spread over.
const SHARDS: usize = 16;

/// What stands for labels that there is no room for.
const REST: &str = "(more labels)";

/// What a label holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LabelUse {
    /// Its number in events.
    pub label: LabelId,
    /// Its name, behind those of the labels that it is within: `forward/layer 3`.
    pub path: String,
    /// Bytes of live blocks that were asked for under it, or under one within it.
    pub live_bytes: u64,
    /// The most that these were at once.
    pub peak_bytes: u64,
    /// How many were asked for, from the start.
    pub allocations: u64,
}

/// All labels of a pool, and the blocks that were asked for under one.
pub(super) struct Labels<T: Threads> {
    names: T::Lock<Names>,
    /// By number; that of zero is not used.
    accounts: Box<[Account]>,
    /// Labels and bytes of live blocks, by the bits of their handles.
    blocks: Box<[Padded<T::Lock<Blocks>>]>,
    /// How many blocks are there.
    count: AtomicU64,
}

type Blocks = HashMap<u64, (u32, u64)>;

#[derive(Default)]
struct Names {
    of: HashMap<(u32, Box<str>), u32>,
    /// By number, less one.
    paths: Vec<String>,
}

#[derive(Default)]
struct Account {
    /// The label that it is within, which never changes.
    within: AtomicU64,
    live: AtomicU64,
    peak: AtomicU64,
    allocations: AtomicU64,
}

impl<T: Threads> Labels<T> {
    pub(super) fn new(most: u32) -> Result<Self, NoTable> {
        Ok(Self {
            names: Lock::new(Names::default()),
            // One for none, one for the rest.
            accounts: filled(u64::from(most.max(1)) + 2, Account::default)?,
            blocks: filled(SHARDS as u64, || Padded(Lock::new(HashMap::new())))?,
            count: AtomicU64::new(0),
        })
    }

    /// The number of a name within a label. Beyond as many as there is room for, that of the rest.
    pub(super) fn intern(&self, within: u32, name: &str) -> u32 {
        let mut names = self.names.lock();
        // Looked up as it is kept: labels are set seldom, beside allocations.
        let mut key = (within, Box::from(name));
        if let Some(&number) = names.of.get(&key) {
            return number;
        }
        let rest = self.accounts.len() as u32 - 1;
        let is_full = names.paths.len() as u32 + 1 >= rest;
        let (within, path) = match names.paths.get((within as usize).wrapping_sub(1)) {
            _ if is_full => (0, String::from(REST)),
            Some(outer) => (within, alloc::format!("{outer}/{name}")),
            None => (0, String::from(name)),
        };
        let number = names.paths.len() as u32 + 1;
        if is_full {
            if number > rest {
                return rest;
            }
            key = (0, Box::from(REST));
        }
        names.paths.push(path);
        if let Some(account) = self.accounts.get(number as usize) {
            account.within.store(within.into(), Ordering::Relaxed);
        }
        names.of.insert(key, number);
        number
    }

    /// The path of a label.
    pub(super) fn path(&self, label: LabelId) -> Option<String> {
        self.names.lock().paths.get((label.0 as usize).checked_sub(1)?).cloned()
    }

    fn shard(&self, handle: Handle) -> &T::Lock<Blocks> {
        let mixed = handle.to_raw().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.blocks[(mixed >> 60) as usize % SHARDS]
    }

    /// A label, and those that it is within.
    fn each(&self, label: u32, mut each: impl FnMut(&Account)) {
        let mut label = label;
        while label != 0
            && let Some(account) = self.accounts.get(label as usize)
        {
            each(account);
            label = account.within.load(Ordering::Relaxed) as u32;
        }
    }

    /// A block was asked for under a label.
    pub(super) fn charge(&self, label: u32, handle: Handle, size_bytes: u64) {
        let mut blocks = self.shard(handle).lock();
        if blocks.try_reserve(1).is_err() {
            return;
        }
        blocks.insert(handle.to_raw(), (label, size_bytes));
        drop(blocks);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.each(label, |account| {
            let live = account.live.fetch_add(size_bytes, Ordering::Relaxed) + size_bytes;
            account.peak.fetch_max(live, Ordering::Relaxed);
            account.allocations.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// A block was freed. The label that it was asked for under.
    pub(super) fn credit(&self, handle: Handle) -> u32 {
        // Who frees a block has it from who noted it.
        if self.count.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let Some((label, size_bytes)) = self.shard(handle).lock().remove(&handle.to_raw()) else {
            return 0;
        };
        self.uncharge(label, size_bytes);
        label
    }

    /// A block is known by another handle.
    pub(super) fn hand_on(&self, old: Handle, new: Handle) {
        let Some((label, size_bytes)) = self.shard(old).lock().remove(&old.to_raw()) else {
            return;
        };
        let mut blocks = self.shard(new).lock();
        if blocks.try_reserve(1).is_ok() {
            blocks.insert(new.to_raw(), (label, size_bytes));
        } else {
            drop(blocks);
            self.uncharge(label, size_bytes);
        }
    }

    /// The label that a live block was asked for under.
    pub(super) fn of(&self, handle: Handle) -> u32 {
        self.shard(handle).lock().get(&handle.to_raw()).map_or(0, |&(label, _)| label)
    }

    fn uncharge(&self, label: u32, size_bytes: u64) {
        self.count.fetch_add(1_u64.wrapping_neg(), Ordering::Relaxed);
        self.each(label, |account| {
            account.live.fetch_add(size_bytes.wrapping_neg(), Ordering::Relaxed);
        });
    }

    /// Forgets which blocks are live: their frees will not be seen.
    pub(super) fn forget_blocks(&self) {
        for shard in &self.blocks {
            let blocks = core::mem::take(&mut *shard.lock());
            blocks.into_values().for_each(|(label, size_bytes)| self.uncharge(label, size_bytes));
        }
    }

    /// Starts the peaks anew from what is live.
    pub(super) fn reset_peaks(&self) {
        for account in &self.accounts {
            account.peak.store(account.live.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// All labels, those with the highest peaks first.
    pub(super) fn all(&self) -> Vec<LabelUse> {
        let paths = self.names.lock().paths.clone();
        let mut all: Vec<LabelUse> = paths
            .into_iter()
            .zip(&self.accounts[1..])
            .zip(1..)
            .map(|((path, account), number)| LabelUse {
                label: LabelId(number),
                path,
                live_bytes: account.live.load(Ordering::Relaxed),
                peak_bytes: account.peak.load(Ordering::Relaxed),
                allocations: account.allocations.load(Ordering::Relaxed),
            })
            .collect();
        all.sort_by_key(|label| (Reverse(label.peak_bytes), label.label));
        all
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::range::Slot;
    use crate::threads::BareThreads;

    fn block(number: u32) -> Handle {
        Handle::with_bits(Slot::Granule(number), 1)
    }

    fn figures(labels: &Labels<BareThreads>) -> Vec<(String, u64, u64, u64)> {
        let all = labels.all().into_iter();
        all.map(|label| (label.path, label.live_bytes, label.peak_bytes, label.allocations))
            .collect()
    }

    #[test]
    fn an_outer_label_has_what_is_within_it() {
        let labels = Labels::<BareThreads>::new(10).unwrap();
        let forward = labels.intern(0, "forward");
        let layer = labels.intern(forward, "layer 3");
        assert_eq!(labels.intern(forward, "layer 3"), layer);
        assert_ne!(labels.intern(0, "layer 3"), layer);
        labels.charge(layer, block(1), 100);
        labels.charge(forward, block(2), 10);
        assert_eq!((labels.credit(block(1)), labels.credit(block(1))), (layer, 0));
        let expected =
            [("forward", 10, 110, 2), ("forward/layer 3", 0, 100, 1), ("layer 3", 0, 0, 0)];
        assert_eq!(
            figures(&labels),
            expected.map(|(path, live, peak, count)| (path.into(), live, peak, count))
        );
        labels.reset_peaks();
        assert_eq!(labels.all()[0].peak_bytes, 10);
        labels.forget_blocks();
        assert_eq!(labels.all()[0].live_bytes, 0);
        assert_eq!(labels.credit(block(2)), 0);
    }

    #[test]
    fn labels_without_end_share_the_last() {
        let labels = Labels::<BareThreads>::new(2).unwrap();
        let numbers: Vec<u32> = (0..1000)
            .map(|request| labels.intern(0, &alloc::format!("request {request}")))
            .collect();
        assert_eq!((numbers[0], numbers[1]), (1, 2));
        assert!(numbers[2..].iter().all(|&number| number == 3));
        assert_eq!(labels.path(LabelId(3)).as_deref(), Some(REST));
        assert_eq!(labels.path(LabelId(0)), None);
    }
}
