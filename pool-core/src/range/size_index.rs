//! The index of best fit: free runs by size class, and within a class a trie by size.

use super::class::{CLASSES, Class};
use super::node::NONE;
use super::storage::sealed::Nodes;
use super::trie::{self, CHILDREN, REST, UP};

/// Runs that a first look visits in one class before it settles for the best so far.
pub(crate) const LOOK: u32 = 8;

/// Words of a bit for each class.
const WORDS: usize = CLASSES.div_ceil(64);

/// Free runs by size: a trie for each class, a bit for each trie that holds something.
///
/// Runs of one size are one position of a trie: the first of them in the trie itself, the
/// others (its *twins*) in a list that hangs from it.
pub(crate) struct SizeIndex {
    /// A bit for each word of `filled` that has a bit.
    words: u32,
    filled: [u64; WORDS],
    roots: [u32; CLASSES],
}

impl SizeIndex {
    pub(crate) const fn new() -> Self {
        Self { words: 0, filled: [0; WORDS], roots: [NONE; CLASSES] }
    }

    #[inline(always)]
    fn root(&self, class: Class) -> u32 {
        self.roots[class.0 as usize]
    }

    /// Gives a free run another place in the range and another length. Visits at most two runs
    /// for each bit of a size; none if the run is alone in its class and stays in it, as the
    /// large run that blocks are cut from does.
    #[inline(always)]
    pub(crate) fn change(
        &mut self,
        nodes: &mut (impl Nodes + ?Sized),
        node: u32,
        start: u32,
        len: u64,
    ) {
        let run = nodes.node_mut(node);
        let (old_class, class) = (Class::of(run.len()), Class::of(len));
        let alone = run.links == [NONE; 4];
        run.start = start;
        run.set_len(len);
        if alone {
            if old_class != class {
                self.empty(old_class);
                self.place(nodes, class, node);
            }
            return;
        }
        Self::detach(nodes, &mut self.roots[old_class.0 as usize], node);
        nodes.node_mut(node).links = [NONE; 4];
        self.place(nodes, class, node);
    }

    /// Adds a free run. Visits at most one run for each bit of a size.
    #[inline(always)]
    pub(crate) fn insert(&mut self, nodes: &mut (impl Nodes + ?Sized), node: u32) {
        let run = nodes.node_mut(node);
        run.links = [NONE; 4];
        let class = Class::of(run.len());
        self.place(nodes, class, node);
    }

    /// Removes a free run. Visits at most one run for each bit of a size.
    #[inline(always)]
    pub(crate) fn remove(&mut self, nodes: &mut (impl Nodes + ?Sized), node: u32) {
        let run = nodes.node(node);
        let class = Class::of(run.len());
        if run.links == [NONE; 4] {
            self.empty(class);
        } else {
            Self::detach(nodes, &mut self.roots[class.0 as usize], node);
        }
    }

    /// Notes that the only run of a class is gone.
    #[inline(always)]
    fn empty(&mut self, class: Class) {
        self.roots[class.0 as usize] = NONE;
        let word = class.0 / 64;
        let filled = &mut self.filled[word as usize];
        *filled &= !(1 << (class.0 % 64));
        self.words &= !(u32::from(*filled == 0) << word);
    }

    /// Puts a run without links into its class.
    #[inline(always)]
    fn place(&mut self, nodes: &mut (impl Nodes + ?Sized), class: Class, node: u32) {
        let root = &mut self.roots[class.0 as usize];
        if *root != NONE {
            return Self::insert_below(nodes, *root, class.free_bits(), node);
        }
        *root = node;
        let word = class.0 / 64;
        self.filled[word as usize] |= 1 << (class.0 % 64);
        self.words |= 1 << word;
    }

    #[inline]
    fn insert_below(nodes: &mut (impl Nodes + ?Sized), root: u32, mut bit: u32, node: u32) {
        let len = nodes.node(node).len();
        let mut at = root;
        loop {
            let above = nodes.node(at);
            if above.len() == len {
                return Self::add_twin(nodes, at, node);
            }
            // Two sizes of a class that agree in every bit are equal: a bit is left here.
            bit -= 1;
            let side = trie::side(len, bit);
            let below = above.links[side];
            if below == NONE {
                return trie::attach(nodes, at, side, node);
            }
            at = below;
        }
    }

    #[inline]
    fn add_twin(nodes: &mut (impl Nodes + ?Sized), first: u32, node: u32) {
        let next = nodes.node(first).links[REST];
        nodes.node_mut(first).links[REST] = node;
        let twin = nodes.node_mut(node);
        twin.set_twin(true);
        twin.links[UP] = first;
        twin.links[REST] = next;
        if next != NONE {
            nodes.node_mut(next).links[UP] = node;
        }
    }

    /// Takes a run that is not alone out of its class.
    #[inline]
    fn detach(nodes: &mut (impl Nodes + ?Sized), root: &mut u32, node: u32) {
        let run = nodes.node(node);
        let [.., up, next] = run.links;
        if run.is_twin() {
            nodes.node_mut(up).links[REST] = next;
            if next != NONE {
                nodes.node_mut(next).links[UP] = up;
            }
            nodes.node_mut(node).set_twin(false);
        } else if next != NONE {
            nodes.node_mut(next).set_twin(false);
            trie::replace(nodes, root, node, next);
        } else {
            trie::remove(nodes, root, node);
        }
    }

    /// The next class above this one that holds a run.
    #[inline(always)]
    fn class_above(&self, class: Class) -> Option<Class> {
        let word = class.0 / 64;
        let here = self.filled[word as usize] & (!1 << (class.0 % 64));
        if here != 0 {
            return Some(Class(word * 64 + here.trailing_zeros()));
        }
        let words = self.words & (!1 << word);
        if words == 0 {
            return None;
        }
        let word = words.trailing_zeros();
        Some(Class(word * 64 + self.filled[word as usize].trailing_zeros()))
    }

    /// A run of at least `len`, the least of those that it looks at: those of the own class on
    /// the way to `len`, at most `budget`, then those on the way to the least of the next class,
    /// at most `budget` again. With a budget for every bit of a size it is the least of all.
    ///
    /// A `NONE` is final only with such a budget. Every run that is visited adds to `visits`.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        nodes: &(impl Nodes + ?Sized),
        len: u64,
        budget: u32,
        visits: &mut u32,
    ) -> u32 {
        let class = Class::of(len);
        let root = self.root(class);
        if root != NONE {
            // Most classes hold one size, and most requests repeat one.
            if nodes.node(root).len() == len {
                *visits += 1;
                return root;
            }
            let bits = class.free_bits();
            let found = least_of_at_least(nodes, root, bits, len, budget, visits);
            if found != NONE {
                return found;
            }
        }
        let Some(above) = self.class_above(class) else { return NONE };
        let root = self.root(above);
        let [low, high, ..] = nodes.node(root).links;
        if low == high {
            // Two children are never one node: there are none.
            *visits += 1;
            return root;
        }
        least(nodes, root, NONE, budget, visits)
    }

    /// The largest run.
    pub(crate) fn largest(&self, nodes: &(impl Nodes + ?Sized)) -> u32 {
        if self.words == 0 {
            return NONE;
        }
        let word = self.words.ilog2();
        let class = Class(word * 64 + self.filled[word as usize].ilog2());
        let mut at = self.root(class);
        let mut best = at;
        while at != NONE {
            let run = nodes.node(at);
            if run.len() > nodes.node(best).len() {
                best = at;
            }
            at = if run.links[CHILDREN[1]] == NONE {
                run.links[CHILDREN[0]]
            } else {
                run.links[CHILDREN[1]]
            };
        }
        best
    }

    /// Every trie's class and root, and whether it is marked as filled, for checks.
    pub(crate) fn tries(&self) -> impl Iterator<Item = (Class, u32, bool)> + '_ {
        (0..CLASSES as u32).map(move |class| {
            let word = class / 64;
            let marked =
                self.words >> word & 1 != 0 && self.filled[word as usize] >> (class % 64) & 1 != 0;
            (Class(class), self.root(Class(class)), marked)
        })
    }
}

/// The least run of at least `len` in the trie of its class.
#[inline]
fn least_of_at_least(
    nodes: &(impl Nodes + ?Sized),
    root: u32,
    mut bit: u32,
    len: u64,
    mut budget: u32,
    visits: &mut u32,
) -> u32 {
    let mut best = NONE;
    let mut best_len = u64::MAX;
    // The last subtree beside the path whose runs are all larger than `len`.
    let mut larger = NONE;
    let mut at = root;
    while at != NONE && budget > 0 {
        budget -= 1;
        *visits += 1;
        let run = nodes.node(at);
        let run_len = run.len();
        if run_len == len {
            return at;
        }
        if run_len > len && run_len < best_len {
            best = at;
            best_len = run_len;
        }
        bit -= 1;
        let side = trie::side(len, bit);
        if side == 0 && run.links[CHILDREN[1]] != NONE {
            larger = run.links[CHILDREN[1]];
        }
        at = run.links[side];
    }
    least(nodes, larger, best, budget, visits)
}

/// The least of `best` and the runs of a trie on the way to its least.
#[inline]
fn least(
    nodes: &(impl Nodes + ?Sized),
    root: u32,
    best: u32,
    mut budget: u32,
    visits: &mut u32,
) -> u32 {
    let mut best = best;
    let mut best_len = if best == NONE { u64::MAX } else { nodes.node(best).len() };
    let mut at = root;
    while at != NONE && budget > 0 {
        budget -= 1;
        *visits += 1;
        let run = nodes.node(at);
        if run.len() < best_len {
            best = at;
            best_len = run.len();
        }
        let [low, high, ..] = run.links;
        at = if low == NONE { high } else { low };
    }
    best
}
