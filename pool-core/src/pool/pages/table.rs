//! Which handles of memory there are, and where.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::sleep::Asleep;
use super::window::Grid;
use crate::device::Device;
use crate::pool::policy::Handles;
use crate::range::Stretch;
use crate::threads::{HUB, Owner};

/// A part of the room, so large a handle is at most.
const HANDLES_IN_ROOM: u64 = 8;

/// A part of what is taken at once, so large a handle is at most.
const HANDLES_IN_TAKEN: u32 = 4;

/// A handle of memory, and how many pages it is.
pub(crate) struct Held<D: Device> {
    pub(super) pages: D::Pages,
    pub(super) count: u32,
}

/// Memory in pages, as the books have it.
pub(crate) struct Paging<D: Device> {
    pub(super) range: Arc<D::Range>,
    pub(super) grid: Grid,
    pub(super) page_bytes: u64,
    /// Pages of a handle that the device recommends, the fewest first.
    sizes: Vec<u32>,
    handles: Handles,
    /// The space that has the bare pieces.
    pub(super) keeper: Owner,
    /// By the first page that they are behind.
    pub(super) mapped: BTreeMap<u32, Held<D>>,
    /// Those that are behind nothing.
    pub(super) spare: Vec<Held<D>>,
    /// Pages that a thread is about to put memory behind, or to take it away from: bare meanwhile.
    pub(super) claimed: Vec<Range<u32>>,
    /// Pages that have no memory while the pool sleeps, or no contents yet.
    pub(super) asleep: Vec<Asleep>,
    /// Pages of handles that threads have in their hands.
    pub(super) in_hand: u64,
    /// Pages with memory that is of no use, since the host has no room to note it.
    pub(super) stranded: u32,
}

impl<D: Device> Paging<D> {
    /// Addresses of which nothing has memory yet. None if pages are no whole granules.
    pub(in crate::pool) fn new(
        range: Arc<D::Range>,
        stretch: Stretch,
        granule_bytes: u64,
        sizes_bytes: &[u64],
        handles: Handles,
    ) -> Option<Self> {
        let page_bytes = page_of(sizes_bytes, granule_bytes)?;
        let whole = |&bytes: &u64| {
            let pages = u32::try_from(bytes / page_bytes).ok();
            pages.filter(|_| bytes.is_multiple_of(page_bytes))
        };
        let grid = Grid { start: stretch.start.into(), page: page_bytes / granule_bytes };
        Some(Self {
            range,
            grid,
            page_bytes,
            sizes: sizes_bytes.iter().filter_map(whole).collect(),
            handles,
            keeper: HUB,
            mapped: BTreeMap::new(),
            spare: Vec::new(),
            claimed: Vec::new(),
            asleep: Vec::new(),
            in_hand: 0,
            stranded: 0,
        })
    }

    /// Bytes of a page.
    pub(in crate::pool) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Bytes of all handles.
    pub(in crate::pool) fn held_bytes(&self) -> u64 {
        let listed = self.mapped.values().chain(&self.spare);
        let pages: u64 = listed.map(|held| u64::from(held.count)).sum();
        (pages + self.in_hand) * self.page_bytes
    }

    /// Bytes that are free or live somewhere: with memory behind them, but for a sleep, and noted.
    pub(in crate::pool) fn mapped_bytes(&self) -> u64 {
        let pages: u64 = self.mapped.values().map(|held| u64::from(held.count)).sum();
        let asleep = self.asleep.iter().filter(|pages| !pages.is_mapped);
        let asleep: u64 = asleep.map(|pages| u64::from(pages.count)).sum();
        (pages + asleep - u64::from(self.stranded)) * self.page_bytes
    }

    /// Pages of handles that are behind nothing.
    pub(super) fn spare_pages(&self) -> u64 {
        self.spare.iter().map(|held| u64::from(held.count)).sum()
    }

    /// Whether a thread has any of it in its hands.
    pub(in crate::pool) fn is_busy(&self) -> bool {
        self.in_hand > 0 || self.claimed.len() > self.stranded as usize
    }

    /// The handles that lie wholly in a stretch, with their first pages.
    pub(super) fn handles_in(&self, stretch: Stretch) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (first, end) = (self.grid.begun(stretch.start.into()), self.grid.ended(stretch.end()));
        let inside = self.mapped.range(first..end.max(first));
        inside
            .map(|(&page, held)| (page, held.count))
            .filter(move |&(page, count)| page + count <= end)
    }

    /// The granules of a handle.
    pub(super) fn stretch_of(&self, page: u32, count: u32) -> Stretch {
        self.grid.stretch(&(page..page + count))
    }

    /// Where pages begin in the range.
    pub(super) fn offset_of(&self, page: u32) -> u64 {
        u64::from(page) * self.page_bytes
    }

    /// Takes a handle in hand.
    pub(super) fn take(&mut self, page: u32) -> Option<Held<D>> {
        let held = self.mapped.remove(&page)?;
        self.in_hand += u64::from(held.count);
        self.claimed.push(page..page + held.count);
        Some(held)
    }

    /// Enters a handle out of a thread's hands, where it is mapped.
    pub(super) fn enter(&mut self, page: u32, held: Held<D>) {
        self.in_hand -= u64::from(held.count);
        self.mapped.insert(page, held);
    }

    /// Keeps a handle out of a thread's hands, which is behind nothing.
    pub(super) fn keep(&mut self, held: Held<D>) {
        self.in_hand -= u64::from(held.count);
        self.spare.push(held);
    }

    /// Takes all handles that are behind nothing in hand.
    pub(super) fn take_spare(&mut self) -> Vec<Held<D>> {
        self.in_hand += self.spare_pages();
        core::mem::take(&mut self.spare)
    }

    /// Nobody works on these pages any more.
    pub(super) fn unclaim(&mut self, pages: &Range<u32>) {
        if let Some(place) = self.claimed.iter().position(|claim| claim == pages) {
            self.claimed.swap_remove(place);
        }
    }

    /// Of what sizes the handles are by which so many pages are taken, while there is room for some.
    /// A handle moves only whole: so a large one is a small part of what is taken, and of the room.
    pub(super) fn sizes_for(&self, pages: u32, room: u64) -> Vec<u32> {
        let most = match self.handles {
            Handles::Smallest => 1,
            Handles::Graded => {
                let of_room = u32::try_from(room / HANDLES_IN_ROOM).unwrap_or(u32::MAX);
                (pages / HANDLES_IN_TAKEN).min(of_room)
            }
        };
        let mut sizes = Vec::new();
        let mut left = pages;
        while left > 0 {
            let fits = |size: &&u32| **size <= left && **size <= most;
            let size = self.sizes.iter().rev().find(fits).copied().unwrap_or(1).max(1);
            sizes.push(size);
            left -= size;
        }
        sizes
    }
}

/// The smallest page, if it is whole granules.
pub(in crate::pool) fn page_of(sizes_bytes: &[u64], granule_bytes: u64) -> Option<u64> {
    let page_bytes = sizes_bytes.first().copied()?;
    let whole = page_bytes > 0 && page_bytes.is_multiple_of(granule_bytes);
    whole.then_some(page_bytes)
}
