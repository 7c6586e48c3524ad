//! The cool-down: freed blocks that rest, also from their own stream, until the host has seen done
//! what was queued before the free.
//!
//! Meanwhile the device knows that the bytes rest, so that one that checks reports whoever still
//! uses them. It is told while the block is in this thread's hands, both times: at the free, when
//! the program has it no more and no parcel has it yet; and at the end, when its parcel was taken out
//! and nobody can be given it. So no notice meets a block that is live, and none is made under a lock.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::arenas::Arena;
use super::books::Books;
use super::inner::{Failed, Inner};
use super::parcel::{Needs, Parcel};
use crate::device::Device;
use crate::threads::{Aside, Threads};

/// Where a block lies on the device: in which arena, at which byte, how many.
type Place<D> = (Arc<Arena<D>>, u64, u64);

impl<D: Device, T: Threads> Inner<D, T> {
    /// Has a block rest that the program gave back, until what it needs is done, and what its own
    /// space's stream has queued.
    pub(super) fn rest(&self, block: Aside, mut needs: Needs<D>) {
        let place = self.with_books(|books| books.place_of(&block));
        self.tell(place, D::quarantine);
        needs.rests = true;
        self.defer(block, needs);
    }

    /// Frees what has rested: the device is told, and then it serves again.
    pub(super) fn wake(&self) {
        let now = self.now();
        let (hands, places) = self.with_books(|books| {
            let rested = |parcel: &mut Parcel<D>| parcel.has_rested();
            let hands: Vec<Parcel<D>> = books.closed.extract_if(.., rested).collect();
            books.take_in_hand(&hands);
            let blocks = hands.iter().flat_map(|parcel| &parcel.blocks);
            let places: Vec<Place<D>> = blocks.filter_map(|block| books.place_of(block)).collect();
            (hands, places)
        });
        self.tell(places, D::release);
        self.with_books(|books| {
            books.take_out_of_hand(&hands);
            for parcel in hands {
                books.resting_bytes -= parcel.size_bytes;
                self.counters.note_reclaim(parcel.since, now);
                parcel.blocks.into_iter().for_each(|block| self.put_back(books, block));
            }
        });
    }

    /// Tells the device of all that rests that it does no more: its arenas are about to go.
    pub(super) fn release_resting(&self) {
        let places = self.with_books(|books| {
            let parcels = books.open.iter().chain(&books.closed).filter(|parcel| parcel.rests);
            let blocks = parcels.flat_map(|parcel| &parcel.blocks);
            blocks.filter_map(|block| books.place_of(block)).collect::<Vec<_>>()
        });
        self.tell(places, D::release);
    }

    /// Tells the device something of bytes, unless it is lost. No lock is held.
    fn tell(
        &self,
        places: impl IntoIterator<Item = Place<D>>,
        notice: impl Fn(&D, &D::Range, u64, u64),
    ) {
        for (arena, offset_bytes, size_bytes) in places {
            if self.device.is_there() {
                notice(&self.device, &arena.range, offset_bytes, size_bytes);
            }
        }
    }

    /// Records the fences of what rests, without which nobody can see it done. False if there are
    /// none to record.
    pub(super) fn close_resting(&self, failure: &mut Option<Failed<D>>) -> bool {
        let some = self.with_books(|books| {
            books.resting_bytes > 0 && books.open.iter().any(|parcel| parcel.rests)
        });
        some && self.close(|parcel| parcel.rests, failure)
    }

    /// Takes back what is done, and then closes what is open: what was freed just now rests at
    /// least until the pool looks the next time, whether its work is done or not. Without that a
    /// use right behind the free would be met by chance alone.
    pub(super) fn drain_earlier(&self, failure: &mut Option<Failed<D>>) {
        self.with_books(Books::begin_drain);
        self.poll_often(failure);
        self.close(|_| true, failure);
    }
}

impl<D: Device> Books<D> {
    /// A block begins to rest: until its own space's stream has passed, too.
    pub(super) fn begin_rest(&mut self, block: &Aside, needs: &mut Needs<D>) {
        self.resting_bytes += block.size_bytes;
        if let Some(own) = self.stream_of(block.space) {
            needs.add_stream(own);
        }
    }

    /// Whether something has rested, and is to be woken.
    pub(super) fn has_rested(&self) -> bool {
        self.resting_bytes > 0 && self.closed.iter().any(Parcel::has_rested)
    }

    fn place_of(&self, block: &Aside) -> Option<Place<D>> {
        let arena = self.arenas.at(block.offset_bytes)?;
        Some((arena.clone(), block.offset_bytes - arena.origin_bytes, block.size_bytes))
    }
}

impl<D: Device> Parcel<D> {
    /// Whether it rested, and has nothing left to wait for.
    fn has_rested(&self) -> bool {
        self.rests && !self.is_open() && self.fences.is_empty()
    }
}
