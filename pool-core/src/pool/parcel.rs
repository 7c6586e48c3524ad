//! Blocks that wait together for the same work.

use alloc::vec::Vec;
use core::time::Duration;

use super::fence::{Shared, has_fence};
use crate::device::Device;
use crate::threads::{Aside, Owner};

/// Blocks of one space that the program freed, and whose memory is free once the same streams have
/// passed. First it is *open*: it names streams, and takes more blocks. Then it is *closed*: fences
/// were recorded, one a stream for all its blocks.
pub(crate) struct Parcel<D: Device> {
    /// The space of the blocks, to which they go back.
    pub(crate) home: Owner,
    /// What it was opened for: the numbers of streams, in order, and whether for all work.
    waits_for: (Vec<u32>, bool),
    /// Whether it waits for fences beside those that are recorded when it is closed.
    has_others: bool,
    /// The numbers of streams in which no fence was recorded yet, in order.
    pub(crate) streams: Vec<u32>,
    /// Whether all work of the device has to be waited for.
    pub(crate) all: bool,
    /// What was recorded.
    pub(crate) fences: Vec<Shared<D>>,
    pub(crate) blocks: Vec<Aside>,
    pub(crate) size_bytes: u64,
    /// Whether its blocks rest: no stream that waits has them, only the host that sees all done.
    pub(crate) rests: bool,
    /// When its first block was freed.
    pub(crate) since: Option<Duration>,
}

/// What a block waits for, beside its own space's stream.
pub(crate) struct Needs<D: Device> {
    pub(crate) streams: Vec<u32>,
    pub(crate) all: bool,
    pub(crate) fences: Vec<Shared<D>>,
    /// Whether it rests: then it waits for that stream, too, as the host sees it.
    pub(crate) rests: bool,
}

impl<D: Device> Needs<D> {
    pub(crate) fn nothing() -> Self {
        Self { streams: Vec::new(), all: false, fences: Vec::new(), rests: false }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.streams.is_empty() && !self.all && self.fences.is_empty()
    }

    /// The one stream that has to be waited for, if it is all.
    pub(crate) fn is_one_stream(&self) -> Option<u32> {
        match self.streams.as_slice() {
            &[number] if !self.all && self.fences.is_empty() => Some(number),
            _ => None,
        }
    }

    pub(crate) fn add_stream(&mut self, number: u32) {
        if let Err(place) = self.streams.binary_search(&number) {
            self.streams.insert(place, number);
        }
    }
}

impl<D: Device> Parcel<D> {
    pub(crate) fn new(home: Owner, needs: Needs<D>, since: Option<Duration>) -> Self {
        let Needs { streams, all, fences, rests } = needs;
        let waits_for = (streams.clone(), all);
        let has_others = !fences.is_empty();
        Self {
            home,
            waits_for,
            has_others,
            streams,
            all,
            fences,
            blocks: Vec::new(),
            size_bytes: 0,
            rests,
            since,
        }
    }

    /// Whether it waits for what a block of a space needs.
    pub(crate) fn takes(&self, home: Owner, needs: &Needs<D>) -> bool {
        self.home == home
            && self.streams == needs.streams
            && self.all == needs.all
            && self.rests == needs.rests
    }

    /// Whether the same was waited for by another of the same space, from its opening on: then the
    /// later one's fences are behind the earlier one's, and no other is missing.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.home == other.home
            && self.waits_for == other.waits_for
            && self.rests == other.rests
            && !(self.has_others || other.has_others)
    }

    /// Whether it waits for fences of its own.
    pub(crate) fn has_others(&self) -> bool {
        self.has_others
    }

    pub(crate) fn is_open(&self) -> bool {
        self.all || !self.streams.is_empty()
    }

    /// Waits for a fence beside those that are recorded when it is closed.
    pub(crate) fn add_fence(&mut self, fence: Shared<D>) {
        if !has_fence(&self.fences, &fence) {
            self.fences.push(fence);
        }
        self.has_others = true;
    }

    pub(crate) fn push(&mut self, block: Aside) {
        self.size_bytes += block.size_bytes;
        self.blocks.push(block);
    }
}
