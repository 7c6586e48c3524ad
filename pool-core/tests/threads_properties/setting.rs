//! The allocators that are checked.

use pool_core::{Placement, RangeConfig, SharedConfig, Spans};

pub(crate) const GRANULE: u64 = 256;

/// What a case is checked on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) granules: u64,
    pub(crate) placement: Placement,
    /// Granules of a span; zero: none.
    pub(crate) span_granules: u64,
    pub(crate) shards: u32,
    pub(crate) cache_bytes: u64,
}

impl Setting {
    pub(crate) fn config(&self) -> SharedConfig {
        let span_bytes = self.span_granules * GRANULE;
        let spans = match self.span_granules {
            0 => Spans::Off,
            _ => Spans::Sized { span_bytes, small_bytes: span_bytes / 8 },
        };
        let range = RangeConfig::new(self.granules * GRANULE)
            .placement(self.placement)
            .spans(spans)
            .expect_blocks(16);
        SharedConfig::new(range).shards(self.shards).cache_bytes(self.cache_bytes)
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.granules * GRANULE
    }
}
