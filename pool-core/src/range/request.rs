//! What is asked of a range.

bitflags::bitflags! {
    /// How a request wants to be placed, beyond its size and alignment.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, Options, RangeConfig, Request};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let low = range.allocate(4096)?;
    /// let high = range.allocate(Request::new(4096).options(Options::HIGH_END))?;
    /// assert!(high.offset_bytes() > low.offset_bytes());
    /// assert_eq!(high.offset_bytes() + high.size_bytes(), range.capacity_bytes());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Options: u32 {
        /// Take the high end of the free block instead of its low end. First fit also takes
        /// the highest block that fits, buddy the upper half at each split.
        const HIGH_END = 1;
        /// Never split a free block larger than the request's
        /// [split limit](Request::never_split_above): such a block serves only whole. The
        /// request is then served from outside spans only.
        const LIMIT_SPLIT = 1 << 1;
        /// Serve from outside spans only, whatever the size: for a small block that will live
        /// long or that needs a page of its own.
        const OUTSIDE_SPANS = 1 << 2;
        /// Do not open a new span for this request; one that is open may serve it.
        const NO_NEW_SPAN = 1 << 3;
    }
}

/// For the layers above: the block is to lie at a place, which stands where the split limit does.
pub(crate) const AT_PLACE: Options = Options::from_bits_retain(1 << 31);

/// A size, an alignment and options.
///
/// Converts from a bare size in bytes.
///
/// # Example
///
/// ```
/// use pool_core::{OffsetAllocator, RangeConfig, Request};
///
/// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
/// let plain = range.allocate(1000)?;
/// let aligned = range.allocate(Request::new(1000).align_bytes(64 << 10))?;
/// assert_eq!(plain.size_bytes(), 1024);
/// assert_eq!(aligned.offset_bytes() % (64 << 10), 0);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub(crate) size_bytes: u64,
    pub(crate) align_bytes: u64,
    pub(crate) options: Options,
    pub(crate) split_limit_bytes: u64,
}

impl Request {
    /// The same at a place, or nowhere.
    #[cfg(feature = "alloc")]
    pub(crate) fn at_place(self, offset_bytes: u64) -> Self {
        Self { options: AT_PLACE, split_limit_bytes: offset_bytes, ..self }
    }

    /// The place that it is to have, in bytes, if it is to have no other.
    #[cfg(feature = "alloc")]
    pub(crate) fn place_bytes(&self) -> Option<u64> {
        self.options.contains(AT_PLACE).then_some(self.split_limit_bytes)
    }

    /// A request of `size_bytes` at the granule's alignment.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::Request;
    ///
    /// assert_eq!(Request::new(4096), Request::from(4096));
    /// ```
    #[must_use]
    pub const fn new(size_bytes: u64) -> Self {
        Self { size_bytes, align_bytes: 1, options: Options::empty(), split_limit_bytes: u64::MAX }
    }

    /// Asks for an offset that is a multiple of `align_bytes`, a power of two. Less than a
    /// granule means a granule.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::Request;
    ///
    /// let page = Request::new(4096).align_bytes(2 << 20);
    /// assert_ne!(page, Request::new(4096));
    /// ```
    #[must_use]
    pub const fn align_bytes(mut self, align_bytes: u64) -> Self {
        self.align_bytes = align_bytes;
        self
    }

    /// Adds options.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Options, Request};
    ///
    /// let request = Request::new(4096).options(Options::HIGH_END | Options::OUTSIDE_SPANS);
    /// # let _ = request;
    /// ```
    #[must_use]
    pub const fn options(mut self, options: Options) -> Self {
        self.options = self.options.union(options);
        self
    }

    /// Forbids splitting a free block larger than `limit_bytes`
    /// ([`Options::LIMIT_SPLIT`]): it serves this request only if it is used up whole.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig, Request};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let careful = Request::new(4096).never_split_above(64 << 10);
    /// // The one free block is 1 MiB: it must stay whole.
    /// assert!(range.allocate(careful).is_err());
    /// assert!(range.allocate(Request::new(1 << 20).never_split_above(64 << 10)).is_ok());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn never_split_above(mut self, limit_bytes: u64) -> Self {
        self.split_limit_bytes = limit_bytes;
        self.options = self.options.union(Options::LIMIT_SPLIT);
        self
    }
}

impl From<u64> for Request {
    fn from(size_bytes: u64) -> Self {
        Self::new(size_bytes)
    }
}
