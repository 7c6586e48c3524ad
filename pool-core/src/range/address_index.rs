//! The index of first fit: free runs by address, in one trie that knows the largest run below
//! each node.

use super::node::NONE;
use super::storage::sealed::Nodes;
use super::trie::{self, CHILDREN, REST, UP};

/// Free runs by address. A node's fourth link is the length less one of the longest run in the
/// subtree below and including it.
pub(crate) struct AddressIndex {
    root: u32,
    /// The bits that offsets have had so far: the trie is at most this deep.
    bits: u32,
}

#[inline]
fn longest_below(tables: &(impl Nodes + ?Sized), node: u32) -> u64 {
    u64::from(tables.node(node).links[REST]) + 1
}

fn longest_of_subtree(tables: &(impl Nodes + ?Sized), node: u32) -> u64 {
    let run = tables.node(node);
    CHILDREN
        .into_iter()
        .map(|side| run.links[side])
        .filter(|&child| child != NONE)
        .map(|child| longest_below(tables, child))
        .fold(run.len(), u64::max)
}

fn set_longest(tables: &mut (impl Nodes + ?Sized), node: u32, len: u64) {
    tables.node_mut(node).links[REST] = len.wrapping_sub(1) as u32;
}

/// Notes the longest run below each node from here up to the root.
fn note_longest(tables: &mut (impl Nodes + ?Sized), node: u32) {
    let mut at = node;
    while at != NONE {
        let longest = longest_of_subtree(tables, at);
        set_longest(tables, at, longest);
        at = tables.node(at).links[UP];
    }
}

impl AddressIndex {
    pub(crate) fn new() -> Self {
        Self { root: NONE, bits: 0 }
    }

    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Makes the trie one bit deeper at the top: every offset in it has a zero there, so any node
    /// may be the root, and all others lie on its low side.
    fn deepen(&mut self, tables: &mut (impl Nodes + ?Sized)) {
        self.bits += 1;
        if self.root == NONE {
            return;
        }
        let leaf = trie::leaf_below(tables, self.root);
        self.remove(tables, leaf);
        let below = self.root;
        tables.node_mut(leaf).links = [NONE; 4];
        if below != NONE {
            trie::attach(tables, leaf, CHILDREN[0], below);
        }
        self.root = leaf;
        let longest = longest_of_subtree(tables, leaf);
        set_longest(tables, leaf, longest);
    }

    /// Gives a free run another place in the range and another length.
    pub(crate) fn change(
        &mut self,
        tables: &mut (impl Nodes + ?Sized),
        node: u32,
        start: u32,
        len: u64,
    ) {
        let run = tables.node_mut(node);
        if run.start == start {
            run.set_len(len);
            return note_longest(tables, node);
        }
        self.remove(tables, node);
        let run = tables.node_mut(node);
        run.start = start;
        run.set_len(len);
        self.insert(tables, node);
    }

    /// Adds a free run. Visits at most one run for each bit of an offset.
    pub(crate) fn insert(&mut self, tables: &mut (impl Nodes + ?Sized), node: u32) {
        let run = tables.node_mut(node);
        run.links = [NONE; 4];
        let (key, len) = (u64::from(run.start), run.len());
        set_longest(tables, node, len);
        while key >> self.bits != 0 {
            self.deepen(tables);
        }
        if self.root == NONE {
            self.root = node;
            return;
        }
        let mut at = self.root;
        let mut bit = self.bits;
        loop {
            if longest_below(tables, at) < len {
                set_longest(tables, at, len);
            }
            bit -= 1;
            let side = trie::side(key, bit);
            let below = tables.node(at).links[side];
            if below == NONE {
                return trie::attach(tables, at, side, node);
            }
            at = below;
        }
    }

    /// Removes a free run. Visits at most two runs for each bit of an offset.
    pub(crate) fn remove(&mut self, tables: &mut (impl Nodes + ?Sized), node: u32) {
        let lowest = trie::remove(tables, &mut self.root, node);
        note_longest(tables, lowest);
    }

    /// The lowest (or highest) run of at least `len`. Visits at most one run for each bit of an
    /// offset, and the two below it.
    pub(crate) fn find(
        &self,
        tables: &(impl Nodes + ?Sized),
        len: u64,
        highest: bool,
        visits: &mut u32,
    ) -> u32 {
        let mut best = NONE;
        let mut at = self.root;
        while at != NONE {
            *visits += 1;
            let run = tables.node(at);
            if run.len() >= len {
                let better = best == NONE || (run.start > tables.node(best).start) == highest;
                if better {
                    best = at;
                }
            }
            // Every run below the wanted side lies before every run below the other.
            let near = run.links[CHILDREN[usize::from(highest)]];
            let far = run.links[CHILDREN[usize::from(!highest)]];
            at = if near != NONE && longest_below(tables, near) >= len {
                near
            } else if far != NONE && longest_below(tables, far) >= len {
                far
            } else {
                NONE
            };
        }
        best
    }

    /// The length of the longest run, or zero.
    pub(crate) fn longest(&self, tables: &(impl Nodes + ?Sized)) -> u64 {
        if self.root == NONE { 0 } else { longest_below(tables, self.root) }
    }
}

/// Whether a node's note of the longest run below it is true, for checks.
pub(crate) fn longest_is_true(tables: &(impl Nodes + ?Sized), node: u32) -> bool {
    longest_below(tables, node) == longest_of_subtree(tables, node)
}
