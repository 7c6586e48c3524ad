//! What a pool says that it did, against its books: everything is computed anew from the events.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use pool_core::record::{Clock, Event, LabelId, RecordConfig, Since, What};
use pool_core::{Pool, PoolStats};

use super::finding::Fault;
use super::platform::ProgramThreads;
use super::run::Answer;
use crate::device::SimDevice;

/// Events of each thread: more than a program has between two looks.
const EVENTS: u32 = 1 << 14;

/// A step of the clock, which the recorder keeps whole.
const TICK: Duration = Duration::from_nanos(1024);

type Recording = Pool<SimDevice, ProgramThreads>;

/// What the events of a pool come to.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    since: Since,
    /// What there was when the recording began.
    before: PoolStats,
    /// Sizes and labels of live blocks, by where they begin.
    live: HashMap<u64, (u64, LabelId)>,
    /// Sizes of blocks that wait.
    waiting: HashMap<u64, u64>,
    /// When a block was freed that began there.
    freed: HashMap<u64, Duration>,
    grown: u64,
    released: u64,
    steals: u64,
    moved_bytes: u64,
    served: u64,
    refused: u64,
    reused: u64,
    labels: HashMap<String, Held>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    live: u64,
    peak: u64,
    allocations: u64,
}

impl Recorded {
    /// Has a pool record that has no block yet.
    pub(super) fn start(pool: &Recording) -> Answer<Self> {
        let ticks = Arc::new(AtomicU64::new(1));
        let clock = Clock::new(move || {
            TICK * u32::try_from(ticks.fetch_add(1, Ordering::Relaxed)).unwrap_or(u32::MAX)
        });
        pool.start_recording(&RecordConfig::new(clock).events(EVENTS).labels(16))?;
        Ok(Self { before: pool.stats(), ..Self::default() })
    }

    /// Reads what happened since, and compares what it comes to with the pool's books.
    /// If calls met others the peaks are not those of any order by time.
    pub(super) fn look(&mut self, pool: &Recording, peaks: bool) -> Result<(), Fault> {
        let events = pool.events(&mut self.since);
        Fault::differs("lost events", events.lost, 0)?;
        for event in &events.all {
            self.follow(pool, event)?;
        }
        let (stats, figures) = (pool.stats(), pool.figures());
        let requests = figures.requests();
        let reserved = (self.before.reserved_bytes + self.grown).checked_sub(self.released);
        for (figure, got, expected) in [
            ("noted live_bytes", self.live.values().map(|block| block.0).sum(), stats.live_bytes),
            ("noted live_blocks", self.live.len() as u64, stats.live_blocks),
            ("noted deferred_bytes", self.waiting.values().sum(), stats.deferred_bytes),
            ("noted deferred_blocks", self.waiting.len() as u64, stats.deferred_blocks),
            ("noted reserved_bytes", reserved.unwrap_or(u64::MAX), stats.reserved_bytes),
            ("noted steals", self.steals, stats.steals - self.before.steals),
            ("noted migrated_bytes", self.moved_bytes, stats.migrated_bytes),
            ("requests served", requests.requests() - requests.refused, self.served),
            ("requests refused", requests.refused, self.refused),
            ("reuses", figures.reuse.count(), self.reused),
        ] {
            Fault::differs(figure, got, expected)?;
        }
        for label in &figures.labels {
            let held = self.labels.get(&label.path).copied().unwrap_or_default();
            Fault::differs("live bytes of a label", label.live_bytes, held.live)?;
            if peaks {
                Fault::differs("peak bytes of a label", label.peak_bytes, held.peak)?;
            }
            Fault::differs("allocations of a label", label.allocations, held.allocations)?;
        }
        let fragments = pool.fragmentation(u64::MAX);
        Fault::differs("bytes too small for any", fragments.unusable_bytes, fragments.free_bytes)
    }

    fn follow(&mut self, pool: &Recording, event: &Event) -> Result<(), Fault> {
        let &Event { time, what, offset_bytes, size_bytes, label, .. } = event;
        match what {
            What::Allocated { reused_after, .. } => {
                let before = self.live.insert(offset_bytes, (size_bytes, label));
                Fault::differs("blocks where one was noted", before.map_or(0, |_| 1), 0)?;
                self.served += 1;
                if let Some(after) = reused_after {
                    self.reused += 1;
                    let freed = self.freed.get(&offset_bytes).copied().unwrap_or_default();
                    Fault::differs(
                        "time of a reuse",
                        nanoseconds(after),
                        nanoseconds(time.saturating_sub(freed)),
                    )?;
                }
                self.each_label(pool, label, |held| {
                    held.live += size_bytes;
                    held.peak = held.peak.max(held.live);
                    held.allocations += 1;
                });
            }
            What::Freed { waits } => {
                let known = self.live.remove(&offset_bytes);
                // Only one of a request that was refused after all was never given out.
                let (size, of) = known.unwrap_or((if waits { size_bytes } else { 0 }, label));
                Fault::differs("size of a block that was noted", size, size_bytes)?;
                Fault::differs("label of a block", label.0.into(), of.0.into())?;
                if waits {
                    self.waiting.insert(offset_bytes, size_bytes);
                }
                self.freed.insert(offset_bytes, time);
                self.each_label(pool, label, |held| held.live -= size_bytes);
            }
            What::Reclaimed => {
                let size = self.waiting.remove(&offset_bytes).unwrap_or(0);
                Fault::differs("size of a block that waited", size, size_bytes)?;
            }
            What::Moved { from_bytes } => {
                let block = self.live.remove(&from_bytes).unwrap_or_default();
                Fault::differs("size of a block that was moved", block.0, size_bytes)?;
                self.live.insert(offset_bytes, block);
                self.moved_bytes += size_bytes;
            }
            What::Grown { .. } => self.grown += size_bytes,
            What::Released { .. } => self.released += size_bytes,
            What::Stolen => self.steals += 1,
            What::Refused(_) => self.refused += 1,
            _ => {}
        }
        Ok(())
    }

    /// A label, and those that it is within.
    fn each_label(&mut self, pool: &Recording, label: LabelId, each: impl Fn(&mut Held)) {
        let Some(path) = pool.label_path(label) else { return };
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for end in ends {
            each(self.labels.entry(path[..end].to_owned()).or_default());
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
