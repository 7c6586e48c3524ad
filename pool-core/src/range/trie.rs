//! The bitwise tries that the indices of free runs are made of.
//!
//! A trie holds free nodes by the bits of a key (a size or an offset), the highest first. Every
//! position holds a node, not just the leaves: a node's two children share its key down to the
//! position's bit and differ there. So a trie is at most as deep as a key has bits, needs no
//! balancing, and any node may take the place of one above it on its path. (dlmalloc keeps its
//! large chunks by size in tries of this kind.)

use super::node::NONE;
use super::storage::sealed::Nodes;

/// Links of a free node in a trie: the two children, the parent, and one for the index's use.
pub(crate) const CHILDREN: [usize; 2] = [0, 1];
/// The parent; `NONE` at the root.
pub(crate) const UP: usize = 2;
/// What the index makes of it: more of the same size, or the largest size below.
pub(crate) const REST: usize = 3;

/// Which child a key belongs to at a bit.
#[inline]
pub(crate) fn side(key: u64, bit: u32) -> usize {
    (key >> bit & 1) as usize
}

/// Hangs `node`, which has no children, below `parent` on a side where there is none.
#[inline]
pub(crate) fn attach(nodes: &mut (impl Nodes + ?Sized), parent: u32, side: usize, node: u32) {
    nodes.node_mut(parent).links[side] = node;
    nodes.node_mut(node).links[UP] = parent;
}

/// Points what pointed to `old` to `new`.
#[inline]
fn redirect(nodes: &mut (impl Nodes + ?Sized), root: &mut u32, old: u32, new: u32) {
    let parent = nodes.node(old).links[UP];
    if parent == NONE {
        *root = new;
    } else {
        let links = &mut nodes.node_mut(parent).links;
        let side = usize::from(links[CHILDREN[1]] == old);
        links[side] = new;
    }
}

/// Puts `new`, which is in no trie, in the place of `old`.
#[inline]
pub(crate) fn replace(nodes: &mut (impl Nodes + ?Sized), root: &mut u32, old: u32, new: u32) {
    redirect(nodes, root, old, new);
    let [low, high, parent, _] = nodes.node(old).links;
    let links = &mut nodes.node_mut(new).links;
    links[CHILDREN[0]] = low;
    links[CHILDREN[1]] = high;
    links[UP] = parent;
    for child in [low, high] {
        if child != NONE {
            nodes.node_mut(child).links[UP] = new;
        }
    }
}

/// Takes `node` out: a leaf below it takes its place. Returns the lowest node whose children
/// have changed (`NONE` if none has).
#[inline]
pub(crate) fn remove(nodes: &mut (impl Nodes + ?Sized), root: &mut u32, node: u32) -> u32 {
    let leaf = leaf_below(nodes, node);
    let parent = nodes.node(leaf).links[UP];
    redirect(nodes, root, leaf, NONE);
    if leaf == node {
        return parent;
    }
    replace(nodes, root, node, leaf);
    if parent == node { leaf } else { parent }
}

/// Some node below this one, or itself, that has no children.
#[inline]
pub(crate) fn leaf_below(nodes: &(impl Nodes + ?Sized), node: u32) -> u32 {
    let mut leaf = node;
    loop {
        let [low, high, ..] = nodes.node(leaf).links;
        leaf = match (low, high) {
            (NONE, NONE) => return leaf,
            (NONE, child) | (child, _) => child,
        };
    }
}

/// The node after `node` when a trie is walked from the top, each node before its children, the
/// low child first. For checks; needs no stack.
pub(crate) fn next(nodes: &(impl Nodes + ?Sized), node: u32) -> u32 {
    let [low, high, ..] = nodes.node(node).links;
    if low != NONE {
        return low;
    }
    if high != NONE {
        return high;
    }
    let mut below = node;
    loop {
        let parent = nodes.node(below).links[UP];
        if parent == NONE {
            return NONE;
        }
        let high = nodes.node(parent).links[CHILDREN[1]];
        if high != below && high != NONE {
            return high;
        }
        below = parent;
    }
}
