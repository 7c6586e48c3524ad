//! Quick lists: the small blocks freed last, kept by order for the next request of it, and
//! merged only when something else needs their granules.
//!
//! Programs free and ask for the same few small sizes in turn; merging a block through every
//! order up and splitting it down again would be most of the work. The lists are short, and
//! whatever looks beyond them settles them first, so that no promise depends on them. (Weinstock
//! and Wulf's Quick Fit is the origin; dlmalloc's fast bins are of this kind.)

use super::spans::SpanBlock;

/// Orders that have a list: blocks of up to 256 granules.
const ORDERS: usize = 9;

/// The most blocks in a list.
const DEPTH: usize = 32;

/// The most granules in a list.
const GRANULES: usize = 1024;

/// How many blocks of an order are kept.
const fn depth(order: usize) -> usize {
    let fit = GRANULES >> order;
    if fit < DEPTH { fit } else { DEPTH }
}

/// Freed blocks of spans that still look taken to their spans.
pub(crate) struct QuickLists {
    lens: [u8; ORDERS],
    blocks: [[(u32, u32); DEPTH]; ORDERS],
}

impl QuickLists {
    /// The most blocks that all lists keep.
    pub(crate) const MOST: usize = {
        let (mut most, mut order) = (0, 0);
        while order < ORDERS {
            most += depth(order);
            order += 1;
        }
        most
    };

    pub(crate) const fn new() -> Self {
        Self { lens: [0; ORDERS], blocks: [[(0, 0); DEPTH]; ORDERS] }
    }

    /// The block of an order that was freed last.
    #[inline(always)]
    pub(crate) fn take(&mut self, order: u32) -> Option<SpanBlock> {
        let len = self.lens.get_mut(order as usize)?;
        *len = len.checked_sub(1)?;
        let (slot, granule) = *self.blocks[order as usize].get(usize::from(*len))?;
        Some(SpanBlock { slot, granule, order })
    }

    /// Keeps a freed block; false if its list is full or there is none.
    #[inline(always)]
    pub(crate) fn keep(&mut self, block: SpanBlock) -> bool {
        let order = block.order as usize;
        let Some(len) = self.lens.get_mut(order) else { return false };
        let Some(place) = self.blocks[order].get_mut(usize::from(*len)) else { return false };
        if usize::from(*len) >= depth(order) {
            return false;
        }
        *place = (block.slot, block.granule);
        *len += 1;
        true
    }

    /// How many more blocks of an order can be kept.
    pub(crate) fn room(&self, order: u32) -> u32 {
        let len = self.lens.get(order as usize);
        len.map_or(0, |&len| depth(order as usize) as u32 - u32::from(len))
    }

    /// Any block, the smallest first.
    pub(crate) fn take_any(&mut self) -> Option<SpanBlock> {
        (0..ORDERS as u32).find_map(|order| self.take(order))
    }

    /// Drops the blocks of a span that is closed.
    pub(crate) fn forget(&mut self, slot: u32) {
        for (len, blocks) in self.lens.iter_mut().zip(&mut self.blocks) {
            let mut kept = 0;
            for at in 0..usize::from(*len).min(DEPTH) {
                if blocks[at].0 != slot {
                    blocks[kept] = blocks[at];
                    kept += 1;
                }
            }
            *len = kept as u8;
        }
    }

    /// Every block that is kept.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = SpanBlock> + '_ {
        (0..ORDERS).flat_map(move |order| {
            let len = usize::from(self.lens[order]).min(DEPTH);
            self.blocks[order][..len].iter().map(move |&(slot, granule)| SpanBlock {
                slot,
                granule,
                order: order as u32,
            })
        })
    }
}
