//! Free runs that are split and merged to the granule: what best fit and first fit share.

use super::address_index::AddressIndex;
use super::error::Metadata;
use super::need::Need;
use super::node::{NONE, Node, State};
use super::request::Options;
use super::size_index::{self, LOOK, SizeIndex};
use super::storage::sealed::Tables;
use super::table::Table;

/// A budget that every search ends within.
const NO_LIMIT: u32 = u32::MAX;

/// Where a request is to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The free run.
    pub(crate) node: u32,
    /// The first granule of the block in it.
    pub(crate) start: u64,
}

/// The free runs of a range under one of the two orders in which they are searched.
pub(crate) enum Runs {
    /// Best fit.
    BySize(SizeIndex),
    /// First fit.
    ByAddress(AddressIndex),
}

impl Runs {
    #[inline]
    fn index(&mut self, tables: &mut impl Tables, node: u32) {
        match self {
            Self::BySize(index) => index.insert(tables, node),
            Self::ByAddress(index) => index.insert(tables, node),
        }
    }

    #[inline]
    fn unindex(&mut self, tables: &mut impl Tables, node: u32) {
        match self {
            Self::BySize(index) => index.remove(tables, node),
            Self::ByAddress(index) => index.remove(tables, node),
        }
    }

    /// A place that a constant number of runs shows (first fit: as many as an offset has bits).
    #[inline]
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
            return self.walk(table, need, visits);
        }
        let place = self.look(table, need, need.len, NO_LIMIT, visits);
        if place.is_some() || need.align == 1 || need.sure_len() > 1 << 32 {
            return place;
        }
        self.look(table, need, need.sure_len(), NO_LIMIT, visits)
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
        let tables = &table.storage;
        match self {
            Self::BySize(index) => {
                let first = index.find(tables, len, budget, visits);
                if first == NONE {
                    return None;
                }
                let highest = need.has(Options::HIGH_END);
                size_index::ties(tables, first)
                    .inspect(|_| *visits += 1)
                    .filter_map(|node| place_in(tables, need, node))
                    .reduce(|a, b| if (b.start > a.start) == highest { b } else { a })
            }
            Self::ByAddress(index) => {
                let node = index.find(tables, len, need.has(Options::HIGH_END), visits);
                if node == NONE { None } else { place_in(tables, need, node) }
            }
        }
    }

    /// The lowest (or highest) place of all, by a walk over every piece.
    fn walk<S: Tables>(&self, table: &Table<S>, need: &Need, visits: &mut u32) -> Option<Place> {
        let places = table
            .chain()
            .inspect(|_| *visits += 1)
            .filter(|&node| table.storage.node(node).state() == State::Free)
            .filter_map(|node| place_in(&table.storage, need, node));
        let highest = need.has(Options::HIGH_END);
        places.reduce(|a, b| if highest { b } else { a })
    }

    /// Cuts a piece out of a free run; what is left stays free. The piece's node is in no index
    /// and marked live; the caller says what it is.
    #[inline]
    pub(crate) fn claim<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        place: Place,
        len: u64,
    ) -> Result<u32, Metadata> {
        let Place { node, start } = place;
        let run = table.storage.node(node);
        let (run_start, run_end) = (u64::from(run.start), run.end());
        let lead = start - run_start;
        let tail = run_end - (start + len);
        table.require(u32::from(lead > 0) + u32::from(tail > 0))?;
        self.unindex(&mut table.storage, node);
        let piece = table.storage.node_mut(node);
        piece.start = start as u32;
        piece.set_len(len);
        piece.set_state(State::Live);
        if tail > 0 {
            let rest = Node::piece(State::Free, (start + len) as u32, tail);
            let rest = table.insert_after(node, rest);
            self.index(&mut table.storage, rest);
        }
        if lead > 0 {
            let before = table.storage.node(node).before();
            let rest = table.insert_after(before, Node::piece(State::Free, run_start as u32, lead));
            self.index(&mut table.storage, rest);
        }
        Ok(node)
    }

    /// Makes a piece free and merges it with its free neighbours. Returns the run it is part of.
    #[inline]
    pub(crate) fn release<S: Tables>(&mut self, table: &mut Table<S>, node: u32) -> u32 {
        let piece = table.storage.node(node);
        let (before, after) = (piece.before(), piece.after());
        let mut len = piece.len();
        if let Some(after) = table.free_neighbour(after) {
            self.unindex(&mut table.storage, after);
            len += table.storage.node(after).len();
            table.remove(after);
        }
        let mut run = node;
        if let Some(before) = table.free_neighbour(before) {
            self.unindex(&mut table.storage, before);
            len += table.storage.node(before).len();
            table.remove(node);
            run = before;
        }
        let free = table.storage.node_mut(run);
        free.set_len(len);
        free.set_state(State::Free);
        self.index(&mut table.storage, run);
        run
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
                self.unindex(&mut table.storage, after);
                if after_end == end {
                    table.remove(after);
                } else {
                    let rest = table.storage.node_mut(after);
                    rest.start = end as u32;
                    rest.set_len(after_end - end);
                    self.index(&mut table.storage, after);
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
        if let Some(last) = table.free_neighbour(table.last) {
            self.unindex(&mut table.storage, last);
            let run = table.storage.node_mut(last);
            run.set_len(run.len() + more);
            self.index(&mut table.storage, last);
            return Ok(());
        }
        table.require(1)?;
        let run = table.insert_after(table.last, Node::piece(State::Free, capacity as u32, more));
        self.index(&mut table.storage, run);
        Ok(())
    }

    /// Takes granules away from the end, which is free for at least that long.
    pub(crate) fn shrink<S: Tables>(&mut self, table: &mut Table<S>, less: u64) {
        let last = table.last;
        self.unindex(&mut table.storage, last);
        let len = table.storage.node(last).len();
        if len == less {
            table.remove(last);
        } else {
            table.storage.node_mut(last).set_len(len - less);
            self.index(&mut table.storage, last);
        }
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

#[inline]
fn place_in(tables: &impl Tables, need: &Need, node: u32) -> Option<Place> {
    let run = tables.node(node);
    let start = need.place_in(u64::from(run.start), run.len())?;
    Some(Place { node, start })
}
