//! Size classes: which sizes are kept together.
//!
//! Sizes below 64 granules have a class each; above, every power of two is cut into 32 classes,
//! so that a class spans at most 1/32 of its sizes. Lengths are granules, 1 to 2^32.

/// A power of two of sizes has 2^5 classes.
const STEP_BITS: u32 = 5;

/// One more than the highest class, that of 2^32.
pub(crate) const CLASSES: usize = Class::of(1 << 32).0 as usize + 1;

/// One class, counted from the smallest size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class(pub(crate) u32);

impl Class {
    /// The class of a length.
    #[inline(always)]
    pub(crate) const fn of(len: u64) -> Self {
        // Lengths below 64 count as of one power of two, in steps of one.
        let step = (len | 63).ilog2() - STEP_BITS;
        Self((step << STEP_BITS) + (len >> step) as u32)
    }

    /// The bits in which the lengths of this class differ: its tries are at most this deep.
    #[inline(always)]
    pub(crate) const fn free_bits(self) -> u32 {
        (self.0 >> STEP_BITS).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest length of a class.
    fn floor(class: Class) -> u64 {
        let step = class.free_bits();
        u64::from(class.0 - (step << STEP_BITS)) << step
    }

    #[test]
    fn every_length_lies_in_its_class() {
        let near_powers = (0..=32u32)
            .flat_map(|k| (-40..=40i64).filter_map(move |d| u64::try_from((1i64 << k) + d).ok()));
        for len in (1..1 << 20).chain(near_powers).filter(|len| (1..=1 << 32).contains(len)) {
            let class = Class::of(len);
            assert!((class.0 as usize) < CLASSES, "{len}");
            assert!(floor(class) <= len, "{len}: {class:?}");
            assert!(len - floor(class) < 1 << class.free_bits(), "{len}: {class:?}");
        }
    }

    #[test]
    fn classes_rise_with_lengths() {
        let mut before = Class::of(1);
        for len in 2..1 << 18 {
            let class = Class::of(len);
            assert!(before <= class && class.0 <= before.0 + 1, "{len}");
            before = class;
        }
        assert!(Class::of(1 << 32) > Class::of((1 << 32) - 1));
    }
}
