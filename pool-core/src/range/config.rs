//! The shape of a range, checked once when it is made.

use super::error::ConfigError;

/// Which free block serves a request.
///
/// All three keep the same promises of handles, books and determinism; they differ in memory
/// needed and in time. ARCHITECTURE.md and the README have the figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
    /// By the capacity: spans of 2 MiB in ranges of 256 MiB and more, smaller ones in smaller
    /// ranges, none where the range is a few thousand granules.
    #[default]
    Automatic,
    /// No spans: every block is outside.
    Off,
    /// As told.
    Sized {
        /// The size of a span: a power of two, from 64 to 8,192 granules.
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
///     .spans(Spans::Sized { span_bytes: 2 << 20, small_bytes: 64 << 10 })
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
}
