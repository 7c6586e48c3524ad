//! The pool, checked from its tables.

use super::Pool;
use super::arenas::{Claim, Kind};
use super::books::{Books, Holder};
use super::inner::{CLEAN, Inner};
use super::pages::Paging;
use crate::device::Device;
use crate::range::VerifyError;
use crate::threads::{HUB, Owner, Threads};

impl<D: Device, T: Threads> Inner<D, T> {
    /// Checks that every address is bare or has memory, which is somebody's. What others own is left
    /// of what all own.
    fn verify_pages(
        &self,
        books: &Books<D>,
        paging: &Paging<D>,
        owned: u64,
    ) -> Result<u64, VerifyError> {
        let fault = |what, at| Err(VerifyError { what, at });
        let mapped = paging.mapped_bytes();
        if paging.is_busy() {
            return fault("pages were left in a thread's hands", paging.page_bytes());
        }
        let arenas = books.arenas.every().filter(|arena| arena.kind == Kind::Pages);
        let addresses: u64 = arenas.map(|arena| arena.size_bytes).sum();
        if self.shared.bare_bytes() + mapped != addresses {
            return fault("addresses that are neither bare nor have memory", mapped);
        }
        let rest = owned.checked_sub(mapped);
        rest.map_or_else(|| fault("pages of which a part is nobody's", mapped), Ok)
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Checks every invariant: of all spaces and caches, that each granule of each arena is one
    /// space's, that what waits is counted where it waits, and that every note is on a live block.
    /// To be called when no operation is in flight; one that is can look like a fault.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] names the first invariant that does not hold: a fault of this crate.
    ///
    /// # Complexity
    ///
    /// Linear in all pieces of all spaces.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.free(pool.allocate(4096)?.handle())?;
    /// pool.verify()?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn verify(&self) -> Result<(), VerifyError> {
        let inner = self.inner();
        let fault = |what, at| Err(VerifyError { what, at });
        let outside_spans = inner.with_books(|books| {
            let shelved = books.shelves.all().map(|(_, block)| block);
            books.waiting().chain(shelved).filter(|block| !block.is_in_span()).count() as u64
        });
        inner.shared.verify_with(outside_spans)?;
        let stats = inner.shared.stats();
        inner.with_books(|books| {
            let shape = inner.shared.shape();
            let (mut owned, mut reserved) = (0, 0);
            for place in 0..books.spaces.len() {
                let space = Owner(place as u32);
                let owned_here = inner.shared.use_of(space).owned_bytes;
                let nobody = space != HUB && matches!(books.holder(space), Holder::Nobody);
                if nobody && space != CLEAN && owned_here > 0 {
                    return fault("a space that nobody holds has memory", place as u64);
                }
                if space == HUB || !nobody {
                    owned += owned_here;
                }
            }
            if let Some(paging) = &books.paging {
                reserved += paging.held_bytes();
                owned = inner.verify_pages(books, paging, owned)?;
            }
            for arena in books.arenas.iter() {
                reserved += arena.size_bytes;
                if arena.claim == Claim::Leaving {
                    continue;
                }
                owned = match owned.checked_sub(shape.bytes(arena.stretch.len)) {
                    Some(rest) => rest,
                    None => {
                        return fault("an arena of which a part is nobody's", arena.origin_bytes);
                    }
                };
            }
            if owned != 0 {
                return fault("memory of no arena", owned);
            }
            reserved += books.strays.iter().map(|&(_, size_bytes)| size_bytes).sum::<u64>();
            if reserved != books.reserved_bytes {
                return fault("reserved bytes miscounted", reserved);
            }
            if let Some(seat) = &inner.seat
                && seat.stats().reserved_bytes != reserved
            {
                return fault("the budget has other bytes reserved", seat.stats().reserved_bytes);
            }
            let vacated =
                books.vacating.space().map_or(0, |space| inner.shared.use_of(space).owned_bytes);
            if vacated != shape.bytes(books.vacating.granules()) {
                return fault("bytes of vacated arenas miscounted", vacated);
            }
            if (books.in_hand_blocks, books.in_hand_bytes, books.in_transit_bytes) != (0, 0, 0) {
                return fault("something was left in a thread's hands", books.in_hand_blocks);
            }
            let (blocks, bytes) = books.deferred();
            if blocks > stats.cached_blocks || bytes > stats.cached_bytes {
                return fault("more waits than there is", blocks);
            }
            let listed: u64 = books.waiting().map(|block| block.size_bytes).sum();
            if listed != bytes {
                return fault("bytes that wait miscounted", listed);
            }
            let parcels = books.open.iter().chain(&books.closed);
            let resting: u64 =
                parcels.filter(|parcel| parcel.rests).map(|parcel| parcel.size_bytes).sum();
            if resting != books.resting_bytes {
                return fault("bytes that rest miscounted", resting);
            }
            if books.movables.iter().any(|(_, entry)| entry.in_hand.is_some()) {
                return fault("a movable buffer was left in a thread's hands", 0);
            }
            if !books.shelves.are_counted() {
                return fault("blocks on shelves miscounted", books.shelves.size_bytes());
            }
            for (space, block) in books.shelves.all() {
                if space != CLEAN && books.stream_of(space).is_none() || space != block.space {
                    return fault("a block on a shelf of nobody's", block.offset_bytes);
                }
            }
            if books.streams.len() != books.keys.len() {
                return fault("streams without a key", books.streams.len() as u64);
            }
            Ok(())
        })?;
        for handle in inner.notes.handles() {
            if inner.shared.block(handle).is_err() {
                return fault("a note on a block that is not live", handle.to_raw());
            }
        }
        Ok(())
    }
}
