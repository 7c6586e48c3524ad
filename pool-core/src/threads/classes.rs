//! Which blocks are cached, and how many of them.

use crate::range::Shape;

/// The largest block that a cache keeps. Caching larger ones costs more memory than it saves
/// time: ARCHITECTURE.md has the figures.
const MOST_BYTES: u64 = 64 << 10;

/// The most classes: a span has at most 2^12 granules, and a small block half of them.
pub(crate) const MOST_CLASSES: usize = 12;

/// The most blocks of one class and one owner in a cache.
pub(crate) const MOST_DEPTH: usize = if cfg!(any(loom, shuttle)) { 4 } else { 64 };

/// A class has this part of a cache's bytes, so that one owner never fills it.
pub(crate) const CLASS_SHARE: u64 = 4;

/// The most blocks of a magazine.
pub(crate) const MOST_MAGAZINE: usize = MOST_DEPTH / 2;

/// The most magazines of a class.
const MOST_MAGAZINES: u64 = 128;

/// The classes of blocks that are cached: one for each power of two of granules, as spans cut
/// them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes {
    granule_shift: u32,
    count: u32,
    cache_bytes: u64,
}

impl Classes {
    /// The classes of a range's small blocks, in caches of so many bytes.
    pub(crate) fn new(shape: &Shape, cache_bytes: u64) -> Self {
        let granule_shift = shape.granule_shift;
        let most = shape.small_granules.min(MOST_BYTES >> granule_shift);
        let orders = most.checked_ilog2().map_or(0, |order| order + 1);
        let mut classes = Self { granule_shift, count: orders, cache_bytes };
        while classes.count > 0 && classes.depth(classes.count() - 1) == 0 {
            classes.count -= 1;
        }
        classes
    }

    /// How many there are.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    /// The class of a request of a plain length, if its block may come from a cache.
    #[inline(always)]
    pub(crate) fn of_len(&self, plain_len: Option<u64>) -> Option<usize> {
        // The order of the next power of two: lengths are from 1 to 2^32.
        let class = (plain_len? * 2 - 1).checked_ilog2()?;
        (class < self.count).then_some(class as usize)
    }

    /// The class of the blocks of an order.
    #[inline(always)]
    pub(crate) fn of_order(&self, order: u32) -> Option<usize> {
        (order < self.count).then_some(order as usize)
    }

    /// Bytes of a block of a class.
    #[inline(always)]
    pub(crate) fn bytes(&self, class: usize) -> u64 {
        1 << (class as u32 + self.granule_shift)
    }

    /// The most blocks of a class that a cache keeps for one owner.
    pub(crate) fn depth(&self, class: usize) -> usize {
        let fit = self.cache_bytes / CLASS_SHARE / self.bytes(class);
        usize::try_from(fit).map_or(MOST_DEPTH, |fit| fit.min(MOST_DEPTH))
    }

    /// Bytes that a cache may keep in all.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    /// Blocks of a class that pass from cache to cache together.
    pub(crate) fn magazine_len(&self, class: usize) -> usize {
        (self.depth(class) / 2).max(1)
    }

    /// Magazines of a class that so many bytes hold.
    pub(crate) fn magazines(&self, class: usize, bytes: u64) -> u64 {
        let magazine_bytes = self.bytes(class) * self.magazine_len(class) as u64;
        (bytes / magazine_bytes).min(MOST_MAGAZINES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::{RangeConfig, Spans};

    #[test]
    fn there_are_never_more_classes_than_places_for_them() {
        for granule_bytes in (4..=16).map(|bits| 1 << bits) {
            let (span_bytes, small_bytes) = (4096 * granule_bytes, 2048 * granule_bytes);
            let config = RangeConfig::new(1 << 32)
                .granule_bytes(granule_bytes)
                .spans(Spans::Sized { span_bytes, small_bytes });
            let shape = Shape::of(&config).unwrap();
            for cache_bytes in [0, 1, 1 << 20, u64::MAX] {
                let classes = Classes::new(&shape, cache_bytes);
                assert!(classes.count() <= MOST_CLASSES);
                for class in 0..classes.count() {
                    assert!(classes.bytes(class) <= MOST_BYTES);
                    assert!((1..=MOST_DEPTH).contains(&classes.depth(class)));
                    assert!((1..=MOST_MAGAZINE).contains(&classes.magazine_len(class)));
                }
            }
        }
    }
}
