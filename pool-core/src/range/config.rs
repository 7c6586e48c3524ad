//! The shape of a range, checked once when it is made.

use super::buddies;
use super::error::ConfigError;
#[cfg(feature = "alloc")]
use super::islands::Stretch;
use super::node::NONE;
use super::span;

/// Which free block serves a request.
///
/// All three keep the same promises of handles, books and determinism; they differ in memory
/// needed and in time. ARCHITECTURE.md and the README have the figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Placement {
    /// The smallest free block that fits, through size classes; small requests come from spans
    /// that are cut by binary buddy. The default.
    ///
    /// Complexity: a first look visits a constant number of blocks; when it finds nothing, a
    /// second one at most two for each bit of a size. A free visits its two neighbours and at
    /// most one block for each bit of a size.
    #[default]
    BestFit,
    /// The lowest free block that fits. Packs long-lived blocks low, so that the end of the
    /// range can be given back.
    ///
    /// Complexity: at most one block for each bit of an offset (32), for a request and a free.
    FirstFit,
    /// Every block is a power of two of granules and merges with its buddy. Fast and regular,
    /// at the cost of the rounding.
    ///
    /// Complexity: at most one split or merge for each bit of a size.
    Buddy,
}

/// Which small requests are cut from spans by binary buddy (best fit only).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Spans {
    /// By the capacity: spans of 4,096 granules (1 MiB) in ranges of 2^20 granules (256 MiB) and
    /// more, smaller ones in smaller ranges, none below 2^14 granules (4 MiB). Requests of up to
    /// a 16th of a span come from them.
    #[default]
    Automatic,
    /// No spans: every block is outside.
    Off,
    /// As told.
    Sized {
        /// The size of a span: a power of two, from 64 to 4,096 granules.
        span_bytes: u64,
        /// The largest size that comes from spans, at most half a span.
        small_bytes: u64,
    },
}

/// What a range is to be: capacity, granule, placement, spans.
///
/// # Example
///
/// ```
/// use pool_core::{OffsetAllocator, Placement, RangeConfig, Spans};
///
/// let config = RangeConfig::new(24 << 30)
///     .placement(Placement::BestFit)
///     .spans(Spans::Sized { span_bytes: 1 << 20, small_bytes: 64 << 10 })
///     .expect_blocks(100_000);
/// let range = OffsetAllocator::new(&config)?;
/// assert_eq!(range.capacity_bytes(), 24 << 30);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RangeConfig {
    pub(crate) capacity_bytes: u64,
    pub(crate) granule_bytes: u64,
    pub(crate) placement: Placement,
    pub(crate) spans: Spans,
    pub(crate) handle_seed: u32,
    pub(crate) expected_blocks: u32,
    pub(crate) tolerance_percent: u8,
}

impl RangeConfig {
    /// A range of `capacity_bytes`, rounded down to a whole number of granules; the granule is
    /// 256 bytes, placement best fit, spans automatic.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig};
    ///
    /// let range = OffsetAllocator::new(&RangeConfig::new(1000))?;
    /// assert_eq!(range.capacity_bytes(), 768);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn new(capacity_bytes: u64) -> Self {
        Self {
            capacity_bytes,
            granule_bytes: 256,
            placement: Placement::BestFit,
            spans: Spans::Automatic,
            handle_seed: 0,
            expected_blocks: 4096,
            tolerance_percent: 0,
        }
    }

    /// The unit of sizes and offsets: a power of two from 16 bytes. On CUDA always 256.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(4096).granule_bytes(16))?;
    /// assert_eq!(range.allocate(20)?.size_bytes(), 32);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn granule_bytes(mut self, granule_bytes: u64) -> Self {
        self.granule_bytes = granule_bytes;
        self
    }

    /// Which free block serves a request.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, Placement, RangeConfig};
    ///
    /// let config = RangeConfig::new(1 << 20).placement(Placement::Buddy);
    /// let mut range = OffsetAllocator::new(&config)?;
    /// assert_eq!(range.allocate(5 * 256)?.size_bytes(), 8 * 256);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// Which small requests come from spans. First fit and buddy have none, whatever is set.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig, Spans};
    ///
    /// let range = OffsetAllocator::new(&RangeConfig::new(1 << 30).spans(Spans::Off))?;
    /// assert_eq!(range.spans().count(), 0);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn spans(mut self, spans: Spans) -> Self {
        self.spans = spans;
        self
    }

    /// Sets this range's handles apart from those of ranges with another seed.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig};
    ///
    /// let mut first = OffsetAllocator::new(&RangeConfig::new(1 << 20).handle_seed(1))?;
    /// let mut second = OffsetAllocator::new(&RangeConfig::new(1 << 20).handle_seed(2))?;
    /// let block = first.allocate(4096)?;
    /// second.allocate(4096)?;
    /// assert!(second.free(block.handle()).is_err());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn handle_seed(mut self, handle_seed: u32) -> Self {
        self.handle_seed = handle_seed;
        self
    }

    /// How many live blocks the first chunk of metadata is to have room for (feature `alloc`;
    /// more chunks follow by themselves). 4,096 by default.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig};
    ///
    /// let range = OffsetAllocator::new(&RangeConfig::new(1 << 40).expect_blocks(1_000_000))?;
    /// # let _ = range;
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn expect_blocks(mut self, blocks: u32) -> Self {
        self.expected_blocks = blocks;
        self
    }

    /// How much longer than asked for a block outside spans may be, in hundredths of what was asked
    /// for: what would be left of a free run behind it is given with it if that is no more. So fewer
    /// crumbs are left that no request fits. 0, the default: every run is cut to the granule; at
    /// most 100. Blocks in spans and under buddy placement are as they are, and
    /// [`resize`](crate::OffsetAllocator::resize) is to the granule.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(101 << 10).tolerance_percent(1))?;
    /// // 1 KiB is left, which is no more than one in a hundred.
    /// assert_eq!(range.allocate(100 << 10)?.size_bytes(), 101 << 10);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn tolerance_percent(mut self, percent: u8) -> Self {
        self.tolerance_percent = percent;
        self
    }
}

/// A configuration in granules, found good.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub(crate) granule_shift: u32,
    /// 1 to 2^32 granules.
    pub(crate) capacity: u64,
    /// A power of two, or zero: no spans.
    pub(crate) span_granules: u32,
    /// The largest length that comes from spans; zero without.
    pub(crate) small_granules: u64,
}

/// The least and the most granules of a span.
const SPAN_GRANULES: core::ops::RangeInclusive<u64> = 64..=1 << span::MAX_ORDER;

/// Automatic spans are at most this fraction of the range, and small requests this of a span.
const SPANS_IN_RANGE: u64 = 256;
const SMALL_IN_SPAN: u64 = 16;

impl Shape {
    /// That of a range that is not made yet.
    pub(crate) const NONE: Self =
        Self { granule_shift: 0, capacity: 0, span_granules: 0, small_granules: 0 };

    pub(crate) fn of(config: &RangeConfig) -> Result<Self, ConfigError> {
        let RangeConfig { capacity_bytes, granule_bytes, .. } = *config;
        if !granule_bytes.is_power_of_two() || granule_bytes < 16 {
            return Err(ConfigError::Granule { granule_bytes });
        }
        let granule_shift = granule_bytes.trailing_zeros();
        let capacity = capacity_bytes >> granule_shift;
        if capacity == 0 {
            return Err(ConfigError::CapacityBelowGranule { capacity_bytes, granule_bytes });
        }
        if capacity > 1 << 32 {
            return Err(ConfigError::CapacityTooLarge { capacity_bytes, granule_bytes });
        }
        let (span_granules, small_granules) = match (config.placement, config.spans) {
            (Placement::BestFit, Spans::Automatic) => Self::automatic_spans(capacity),
            (Placement::BestFit, Spans::Sized { span_bytes, small_bytes }) => {
                Self::sized_spans(granule_bytes, span_bytes, small_bytes)?
            }
            _ => (0, 0),
        };
        Ok(Self { granule_shift, capacity, span_granules, small_granules })
    }

    fn automatic_spans(capacity: u64) -> (u32, u64) {
        let most = (capacity / SPANS_IN_RANGE).min(*SPAN_GRANULES.end());
        if most < *SPAN_GRANULES.start() {
            return (0, 0);
        }
        let span = 1u64 << most.ilog2();
        (span as u32, span / SMALL_IN_SPAN)
    }

    fn sized_spans(
        granule_bytes: u64,
        span_bytes: u64,
        small_bytes: u64,
    ) -> Result<(u32, u64), ConfigError> {
        let span = span_bytes / granule_bytes;
        if !span_bytes.is_power_of_two() || !SPAN_GRANULES.contains(&span) {
            return Err(ConfigError::SpanSize { span_bytes, granule_bytes });
        }
        let small = small_bytes / granule_bytes;
        if small == 0 || small > span / 2 {
            return Err(ConfigError::SmallLimit { small_bytes, span_bytes });
        }
        Ok((span as u32, small))
    }

    /// A length or an offset in bytes.
    #[inline]
    pub(crate) fn bytes(&self, granules: u64) -> u64 {
        granules << self.granule_shift
    }

    /// The granules of so many bytes at an offset.
    #[cfg(feature = "alloc")]
    #[inline]
    pub(crate) fn stretch(&self, offset_bytes: u64, size_bytes: u64) -> Stretch {
        Stretch {
            start: (offset_bytes >> self.granule_shift) as u32,
            len: size_bytes >> self.granule_shift,
        }
    }

    pub(crate) fn has_spans(&self) -> bool {
        self.span_granules != 0
    }

    /// How many aligned places for spans the capacity has.
    pub(crate) fn span_places(&self) -> u32 {
        // Without spans there is no divisor and no place.
        self.capacity.checked_div(u64::from(self.span_granules)).unwrap_or(0) as u32
    }

    /// Words of caller's storage that say which span is in which place.
    pub(crate) fn map_words(&self) -> usize {
        self.span_places().div_ceil(2) as usize
    }

    /// Words of caller's storage for a number of spans.
    fn span_words(&self, spans: u32) -> usize {
        if !self.has_spans() || spans == 0 {
            return 0;
        }
        self.map_words()
            .saturating_add(span::words(self.span_granules).saturating_mul(spans as usize))
    }

    /// Nodes for a number of live blocks in any layout.
    fn nodes(&self, placement: Placement, blocks: u32) -> usize {
        let blocks = blocks as usize;
        let nodes = match placement {
            // A hole before each block and one behind the last; an empty span and a hole before it.
            Placement::BestFit | Placement::FirstFit => {
                let empty_span = if self.has_spans() { 2 } else { 0 };
                blocks.saturating_mul(2).saturating_add(1 + empty_span)
            }
            // Beside each block, its free buddies up to the largest order; and the row of pieces
            // that an empty range is.
            Placement::Buddy => {
                let orders = buddies::order_of(self.capacity) as usize;
                blocks.saturating_add(1).saturating_mul(orders + 1)
            }
        };
        // There are no more pieces than granules.
        let pieces = usize::try_from(self.capacity).unwrap_or(usize::MAX);
        nodes.min(pieces).min(NONE as usize)
    }
}

impl RangeConfig {
    /// How many nodes are enough for `blocks` live blocks in any layout: what a caller who lends
    /// storage gives, and what the first chunk from the heap has.
    ///
    /// # Errors
    ///
    /// Those of making the range.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::RangeConfig;
    ///
    /// assert_eq!(RangeConfig::new(1 << 30).nodes_for(1000), Ok(2003));
    /// ```
    pub fn nodes_for(&self, blocks: u32) -> Result<usize, ConfigError> {
        Ok(Shape::of(self)?.nodes(self.placement, blocks))
    }

    /// How many words of storage are enough for `spans` open spans, for a caller who lends
    /// storage. With fewer, small blocks that find no span lie outside.
    ///
    /// # Errors
    ///
    /// Those of making the range.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Placement, RangeConfig};
    ///
    /// let config = RangeConfig::new(1 << 30);
    /// assert!(config.span_words_for(8)? > 0);
    /// assert_eq!(config.placement(Placement::Buddy).span_words_for(8)?, 0);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    pub fn span_words_for(&self, spans: u32) -> Result<usize, ConfigError> {
        Ok(Shape::of(self)?.span_words(spans))
    }
}
