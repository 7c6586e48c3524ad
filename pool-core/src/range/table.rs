//! The nodes of a range: which are in use, and the chain of pieces in address order.

use super::error::Metadata;
use super::node::{NONE, Node, State};
use super::storage::sealed::{Nodes, Tables};

/// A free piece and its extent in granules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeRun {
    pub(crate) node: u32,
    pub(crate) start: u32,
    pub(crate) len: u64,
}

/// Which nodes are in use, and the ends of the chain of pieces.
pub(crate) struct Chain {
    /// Nodes below this were used at least once.
    touched: u32,
    /// Spare nodes that were used before, chained through `after`.
    spare: u32,
    used: u32,
    /// The first and the last piece in address order.
    pub(crate) first: u32,
    pub(crate) last: u32,
}

/// The node table: storage and chain.
pub(crate) struct Table<S> {
    pub(crate) storage: S,
    pub(crate) chain: Chain,
}

impl Chain {
    /// Nodes that were ever in use: a slot from here on never named a block.
    #[inline(always)]
    pub(crate) fn touched(&self) -> u32 {
        self.touched
    }

    /// That this many nodes are to be had, or what is missing.
    #[inline(always)]
    pub(crate) fn require(
        &self,
        nodes: &(impl Nodes + ?Sized),
        count: u32,
    ) -> Result<(), Metadata> {
        let spare = nodes.count() - self.used;
        if spare < count { Err(Metadata::Nodes(count - spare)) } else { Ok(()) }
    }

    /// Fills a spare node and puts it into the chain between two neighbours (`NONE`: an end). The
    /// caller has [required](Self::require) it.
    #[inline(always)]
    pub(crate) fn insert(
        &mut self,
        nodes: &mut (impl Nodes + ?Sized),
        before: u32,
        after: u32,
        node: Node,
    ) -> u32 {
        let fresh = self.spare == NONE;
        let index = if fresh { self.touched } else { self.spare };
        let spare = nodes.node_mut(index);
        if fresh {
            self.touched += 1;
        } else {
            self.spare = spare.after();
        }
        *spare = node.between(before, after);
        self.used += 1;
        self.set_after(nodes, before, index);
        self.set_before(nodes, after, index);
        index
    }

    /// Takes a node out of the chain and makes it spare.
    #[inline(always)]
    pub(crate) fn remove(&mut self, nodes: &mut (impl Nodes + ?Sized), index: u32) {
        let spare = core::mem::replace(&mut self.spare, index);
        let node = nodes.node_mut(index);
        let (before, after) = (node.before(), node.after());
        node.make_unused(spare);
        self.used -= 1;
        self.set_after(nodes, before, after);
        self.set_before(nodes, after, before);
    }

    /// Takes a node out of the chain, which ends on both sides of it, and makes it spare.
    #[cfg(feature = "alloc")]
    pub(crate) fn cut(&mut self, nodes: &mut (impl Nodes + ?Sized), index: u32) {
        let node = nodes.node(index);
        let (before, after) = (node.before(), node.after());
        if before != NONE {
            nodes.node_mut(before).set_after(NONE);
        }
        if after != NONE {
            nodes.node_mut(after).set_before(NONE);
        }
        nodes.node_mut(index).set_before(NONE);
        nodes.node_mut(index).set_after(NONE);
        self.remove(nodes, index);
    }

    /// Notes what is behind a piece (`NONE`: what is first).
    #[inline(always)]
    fn set_after(&mut self, nodes: &mut (impl Nodes + ?Sized), piece: u32, after: u32) {
        if piece == NONE {
            self.first = after;
        } else {
            nodes.node_mut(piece).set_after(after);
        }
    }

    /// Notes what is before a piece (`NONE`: what is last).
    #[inline(always)]
    fn set_before(&mut self, nodes: &mut (impl Nodes + ?Sized), piece: u32, before: u32) {
        if piece == NONE {
            self.last = before;
        } else {
            nodes.node_mut(piece).set_before(before);
        }
    }
}

/// A neighbour as a free run, if it is one.
#[inline(always)]
pub(crate) fn free_run(nodes: &(impl Nodes + ?Sized), neighbour: u32) -> Option<FreeRun> {
    if neighbour == NONE {
        return None;
    }
    let node = nodes.node(neighbour);
    (node.state() == State::Free).then(|| FreeRun {
        node: neighbour,
        start: node.start,
        len: node.len(),
    })
}

impl<S: Tables> Table<S> {
    pub(crate) const fn new(storage: S) -> Self {
        let chain = Chain { touched: 0, spare: NONE, used: 0, first: NONE, last: NONE };
        Self { storage, chain }
    }

    /// Nodes in use.
    pub(crate) fn used(&self) -> u32 {
        self.chain.used
    }

    /// Nodes that were ever in use: a slot from here on never named a block.
    #[inline(always)]
    pub(crate) fn touched(&self) -> u32 {
        self.chain.touched
    }

    /// See [`Chain::require`].
    pub(crate) fn require(&self, nodes: u32) -> Result<(), Metadata> {
        self.chain.require(&self.storage, nodes)
    }

    /// [Inserts](Chain::insert) a node behind another (`NONE`: at the start).
    pub(crate) fn insert_after(&mut self, before: u32, node: Node) -> u32 {
        let after =
            if before == NONE { self.chain.first } else { self.storage.node(before).after() };
        self.chain.insert(&mut self.storage, before, after, node)
    }

    /// See [`Chain::remove`].
    pub(crate) fn remove(&mut self, index: u32) {
        self.chain.remove(&mut self.storage, index);
    }

    /// The neighbour, if it is free.
    #[inline]
    pub(crate) fn free_neighbour(&self, neighbour: u32) -> Option<u32> {
        free_run(&self.storage, neighbour).map(|run| run.node)
    }

    /// How many spare nodes were used before, for checks.
    pub(crate) fn count_spare(&self) -> u32 {
        let mut count = 0;
        let mut at = self.chain.spare;
        while at < self.chain.touched && count <= self.chain.touched {
            count += 1;
            at = self.storage.node(at).after();
        }
        count
    }

    /// The pieces in address order.
    pub(crate) fn chain(&self) -> impl Iterator<Item = u32> + '_ {
        self.chain_from(self.chain.first)
    }

    /// The first pieces of all chains, if there are several.
    pub(crate) fn heads(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.chain.touched).filter(|&node| {
            let node = self.storage.node(node);
            node.state() != State::Unused && node.before() == NONE
        })
    }

    /// The first piece of the island that begins at a granule, or `NONE`.
    #[cfg(feature = "alloc")]
    pub(crate) fn head_at(&self, start: u32) -> u32 {
        self.heads().find(|&head| self.storage.node(head).start == start).unwrap_or(NONE)
    }

    /// A piece and those behind it.
    pub(crate) fn chain_from(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = first;
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
