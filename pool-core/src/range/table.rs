//! The nodes of a range: which are in use, and the chain of pieces in address order.

use super::error::Metadata;
use super::node::{NONE, Node, State};
use super::storage::sealed::Tables;

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

    /// Fills a spare node and puts it into the chain behind `before` (`NONE`: at the start). The
    /// caller has [required](Self::require) it.
    #[inline]
    pub(crate) fn insert_after(&mut self, before: u32, node: Node) -> u32 {
        let index = if self.spare == NONE {
            self.touched += 1;
            self.touched - 1
        } else {
            let index = self.spare;
            self.spare = self.storage.node(index).after();
            index
        };
        self.used += 1;
        let after = if before == NONE {
            core::mem::replace(&mut self.first, index)
        } else {
            let before = self.storage.node_mut(before);
            let after = before.after();
            before.set_after(index);
            after
        };
        if after == NONE {
            self.last = index;
        } else {
            self.storage.node_mut(after).set_before(index);
        }
        let slot = self.storage.node_mut(index);
        *slot = node;
        slot.set_before(before);
        slot.set_after(after);
        index
    }

    /// Takes a node out of the chain and makes it spare.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) {
        let node = self.storage.node(index);
        let (before, after) = (node.before(), node.after());
        if before == NONE {
            self.first = after;
        } else {
            self.storage.node_mut(before).set_after(after);
        }
        if after == NONE {
            self.last = before;
        } else {
            self.storage.node_mut(after).set_before(before);
        }
        let spare = core::mem::replace(&mut self.spare, index);
        let node = self.storage.node_mut(index);
        node.set_state(State::Unused);
        node.set_after(spare);
        self.used -= 1;
    }

    /// The neighbour, if it is free.
    #[inline]
    pub(crate) fn free_neighbour(&self, neighbour: u32) -> Option<u32> {
        (neighbour != NONE && self.storage.node(neighbour).state() == State::Free)
            .then_some(neighbour)
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
