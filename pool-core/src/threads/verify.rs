//! The thread layer, checked from its tables.

use super::SharedAllocator;
use super::centre::Given;
use super::names::outside;
use super::platform::Threads;
use crate::range::{Slot, VerifyError};

impl<T: Threads> SharedAllocator<T> {
    /// Checks every invariant of the range and its shards, that every block that was given out
    /// has a word that says so, and the books. To be called when no operation is in flight; one
    /// that is can look like a fault.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] names the first invariant that does not hold: a fault of this crate.
    ///
    /// # Complexity
    ///
    /// Linear in the range's pieces and the granules of its spans.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// shared.allocate(4096)?;
    /// shared.verify()?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn verify(&self) -> Result<(), VerifyError> {
        self.verify_with(0)
    }

    /// The same, if so many blocks outside spans are set aside.
    pub(crate) fn verify_with(&self, set_aside: u64) -> Result<(), VerifyError> {
        let (mut live, mut live_bytes, mut cached, mut aside) = (0, 0, 0, 0);
        let inner = self.inner();
        inner.centre.verify(|Given { shard, block }, stretch| {
            let at = stretch.start;
            let fault = |what| Err(VerifyError { what, at: at.into() });
            let is_live = match block.handle.slot() {
                Slot::Node(node) => match inner.starts.live_at(at) {
                    Some(found) if found == outside(shard, node, block.handle) => true,
                    None => {
                        aside += 1;
                        false
                    }
                    Some(_) => {
                        return fault("another block is found at the offset of one");
                    }
                },
                Slot::Granule(_) => {
                    let cut = inner.words.cut(at);
                    if (cut.shard(), 1 << cut.order()) != (shard, stretch.len) {
                        return fault("a block is cut otherwise than its word says");
                    }
                    inner.words.live_at(at).is_some()
                }
            };
            if is_live {
                live += 1;
                live_bytes += block.size_bytes;
            } else {
                cached += 1;
            }
            Ok(())
        })?;
        let stats = self.stats();
        let fault = |what, at| Err(VerifyError { what, at });
        if (stats.live_blocks, stats.live_bytes) != (live, live_bytes) {
            return fault("live blocks miscounted", live);
        }
        if aside != set_aside {
            return fault("blocks outside spans that cannot be found by their offsets", aside);
        }
        if stats.cached_blocks != cached {
            return fault("cached blocks miscounted", cached);
        }
        Ok(())
    }
}
