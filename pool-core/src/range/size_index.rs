//! The index of best fit: free runs by size class, and within a class a trie by size.

use super::class::{COLUMNS, Class, ROWS};
use super::node::NONE;
use super::storage::sealed::Tables;
use super::trie::{self, CHILDREN, REST, UP};

/// Runs that a first look visits in one class before it settles for the best so far.
pub(crate) const LOOK: u32 = 8;

/// Runs of one size that are compared by address.
const TIES: u32 = 4;

/// Free runs by size: a trie for each class, a bit for each trie that holds something.
///
/// Runs of one size are one position of a trie: the first of them in the trie itself, the
/// others (its *twins*) in a list that hangs from it.
pub(crate) struct SizeIndex {
    rows: u32,
    columns: [u32; ROWS],
    roots: [[u32; COLUMNS]; ROWS],
}

impl SizeIndex {
    pub(crate) fn new() -> Self {
        Self { rows: 0, columns: [0; ROWS], roots: [[NONE; COLUMNS]; ROWS] }
    }

    #[inline]
    fn root(&self, class: Class) -> u32 {
        self.roots[class.row as usize][class.column as usize]
    }

    /// Adds a free run. Visits at most one run for each bit of a size.
    #[inline]
    pub(crate) fn insert(&mut self, tables: &mut impl Tables, node: u32) {
        let len = tables.node(node).len();
        let class = Class::of(len);
        let root = &mut self.roots[class.row as usize][class.column as usize];
        let links = &mut tables.node_mut(node).links;
        links[REST] = NONE;
        if *root == NONE {
            trie::plant(tables, root, node);
            self.columns[class.row as usize] |= 1 << class.column;
            self.rows |= 1 << class.row;
            return;
        }
        let mut at = *root;
        let mut bit = class.free_bits();
        loop {
            let above = tables.node(at);
            if above.len() == len {
                return Self::add_twin(tables, at, node);
            }
            // Two sizes of a class that agree in every bit are equal: a bit is left here.
            bit -= 1;
            let side = trie::side(len, bit);
            let below = above.links[side];
            if below == NONE {
                return trie::attach(tables, at, side, node);
            }
            at = below;
        }
    }

    #[inline]
    fn add_twin(tables: &mut impl Tables, first: u32, node: u32) {
        let next = tables.node(first).links[REST];
        tables.node_mut(first).links[REST] = node;
        let twin = tables.node_mut(node);
        twin.set_twin(true);
        twin.links[UP] = first;
        twin.links[REST] = next;
        if next != NONE {
            tables.node_mut(next).links[UP] = node;
        }
    }

    /// Removes a free run. Visits at most one run for each bit of a size.
    #[inline]
    pub(crate) fn remove(&mut self, tables: &mut impl Tables, node: u32) {
        let run = tables.node(node);
        let [.., up, next] = run.links;
        if run.is_twin() {
            tables.node_mut(up).links[REST] = next;
            if next != NONE {
                tables.node_mut(next).links[UP] = up;
            }
            tables.node_mut(node).set_twin(false);
            return;
        }
        let class = Class::of(run.len());
        let root = &mut self.roots[class.row as usize][class.column as usize];
        if next != NONE {
            tables.node_mut(next).set_twin(false);
            trie::replace(tables, root, node, next);
            return;
        }
        trie::remove(tables, root, node);
        if *root == NONE {
            let columns = &mut self.columns[class.row as usize];
            *columns &= !(1 << class.column);
            if *columns == 0 {
                self.rows &= !(1 << class.row);
            }
        }
    }

    /// The next class above this one that holds a run.
    #[inline]
    fn class_above(&self, class: Class) -> Option<Class> {
        let same_row = self.columns[class.row as usize] & (!1 << class.column);
        if same_row != 0 {
            return Some(Class { row: class.row, column: same_row.trailing_zeros() });
        }
        let rows = self.rows & (!1 << class.row);
        if rows == 0 {
            return None;
        }
        let row = rows.trailing_zeros();
        Some(Class { row, column: self.columns[row as usize].trailing_zeros() })
    }

    /// A run of at least `len`, the least of those that it looks at: those of the own class on
    /// the way to `len`, at most `budget`, then those on the way to the least of the next class,
    /// at most `budget` again. With a budget for every bit of a size it is the least of all.
    ///
    /// A `NONE` is final only with such a budget. Every run that is visited adds to `visits`.
    #[inline]
    pub(crate) fn find(
        &self,
        tables: &impl Tables,
        len: u64,
        budget: u32,
        visits: &mut u32,
    ) -> u32 {
        let class = Class::of(len);
        let found =
            least_of_at_least(tables, self.root(class), class.free_bits(), len, budget, visits);
        if found != NONE {
            return found;
        }
        match self.class_above(class) {
            Some(above) => least(tables, self.root(above), NONE, budget, visits),
            None => NONE,
        }
    }

    /// The largest run.
    pub(crate) fn largest(&self, tables: &impl Tables) -> u32 {
        if self.rows == 0 {
            return NONE;
        }
        let row = 31 - self.rows.leading_zeros();
        let column = 31 - self.columns[row as usize].leading_zeros();
        let mut at = self.root(Class { row, column });
        let mut best = at;
        while at != NONE {
            let run = tables.node(at);
            if run.len() > tables.node(best).len() {
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

    /// Every trie's class and root, for checks.
    pub(crate) fn tries(&self) -> impl Iterator<Item = (Class, u32, bool)> + '_ {
        (0..ROWS as u32).flat_map(move |row| {
            (0..COLUMNS as u32).map(move |column| {
                let class = Class { row, column };
                let marked =
                    self.rows >> row & 1 != 0 && self.columns[row as usize] >> column & 1 != 0;
                (class, self.root(class), marked)
            })
        })
    }
}

/// The first run and its twins, as far as ties are compared.
#[inline]
pub(crate) fn ties(tables: &impl Tables, first: u32) -> impl Iterator<Item = u32> + '_ {
    let mut at = first;
    (0..TIES).map_while(move |_| {
        let this = at;
        if this == NONE {
            return None;
        }
        at = tables.node(this).links[REST];
        Some(this)
    })
}

/// The least run of at least `len` in the trie of its class.
#[inline]
fn least_of_at_least(
    tables: &impl Tables,
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
        let run = tables.node(at);
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
    least(tables, larger, best, budget, visits)
}

/// The least of `best` and the runs of a trie on the way to its least.
#[inline]
fn least(tables: &impl Tables, root: u32, best: u32, mut budget: u32, visits: &mut u32) -> u32 {
    let mut best = best;
    let mut best_len = if best == NONE { u64::MAX } else { tables.node(best).len() };
    let mut at = root;
    while at != NONE && budget > 0 {
        budget -= 1;
        *visits += 1;
        let run = tables.node(at);
        if run.len() < best_len {
            best = at;
            best_len = run.len();
        }
        let [low, high, ..] = run.links;
        at = if low == NONE { high } else { low };
    }
    best
}
