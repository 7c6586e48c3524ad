//! The recorder: journals of all threads, and what is known of memory beside its blocks.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::clock::Clock;
use super::event::{Draft, Event, Served, What, Words, allocated, freed, nanoseconds};
use super::labels::Labels;
use super::reuse::Frees;
use super::tallies::{COUNTERS, Sums, count_request, count_reuse};
use super::{Events, RecordConfig, Since};
use crate::range::{Block, Handle};
use crate::sync::{Counter, Lock};
use crate::threads::{Journal, NoTable, SharedAllocator, Threads, Writer};

/// Journals at most: threads beyond write into the common one.
const MOST_JOURNALS: usize = 256;

/// What a pool that records has beside its books.
pub(in crate::pool) struct Recorder<T: Threads> {
    clock: Clock,
    entries: u32,
    journals: T::Lock<Journals>,
    /// For threads that have no cache, one at a time.
    common: T::Lock<Writer>,
    pub(super) labels: Labels<T>,
    frees: Frees,
    /// Nanoseconds that growth took.
    growth: Counter,
}

struct Journals {
    /// The common one first.
    all: Vec<Arc<Journal>>,
    /// Threads that had one.
    threads: u32,
}

impl<T: Threads> Recorder<T> {
    pub(super) fn new(config: &RecordConfig) -> Result<Self, NoTable> {
        let journal = Arc::new(Journal::new(config.events, COUNTERS)?);
        let mut all = Vec::new();
        all.try_reserve(1).map_err(|_| NoTable)?;
        all.push(journal.clone());
        Ok(Self {
            clock: config.clock.clone(),
            entries: config.events,
            journals: Lock::new(Journals { all, threads: 0 }),
            common: Lock::new(Writer { journal, thread: 0, label: 0 }),
            labels: Labels::new(config.labels)?,
            frees: Frees::new()?,
            growth: Counter::default(),
        })
    }

    /// A journal for a thread: one that nobody has any more, or a new one.
    #[cold]
    fn writer(&self) -> Option<Writer> {
        let mut journals = self.journals.lock();
        let left = journals.all.iter().find(|journal| journal.take()).cloned();
        let journal = match left {
            Some(journal) => journal,
            None if journals.all.len() > MOST_JOURNALS => return None,
            None => {
                journals.all.try_reserve(1).ok()?;
                let journal = Arc::new(Journal::new(self.entries, COUNTERS).ok()?);
                journals.all.push(journal.clone());
                journal
            }
        };
        journals.threads += 1;
        Some(Writer { journal, thread: journals.threads, label: 0 })
    }

    /// Does something with the calling thread's journal, or with the common one; and whether it was the
    /// thread's.
    #[inline]
    pub(super) fn with_writer<R>(
        &self,
        shared: &SharedAllocator<T>,
        work: impl Fn(&mut Writer) -> R,
    ) -> (R, bool) {
        let own = T::with_cache(shared, |cache| {
            if cache.writer.is_none() {
                cache.writer = self.writer();
            }
            cache.writer.as_mut().map(&work)
        });
        match own.flatten() {
            Some(result) => (result, true),
            None => (work(&mut self.common.lock()), false),
        }
    }

    /// The time, in nanoseconds.
    #[inline]
    pub(in crate::pool) fn now(&self) -> u64 {
        self.clock.nanoseconds()
    }

    /// Notes that a block was given out.
    #[inline]
    pub(super) fn note_allocated(
        &self,
        shared: &SharedAllocator<T>,
        block: &Block,
        stream: u32,
        served: Served,
    ) {
        let now = self.now();
        let reused_after = self.frees.take(granule_of(shared, block), now);
        let what = allocated(served, reused_after);
        let (label, _) = self.with_writer(shared, |writer| {
            write(writer, now, what, block.offset_bytes(), block.size_bytes(), stream);
            count_request(&writer.journal.counters, stream, Some(served));
            if let Some(after) = reused_after {
                count_reuse(&writer.journal.counters, after);
            }
            writer.label
        });
        if label != 0 {
            self.labels.charge(label, block.handle(), block.size_bytes());
        }
    }

    /// Notes that a block was freed, at a time before.
    #[inline]
    pub(super) fn note_freed(
        &self,
        shared: &SharedAllocator<T>,
        block: &Block,
        stream: u32,
        waits: bool,
        asked: u64,
    ) {
        self.frees.note(granule_of(shared, block), asked);
        let label = self.labels.credit(block.handle());
        self.with_writer(shared, |writer| {
            let draft = Draft {
                time: asked,
                what: freed(waits),
                offset_bytes: block.offset_bytes(),
                size_bytes: block.size_bytes(),
                stream,
                // The block's, whatever the thread is at.
                label,
                thread: writer.thread,
            };
            writer.journal.write(draft.entry());
        });
    }

    /// Notes anything else.
    pub(in crate::pool) fn note(
        &self,
        shared: &SharedAllocator<T>,
        what: What,
        offset_bytes: u64,
        size_bytes: u64,
        stream: u32,
    ) {
        let now = self.now();
        if let What::Grown { cost } | What::Committed { cost } = what {
            self.growth.add_shared(nanoseconds(cost));
        }
        self.with_writer(shared, |writer| {
            write(writer, now, what.encode(), offset_bytes, size_bytes, stream);
            if let What::Refused(_) = what {
                count_request(&writer.journal.counters, stream, None);
            }
        });
    }

    /// What the calling thread is at, and whether it has that for itself.
    pub(super) fn label(&self, shared: &SharedAllocator<T>) -> (u32, bool) {
        self.with_writer(shared, |writer| writer.label)
    }

    /// Sets what the calling thread is at, where it has that for itself, or what all others are. A thread
    /// whose cache is gone is at nothing.
    pub(super) fn set_label(&self, shared: &SharedAllocator<T>, label: u32, own: bool) {
        if own {
            T::with_cache(shared, |cache| {
                if let Some(writer) = &mut cache.writer {
                    writer.label = label;
                }
            });
        } else {
            self.common.lock().label = label;
        }
    }

    /// Forgets what an allocation or a free that is not seen would make untrue.
    pub(super) fn pause(&self) {
        self.frees.clear();
        self.labels.forget_blocks();
    }

    /// A block is known by another handle.
    pub(in crate::pool) fn hand_label_on(&self, old: Handle, new: Handle) {
        self.labels.hand_on(old, new);
    }

    pub(super) fn growth_time(&self) -> Duration {
        Duration::from_nanos(self.growth.get())
    }

    /// Starts the peaks of labels anew from what is live.
    pub(in crate::pool) fn reset_peaks(&self) {
        self.labels.reset_peaks();
    }

    /// All events since, in order of their times.
    pub(super) fn events(&self, since: &mut Since) -> Events {
        let journals = self.journals.lock().all.clone();
        since.0.resize(journals.len().max(since.0.len()), 0);
        let mut events = Events::default();
        for (journal, next) in journals.iter().zip(&mut since.0) {
            let (lost, end) = journal.read(*next, |words| events.all.extend(Event::decode(words)));
            events.lost += lost;
            *next = end;
        }
        // Those of one thread stay in its order.
        events.all.sort_by_key(|event| event.time);
        events
    }

    pub(super) fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for journal in &self.journals.lock().all {
            sums.add(&journal.counters);
        }
        sums
    }
}

/// Writes what the writer's thread did, under its label.
#[inline]
fn write(writer: &Writer, time: u64, what: Words, offset_bytes: u64, size_bytes: u64, stream: u32) {
    let (label, thread) = (writer.label, writer.thread);
    let draft = Draft { time, what, offset_bytes, size_bytes, stream, label, thread };
    writer.journal.write(draft.entry());
}

/// Where a block begins, in granules.
fn granule_of<T: Threads>(shared: &SharedAllocator<T>, block: &Block) -> u32 {
    shared.shape().stretch(block.offset_bytes(), 0).start
}
