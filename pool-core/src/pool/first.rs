//! A stream that grows first: for itself alone, before it waits for what others have.
//!
//! A wait ends what runs side by side, and memory in pages follows to where it is needed once it is
//! short. So while there is much more to be had, streams are kept out of each other's memory, and
//! what waits is looked after soon: else it would be taken anew meanwhile.

use super::books::Books;
use super::help::Plea;
use super::inner::Inner;
use crate::device::Device;
use crate::threads::Threads;

/// With so many times as much to be had, a stream gets new memory before it waits.
const ROOM_TO_GROW_FIRST: u64 = 4;

/// Then no more waits without a fence than such a part of what the pool has.
const PART_WITHOUT_FENCE: u64 = 16;

/// So many requests that were no hits are kept in mind, and up to twice as many.
const WINDOW: u32 = 64;

/// The most that was used lately, as seen at requests that are no hits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    /// Of this window, and of the one before.
    most_bytes: u64,
    earlier_bytes: u64,
    requests: u32,
}

impl Recent {
    /// Looks at what is used.
    pub(crate) fn note(&mut self, used_bytes: u64) {
        if self.requests == WINDOW {
            *self = Self { earlier_bytes: self.most_bytes, ..Self::default() };
        }
        self.most_bytes = self.most_bytes.max(used_bytes);
        self.requests += 1;
    }

    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes.max(self.earlier_bytes)
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Whether the asker grows first. So it is while half of what there is was in use lately, and many
    /// times as much could be had.
    pub(super) fn rather_grows(&self, plea: &Plea<'_, D>) -> bool {
        !plea.tight
            && self.with_books(|books| {
                self.has_much_room(books) && books.reserved_bytes / 2 <= books.recent.most_bytes()
            })
    }

    /// Whether streams could be kept out of each other's memory.
    fn has_much_room(&self, books: &Books<D>) -> bool {
        books.paging.is_some()
            && books.company.is_several()
            && books.reserved_bytes <= self.room_bytes(books) / ROOM_TO_GROW_FIRST
    }

    /// The most that may wait without a fence. With less than a page none is saved.
    pub(super) fn most_undrained_bytes(&self, books: &Books<D>, bytes: u64) -> u64 {
        match &books.paging {
            Some(paging) if self.has_much_room(books) => {
                let part = books.reserved_bytes / PART_WITHOUT_FENCE;
                bytes.min(part.max(paging.page_bytes()))
            }
            _ => bytes,
        }
    }

    /// Takes back what the asker's own space waits for, as far as it is done. What is not is seen to
    /// be done later, without a wait: fences are behind it now.
    pub(super) fn poll_own(&self, plea: &mut Plea<'_, D>) -> bool {
        let space = plea.space;
        let closed = self.close(|parcel| parcel.home == space, &mut plea.failure);
        closed && self.poll(&mut plea.failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_is_kept_in_mind_for_one_to_two_windows() {
        let mut recent = Recent::default();
        recent.note(9);
        for _ in 1..2 * WINDOW {
            recent.note(1);
            assert_eq!(recent.most_bytes(), 9);
        }
        recent.note(2);
        assert_eq!(recent.most_bytes(), 2);
    }
}
