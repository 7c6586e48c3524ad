//! What there is at a moment: what events began from, or have come to.

use alloc::vec::Vec;

use super::event::LabelId;
use crate::device::Device;
use crate::pool::Pool;
use crate::pool::inner::Inner;
use crate::pool::pages::Paging;
use crate::range::Block;
use crate::threads::Threads;

/// What a pool has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inventory {
    /// Where memory is, in the pool's space of offsets: where each arena, or handle of mapped pages,
    /// begins, and its bytes. In order.
    pub memory: Vec<(u64, u64)>,
    /// The blocks that the program has, in order.
    pub blocks: Vec<LiveBlock>,
}

/// A block that the program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveBlock {
    /// The block.
    pub block: Block,
    /// The label that it was asked for under; zero of none, or while the pool did not record.
    pub label: LabelId,
}

impl<D: Device, T: Threads> Inner<D, T> {
    fn inventory(&self) -> Inventory {
        let mut memory: Vec<(u64, u64)> = self.with_books(|books| {
            let shape = self.shared.shape();
            let pages = books.paging.iter().flat_map(Paging::mapped);
            let pages = pages.map(|part| (shape.bytes(part.start.into()), shape.bytes(part.len)));
            let arenas = books.arenas.iter().map(|arena| (arena.origin_bytes, arena.size_bytes));
            arenas.chain(pages).collect()
        });
        memory.sort_unstable();
        let label_of = |block: &Block| {
            LabelId(self.recorder().map_or(0, |recorder| recorder.labels.of(block.handle())))
        };
        let blocks = self.shared.live_blocks().into_iter();
        let mut blocks: Vec<LiveBlock> =
            blocks.map(|block| LiveBlock { label: label_of(&block), block }).collect();
        blocks.sort_unstable_by_key(|live| live.block.offset_bytes());
        blocks.dedup_by_key(|live| live.block.offset_bytes());
        Inventory { memory, blocks }
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// What the pool has now, whether or not it records: where its memory is, and the blocks that the
    /// program has. Exact when no other thread works.
    ///
    /// # Complexity
    ///
    /// Linear in blocks and pieces of memory; each space is locked for as long as its own are looked at.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// let config = PoolConfig::new().initial_bytes(4 << 20);
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), config)?;
    /// let block = pool.allocate(1 << 20)?;
    /// let inventory = pool.inventory();
    /// assert_eq!(inventory.memory.iter().map(|(_, bytes)| bytes).sum::<u64>(), 4 << 20);
    /// assert!(inventory.blocks.iter().map(|live| live.block).eq([block]));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        self.inner().inventory()
    }
}
