//! The name of a live block: a slot and a generation in 64 bits.

use core::num::NonZeroU64;

/// Names one live block of one range, in 64 bits.
///
/// A handle is a slot (32 bits), a mark of which table the slot is in (1 bit) and a
/// generation (31 bits, never zero). The range stamps every allocation with the next
/// generation, so a copy of a handle whose block was freed is answered with an error, also
/// when the slot serves another block by then.
///
/// **The wrap:** generations repeat after 2^31 - 1 allocations of the same range. A stale
/// handle is taken for a live one only if it is used after exactly that many allocations (or a
/// multiple of it) and the one with the same number lies in the same slot.
///
/// Handles of two ranges can have the same bits. A program with several ranges gives each its
/// own [`handle_seed`](crate::RangeConfig::handle_seed), which sets their generations apart, and
/// keeps the range beside the handle.
///
/// # Example
///
/// ```
/// use pool_core::Handle;
///
/// assert_eq!(size_of::<Option<Handle>>(), 8);
/// assert_eq!(Handle::from_raw(0), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Handle(NonZeroU64);

/// Where a handle's slot lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A node of the node table.
    Node(u32),
    /// The first granule of a block in a span.
    Granule(u32),
}

impl Slot {
    /// The node, or the granule.
    #[cfg(feature = "alloc")]
    #[inline(always)]
    pub(crate) fn index(self) -> u32 {
        let (Self::Node(index) | Self::Granule(index)) = self;
        index
    }
}

/// A number from 1 to 2^31 - 1 that the range stamps on an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// The first one without a seed.
    pub(crate) const FIRST: Self = Self(1);
    /// How many distinct generations there are.
    pub(crate) const COUNT: u32 = (1 << 31) - 1;

    /// The first generation under a seed. The seeds are spread over the whole circle, so that
    /// ranges with neighbouring seeds meet only after many allocations.
    pub(crate) fn first(seed: u32) -> Self {
        // The 64-bit golden ratio: consecutive multiples lie far apart.
        let spread = (u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as u32;
        Self(spread % Self::COUNT + 1)
    }

    pub(crate) fn next(self) -> Self {
        Self(if self.0 == Self::COUNT { 1 } else { self.0 + 1 })
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }
}

const GRANULE_BIT: u64 = 1 << 32;
const GENERATION_SHIFT: u32 = 33;

/// Generation one of node zero.
const UNREACHABLE: NonZeroU64 = match NonZeroU64::new(1 << GENERATION_SHIFT) {
    Some(bits) => bits,
    None => NonZeroU64::MAX,
};

impl Handle {
    /// Whether its block lies in a span.
    #[cfg(feature = "alloc")]
    pub(crate) fn is_in_span(self) -> bool {
        matches!(self.slot(), Slot::Granule(_))
    }

    #[inline]
    pub(crate) fn new(slot: Slot, generation: Generation) -> Self {
        Self::with_bits(slot, generation.bits())
    }

    /// The handle of a slot whose generation was read back from its table.
    #[inline]
    pub(crate) fn with_bits(slot: Slot, generation_bits: u32) -> Self {
        let slot_bits = match slot {
            Slot::Node(node) => u64::from(node),
            Slot::Granule(granule) => GRANULE_BIT | u64::from(granule),
        };
        let bits = u64::from(generation_bits) << GENERATION_SHIFT | slot_bits;
        // A generation is never zero, so neither is a handle; the fallback is unreachable, and has
        // the bits that let the compiler see which kind of slot a handle of either kind has.
        Self(NonZeroU64::new(bits).unwrap_or(UNREACHABLE))
    }

    pub(crate) fn slot(self) -> Slot {
        let slot = self.0.get() as u32;
        if self.0.get() & GRANULE_BIT == 0 { Slot::Node(slot) } else { Slot::Granule(slot) }
    }

    pub(crate) fn generation_bits(self) -> u32 {
        (self.0.get() >> GENERATION_SHIFT) as u32
    }

    /// The handle as a number, for an interface that carries no Rust types.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Handle, OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let block = range.allocate(4096)?;
    /// let number: u64 = block.handle().to_raw();
    /// assert_eq!(Handle::from_raw(number), Some(block.handle()));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn to_raw(self) -> u64 {
        self.0.get()
    }

    /// The handle with these bits; `None` for a number that no handle has, zero among them.
    ///
    /// Any number may be given: one that names no live block is refused where it is used.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Handle, OffsetAllocator, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let forged = Handle::from_raw(0xdead_0000_0000).unwrap();
    /// assert!(range.free(forged).is_err());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn from_raw(bits: u64) -> Option<Self> {
        // No handle has generation zero, which is that of what is free.
        if bits >> GENERATION_SHIFT == 0 {
            return None;
        }
        match NonZeroU64::new(bits) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }
}

impl core::fmt::Debug for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Handle({:?}, generation {})", self.slot(), self.generation_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_the_packing() {
        for generation in [Generation(1), Generation(Generation::COUNT)] {
            for slot in
                [Slot::Node(0), Slot::Node(u32::MAX), Slot::Granule(0), Slot::Granule(u32::MAX)]
            {
                let handle = Handle::new(slot, generation);
                assert_eq!(handle.slot(), slot);
                assert_eq!(handle.generation_bits(), generation.bits());
                assert_eq!(Handle::from_raw(handle.to_raw()), Some(handle));
            }
        }
    }

    #[test]
    fn generations_wrap_to_one_and_never_to_zero() {
        assert_eq!(Generation(Generation::COUNT).next(), Generation(1));
        for seed in [0, 1, 2, 1 << 31, u32::MAX] {
            let first = Generation::first(seed).bits();
            assert!((1..=Generation::COUNT).contains(&first), "seed {seed}");
        }
    }
}
