//! The buffers that may be moved, as the books have them.

use core::fmt;
use core::num::NonZeroUsize;

use hashbrown::HashMap;

use crate::range::Block;
use crate::sync::instance_number;

/// A buffer whose owner allows that the pool moves it. No other buffer of this or another pool ever
/// has the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Movable {
    pool: u32,
    number: u64,
}

impl fmt::Display for Movable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "movable buffer {} of pool {}", self.number, self.pool)
    }
}

/// A copy of a buffer that the pool queued on its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The stream's number.
    pub(crate) stream: u32,
    /// The stream's epoch behind it: whoever has waited for a later one has waited for the copy.
    pub(crate) epoch: u64,
}

/// A call that has a buffer in its hands: one of this thread, if threads have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hand(pub(crate) Option<NonZeroUsize>);

/// A buffer.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Where it is now.
    pub(crate) block: Block,
    /// What was asked for.
    pub(crate) align_bytes: u64,
    /// The number of the known stream that it was allocated on; none: it stays where it is.
    pub(crate) home: Option<u32>,
    /// Guards that are held: while there are any, it stays where it is.
    pub(crate) guards: u64,
    /// The call that has it in its hands, to move or to free it.
    pub(crate) in_hand: Option<Hand>,
    /// The last copy of it that is not known to be done.
    pub(crate) copied: Option<Copied>,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Movables {
    pool: u32,
    last: u64,
    all: HashMap<u64, Entry>,
}

impl Movables {
    pub(crate) fn new() -> Self {
        Self { pool: instance_number(), last: 0, all: HashMap::new() }
    }

    /// Enters a buffer; none if the host's heap refuses.
    pub(crate) fn enter(&mut self, entry: Entry) -> Option<Movable> {
        self.all.try_reserve(1).ok()?;
        self.last += 1;
        self.all.insert(self.last, entry);
        Some(Movable { pool: self.pool, number: self.last })
    }

    pub(crate) fn get_mut(&mut self, movable: Movable) -> Option<&mut Entry> {
        if movable.pool == self.pool { self.all.get_mut(&movable.number) } else { None }
    }

    pub(crate) fn remove(&mut self, movable: Movable) {
        if movable.pool == self.pool {
            self.all.remove(&movable.number);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Movable, &Entry)> {
        let pool = self.pool;
        self.all.iter().map(move |(&number, entry)| (Movable { pool, number }, entry))
    }
}
