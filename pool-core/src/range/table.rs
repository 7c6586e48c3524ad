//! The nodes of a range: which are in use, and the chain of pieces in address order.

use super::error::Metadata;
use super::node::{NONE, Node, State};
use super::storage::sealed::Tables;

/// A free piece and its extent in granules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeRun {
    pub(crate) node: u32,
    pub(crate) start: u32,
    pub(crate) len: u64,
}

/// The node table: storage, the spare nodes, and the ends of the chain.
pub(crate) struct Table<S> {
    pub(crate) storage: S,
    /// Nodes below this were used at least once.
    touched: u32,
    /// Spare nodes that were used before, chained through `after`.
    spare: u32,
    used: u32,
    /// The first and the last piece in address order.
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl<S: Tables> Table<S> {
    pub(crate) fn new(storage: S) -> Self {
        Self { storage, touched: 0, spare: NONE, used: 0, first: NONE, last: NONE }
    }

    /// Nodes in use.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// Nodes that were ever in use: a slot from here on never named a block.
    pub(crate) fn touched(&self) -> u32 {
        self.touched
    }

    /// That this many nodes are to be had, or what is missing.
    #[inline]
    pub(crate) fn require(&self, nodes: u32) -> Result<(), Metadata> {
        let spare = self.storage.nodes() - self.used;
        if spare < nodes { Err(Metadata::Nodes(nodes - spare)) } else { Ok(()) }
    }

    /// Fills a spare node and puts it into the chain between two neighbours (`NONE`: an end). The
    /// caller has [required](Self::require) it.
    #[inline(always)]
    pub(crate) fn insert(&mut self, before: u32, after: u32, node: Node) -> u32 {
        let fresh = self.spare == NONE;
        let index = if fresh { self.touched } else { self.spare };
        let spare = self.storage.node_mut(index);
        if fresh {
            self.touched += 1;
        } else {
            self.spare = spare.after();
        }
        *spare = node.between(before, after);
        self.used += 1;
        self.set_after(before, index);
        self.set_before(after, index);
        index
    }

    /// The same behind a neighbour.
    pub(crate) fn insert_after(&mut self, before: u32, node: Node) -> u32 {
        let after = if before == NONE { self.first } else { self.storage.node(before).after() };
        self.insert(before, after, node)
    }

    /// Notes what is behind a piece (`NONE`: what is first).
    #[inline(always)]
    fn set_after(&mut self, piece: u32, after: u32) {
        if piece == NONE {
            self.first = after;
        } else {
            self.storage.node_mut(piece).set_after(after);
        }
    }

    /// Notes what is before a piece (`NONE`: what is last).
    #[inline(always)]
    fn set_before(&mut self, piece: u32, before: u32) {
        if piece == NONE {
            self.last = before;
        } else {
            self.storage.node_mut(piece).set_before(before);
        }
    }

    /// Takes a node out of the chain and makes it spare.
    #[inline(always)]
    pub(crate) fn remove(&mut self, index: u32) {
        let spare = core::mem::replace(&mut self.spare, index);
        let node = self.storage.node_mut(index);
        let (before, after) = (node.before(), node.after());
        node.make_unused(spare);
        self.used -= 1;
        self.set_after(before, after);
        self.set_before(after, before);
    }

    /// The neighbour as a free run, if it is one.
    #[inline(always)]
    pub(crate) fn free_run(&self, neighbour: u32) -> Option<FreeRun> {
        if neighbour == NONE {
            return None;
        }
        let node = self.storage.node(neighbour);
        (node.state() == State::Free).then(|| FreeRun {
            node: neighbour,
            start: node.start,
            len: node.len(),
        })
    }

    /// The neighbour, if it is free.
    #[inline]
    pub(crate) fn free_neighbour(&self, neighbour: u32) -> Option<u32> {
        self.free_run(neighbour).map(|run| run.node)
    }

    /// How many spare nodes were used before, for checks.
    pub(crate) fn count_spare(&self) -> u32 {
        let mut count = 0;
        let mut at = self.spare;
        while at != NONE && count <= self.touched {
            count += 1;
            at = self.storage.node(at).after();
        }
        count
    }

    /// The pieces in address order.
    pub(crate) fn chain(&self) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.first;
        core::iter::from_fn(move || {
            let this = at;
            if this == NONE {
                return None;
            }
            at = self.storage.node(this).after();
            Some(this)
        })
    }
}
