//! The space that keeps the addresses: that of a stream which is alone, so that what it frees and what
//! gets memory beside it are one run; else the hub.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::table::{Paging, page_of};
use crate::device::{Call, Device};
use crate::pool::arenas::{Arena, Claim, Kind, WINDOW_BYTES, Whole, stretch_of};
use crate::pool::asker::Asker;
use crate::pool::books::Books;
use crate::pool::inner::{Failed, Inner};
use crate::pool::policy::Pages;
use crate::range::{Part, PartKind, Stretch};
use crate::threads::{HUB, Owner, Threads};

impl<D: Device, T: Threads> Inner<D, T> {
    /// Reserves the addresses of a pool in pages, as many as the space of offsets has, or fewer if
    /// the device refuses, down to `least_bytes`. None if there are none.
    pub(in crate::pool) fn reserve_addresses(
        &self,
        policy: Pages,
        space_bytes: u64,
        least_bytes: u64,
    ) -> Result<Option<Whole>, Failed<D>> {
        let granule_bytes = self.shared.shape().bytes(1);
        let Some(page_bytes) = page_of(self.device.page_sizes(), granule_bytes) else {
            return Ok(None);
        };
        let mut bytes = space_bytes.saturating_sub(WINDOW_BYTES) / page_bytes * page_bytes;
        while bytes >= least_bytes.max(page_bytes) {
            match self.call(Call::Reserve, |device| device.reserve(bytes)) {
                Ok(range) => return Ok(self.enter_addresses(&Arc::new(range), bytes, policy)),
                Err(failed) if self.is_poisoned() => return Err(failed),
                Err(_) => bytes = bytes / 2 / page_bytes * page_bytes,
            }
        }
        Ok(None)
    }

    fn enter_addresses(&self, range: &Arc<D::Range>, bytes: u64, policy: Pages) -> Option<Whole> {
        let address = self.device.address(range).unwrap_or(0);
        let entered = self.with_books(|books| {
            let shape = self.shared.shape();
            let granule_bytes = shape.bytes(1);
            let origin_bytes = books.arenas.place(bytes, address)?;
            let stretch = stretch_of(shape, origin_bytes, bytes)?;
            if shape.bytes(stretch.len) != bytes {
                return None;
            }
            let sizes = self.device.page_sizes();
            let paging = Paging::new(range.clone(), stretch, granule_bytes, sizes, policy.handles)?;
            let (kind, claim) = (Kind::Pages, Claim::Nothing);
            let range = range.clone();
            let arena = Arena { range, size_bytes: bytes, origin_bytes, stretch, kind, claim };
            if !books.arenas.enter(Arc::new(arena)) {
                return None;
            }
            if !self.shared.add_bare(stretch) {
                books.arenas.remove(origin_bytes);
                return None;
            }
            books.is_askew |= !address.is_multiple_of(WINDOW_BYTES);
            books.paging = Some(paging);
            Some(Whole { origin_bytes, size_bytes: bytes, address, finds: false })
        });
        if entered.is_none() {
            // Nothing is there; what the device does not take back is lost.
            let _ = self.call(Call::Free, |device| device.free(range));
        }
        entered
    }

    /// Has the addresses kept where a request of an asker needs them: in its own space if it is the
    /// only stream, else in the hub.
    pub(in crate::pool) fn settle_addresses(&self, asker: &Asker<D>, own: Owner) {
        if !self.is_paged() {
            return;
        }
        self.with_books(|books| {
            let is_usual = matches!(asker, Asker::Known { space, .. } if *space == Some(own));
            // It may have been retired meanwhile.
            let is_usual = is_usual && books.stream_of(own) == asker.number();
            let is_alone = is_usual && own != HUB && !self.is_shared() && self.is_alone(books, own);
            let keeper = books.paging.as_ref().map_or(HUB, |paging| paging.keeper);
            if is_alone && keeper == own {
                return;
            }
            self.bring_addresses_back(books);
            if is_alone {
                self.hand_addresses_over(books, asker.number(), own);
            }
        });
    }

    /// Gives a stream's space the addresses, with all the memory behind them, if nothing is in use.
    fn hand_addresses_over(&self, books: &mut Books<D>, number: Option<u32>, own: Owner) {
        // What was about to go has to be waited for, and only the hub remembers by whom.
        self.keep_leaving_of(books);
        let (hub, mine) = (self.shared.use_of(HUB), self.shared.use_of(own));
        if hub.used_bytes > 0 || mine.owned_bytes > 0 {
            return;
        }
        let Some(paging) = &mut books.paging else { return };
        let Some(arena) = books.arenas.every().find(|arena| arena.kind == Kind::Pages) else {
            return;
        };
        let stains = &mut books.stains;
        let waits_for_none = stains
            .of(arena.stretch)
            .all(|stain| Some(stain.source) == number || books.sources.is_done(&stain));
        if paging.is_busy() || !waits_for_none {
            return;
        }
        let (mut bare, mut free, mut islands) = (Vec::new(), Vec::new(), 0);
        let mut rest = arena.stretch.len;
        self.shared.walk(HUB, |Part { stretch, kind, is_head }| {
            islands += u32::from(is_head);
            match kind {
                PartKind::Bare => bare.push(stretch),
                PartKind::Free => free.push(stretch),
                PartKind::Taken => return,
            }
            rest = rest.saturating_sub(stretch.len);
        });
        if islands == 1 && rest == 0 && self.shared.hand_over(own, arena.stretch, &bare, &free) {
            stains.remove(arena.stretch);
            paging.keeper = own;
        }
    }

    /// Gives the hub the addresses that a stream's space kept. What is free there stays the stream's.
    /// False if it has them already.
    pub(in crate::pool) fn bring_addresses_back(&self, books: &mut Books<D>) -> bool {
        let Some(paging) = &mut books.paging else { return false };
        if paging.keeper == HUB {
            return false;
        }
        let mut bare: Vec<Stretch> = Vec::new();
        self.shared.walk(paging.keeper, |part| {
            bare.extend((part.kind == PartKind::Bare).then_some(part.stretch));
        });
        // Without metadata it is tried again.
        if bare.into_iter().all(|piece| self.shared.give_bare_back(paging.keeper, piece)) {
            paging.keeper = HUB;
        }
        true
    }
}

impl<D: Device> Books<D> {
    /// Whether a stream's space keeps the addresses: then what is free there is not put elsewhere.
    pub(in crate::pool) fn keeps_addresses(&self, space: Owner) -> bool {
        space != HUB && self.paging.as_ref().is_some_and(|paging| paging.keeper == space)
    }
}
