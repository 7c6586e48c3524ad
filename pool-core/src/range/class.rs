//! Size classes: which sizes are kept together.
//!
//! Sizes below 32 granules have a class each; above, every power of two is cut into 32 classes,
//! so that a class spans at most 1/32 of its sizes. Lengths are granules, 1 to 2^32.

/// Classes in a row: the sizes below this, or those of one power of two.
pub(crate) const COLUMNS: usize = 1 << COLUMN_BITS;
const COLUMN_BITS: u32 = 5;

/// Rows: one of exact sizes, then one for each power of two from 2^5 to 2^32.
pub(crate) const ROWS: usize = 33 - COLUMN_BITS as usize + 1;

/// One class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    pub(crate) row: u32,
    pub(crate) column: u32,
}

impl Class {
    /// The class of a length.
    #[inline]
    pub(crate) fn of(len: u64) -> Self {
        debug_assert!((1..=1 << 32).contains(&len), "a length of {len} granules");
        // Lengths below one row count as one octave, whose row is the first.
        let row = (len | (COLUMNS as u64 - 1)).ilog2() - (COLUMN_BITS - 1);
        let shift = row.saturating_sub(1);
        Self { row, column: (len >> shift) as u32 & (COLUMNS as u32 - 1) }
    }

    /// The bits in which the lengths of this class differ: its tries are at most this deep.
    #[inline]
    pub(crate) fn free_bits(self) -> u32 {
        self.row.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(class: Class) -> u64 {
        if class.row == 0 {
            u64::from(class.column)
        } else {
            (COLUMNS as u64 + u64::from(class.column)) << (class.row - 1)
        }
    }

    #[test]
    fn every_length_lies_in_its_class() {
        let near_powers = (0..=32u32)
            .flat_map(|k| (-40..=40i64).filter_map(move |d| u64::try_from((1i64 << k) + d).ok()));
        for len in (1..1 << 20).chain(near_powers).filter(|len| (1..=1 << 32).contains(len)) {
            let class = Class::of(len);
            assert!((class.row as usize) < ROWS && (class.column as usize) < COLUMNS, "{len}");
            assert!(floor(class) <= len, "{len}: {class:?}");
            assert!(len - floor(class) < 1 << class.free_bits(), "{len}: {class:?}");
        }
    }

    #[test]
    fn classes_rise_with_lengths() {
        let mut before = Class::of(1);
        for len in 2..1 << 18 {
            let class = Class::of(len);
            assert!(before <= class, "{len}");
            before = class;
        }
        assert!(Class::of(1 << 32) > Class::of((1 << 32) - 1));
    }
}
