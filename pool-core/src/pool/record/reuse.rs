//! When memory was freed last, for as many places as there are slots.

use alloc::boxed::Box;

use crate::sync::{AtomicU64, Ordering};
use crate::threads::NoTable;
use crate::threads::filled;

/// Slots as a power of two; the other bits of a granule tell places of one slot apart.
const SLOT_BITS: u32 = 14;
const TAG_BITS: u32 = 32 - SLOT_BITS;
const TIME_BITS: u32 = 64 - TAG_BITS;

/// Times are kept in units of 16 nanoseconds: in 46 bits thirteen days.
const UNIT_BITS: u32 = 4;
const TIME_MASK: u64 = (1 << TIME_BITS) - 1;

/// Where blocks began that were freed, with the time. Of two places with one slot the later free stays.
pub(super) struct Frees {
    slots: Box<[AtomicU64]>,
}

impl Frees {
    pub(super) fn new() -> Result<Self, NoTable> {
        Ok(Self { slots: filled(1 << SLOT_BITS, || AtomicU64::new(0))? })
    }

    /// The slot of a granule, and what tells it from others of that slot: both together are all its
    /// bits, multiplied by an odd number.
    fn place(&self, granule: u32) -> Option<(&AtomicU64, u64)> {
        let mixed = granule.wrapping_mul(0x9e37_79b1);
        let slot = self.slots.get((mixed >> TAG_BITS) as usize)?;
        Some((slot, u64::from(mixed & ((1 << TAG_BITS) - 1)) << TIME_BITS))
    }

    /// A block that begins there was freed. Zero is no time: a slot with it is empty.
    pub(super) fn note(&self, granule: u32, now: u64) {
        if let Some((slot, tag)) = self.place(granule) {
            slot.store(tag | ((now >> UNIT_BITS) & TIME_MASK).max(1), Ordering::Relaxed);
        }
    }

    /// How long ago a block was freed that began there, in nanoseconds; then it is forgotten.
    pub(super) fn take(&self, granule: u32, now: u64) -> Option<u64> {
        let (slot, tag) = self.place(granule)?;
        let found = slot.load(Ordering::Relaxed);
        if found & TIME_MASK == 0 || found & !TIME_MASK != tag {
            return None;
        }
        slot.store(0, Ordering::Relaxed);
        let since = (found & TIME_MASK) << UNIT_BITS;
        Some((now & (TIME_MASK << UNIT_BITS)).saturating_sub(since))
    }

    pub(super) fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_once_and_no_other() {
        let frees = Frees::new().unwrap();
        frees.note(7, 1600);
        assert_eq!(frees.take(8, 3200), None);
        assert_eq!(frees.take(7, 3200), Some(1600));
        assert_eq!(frees.take(7, 3200), None);
        frees.note(7, 1600);
        frees.clear();
        assert_eq!(frees.take(7, 3200), None);
    }

    #[test]
    fn of_two_places_with_one_slot_the_later_one_stays() {
        let frees = Frees::new().unwrap();
        let slot = |granule: u32| granule.wrapping_mul(0x9e37_79b1) >> TAG_BITS;
        let other = (8..1 << 20).find(|&granule| slot(granule) == slot(7)).unwrap();
        frees.note(7, 16);
        frees.note(other, 32);
        assert_eq!((frees.take(7, 64), frees.take(other, 64)), (None, Some(32)));
    }
}
