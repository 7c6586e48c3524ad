//! The shape of a range under test: its configuration and where its metadata lie.

use pool_core::{Placement, RangeConfig, Spans};

/// Where the metadata lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In chunks from the heap.
    Chunked,
    /// In slices lent to the range.
    Borrowed {
        /// How many nodes.
        nodes: NodeBudget,
        /// Tables for how many spans.
        spans: u32,
    },
}

/// How many nodes a range with lent storage gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeBudget {
    /// More than the range can ever use.
    Ample,
    /// What [`RangeConfig::nodes_for`] says for this many live blocks.
    Blocks(u32),
    /// Exactly this many, possibly too few for anything.
    Nodes(u32),
}

/// A configuration in granules, and the storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Whole granules of the range.
    pub granules: u32,
    /// Bytes over the last whole granule, which the range must round away.
    pub odd_bytes: u32,
    /// The granule in bytes.
    pub granule_bytes: u64,
    /// Which free block serves.
    pub placement: Placement,
    /// What comes from spans.
    pub spans: Spans,
    /// How much longer than asked for a block may be, in hundredths.
    pub tolerance_percent: u8,
    /// Sets the handles apart.
    pub handle_seed: u32,
    /// Where the metadata lie.
    pub storage: Storage,
    /// Whether a second range, of the other storage, follows step by step: both must answer alike.
    pub twin: bool,
}

impl Shape {
    /// A best-fit range of `granules` of 256 bytes with no spans, in chunks from the heap.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::oracle::Shape;
    ///
    /// assert_eq!(Shape::new(324).config().granule_bytes(256), Shape::new(324).config());
    /// ```
    #[must_use]
    pub const fn new(granules: u32) -> Self {
        Self {
            granules,
            odd_bytes: 0,
            granule_bytes: 256,
            placement: Placement::BestFit,
            spans: Spans::Off,
            tolerance_percent: 0,
            handle_seed: 0,
            storage: Storage::Chunked,
            twin: false,
        }
    }

    /// The same with another placement.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::Placement;
    /// use pool_mock::oracle::Shape;
    ///
    /// assert_eq!(Shape::new(64).placement(Placement::Buddy).placement, Placement::Buddy);
    /// ```
    #[must_use]
    pub const fn placement(mut self, placement: Placement) -> Self {
        self.placement = placement;
        self
    }

    /// The same with spans of `span_granules` for requests of at most `small_granules`.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::Spans;
    /// use pool_mock::oracle::Shape;
    ///
    /// let expected = Spans::Sized { span_bytes: 64 * 256, small_bytes: 16 * 256 };
    /// assert_eq!(Shape::new(1000).spans(64, 16).spans, expected);
    /// ```
    #[must_use]
    pub const fn spans(mut self, span_granules: u32, small_granules: u32) -> Self {
        self.spans = Spans::Sized {
            span_bytes: span_granules as u64 * self.granule_bytes,
            small_bytes: small_granules as u64 * self.granule_bytes,
        };
        self
    }

    /// The same with other storage.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::oracle::{NodeBudget, Shape, Storage};
    ///
    /// let storage = Storage::Borrowed { nodes: NodeBudget::Blocks(8), spans: 0 };
    /// assert_eq!(Shape::new(1000).storage(storage).storage, storage);
    /// ```
    #[must_use]
    pub const fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// The same, followed by a twin in the other storage.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::oracle::Shape;
    ///
    /// assert!(Shape::new(64).with_twin().twin);
    /// ```
    #[must_use]
    pub const fn with_twin(mut self) -> Self {
        self.twin = true;
        self
    }

    /// The range's configuration.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::OffsetAllocator;
    /// use pool_mock::oracle::Shape;
    ///
    /// let range = OffsetAllocator::new(&Shape::new(64).config())?;
    /// assert_eq!(range.capacity_bytes(), 64 * 256);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn config(&self) -> RangeConfig {
        let capacity_bytes = self.granules as u64 * self.granule_bytes + self.odd_bytes as u64;
        RangeConfig::new(capacity_bytes)
            .granule_bytes(self.granule_bytes)
            .placement(self.placement)
            .spans(self.spans)
            .tolerance_percent(self.tolerance_percent)
            .handle_seed(self.handle_seed)
            .expect_blocks(Self::FIRST_BLOCKS)
    }

    /// How many nodes a lent table has under `budget`.
    pub(crate) fn node_count(&self, budget: NodeBudget) -> usize {
        match budget {
            // A live block and a hole for each granule, some for the largest range that the
            // interpreter grows to, and some to spare.
            NodeBudget::Ample => 2 * (self.granules as usize + Self::MOST_GROWTH as usize) + 64,
            // A configuration that is none has no nodes; making the range says why.
            NodeBudget::Blocks(blocks) => self.config().nodes_for(blocks).unwrap_or(0),
            NodeBudget::Nodes(nodes) => nodes as usize,
        }
    }

    /// Blocks that the first chunk has room for: few, so that others have to follow.
    const FIRST_BLOCKS: u32 = 16;

    /// Granules that a range under test is grown by at most, all in all.
    pub(crate) const MOST_GROWTH: u32 = 4096;
}
