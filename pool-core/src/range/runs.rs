//! Free runs that are split and merged to the granule: what best fit and first fit share.

use core::num::NonZeroU64;

use super::address_index::AddressIndex;
use super::error::Metadata;
use super::handle::Generation;
use super::need::Need;
use super::node::{NONE, Node, State};
use super::request::Options;
use super::size_index::{LOOK, SizeIndex};
use super::storage::sealed::{Nodes, Tables};
use super::table::{Chain, Table, free_run};
use super::tolerance::Tolerance;
use super::trie::REST;

/// A budget that every search ends within.
const NO_LIMIT: u32 = u32::MAX;

/// Runs of one length that are compared with the first by address.
const TIES: u32 = 3;

/// Where a request is to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The free run.
    pub(crate) node: u32,
    /// The first granule of the block in it.
    pub(crate) start: u64,
}

/// The free runs of a range under one of the two orders in which they are searched.
#[expect(clippy::large_enum_variant, reason = "there is no heap to put the larger one on")]
pub(crate) enum Runs {
    /// Best fit.
    BySize(SizeIndex),
    /// First fit.
    ByAddress(AddressIndex),
}

impl Runs {
    #[inline(always)]
    pub(crate) fn index(&mut self, nodes: &mut (impl Nodes + ?Sized), node: u32) {
        match self {
            Self::BySize(index) => index.insert(nodes, node),
            Self::ByAddress(index) => index.insert(nodes, node),
        }
    }

    #[inline(always)]
    fn change(&mut self, nodes: &mut (impl Nodes + ?Sized), node: u32, start: u32, len: u64) {
        match self {
            Self::BySize(index) => index.change(nodes, node, start, len),
            Self::ByAddress(index) => index.change(nodes, node, start, len),
        }
    }

    #[inline(always)]
    pub(crate) fn unindex(&mut self, nodes: &mut (impl Nodes + ?Sized), node: u32) {
        match self {
            Self::BySize(index) => index.remove(nodes, node),
            Self::ByAddress(index) => index.remove(nodes, node),
        }
    }

    /// A place that a constant number of runs shows (first fit: as many as an offset has bits).
    pub(crate) fn first_look<S: Tables>(
        &self,
        table: &Table<S>,
        need: &Need,
        visits: &mut u32,
    ) -> Option<Place> {
        self.look(table, need, need.len, LOOK, visits)
    }

    /// A place if the range's promise knows one: at the granule's alignment wherever a run fits,
    /// over-aligned wherever a run holds length plus alignment less a granule.
    ///
    /// Visits at most two runs for each bit of a size, but for first fit under a split limit,
    /// where it visits every piece.
    #[cold]
    pub(crate) fn second_look<S: Tables>(
        &self,
        table: &Table<S>,
        need: &Need,
        visits: &mut u32,
    ) -> Option<Place> {
        if matches!(self, Self::ByAddress(_)) && need.has(Options::LIMIT_SPLIT) {
            return walk(table, need, visits);
        }
        let lens = [need.len, need.sure_len()];
        let searches = if need.align == 1 { 1 } else { 2 };
        lens.into_iter()
            .take(searches)
            .filter(|&len| len <= 1 << 32)
            .find_map(|len| self.look(table, need, len, NO_LIMIT, visits))
    }

    /// The best run of at least `len` that one search shows, if the request has a place in it.
    #[inline]
    fn look<S: Tables>(
        &self,
        table: &Table<S>,
        need: &Need,
        len: u64,
        budget: u32,
        visits: &mut u32,
    ) -> Option<Place> {
        let nodes = &table.storage;
        match self {
            Self::BySize(index) => {
                let first = index.find(nodes, len, budget, visits);
                if first == NONE {
                    return None;
                }
                best_of_equals(nodes, need, first, visits)
            }
            Self::ByAddress(index) => {
                let node = index.find(nodes, len, need.has(Options::HIGH_END), visits);
                if node == NONE { None } else { place_in(nodes, need, node) }
            }
        }
    }

    /// Cuts a live block of a length out of the run that a first look shows, at its low end:
    /// its node and its start. `None` if there is no such run or no node, or the block would be
    /// longer than that.
    #[inline(always)]
    pub(crate) fn claim_at_first_look(
        &mut self,
        nodes: &mut (impl Nodes + ?Sized),
        chain: &mut Chain,
        len: u64,
        generation: Generation,
        tolerance: Tolerance,
    ) -> Option<(u32, u32)> {
        let node = match self {
            Self::BySize(index) => {
                let first = index.find(nodes, len, LOOK, &mut 0);
                if first == NONE { NONE } else { lowest_of_equals(nodes, first) }
            }
            Self::ByAddress(index) => index.find(nodes, len, false, &mut 0),
        };
        if node == NONE {
            return None;
        }
        let run = nodes.node(node);
        let (start, over) = (run.start, run.len() - len);
        if over != 0 && tolerance.covers(len, over) {
            return None;
        }
        Some((self.claim_low(nodes, chain, node, len, generation).ok()?, start))
    }

    /// Cuts a live block out of a free run; what is left stays free. Returns the block's node.
    pub(crate) fn claim<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        place: Place,
        len: u64,
        generation: Generation,
    ) -> Result<u32, Metadata> {
        let Place { node, start } = place;
        if start == u64::from(table.storage.node(node).start) {
            self.claim_low(&mut table.storage, &mut table.chain, node, len, generation)
        } else {
            self.claim_inside(table, place, len, generation)
        }
    }

    /// The same at the low end of the run.
    #[inline(always)]
    fn claim_low(
        &mut self,
        nodes: &mut (impl Nodes + ?Sized),
        chain: &mut Chain,
        node: u32,
        len: u64,
        generation: Generation,
    ) -> Result<u32, Metadata> {
        let run = nodes.node(node);
        let (start, run_len, before) = (run.start, run.len(), run.before());
        if run_len == len {
            self.unindex(nodes, node);
            nodes.node_mut(node).make_live(generation.bits());
            return Ok(node);
        }
        chain.require(nodes, 1)?;
        // The rest keeps the run's node, and with luck its place in the index.
        let rest = (u64::from(start) + len) as u32;
        self.change(nodes, node, rest, run_len - len);
        Ok(chain.insert(nodes, before, node, Node::live(start, len, generation.bits())))
    }

    /// The same where free granules are left before the block.
    fn claim_inside<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        place: Place,
        len: u64,
        generation: Generation,
    ) -> Result<u32, Metadata> {
        let Place { node, start } = place;
        let run = table.storage.node(node);
        let (run_start, end) = (run.start, run.end());
        let tail = end - (start + len);
        table.require(1 + u32::from(tail > 0))?;
        self.change(&mut table.storage, node, run_start, start - u64::from(run_start));
        let block = Node::live(start as u32, len, generation.bits());
        let block = table.insert_after(node, block);
        if tail > 0 {
            let rest = Node::piece(State::Free, (start + len) as u32, tail);
            let rest = table.insert_after(block, rest);
            self.index(&mut table.storage, rest);
        }
        Ok(block)
    }

    /// Frees the live block of a node, if its generation is this one: its length and start.
    #[inline(always)]
    pub(crate) fn free(
        &mut self,
        nodes: &mut (impl Nodes + ?Sized),
        chain: &mut Chain,
        node: u32,
        generation_bits: u32,
    ) -> (Option<NonZeroU64>, u32) {
        if node >= chain.touched() {
            return (None, 0);
        }
        let piece = *nodes.node(node);
        if !piece.is_live(generation_bits) {
            return (None, 0);
        }
        self.release(nodes, chain, node, &piece);
        (NonZeroU64::new(piece.len()), piece.start)
    }

    /// Makes a piece free and merges it with its free neighbours. Returns the run it is part of.
    #[inline(always)]
    fn release(
        &mut self,
        nodes: &mut (impl Nodes + ?Sized),
        chain: &mut Chain,
        node: u32,
        piece: &Node,
    ) -> u32 {
        let (start, len) = (piece.start, piece.len());
        let (before, after) = (piece.before(), piece.after());
        match (free_run(nodes, before), free_run(nodes, after)) {
            (None, None) => {
                nodes.node_mut(node).set_state(State::Free);
                self.index(nodes, node);
                node
            }
            (None, Some(after)) => {
                chain.remove(nodes, node);
                self.change(nodes, after.node, start, len + after.len);
                after.node
            }
            (Some(before), None) => {
                chain.remove(nodes, node);
                self.change(nodes, before.node, before.start, before.len + len);
                before.node
            }
            (Some(before), Some(after)) => {
                chain.remove(nodes, node);
                self.unindex(nodes, after.node);
                chain.remove(nodes, after.node);
                let len = before.len + len + after.len;
                self.change(nodes, before.node, before.start, len);
                before.node
            }
        }
    }

    /// The same for a span that is closed.
    pub(crate) fn release_span<S: Tables>(&mut self, table: &mut Table<S>, node: u32) -> u32 {
        let piece = *table.storage.node(node);
        self.release(&mut table.storage, &mut table.chain, node, &piece)
    }

    /// The longest length that a live piece can have where it lies.
    pub(crate) fn most_len<S: Tables>(table: &Table<S>, node: u32) -> u64 {
        let piece = table.storage.node(node);
        let beyond = table.free_neighbour(piece.after());
        piece.len() + beyond.map_or(0, |after| table.storage.node(after).len())
    }

    /// Changes the length of a live piece to at most [`most_len`](Self::most_len). Without a
    /// node for what a shrink frees, the piece keeps its length.
    pub(crate) fn resize<S: Tables>(&mut self, table: &mut Table<S>, node: u32, len: u64) {
        let piece = table.storage.node(node);
        let end = u64::from(piece.start) + len;
        let old_end = piece.end();
        match table.free_neighbour(piece.after()) {
            Some(after) => {
                let after_end = table.storage.node(after).end();
                if after_end == end {
                    self.unindex(&mut table.storage, after);
                    table.remove(after);
                } else {
                    self.change(&mut table.storage, after, end as u32, after_end - end);
                }
            }
            None if end < old_end && table.require(1).is_ok() => {
                let rest = Node::piece(State::Free, end as u32, old_end - end);
                let rest = table.insert_after(node, rest);
                self.index(&mut table.storage, rest);
            }
            None => return,
        }
        table.storage.node_mut(node).set_len(len);
    }

    /// Adds granules at the end of the range.
    pub(crate) fn grow<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        capacity: u64,
        more: u64,
    ) -> Result<(), Metadata> {
        if let Some(last) = table.free_neighbour(table.chain.last) {
            let run = table.storage.node(last);
            let (start, len) = (run.start, run.len());
            self.change(&mut table.storage, last, start, len + more);
            return Ok(());
        }
        table.require(1)?;
        let run =
            table.insert_after(table.chain.last, Node::piece(State::Free, capacity as u32, more));
        self.index(&mut table.storage, run);
        Ok(())
    }

    /// Adds granules behind a piece that is the last of its chain. The caller has made sure of a
    /// node.
    #[cfg(feature = "alloc")]
    pub(crate) fn lengthen<S: Tables>(&mut self, table: &mut Table<S>, last: u32, more: u64) {
        let piece = table.storage.node(last);
        let (start, len, end) = (piece.start, piece.len(), piece.end());
        if piece.state() == State::Free {
            self.change(&mut table.storage, last, start, len + more);
        } else {
            let run = table.insert_after(last, Node::piece(State::Free, end as u32, more));
            self.index(&mut table.storage, run);
        }
    }

    /// Takes granules away from the end, which is free for at least that long.
    pub(crate) fn shrink<S: Tables>(&mut self, table: &mut Table<S>, less: u64) {
        let last = table.chain.last;
        let run = table.storage.node(last);
        let (start, len) = (run.start, run.len());
        if len == less {
            self.unindex(&mut table.storage, last);
            table.remove(last);
        } else {
            self.change(&mut table.storage, last, start, len - less);
        }
    }

    /// A longest free run.
    #[cfg(feature = "alloc")]
    pub(crate) fn longest_run<S: Tables>(&self, table: &Table<S>) -> Option<u32> {
        let node = match self {
            Self::BySize(index) => index.largest(&table.storage),
            Self::ByAddress(index) => {
                let len = index.longest(&table.storage);
                if len == 0 { NONE } else { index.find(&table.storage, len, false, &mut 0) }
            }
        };
        (node != NONE).then_some(node)
    }

    /// The length of the longest free run, or zero.
    pub(crate) fn longest<S: Tables>(&self, table: &Table<S>) -> u64 {
        match self {
            Self::BySize(index) => {
                let node = index.largest(&table.storage);
                if node == NONE { 0 } else { table.storage.node(node).len() }
            }
            Self::ByAddress(index) => index.longest(&table.storage),
        }
    }
}

/// The lowest of a run and as many others of its length as are compared.
#[inline(always)]
fn lowest_of_equals(nodes: &(impl Nodes + ?Sized), first: u32) -> u32 {
    let run = nodes.node(first);
    let (mut best, mut best_start, mut at) = (first, run.start, run.links[REST]);
    for _ in 0..TIES {
        if at == NONE {
            break;
        }
        let run = nodes.node(at);
        if run.start < best_start {
            (best, best_start) = (at, run.start);
        }
        at = run.links[REST];
    }
    best
}

/// The lowest (or highest) place in a run and as many others of its length as are compared.
#[inline(always)]
fn best_of_equals(
    nodes: &(impl Nodes + ?Sized),
    need: &Need,
    first: u32,
    visits: &mut u32,
) -> Option<Place> {
    let highest = need.has(Options::HIGH_END);
    let mut best = place_in(nodes, need, first);
    let mut at = first;
    for _ in 0..TIES {
        at = nodes.node(at).links[REST];
        if at == NONE {
            break;
        }
        *visits += 1;
        let place = place_in(nodes, need, at);
        best = match (best, place) {
            (Some(a), Some(b)) if (b.start > a.start) != highest => Some(a),
            (a, None) => a,
            (_, b) => b,
        };
    }
    best
}

#[inline(always)]
fn place_in(nodes: &(impl Nodes + ?Sized), need: &Need, node: u32) -> Option<Place> {
    let run = nodes.node(node);
    let start = need.place_in(u64::from(run.start), run.len())?;
    Some(Place { node, start })
}

/// The lowest (or highest) place of all, by a walk over every piece, of whichever chain.
fn walk<S: Tables>(table: &Table<S>, need: &Need, visits: &mut u32) -> Option<Place> {
    let places = (0..table.touched())
        .inspect(|_| *visits += 1)
        .filter(|&node| table.storage.node(node).state() == State::Free)
        .filter_map(|node| place_in(&table.storage, need, node));
    if need.has(Options::HIGH_END) {
        places.max_by_key(|place| place.start)
    } else {
        places.min_by_key(|place| place.start)
    }
}
