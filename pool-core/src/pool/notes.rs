//! What there is to know of a block beyond where it lies. Most blocks have no note, and cost one
//! look at a counter.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::fence::{Shared, has_fence};
use super::stream::{GraphId, Tag};
use crate::device::Device;
use crate::range::Handle;
use crate::sync::{AtomicU32, Lock, Ordering, Padded};
use crate::threads::Threads;

/// Parts of the table, each under its own lock, in powers of two.
const PARTS_BITS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 4 };

/// Counters of notes, in powers of two: blocks that share one with a block that has a note look like
/// such, and are not freed at once. So there are more of them than notes as a rule.
const COUNTERS_BITS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 12 };

/// A use on a stream that the pool does not know: its handle and, where the device has them, its
/// identity.
pub(crate) struct RawUse<D: Device> {
    pub(crate) handle: D::Stream,
    pub(crate) key: u64,
    pub(crate) id: Option<u64>,
}

/// A note on a live block.
pub(crate) struct Note<D: Device> {
    /// Known streams that use it beside its own, in order.
    pub(crate) uses: Vec<u32>,
    /// Streams that the pool does not know and that use it: their owners keep them alive until
    /// the block is freed.
    pub(crate) raw_uses: Vec<RawUse<D>>,
    /// What uses of streams that are gone have to be waited for by.
    pub(crate) fences: Vec<Shared<D>>,
    /// Whether some stream uses it of which nothing is known.
    pub(crate) all: bool,
    /// Whether it was allocated on a stream that has no lasting identity: its key and, where the
    /// device has them, its identity.
    pub(crate) raw_origin: Option<(u64, Option<u64>)>,
    /// The graphs whose captures use it.
    pub(crate) graphs: Vec<GraphId>,
    /// Whether one of them uses it on another stream than its own space's.
    pub(crate) shared_in_graph: bool,
    pub(crate) tag: Option<Tag>,
    /// The key of the shelf that it is put on when it is freed.
    pub(crate) key: Option<u32>,
}

impl<D: Device> Note<D> {
    /// Whether it says of something that keeps the block where it is: a graph, or uses of which
    /// nobody can say when they are over.
    pub(crate) fn is_binding(&self) -> bool {
        self.all || self.raw_origin.is_some() || !self.graphs.is_empty()
    }

    /// Whether nothing uses the block but its own space's stream.
    pub(crate) fn is_of_one_stream(&self) -> bool {
        self.uses.is_empty()
            && self.raw_uses.is_empty()
            && self.fences.is_empty()
            && !self.all
            && !self.shared_in_graph
    }
}

impl<D: Device> Clone for RawUse<D> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), key: self.key, id: self.id }
    }
}

impl<D: Device> Clone for Note<D> {
    fn clone(&self) -> Self {
        Self {
            uses: self.uses.clone(),
            raw_uses: self.raw_uses.clone(),
            fences: self.fences.clone(),
            all: self.all,
            raw_origin: self.raw_origin,
            graphs: self.graphs.clone(),
            shared_in_graph: self.shared_in_graph,
            tag: self.tag,
            key: self.key,
        }
    }
}

impl<D: Device> Default for Note<D> {
    fn default() -> Self {
        Self {
            uses: Vec::new(),
            raw_uses: Vec::new(),
            fences: Vec::new(),
            all: false,
            raw_origin: None,
            graphs: Vec::new(),
            shared_in_graph: false,
            tag: None,
            key: None,
        }
    }
}

struct Part<D: Device> {
    notes: HashMap<Handle, Note<D>>,
}

type LockedPart<D, T> = Padded<<T as Threads>::Lock<Part<D>>>;

/// The notes on all blocks.
pub(crate) struct Notes<D: Device, T: Threads> {
    /// All notes: mostly there is none.
    count: Padded<AtomicU32>,
    /// How many notes there are on the blocks of each place.
    counters: Box<[AtomicU32]>,
    parts: Box<[LockedPart<D, T>]>,
}

/// Where a block is found, in so many bits.
#[inline(always)]
fn place(handle: Handle, bits: u32) -> usize {
    // Fibonacci hashing: handles of neighbours differ in few bits.
    let hash = handle.to_raw().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 32 >> (u32::BITS - bits)) as usize
}

impl<D: Device, T: Threads> Notes<D, T> {
    pub(crate) fn new() -> Self {
        let part = |_| Padded(Lock::new(Part { notes: HashMap::new() }));
        Self {
            count: Padded(AtomicU32::new(0)),
            counters: (0..1 << COUNTERS_BITS).map(|_| AtomicU32::new(0)).collect(),
            parts: (0..1 << PARTS_BITS).map(part).collect(),
        }
    }

    fn part(&self, handle: Handle) -> Option<&T::Lock<Part<D>>> {
        self.parts.get(place(handle, PARTS_BITS)).map(|part| &part.0)
    }

    #[inline(always)]
    fn counter(&self, handle: Handle) -> Option<&AtomicU32> {
        self.counters.get(place(handle, COUNTERS_BITS))
    }

    /// Whether there may be a note on a block. Whoever frees it has seen what was noted before.
    #[inline(always)]
    pub(crate) fn may_have(&self, handle: Handle) -> bool {
        self.count.load(Ordering::Acquire) != 0
            && self.counter(handle).is_some_and(|counter| counter.load(Ordering::Acquire) != 0)
    }

    /// Changes the note on a block, which is made if there is none.
    pub(crate) fn change<R>(
        &self,
        handle: Handle,
        change: impl FnOnce(&mut Note<D>) -> R,
    ) -> Option<R> {
        let counter = self.counter(handle)?;
        let mut guard = self.part(handle)?.lock();
        guard.notes.try_reserve(1).ok()?;
        let is_new = !guard.notes.contains_key(&handle);
        let result = change(guard.notes.entry(handle).or_default());
        if is_new {
            counter.fetch_add(1, Ordering::Release);
            self.count.fetch_add(1, Ordering::Release);
        }
        Some(result)
    }

    /// Takes the note on a block that is freed.
    pub(crate) fn take(&self, handle: Handle) -> Option<Note<D>> {
        if !self.may_have(handle) {
            return None;
        }
        let counter = self.counter(handle)?;
        let mut guard = self.part(handle)?.lock();
        let note = guard.notes.remove(&handle);
        if note.is_some() {
            counter.fetch_sub(1, Ordering::Release);
            self.count.fetch_sub(1, Ordering::Release);
        }
        note
    }

    /// A copy of the note on a block, which stays: of several threads that free it, the one that
    /// does takes it away.
    pub(crate) fn copy(&self, handle: Handle) -> Option<Note<D>> {
        if !self.may_have(handle) {
            return None;
        }
        self.part(handle)?.lock().notes.get(&handle).cloned()
    }

    /// Looks at the note on a block, if there is one.
    pub(crate) fn look<R>(&self, handle: Handle, look: impl FnOnce(&Note<D>) -> R) -> Option<R> {
        if !self.may_have(handle) {
            return None;
        }
        self.part(handle)?.lock().notes.get(&handle).map(look)
    }

    /// Has all blocks that wait for a stream wait for a fence instead.
    pub(crate) fn replace(&self, number: u32, fences: &[Shared<D>]) {
        for part in &self.parts {
            let mut guard = part.0.lock();
            for note in guard.notes.values_mut() {
                if let Ok(place) = note.uses.binary_search(&number) {
                    note.uses.remove(place);
                    note.fences.extend(fences.iter().cloned());
                }
            }
        }
    }

    /// Fences that blocks wait for whose streams are gone, at most so many.
    pub(crate) fn fences(&self, most: usize) -> Vec<Shared<D>> {
        let mut fences: Vec<Shared<D>> = Vec::new();
        for part in &self.parts {
            let guard = part.0.lock();
            for fence in guard.notes.values().flat_map(|note| &note.fences) {
                if fences.len() < most && !has_fence(&fences, fence) {
                    fences.push(fence.clone());
                }
            }
        }
        fences
    }

    /// Takes fences that are done off all blocks.
    pub(crate) fn forget_fences(&self, done: &[Shared<D>]) {
        for part in &self.parts {
            let mut guard = part.0.lock();
            for note in guard.notes.values_mut() {
                // The caller has them: that none is dropped here.
                note.fences.retain(|fence| !has_fence(done, fence));
            }
        }
    }

    /// Forgets a graph, on all blocks.
    pub(crate) fn forget_graph(&self, graph: GraphId, fences: &[Shared<D>]) {
        for part in &self.parts {
            let mut guard = part.0.lock();
            for note in guard.notes.values_mut() {
                if note.graphs.contains(&graph) {
                    note.graphs.retain(|&other| other != graph);
                    // Its launches used the block.
                    note.fences.extend(fences.iter().cloned());
                }
            }
        }
    }

    /// The handles of all blocks that have a note.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        let mut handles = Vec::new();
        for part in &self.parts {
            handles.extend(part.0.lock().notes.keys().copied());
        }
        handles
    }
}
