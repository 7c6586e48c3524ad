//! Addresses of spaces that no memory is behind: the layer above has memory come and go there.

use alloc::vec::Vec;

use super::SharedAllocator;
use super::centre::RANGE;
use super::owner::Owner;
use super::platform::Threads;
use crate::range::{Part, Stretch};

impl<T: Threads> SharedAllocator<T> {
    /// Gives the hub addresses that nobody had. False for want of metadata.
    pub(crate) fn add_bare(&self, arena: Stretch) -> bool {
        self.inner().centre.lock(RANGE).range().adopt_bare(arena, &[]).is_ok()
    }

    /// Shows every piece of a space, each island in order.
    pub(crate) fn walk(&self, space: Owner, each: impl FnMut(Part)) {
        self.inner().centre.lock(space.0).range().walk(each);
    }

    /// There is memory behind bare addresses of a space now: they are free. False for want of
    /// metadata.
    pub(crate) fn back(&self, space: Owner, part: Stretch) -> bool {
        self.inner().centre.lock(space.0).range().back(part).is_ok()
    }

    /// Memory is about to go from behind free parts of a space, which nobody gets from now on: those
    /// that are still free, as far as there is metadata.
    pub(crate) fn make_bare(&self, space: Owner, parts: &[Stretch]) -> Vec<Stretch> {
        self.inner().centre.lock(space.0).range().make_bare(parts)
    }

    /// There is memory behind bare addresses of the hub now, and a space gets them: as one with what it
    /// has before them, but for so many granules that stay apart from what lies behind them. False for
    /// want of metadata.
    pub(crate) fn give_bare(&self, space: Owner, part: Stretch, apart: u64) -> bool {
        if !self.inner().centre.lock(RANGE).lend_bare(part) {
            return false;
        }
        let given = {
            let mut guard = self.inner().centre.lock(space.0);
            let range = guard.range();
            if apart == 0 {
                range.append(part).is_ok()
            } else {
                let first = Stretch { len: apart.min(part.len - 1), ..part };
                let rest = Stretch { start: first.end() as u32, len: part.len - first.len };
                // With room for both, neither fails.
                range.prepare(2).is_ok()
                    && [first, rest].map(|part| range.adopt(part)) == [Ok(()); 2]
            }
        };
        if !given {
            // It was lent whole just now: that takes no metadata.
            self.inner().centre.lock(RANGE).take_bare_back(part);
        }
        given
    }

    /// Takes a free stretch at a place out of the hub, to be given to a space or back.
    pub(crate) fn take_lent_at(&self, offset_bytes: u64, size_bytes: u64) -> Option<Stretch> {
        self.inner().centre.lock(RANGE).lend_at(offset_bytes, size_bytes)
    }

    /// Gives a whole bare piece of a space back to the hub. False for want of metadata.
    pub(crate) fn give_bare_back(&self, space: Owner, piece: Stretch) -> bool {
        if !self.inner().centre.lock(RANGE).take_bare_back(piece) {
            return false;
        }
        let cut = self.inner().centre.lock(space.0).range().cut_bare(piece);
        debug_assert!(cut.is_ok(), "{piece:?} is no piece");
        true
    }

    /// Gives a space an arena that is all in the hub, with what memory is behind it: its bare and its
    /// free parts. False for want of metadata.
    pub(crate) fn hand_over(
        &self,
        space: Owner,
        arena: Stretch,
        bare: &[Stretch],
        free: &[Stretch],
    ) -> bool {
        if !self.inner().centre.lock(RANGE).lend_island(arena, bare) {
            return false;
        }
        if self.inner().centre.lock(space.0).range().adopt_bare(arena, free).is_ok() {
            return true;
        }
        // Where it came from there is room for as many pieces as there were.
        let mut hub = self.inner().centre.lock(RANGE);
        hub.take_back(arena);
        hub.range().make_bare(bare);
        false
    }

    /// Bytes of addresses of all spaces that no memory is behind.
    pub(crate) fn bare_bytes(&self) -> u64 {
        let centre = &self.inner().centre;
        let granules: u64 =
            centre.all().map(|shard| centre.lock(shard).range().bare_granules()).sum();
        self.shape().bytes(granules)
    }
}
