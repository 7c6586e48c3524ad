//! pool-core's range as a subject of replays.

use pool_core::{Handle, OffsetAllocator, Storage};

use super::placer::{Extent, Locate, Placer};

impl<S: Storage> Placer for OffsetAllocator<S> {
    type Block = Handle;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Handle> {
        // A size past `u64::MAX` is past every range.
        let size_bytes = granules.saturating_mul(self.granule_bytes());
        self.allocate(size_bytes).ok().map(|block| block.handle())
    }

    #[inline]
    fn release(&mut self, block: Handle) {
        let freed = self.free(block);
        debug_assert!(freed.is_ok(), "{block:?} was live: {freed:?}");
    }
}

impl<S: Storage> Locate for OffsetAllocator<S> {
    fn locate(&self, block: &Handle) -> Extent {
        // A dead handle lies nowhere.
        self.block(*block).map_or(Extent::default(), |block| Extent {
            offset_granules: block.offset_bytes() / self.granule_bytes(),
            granules: block.size_bytes() / self.granule_bytes(),
        })
    }
}
