//! Which handles of memory there are, and where.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::draft::Victims;
use super::moves::Moves;
use super::sleep::Asleep;
use super::window::Grid;
use crate::device::Device;
use crate::pool::fence::Shared;
use crate::pool::policy::Handles;
use crate::range::Stretch;
use crate::threads::{HUB, Owner};

/// A part of the room, so large a handle is at most.
const HANDLES_IN_ROOM: u64 = 8;

/// A part of a limit, so large a handle is at most that a request gets: one that falls idle in part is no
/// use to others, and a limit is there to be used up.
const HANDLES_IN_LIMIT: u64 = 1024;

/// A part of what is taken at once, so large a handle is at most.
const HANDLES_IN_TAKEN: u32 = 4;

/// A handle of memory, and how many pages it is.
pub(crate) struct Held<D: Device> {
    pub(super) pages: D::Pages,
    pub(super) count: u32,
}

/// Handles that hold no block, and what has to be done before they go.
pub(super) struct Leaving<D: Device> {
    pub(super) victims: Victims<D>,
    pub(super) fences: Vec<Shared<D>>,
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
    /// Pages of handles that threads have in their hands.
    pub(super) in_hand: u64,
    /// Handles that are to go back to the device once fences are done. They are in nobody's hands, but
    /// counted and claimed as if they were.
    pub(super) leaving: Vec<Leaving<D>>,
    /// How many handles may be moved though new ones could be had.
    pub(super) moves: Moves,
    /// Pages with memory that is of no use, since the host has no room to note it.
    pub(super) stranded: u32,
    /// What a pool that sleeps remembers.
    pub(super) asleep: Asleep,
    /// Whether a call puts the pool to sleep, or wakes it.
    pub(super) is_turning: bool,
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
            in_hand: 0,
            leaving: Vec::new(),
            moves: Moves::new(),
            stranded: 0,
            asleep: Asleep::default(),
            is_turning: false,
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

    /// Bytes that are free or live somewhere: with memory behind them, unless the pool sleeps, and noted.
    pub(in crate::pool) fn mapped_bytes(&self) -> u64 {
        let pages: u64 = self.mapped.values().map(|held| u64::from(held.count)).sum();
        (pages + self.asleep.pages() - u64::from(self.stranded)) * self.page_bytes
    }

    /// Pages of handles that are behind nothing.
    pub(super) fn spare_pages(&self) -> u64 {
        self.spare.iter().map(|held| u64::from(held.count)).sum()
    }

    /// Whether a thread has any of it in its hands.
    pub(in crate::pool) fn is_busy(&self) -> bool {
        let leaving = self.leaving.iter().flat_map(|leaving| &leaving.victims.handles);
        let (mut claims, mut pages) = (self.stranded as usize, 0);
        for (_, held) in leaving {
            claims += 1;
            pages += u64::from(held.count);
        }
        self.in_hand > pages || self.claimed.len() > claims
    }

    /// Bytes of handles that are about to go back.
    pub(super) fn leaving_bytes(&self) -> u64 {
        let leaving = self.leaving.iter().flat_map(|leaving| &leaving.victims.handles);
        leaving.map(|(_, held)| u64::from(held.count)).sum::<u64>() * self.page_bytes
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

    /// Where handles are behind addresses, those among them that are about to go.
    #[cfg(feature = "record")]
    pub(in crate::pool) fn mapped(&self) -> impl Iterator<Item = Stretch> + '_ {
        let leaving = self.leaving.iter().flat_map(|leaving| &leaving.victims.handles);
        let leaving = leaving.map(|(page, held)| (page, held));
        self.mapped.iter().chain(leaving).map(|(&page, held)| self.stretch_of(page, held.count))
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
    /// A handle moves only whole: so a large one is a small part of what is taken, of the room, and of
    /// the limit, if there is one to be kept in mind.
    pub(super) fn sizes_for(&self, pages: u32, room: u64, limit: Option<u64>) -> Vec<u32> {
        let most = match self.handles {
            Handles::Smallest => 1,
            Handles::Graded => {
                let of_limit = limit.map_or(u64::MAX, |limit| limit / HANDLES_IN_LIMIT);
                let most = of_limit.min(room / HANDLES_IN_ROOM);
                (pages / HANDLES_IN_TAKEN).min(u32::try_from(most).unwrap_or(u32::MAX))
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
