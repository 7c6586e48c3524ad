//! What the tests of all kinds share.

use pool_core::{
    Block, Borrowed, Chunked, OffsetAllocator, Piece, Placement, RangeConfig, RangeStats,
    SpanExtent, Spans,
};

pub(crate) const GRANULE: u64 = 256;

pub(crate) const PLACEMENTS: [Placement; 3] =
    [Placement::BestFit, Placement::FirstFit, Placement::Buddy];

/// The placements that split to the granule.
pub(crate) const FITS: [Placement; 2] = [Placement::BestFit, Placement::FirstFit];

/// A range of `granules` without spans.
pub(crate) fn range_of(granules: u64, placement: Placement) -> OffsetAllocator<Chunked> {
    let config = RangeConfig::new(granules * GRANULE).placement(placement).spans(Spans::Off);
    OffsetAllocator::new(&config).unwrap()
}

/// A best-fit range of `granules` with spans of 64 for blocks of at most 16.
pub(crate) fn range_with_spans(granules: u64) -> OffsetAllocator<Chunked> {
    let spans = Spans::Sized { span_bytes: 64 * GRANULE, small_bytes: 16 * GRANULE };
    OffsetAllocator::new(&RangeConfig::new(granules * GRANULE).spans(spans)).unwrap()
}

/// Lengths on either side of every limit of a size class: powers of two and 1/64 steps between.
pub(crate) fn around_class_limits(most: u64) -> impl Iterator<Item = u64> {
    (0..26u32)
        .flat_map(|shift| (64..128u64).map(move |step| step << shift))
        .chain((0..7).map(|shift| 1 << shift))
        .flat_map(|floor| [floor - 1, floor, floor + 1])
        .filter(move |granules| (1..=most).contains(granules))
}

/// Everything that a range says of itself.
#[derive(Debug, PartialEq)]
pub(crate) struct Dump {
    pieces: Vec<Piece>,
    spans: Vec<SpanExtent>,
    stats: RangeStats,
    largest_free_bytes: u64,
}

macro_rules! dump {
    ($name:ident, $storage:ty) => {
        /// A dump of a range, which must verify.
        pub(crate) fn $name(range: &OffsetAllocator<$storage>) -> Dump {
            assert_eq!(range.verify(), Ok(()));
            Dump {
                pieces: range.blocks().collect(),
                spans: range.spans().collect(),
                stats: range.stats(),
                largest_free_bytes: range.largest_free_bytes(),
            }
        }
    };
}

dump!(dump, Chunked);
dump!(dump_lent, Borrowed<'_>);

/// The free pieces in granules: start and length.
pub(crate) fn holes(range: &OffsetAllocator<Chunked>) -> Vec<(u64, u64)> {
    range
        .blocks()
        .filter_map(|piece| match piece {
            Piece::Free { offset_bytes, size_bytes } => {
                Some((offset_bytes / GRANULE, size_bytes / GRANULE))
            }
            _ => None,
        })
        .collect()
}

/// Frees blocks in the order given.
pub(crate) fn free_each(
    range: &mut OffsetAllocator<Chunked>,
    blocks: impl IntoIterator<Item = Block>,
) {
    for block in blocks {
        assert_eq!(range.free(block.handle()), Ok(block));
    }
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % limit
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1);
            items.swap(last, usize::try_from(other).unwrap());
        }
    }
}
