//! Questions to a range that change nothing.

use super::allocator::{Free, OffsetAllocator};
use super::block::{RangeStats, Visits};
use super::config::Placement;
use super::need::Need;
use super::request::Request;
use super::storage::Storage;

impl<S: Storage> OffsetAllocator<S> {
    /// Whether a request would be served now (but for missing metadata).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig, Request};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// range.allocate(256)?;
    /// assert!(range.fits((1 << 20) - 256));
    /// assert!(!range.fits(Request::new(1 << 19).align_bytes(1 << 20)));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fits(&self, request: impl Into<Request>) -> bool {
        self.visits(request).served
    }

    /// How many blocks a request would visit, and whether it would be served: what the stated
    /// bounds are about.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let visits = range.visits(4096);
    /// assert!(visits.served && visits.first_look);
    /// assert_eq!(visits.blocks, 1); // the one free run
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn visits(&self, request: impl Into<Request>) -> Visits {
        let mut visits = Visits::default();
        let Ok(need) = Need::of(&request.into(), &self.shape) else { return visits };
        let blocks = &mut visits.blocks;
        let (runs, spans) = match &self.free {
            Free::Runs(runs, spans) => (runs, spans),
            Free::Buddies(buddies) => {
                visits.served = buddies.find(&self.table, &need, blocks).is_some();
                visits.first_look = visits.served;
                return visits;
            }
        };
        let in_spans = self
            .span_orders(&need)
            .is_some_and(|(order, align_order)| spans.serve(&self.table, order, align_order));
        if in_spans && self.is_small(&need) {
            return Visits { served: true, first_look: true, blocks: 1 };
        }
        if runs.first_look(&self.table, &need, blocks).is_some() {
            return Visits { served: true, first_look: true, blocks: *blocks };
        }
        visits.served = runs.second_look(&self.table, &need, blocks).is_some()
            || Self::place_over_empty_span(&self.table, spans, &need).is_some()
            || in_spans
            || self.would_open_span(runs, spans, &need);
        visits
    }

    /// The largest size that would be served now at the granule's alignment, without options.
    ///
    /// # Complexity
    ///
    /// At most one block for each bit of a size.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// range.allocate(512)?;
    /// assert_eq!(range.largest_free_bytes(), (1 << 20) - 512);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn largest_free_bytes(&self) -> u64 {
        let granules = match &self.free {
            Free::Runs(runs, spans) => {
                let run = runs.longest(&self.table);
                let over_span = Self::run_over_empty_span(&self.table, spans);
                let buddy = 1 << spans.settled_rank(&self.table) >> 1;
                run.max(over_span.map_or(0, |(start, end)| end - start)).max(buddy)
            }
            Free::Buddies(buddies) => buddies.longest(),
        };
        self.shape.bytes(granules)
    }

    /// The bytes that the range manages: a whole number of granules.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// assert_eq!(OffsetAllocator::new(&RangeConfig::new(1023))?.capacity_bytes(), 768);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.shape.bytes(self.shape.capacity)
    }

    /// The unit of sizes and offsets.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// assert_eq!(OffsetAllocator::new(&RangeConfig::new(1 << 20))?.granule_bytes(), 256);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn granule_bytes(&self) -> u64 {
        self.shape.bytes(1)
    }

    /// Which free block serves a request.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, Placement, RangeConfig};
    /// let range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// assert_eq!(range.placement(), Placement::BestFit);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The books.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// range.allocate(1000)?;
    /// let stats = range.stats();
    /// assert_eq!((stats.live_blocks, stats.live_bytes), (1, 1024));
    /// assert_eq!(stats.live_bytes + stats.free_bytes, stats.capacity_bytes);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> RangeStats {
        RangeStats {
            capacity_bytes: self.capacity_bytes(),
            live_bytes: self.shape.bytes(self.books.live_granules),
            peak_live_bytes: self.shape.bytes(self.books.peak_live_granules),
            free_bytes: self.shape.bytes(self.shape.capacity - self.books.live_granules),
            live_blocks: self.books.live_blocks,
            spans: match &self.free {
                Free::Runs(_, spans) => spans.open_count(),
                Free::Buddies(_) => 0,
            },
            nodes: self.table.used(),
        }
    }
}

impl<S: Storage> core::fmt::Debug for OffsetAllocator<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OffsetAllocator")
            .field("placement", &self.placement)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
