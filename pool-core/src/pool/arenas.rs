//! Where arenas lie in the pool's space of offsets.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::whereabouts::Whereabouts;
use crate::device::Device;
use crate::range::{ConfigError, Shape, Stretch};
use crate::sync::{AtomicU64, Ordering};

/// A part of the space of offsets that has at most one arena: 2 MiB.
pub(crate) const WINDOW_BITS: u32 = 21;
pub(crate) const WINDOW_BYTES: u64 = 1 << WINDOW_BITS;

/// Memory of the device that the pool manages.
pub struct Arena<D: Device> {
    /// Shared with what stands for the arena once it is longer.
    pub(crate) range: Arc<D::Range>,
    /// What was asked of the device.
    pub(crate) size_bytes: u64,
    /// Where the range begins in the space of offsets.
    pub(crate) origin_bytes: u64,
    /// The part that is managed.
    pub(crate) stretch: Stretch,
    pub(crate) kind: Kind,
    pub(crate) claim: Claim,
}

/// What is about to become of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// There is none.
    Nothing,
    /// So many bytes behind it are to be its own.
    Longer(u64),
    /// It goes back.
    Gone,
    /// It is to go back once what it waits for is done: it is in no space until then.
    Leaving,
}

/// Why there is an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The pool was to have it before anyone asked: it does not go back by itself.
    Base,
    /// It grew by a step.
    Step,
    /// One request was larger than a step.
    Single,
    /// Addresses, behind which memory comes and goes in pages.
    Pages,
}

impl<D: Device> Arena<D> {
    /// The device's range.
    #[must_use]
    pub fn range(&self) -> &D::Range {
        &self.range
    }

    /// Bytes of the range when the pool was asked. It may have become longer. If memory comes and goes
    /// in pages, all its addresses.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The same with another claim.
    pub(crate) fn claimed(&self, claim: Claim) -> Self {
        self.with(self.size_bytes, self.stretch, claim)
    }

    /// The same with another size.
    pub(crate) fn with(&self, size_bytes: u64, stretch: Stretch, claim: Claim) -> Self {
        let Self { ref range, origin_bytes, kind, .. } = *self;
        Self { range: range.clone(), size_bytes, origin_bytes, stretch, kind, claim }
    }

    /// Where what is its own, or is to be, ends in the space of offsets.
    fn end_bytes(&self) -> u64 {
        let claimed_bytes = if let Claim::Longer(bytes) = self.claim { bytes } else { 0 };
        self.origin_bytes.saturating_add(self.size_bytes).saturating_add(claimed_bytes)
    }
}

/// Where a block lies on the device.
#[non_exhaustive]
pub struct Location<D: Device> {
    /// The arena. It is the device's as long as the block is live.
    pub arena: Arc<Arena<D>>,
    /// The block's first byte in the arena's range.
    pub offset_bytes: u64,
}

impl<D: Device> core::fmt::Debug for Arena<D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Arena").field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

impl<D: Device> core::fmt::Debug for Location<D> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Location")
            .field("arena", &self.arena)
            .field("offset_bytes", &self.offset_bytes)
            .finish()
    }
}

/// All arenas of a pool, in order of their offsets.
pub(crate) struct Arenas<D: Device> {
    list: Vec<Arc<Arena<D>>>,
    space_bytes: u64,
    /// Whether blocks are aligned to their size, as buddies are.
    by_size: bool,
}

impl<D: Device> Arenas<D> {
    pub(crate) fn new(space_bytes: u64, by_size: bool) -> Self {
        Self { list: Vec::new(), space_bytes, by_size }
    }

    /// Those that come and go whole: all but addresses for pages.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Arena<D>>> {
        self.list.iter().filter(|arena| arena.kind != Kind::Pages)
    }

    pub(crate) fn every(&self) -> impl Iterator<Item = &Arc<Arena<D>>> {
        self.list.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The arena that has an offset.
    pub(crate) fn at(&self, offset_bytes: u64) -> Option<&Arc<Arena<D>>> {
        let behind = self.list.partition_point(|arena| arena.origin_bytes <= offset_bytes);
        let arena = self.list.get(behind.checked_sub(1)?)?;
        (offset_bytes - arena.origin_bytes < arena.size_bytes).then_some(arena)
    }

    /// Where a new range of the device can lie: an origin that is as the address is to whatever
    /// power of two up to a window, so that offsets are aligned where addresses are. Where blocks are
    /// aligned to their size, the first whole window in it is so too, for the largest of them.
    pub(crate) fn place(&self, size_bytes: u64, address: u64) -> Option<u64> {
        let inside = address & (WINDOW_BYTES - 1);
        let skipped = if inside == 0 { 0 } else { WINDOW_BYTES };
        let whole_bytes = (inside + size_bytes).saturating_sub(skipped);
        let order = whole_bytes.checked_ilog2().filter(|_| self.by_size).unwrap_or(0);
        let align_bytes = WINDOW_BYTES.max(1 << order);
        let aligned = |window: u64| {
            let first = window.checked_add(skipped)?.checked_next_multiple_of(align_bytes)?;
            Some(first - skipped)
        };
        let mut window = aligned(0)?;
        for arena in &self.list {
            let end = window.checked_add(inside)?.checked_add(size_bytes)?;
            if end <= arena.origin_bytes & !(WINDOW_BYTES - 1) {
                break;
            }
            window = aligned(arena.end_bytes().checked_next_multiple_of(WINDOW_BYTES)?)?;
        }
        let end = window.checked_add(inside)?.checked_add(size_bytes)?;
        (end <= self.space_bytes).then_some(window + inside)
    }

    /// Enters an arena. False if the host's heap refuses.
    pub(crate) fn enter(&mut self, arena: Arc<Arena<D>>) -> bool {
        if self.list.try_reserve(1).is_err() {
            return false;
        }
        let place = self.list.partition_point(|other| other.origin_bytes < arena.origin_bytes);
        self.list.insert(place, arena);
        true
    }

    /// Bytes of the space of offsets behind an arena that no other has.
    pub(crate) fn room_behind(&self, arena: &Arena<D>) -> u64 {
        let behind = self.list.partition_point(|other| other.origin_bytes <= arena.origin_bytes);
        let next = self.list.get(behind).map(|next| next.origin_bytes & !(WINDOW_BYTES - 1));
        next.unwrap_or(self.space_bytes).saturating_sub(arena.end_bytes())
    }

    /// Puts another in the place of an arena that has the same origin.
    pub(crate) fn replace(&mut self, arena: Arena<D>) {
        let place = self.list.iter().position(|old| old.origin_bytes == arena.origin_bytes);
        if let Some(old) = place.and_then(|place| self.list.get_mut(place)) {
            *old = Arc::new(arena);
        }
    }

    pub(crate) fn remove(&mut self, origin_bytes: u64) -> Option<Arc<Arena<D>>> {
        let place = self.list.iter().position(|arena| arena.origin_bytes == origin_bytes)?;
        Some(self.list.remove(place))
    }
}

/// The granules of a range that begins at an origin: whole ones, by address.
pub(crate) fn stretch_of(shape: &Shape, origin_bytes: u64, size_bytes: u64) -> Option<Stretch> {
    let granule = shape.bytes(1);
    let first = origin_bytes.checked_next_multiple_of(granule)?;
    let end = origin_bytes.checked_add(size_bytes)?;
    let len = end.checked_sub(first)? >> shape.granule_shift;
    let start = u32::try_from(first >> shape.granule_shift).ok()?;
    (len > 0).then_some(Stretch { start, len })
}

/// The device's addresses of what lies in the space of offsets, for hits: read without a lock.
pub(crate) enum Addresses {
    /// One range has all blocks, as where memory comes and goes in pages.
    Whole(Whole),
    /// The address at the start of each window.
    Windows(Windows),
}

/// A range that has all blocks that there ever are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole {
    pub(crate) origin_bytes: u64,
    pub(crate) size_bytes: u64,
    pub(crate) address: u64,
    /// Whether the pool is asked by addresses.
    pub(crate) finds: bool,
}

/// Windows that have what addresses they get.
pub(crate) struct Windows {
    starts: Box<[AtomicU64]>,
    /// The way back, for pools that are asked by addresses.
    whereabouts: Option<Whereabouts>,
}

impl Addresses {
    /// The address of an offset in an arena of a device that has addresses.
    #[inline(always)]
    pub(crate) fn at(&self, offset_bytes: u64) -> Option<u64> {
        match self {
            Self::Whole(whole) => {
                Some(whole.address.wrapping_add(offset_bytes.wrapping_sub(whole.origin_bytes)))
            }
            Self::Windows(windows) => windows.at(offset_bytes),
        }
    }

    /// Notes the address of an arena. Under the lock of the books.
    pub(crate) fn note(&self, origin_bytes: u64, size_bytes: u64, address: u64) {
        if let Self::Windows(windows) = self {
            windows.note(origin_bytes, size_bytes, address);
        }
    }

    /// What is found at an offset that an address may be that of.
    #[inline(always)]
    pub(crate) fn find<R>(&self, address: u64, look: impl Fn(u64) -> Option<R>) -> Option<R> {
        match self {
            Self::Whole(whole) => {
                let inside = address.wrapping_sub(whole.address);
                let is_there = whole.finds && inside < whole.size_bytes;
                if is_there { look(whole.origin_bytes + inside) } else { None }
            }
            Self::Windows(windows) => windows.find(address, look),
        }
    }
}

impl Windows {
    pub(crate) fn new(space_bytes: u64, finds: bool) -> Result<Self, ConfigError> {
        let windows = usize::try_from(space_bytes.div_ceil(WINDOW_BYTES)).unwrap_or(usize::MAX);
        let refused = ConfigError::OutOfHostMemory { bytes: windows.saturating_mul(8) };
        let mut starts = Vec::new();
        starts.try_reserve_exact(windows).map_err(|_| refused)?;
        starts.resize_with(windows, || AtomicU64::new(0));
        let whereabouts = finds.then(|| Whereabouts::new(windows)).transpose()?;
        Ok(Self { starts: starts.into_boxed_slice(), whereabouts })
    }

    #[inline(always)]
    fn at(&self, offset_bytes: u64) -> Option<u64> {
        let window = self.starts.get((offset_bytes >> WINDOW_BITS) as usize)?;
        Some(window.load(Ordering::Relaxed).wrapping_add(offset_bytes & (WINDOW_BYTES - 1)))
    }

    fn note(&self, origin_bytes: u64, size_bytes: u64, address: u64) {
        let first = origin_bytes >> WINDOW_BITS;
        let end = (origin_bytes + size_bytes).div_ceil(WINDOW_BYTES);
        for window in first..end {
            if let Some(entry) = self.starts.get(window as usize) {
                let start = window << WINDOW_BITS;
                let new = address.wrapping_add(start.wrapping_sub(origin_bytes));
                if let Some(whereabouts) = &self.whereabouts {
                    let old = entry.load(Ordering::Relaxed);
                    let store = || entry.store(new, Ordering::Release);
                    whereabouts.change(window as usize, old, new, store);
                } else {
                    entry.store(new, Ordering::Relaxed);
                }
            }
        }
    }

    /// An origin is as its address is, up to a window, so the two are alike inside one.
    #[inline(always)]
    fn find<R>(&self, address: u64, look: impl Fn(u64) -> Option<R>) -> Option<R> {
        let inside = address & (WINDOW_BYTES - 1);
        self.whereabouts.as_ref()?.find(address, |window| {
            let start = self.starts.get(window)?.load(Ordering::Acquire);
            let offset_bytes = (window as u64) << WINDOW_BITS | inside;
            if start == address - inside { look(offset_bytes) } else { None }
        })
    }
}
