//! What a pool takes and defers, as it can be seen from outside.

use std::collections::{BTreeMap, VecDeque};

use pool_core::{Device, Pool};
use pool_mock::replay::Sight;

/// What can be seen of a pool from outside: its arenas by the blocks in them, and what it defers by
/// its books.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) live_bytes: u64,
    /// Where arenas begin that a block was seen in, and their sizes.
    arenas: BTreeMap<u64, u64>,
    /// The lowest offset of a block, and the highest end.
    touched: Option<(u64, u64)>,
    /// Where live blocks begin, and their sizes.
    live: BTreeMap<u64, u64>,
    /// Freed blocks that wait, in the order of their frees.
    waiting: VecDeque<(u64, u64)>,
    waiting_bytes: u64,
}

/// What a call changed, beside the block that it was about.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// An arena that was not known: where it begins, and its size.
    pub(crate) growth: Option<(u64, u64)>,
    /// Where blocks begin that wait no longer.
    pub(crate) done: Vec<u64>,
}

impl Books {
    /// A call was made of a pool.
    pub(crate) fn see<D: Device>(&mut self, pool: &Pool<D>, sight: Sight) -> News {
        let mut growth = None;
        match sight {
            Sight::Freed { offset_bytes, .. } => {
                let size_bytes = self.live.get(&offset_bytes).copied().unwrap_or(0);
                self.count(sight);
                self.waiting.push_back((offset_bytes, size_bytes));
                self.waiting_bytes += size_bytes;
            }
            Sight::Allocated { offset_bytes, size_bytes, .. } => {
                self.count(sight);
                self.serve(offset_bytes, size_bytes);
                growth = self.follow(pool, offset_bytes);
            }
            Sight::Refused { .. } | Sight::Other => self.count(sight),
        }
        News { growth, done: self.settled(pool) }
    }

    /// A call was made of what defers nothing and does not grow.
    pub(crate) fn count(&mut self, sight: Sight) {
        match sight {
            Sight::Allocated { offset_bytes, size_bytes, .. } => {
                self.requests += 1;
                self.live_bytes += size_bytes;
                self.live.insert(offset_bytes, size_bytes);
                let end_bytes = offset_bytes + size_bytes;
                let (lowest, highest) = self.touched.unwrap_or((offset_bytes, end_bytes));
                self.touched = Some((lowest.min(offset_bytes), highest.max(end_bytes)));
            }
            Sight::Freed { offset_bytes, .. } => {
                self.live_bytes -= self.live.remove(&offset_bytes).unwrap_or(0);
            }
            Sight::Refused { .. } => {
                self.requests += 1;
                self.refused += 1;
            }
            Sight::Other => {}
        }
    }

    /// Where arenas begin, and their sizes; where none is known, from the first to the last byte that a
    /// block had.
    pub(crate) fn arenas(&self) -> Vec<(u64, u64)> {
        if self.arenas.is_empty() {
            return self.touched.map(|(start, end)| (start, end - start)).into_iter().collect();
        }
        self.arenas.iter().map(|(start, bytes)| (*start, *bytes)).collect()
    }

    /// Where blocks begin that are live or wait, and their sizes.
    pub(crate) fn taken(&self) -> Vec<(u64, u64)> {
        let live = self.live.iter().map(|(start, bytes)| (*start, *bytes));
        let mut taken: Vec<_> = live.chain(self.waiting.iter().copied()).collect();
        taken.sort_unstable();
        taken
    }

    /// A block was handed out: what waited where it lies waits no longer, for memory that waits for a
    /// stream can serve that stream.
    fn serve(&mut self, offset_bytes: u64, size_bytes: u64) {
        let end_bytes = offset_bytes + size_bytes;
        self.waiting.retain(|(offset, size)| {
            let is_taken = *offset < end_bytes && offset_bytes < offset + size;
            self.waiting_bytes -= if is_taken { *size } else { 0 };
            !is_taken
        });
    }

    /// The arena of a block that was handed out, if it is another than is known there.
    fn follow<D: Device>(&mut self, pool: &Pool<D>, offset_bytes: u64) -> Option<(u64, u64)> {
        // Pages come and go where no call tells: there, what blocks touch is what is shown.
        if pool.stats().calls.creations > 0 {
            return None;
        }
        let handle = pool.block_at(offset_bytes)?;
        let place = pool.location(handle).ok()?;
        let (start, bytes) = (offset_bytes - place.offset_bytes, place.arena.size_bytes());
        (self.arenas.insert(start, bytes) != Some(bytes)).then_some((start, bytes))
    }

    /// Blocks that wait no longer: the first freed, until no more wait than the pool defers.
    fn settled<D: Device>(&mut self, pool: &Pool<D>) -> Vec<u64> {
        let mut done = Vec::new();
        if self.waiting.is_empty() {
            return done;
        }
        let deferred_bytes = pool.stats().deferred_bytes;
        while self.waiting_bytes > deferred_bytes {
            let Some((offset_bytes, size_bytes)) = self.waiting.pop_front() else { break };
            self.waiting_bytes -= size_bytes;
            done.push(offset_bytes);
        }
        done
    }
}
