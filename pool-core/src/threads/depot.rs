//! The depot: full magazines on their way from caches that free to caches that allocate.

use alloc::boxed::Box;

use super::classes::{Classes, MOST_MAGAZINE};
use super::owner::Owner;
use super::ring::Ring;
use super::sabotage::MIXES_OWNERS;
use super::stock::Blocks;
use super::tables::NoTable;
use super::word::Giver;
use crate::range::Handle;
use crate::sync::{AtomicU32, AtomicU64, Counter, Ordering};

/// The most lanes of a class.
const MOST_LANES: u64 = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

/// A lane has at least as many magazines as this, or its class has fewer lanes.
const MAGAZINES_IN_LANE: u64 = 2;

/// A magazine in the depot: cached blocks of one class and one owner.
struct Magazine {
    owner: AtomicU32,
    len: AtomicU32,
    slots: [AtomicU64; MOST_MAGAZINE],
}

/// Magazines of all classes. Their number is fixed when it is made, and with it the bytes that
/// the depot keeps at most.
///
/// A class has several *lanes*: blocks that are clean wait in the lane of the cache that gave them
/// to the program, those of an owner in the owner's. So pairs of caches of which one allocates and
/// one frees meet in a lane of their own.
pub(crate) struct Depot {
    /// For each class, its lanes.
    classes: Box<[Box<[Ring<Magazine>]>]>,
    retries: Counter,
}

impl Depot {
    /// An empty depot that keeps at most so many bytes of each class.
    pub(crate) fn new(classes: &Classes, bytes_a_class: u64) -> Result<Self, NoTable> {
        let mut lanes_of_classes = alloc::vec::Vec::new();
        lanes_of_classes.try_reserve_exact(classes.count()).map_err(|_| NoTable)?;
        for class in 0..classes.count() {
            let magazines = classes.magazines(class, bytes_a_class);
            let lanes = (magazines / MAGAZINES_IN_LANE).min(MOST_LANES);
            let in_lane = magazines.checked_div(lanes).unwrap_or(0);
            let mut rings = alloc::vec::Vec::new();
            rings.try_reserve_exact(lanes as usize).map_err(|_| NoTable)?;
            for _ in 0..lanes {
                rings.push(Ring::new(in_lane, Magazine::new)?);
            }
            lanes_of_classes.push(rings.into_boxed_slice());
        }
        Ok(Self { classes: lanes_of_classes.into_boxed_slice(), retries: Counter::default() })
    }

    /// The lane of an owner's blocks, or of clean ones that a cache gave out.
    fn lane(&self, class: usize, owner: Owner, giver: Giver) -> Option<&Ring<Magazine>> {
        let number = if owner == Owner::CLEAN { giver.number() } else { owner.0 };
        let lanes = self.classes.get(class)?;
        lanes.get((number as usize).checked_rem(lanes.len())?)
    }

    /// Puts a magazine in, of blocks that were given out by some cache; false if its lane is full:
    /// then none of the blocks was asked for.
    pub(crate) fn put(
        &self,
        class: usize,
        owner: Owner,
        giver: Giver,
        blocks: impl Iterator<Item = Handle>,
    ) -> bool {
        let lane = self.lane(class, owner, giver);
        lane.is_some_and(|lane| lane.push(|magazine| magazine.fill(owner, blocks), &self.retries))
    }

    /// Takes a magazine of a class and an owner out, for a cache, and hands over what is in it. One
    /// of another owner that is before it hides it.
    pub(crate) fn get(
        &self,
        class: usize,
        owner: Owner,
        cache: Giver,
        each: impl FnMut(Handle),
    ) -> bool {
        let wanted = |magazine: &Magazine| magazine.owner() == owner || MIXES_OWNERS.is_out();
        let take = |magazine: &Magazine| magazine.blocks().for_each(each);
        let lane = self.lane(class, owner, cache);
        lane.is_some_and(|lane| lane.pop(wanted, take, &self.retries))
    }

    /// Takes the magazine out that is before all others in a lane, whosever it is: of an owner who
    /// does not come back, it would hide them for ever.
    pub(crate) fn get_first(
        &self,
        class: usize,
        owner: Owner,
        giver: Giver,
        each: impl FnMut(Handle),
    ) -> bool {
        let take = |magazine: &Magazine| magazine.blocks().for_each(each);
        let lane = self.lane(class, owner, giver);
        lane.is_some_and(|lane| lane.pop(|_| true, take, &self.retries))
    }

    /// Takes every magazine out that was in when the call began, and hands over what is in each.
    pub(crate) fn drain(&self, mut each: impl FnMut(Blocks)) {
        for lane in self.classes.iter().flatten() {
            // At most as many as there are: others may put in as fast as this takes out.
            for _ in 0..lane.len() {
                let mut blocks = Blocks::new();
                let take = |magazine: &Magazine| blocks.extend(magazine.blocks());
                if !lane.pop(|_| true, take, &self.retries) {
                    break;
                }
                each(blocks);
            }
        }
    }

    /// Steps that another thread got in before.
    pub(crate) fn retries(&self) -> u64 {
        self.retries.get()
    }
}

impl Magazine {
    fn new() -> Self {
        Self {
            owner: AtomicU32::new(0),
            len: AtomicU32::new(0),
            slots: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn owner(&self) -> Owner {
        Owner(self.owner.load(Ordering::Relaxed))
    }

    /// Writes what is in it. Nobody else looks until it is published.
    fn fill(&self, owner: Owner, blocks: impl Iterator<Item = Handle>) {
        self.owner.store(owner.0, Ordering::Relaxed);
        let mut len = 0;
        for (slot, block) in self.slots.iter().zip(blocks) {
            slot.store(block.to_raw(), Ordering::Relaxed);
            len += 1;
        }
        self.len.store(len, Ordering::Relaxed);
    }

    /// Reads what is in it, once it was claimed.
    fn blocks(&self) -> impl Iterator<Item = Handle> + '_ {
        let len = self.len.load(Ordering::Relaxed) as usize;
        let slots = self.slots.iter().take(len);
        slots.filter_map(|slot| Handle::from_raw(slot.load(Ordering::Relaxed)))
    }
}
