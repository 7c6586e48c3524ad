//! The depot: full magazines on their way from caches that free to caches that allocate.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::classes::Classes;
use super::owner::Owner;
use super::stack::{Links, Stack};
use crate::range::Handle;
use crate::sync::{AtomicU32, AtomicU64, Counter, Ordering, Padded};

/// Stacks that the owners of a class share: as many owners can pass magazines on without
/// meeting others.
const BUCKETS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 8 };

/// A magazine in the depot: cached blocks of one class and one owner.
struct Magazine {
    below: AtomicU32,
    owner: AtomicU32,
    len: AtomicU32,
    slots: Box<[AtomicU64]>,
}

impl Links for [Magazine] {
    #[inline]
    fn link(&self, item: u32) -> &AtomicU32 {
        &self[item as usize].below
    }
}

/// The stacks of one class.
struct Shelf {
    empty: Padded<Stack>,
    full: [Padded<Stack>; BUCKETS],
}

/// Magazines of all classes. Their number is fixed when it is made, and with it the bytes that
/// the depot keeps at most.
pub(crate) struct Depot {
    magazines: Box<[Magazine]>,
    shelves: Box<[Shelf]>,
    retries: Counter,
}

impl Depot {
    /// An empty depot that keeps at most so many bytes of each class. `None` if the heap refuses.
    pub(crate) fn new(classes: &Classes, bytes_a_class: u64) -> Option<Self> {
        let mut magazines = Vec::new();
        let mut shelves = Vec::new();
        shelves.try_reserve_exact(classes.count()).ok()?;
        let retries = Counter::default();
        let counts = (0..classes.count()).map(|class| classes.magazines(class, bytes_a_class));
        magazines.try_reserve_exact(counts.sum()).ok()?;
        for class in 0..classes.count() {
            let first = magazines.len();
            for _ in 0..classes.magazines(class, bytes_a_class) {
                magazines.push(Magazine::new(classes.magazine_len(class))?);
            }
            let empty = Padded(Stack::new());
            for item in first..magazines.len() {
                empty.push(magazines.as_slice(), item as u32, &retries);
            }
            shelves.push(Shelf { empty, full: core::array::from_fn(|_| Padded(Stack::new())) });
        }
        Some(Self {
            magazines: magazines.into_boxed_slice(),
            shelves: shelves.into_boxed_slice(),
            retries,
        })
    }

    /// Puts a magazine in; false if the depot is full of its class.
    pub(crate) fn put(
        &self,
        class: usize,
        owner: Owner,
        blocks: impl Iterator<Item = Handle>,
    ) -> bool {
        let Some(shelf) = self.shelves.get(class) else { return false };
        let Some(item) = shelf.empty.pop(&*self.magazines, &self.retries) else { return false };
        self.magazines[item as usize].fill(owner, blocks);
        shelf.full[bucket(owner)].push(&*self.magazines, item, &self.retries);
        true
    }

    /// Takes a magazine of a class and an owner out, and hands over what is in it. One of
    /// another owner that lies on top of it hides it.
    pub(crate) fn get(&self, class: usize, owner: Owner, each: impl FnMut(Handle)) -> bool {
        let Some(shelf) = self.shelves.get(class) else { return false };
        let full = &shelf.full[bucket(owner)];
        let Some(item) = full.pop(&*self.magazines, &self.retries) else { return false };
        let magazine = &self.magazines[item as usize];
        if magazine.owner() != owner {
            full.push(&*self.magazines, item, &self.retries);
            return false;
        }
        magazine.blocks().for_each(each);
        shelf.empty.push(&*self.magazines, item, &self.retries);
        true
    }

    /// Takes every magazine out that was in when the call began, and hands over what is in them.
    pub(crate) fn drain(&self, mut each: impl FnMut(Handle)) {
        for shelf in &self.shelves {
            for full in &shelf.full {
                // At most as many as there are: others may put in as fast as this takes out.
                for _ in 0..self.magazines.len() {
                    let Some(item) = full.pop(&*self.magazines, &self.retries) else { break };
                    self.magazines[item as usize].blocks().for_each(&mut each);
                    shelf.empty.push(&*self.magazines, item, &self.retries);
                }
            }
        }
    }

    /// Steps that another thread got in before.
    pub(crate) fn retries(&self) -> u64 {
        self.retries.get()
    }
}

impl Magazine {
    fn new(len: usize) -> Option<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(len).ok()?;
        slots.resize_with(len, || AtomicU64::new(0));
        Some(Self {
            below: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            len: AtomicU32::new(0),
            slots: slots.into_boxed_slice(),
        })
    }

    fn owner(&self) -> Owner {
        Owner(self.owner.load(Ordering::Relaxed))
    }

    /// Writes what is in it. Nobody else looks until it is pushed.
    fn fill(&self, owner: Owner, blocks: impl Iterator<Item = Handle>) {
        self.owner.store(owner.0, Ordering::Relaxed);
        let mut len = 0;
        for (slot, block) in self.slots.iter().zip(blocks) {
            slot.store(block.to_raw(), Ordering::Relaxed);
            len += 1;
        }
        self.len.store(len, Ordering::Relaxed);
    }

    /// Reads what is in it, once it was popped.
    fn blocks(&self) -> impl Iterator<Item = Handle> + '_ {
        let len = self.len.load(Ordering::Relaxed) as usize;
        let slots = self.slots.iter().take(len);
        slots.filter_map(|slot| Handle::from_raw(slot.load(Ordering::Relaxed)))
    }
}

#[inline]
fn bucket(owner: Owner) -> usize {
    owner.0 as usize % BUCKETS
}
