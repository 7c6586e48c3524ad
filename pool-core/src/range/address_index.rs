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
fn longest_below(nodes: &(impl Nodes + ?Sized), node: u32) -> u64 {
    u64::from(nodes.node(node).links[REST]) + 1
}

fn longest_of_subtree(nodes: &(impl Nodes + ?Sized), node: u32) -> u64 {
    let run = nodes.node(node);
    CHILDREN
        .into_iter()
        .map(|side| run.links[side])
        .filter(|&child| child != NONE)
        .map(|child| longest_below(nodes, child))
        .fold(run.len(), u64::max)
}

fn set_longest(nodes: &mut (impl Nodes + ?Sized), node: u32, len: u64) {
    nodes.node_mut(node).links[REST] = len.wrapping_sub(1) as u32;
}

/// How many nodes are above a node.
fn depth(nodes: &(impl Nodes + ?Sized), node: u32) -> u32 {
    let mut depth = 0;
    let mut at = nodes.node(node).links[UP];
    while at != NONE {
        depth += 1;
        at = nodes.node(at).links[UP];
    }
    depth
}

/// Notes the longest run below each node from here up to the root.
fn note_longest(nodes: &mut (impl Nodes + ?Sized), node: u32) {
    let mut at = node;
    while at != NONE {
        let longest = longest_of_subtree(nodes, at);
        set_longest(nodes, at, longest);
        at = nodes.node(at).links[UP];
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
    fn deepen(&mut self, nodes: &mut (impl Nodes + ?Sized)) {
        self.bits += 1;
        if self.root == NONE {
            return;
        }
        let leaf = trie::leaf_below(nodes, self.root);
        self.remove(nodes, leaf);
        let below = self.root;
        nodes.node_mut(leaf).links = [NONE; 4];
        if below != NONE {
            trie::attach(nodes, leaf, CHILDREN[0], below);
        }
        self.root = leaf;
        let longest = longest_of_subtree(nodes, leaf);
        set_longest(nodes, leaf, longest);
    }

    /// Gives a free run another place in the range and another length.
    pub(crate) fn change(
        &mut self,
        nodes: &mut (impl Nodes + ?Sized),
        node: u32,
        start: u32,
        len: u64,
    ) {
        // It stays where it is if the way down to its new offset passes the same nodes.
        let below = self.bits.saturating_sub(depth(nodes, node));
        let run = nodes.node_mut(node);
        if u64::from(run.start ^ start) >> below == 0 {
            run.start = start;
            run.set_len(len);
            return note_longest(nodes, node);
        }
        self.remove(nodes, node);
        let run = nodes.node_mut(node);
        run.start = start;
        run.set_len(len);
        self.insert(nodes, node);
    }

    /// Adds a free run. Visits at most one run for each bit of an offset.
    pub(crate) fn insert(&mut self, nodes: &mut (impl Nodes + ?Sized), node: u32) {
        let run = nodes.node_mut(node);
        run.links = [NONE; 4];
        let (key, len) = (u64::from(run.start), run.len());
        set_longest(nodes, node, len);
        while key >> self.bits != 0 {
            self.deepen(nodes);
        }
        if self.root == NONE {
            self.root = node;
            return;
        }
        let mut at = self.root;
        let mut bit = self.bits;
        loop {
            if longest_below(nodes, at) < len {
                set_longest(nodes, at, len);
            }
            bit -= 1;
            let side = trie::side(key, bit);
            let below = nodes.node(at).links[side];
            if below == NONE {
                return trie::attach(nodes, at, side, node);
            }
            at = below;
        }
    }

    /// Removes a free run. Visits at most two runs for each bit of an offset.
    pub(crate) fn remove(&mut self, nodes: &mut (impl Nodes + ?Sized), node: u32) {
        let lowest = trie::remove(nodes, &mut self.root, node);
        note_longest(nodes, lowest);
    }

    /// The lowest (or highest) run of at least `len`. Visits at most one run for each bit of an
    /// offset, and the two below it.
    pub(crate) fn find(
        &self,
        nodes: &(impl Nodes + ?Sized),
        len: u64,
        highest: bool,
        visits: &mut u32,
    ) -> u32 {
        let mut best = NONE;
        let mut at = self.root;
        while at != NONE {
            *visits += 1;
            let run = nodes.node(at);
            if run.len() >= len {
                let better = best == NONE || (run.start > nodes.node(best).start) == highest;
                if better {
                    best = at;
                }
            }
            // Every run below the wanted side lies before every run below the other.
            let near = run.links[CHILDREN[usize::from(highest)]];
            let far = run.links[CHILDREN[usize::from(!highest)]];
            at = if near != NONE && longest_below(nodes, near) >= len {
                near
            } else if far != NONE && longest_below(nodes, far) >= len {
                far
            } else {
                NONE
            };
        }
        best
    }

    /// The length of the longest run, or zero.
    pub(crate) fn longest(&self, nodes: &(impl Nodes + ?Sized)) -> u64 {
        if self.root == NONE { 0 } else { longest_below(nodes, self.root) }
    }
}

/// Whether a node's note of the longest run below it is true, for checks.
pub(crate) fn longest_is_true(nodes: &(impl Nodes + ?Sized), node: u32) -> bool {
    longest_below(nodes, node) == longest_of_subtree(nodes, node)
}
