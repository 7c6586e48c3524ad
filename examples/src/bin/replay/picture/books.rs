//! What a pool takes and defers, as it can be seen from outside.

use std::collections::{BTreeMap, VecDeque};

use pool_core::{Device, Pool};
use pool_mock::replay::Sight;
use pool_report::{Event, History, Kind};

use super::cast::Cast;

/// What can be seen of a pool from outside: its arenas by the blocks in them, and what it defers by
/// its books.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) requests: u64,
    /// Where arenas begin that a block was seen in, and their sizes.
    arenas: BTreeMap<u64, u64>,
    /// Where live blocks begin, and their sizes.
    live: BTreeMap<u64, u64>,
    /// Freed blocks that wait, in the order of their frees.
    waiting: VecDeque<(u64, u64)>,
    waiting_bytes: u64,
}

impl Books {
    /// A call was made.
    pub(super) fn see<D: Device>(
        &mut self,
        pool: &Pool<D>,
        time: u64,
        sight: Sight,
        cast: &Cast,
        history: &mut History,
    ) {
        match sight {
            Sight::Allocated { offset_bytes, size_bytes, .. } => {
                self.requests += 1;
                self.follow(pool, time, offset_bytes, size_bytes, history);
                cast.tell(time, sight, Kind::Free, history);
            }
            Sight::Freed { offset_bytes, .. } => {
                let size_bytes = self.live.remove(&offset_bytes).unwrap_or(0);
                self.waiting.push_back((offset_bytes, size_bytes));
                self.waiting_bytes += size_bytes;
                let done = self.settled(pool);
                let is_done = done.contains(&offset_bytes);
                let kind = if is_done { Kind::Free } else { Kind::FreeAsked };
                cast.tell(time, sight, kind, history);
                for offset_bytes in done.into_iter().filter(|done| *done != offset_bytes) {
                    history.push(Event::new(time, Kind::FreeDone).at(offset_bytes, 0));
                }
                return;
            }
            Sight::Refused { .. } => {
                self.requests += 1;
                cast.tell(time, sight, Kind::Free, history);
            }
            Sight::Other => {}
        }
        for offset_bytes in self.settled(pool) {
            history.push(Event::new(time, Kind::FreeDone).at(offset_bytes, 0));
        }
    }

    /// A block was handed out: its arena is there, and what waited where it lies waits no longer, for
    /// memory that waits for a stream can serve that stream.
    fn follow<D: Device>(
        &mut self,
        pool: &Pool<D>,
        time: u64,
        offset_bytes: u64,
        size_bytes: u64,
        history: &mut History,
    ) {
        self.live.insert(offset_bytes, size_bytes);
        let end_bytes = offset_bytes + size_bytes;
        self.waiting.retain(|(offset, size)| {
            let is_taken = *offset < end_bytes && offset_bytes < offset + size;
            self.waiting_bytes -= if is_taken { *size } else { 0 };
            !is_taken
        });
        // Pages come and go where no call tells: there, what blocks touch is what is shown.
        if pool.stats().calls.creations > 0 {
            return;
        }
        let Some(handle) = pool.block_at(offset_bytes) else { return };
        let Ok(place) = pool.location(handle) else { return };
        let (start, bytes) = (offset_bytes - place.offset_bytes, place.arena.size_bytes());
        if self.arenas.insert(start, bytes) != Some(bytes) {
            history.push(Event::new(time, Kind::Growth).at(start, bytes));
        }
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
