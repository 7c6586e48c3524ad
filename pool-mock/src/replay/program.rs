//! A program on several streams and threads, made ready for replay: a flat list of calls over
//! numbered slots.

use crate::{
    device::Access,
    log::{Action, Trace},
};

/// What a [`Call`] does. Slots are as those of a [`Step`](super::Step); streams and threads are
/// numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deed {
    /// Ask for a block on a stream and keep it in a slot, which is empty.
    Allocate {
        /// Where to keep the block.
        slot: u32,
        /// On which stream it will be used.
        stream: u32,
        /// The bytes asked for.
        size_bytes: u64,
    },
    /// Queue work on a stream that uses all of a block.
    Use {
        /// Where the block is.
        slot: u32,
        /// On which stream.
        stream: u32,
        /// How.
        access: Access,
    },
    /// Have the work that is queued on one stream from now on wait for what is queued on another.
    Order {
        /// What is waited for.
        before: u32,
        /// What waits.
        after: u32,
    },
    /// Tell the pool that a block is used on a further stream.
    Note {
        /// Where the block is.
        slot: u32,
        /// The further stream.
        stream: u32,
    },
    /// Give back the block in a slot, which is empty if its request was refused.
    Free {
        /// Where the block is.
        slot: u32,
        /// The stream that the free names.
        stream: u32,
    },
}

impl Deed {
    /// The same with other slots and streams: so many further on.
    fn moved(self, slots: u32, streams: u32) -> Self {
        match self {
            Self::Allocate { slot, stream, size_bytes } => {
                Self::Allocate { slot: slot + slots, stream: stream + streams, size_bytes }
            }
            Self::Use { slot, stream, access } => {
                Self::Use { slot: slot + slots, stream: stream + streams, access }
            }
            Self::Order { before, after } => {
                Self::Order { before: before + streams, after: after + streams }
            }
            Self::Note { slot, stream } => {
                Self::Note { slot: slot + slots, stream: stream + streams }
            }
            Self::Free { slot, stream } => {
                Self::Free { slot: slot + slots, stream: stream + streams }
            }
        }
    }
}

/// One call of a [`Program`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Which thread makes it.
    pub thread: u32,
    /// What it does.
    pub deed: Deed,
}

/// The calls of a program with its streams and threads, in one total order.
///
/// # Example
///
/// ```
/// use pool_mock::{Trace, replay::Program};
///
/// let log = "Thread,Time,Action,Pointer,Size,Stream\n\
///            1,10:00:00.000001,allocate,0xa0,1000,7\n\
///            2,10:00:00.000002,free,0xa0,1000,8\n";
/// let program = Program::of(&Trace::read(log.as_bytes())?);
/// assert_eq!((program.streams(), program.threads()), (2, 2));
/// assert_eq!((program.operations(), program.frees()), (2, 1));
/// assert_eq!(program.peak_live_bytes(256), 1024);
/// # Ok::<(), pool_mock::LogError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Program {
    calls: Vec<Call>,
    streams: u32,
    threads: u32,
    slots: u32,
    operations: usize,
    frees: usize,
}

impl Program {
    /// The program of a trace: what it allocated and freed, on which stream, from which thread.
    /// Requests that failed when they were recorded and frees of unknown pointers are left out.
    #[must_use]
    pub fn of(trace: &Trace) -> Self {
        let mut program = Self::default();
        let mut live: Vec<Option<u32>> = vec![None; trace.blocks() as usize];
        let mut empty_slots = Vec::new();
        for operation in &trace.operations {
            let (thread, stream) = (operation.thread.0, operation.stream.0);
            let deed = match operation.action {
                Action::Allocate { block, size_bytes } => {
                    let Some(entry @ None) = live.get_mut(block.0 as usize) else { continue };
                    let slot = empty_slots.pop().unwrap_or(program.slots);
                    *entry = Some(slot);
                    Deed::Allocate { slot, stream, size_bytes }
                }
                Action::Free { block } => {
                    let slot = live.get_mut(block.0 as usize).and_then(Option::take);
                    let Some(slot) = slot else { continue };
                    empty_slots.push(slot);
                    Deed::Free { slot, stream }
                }
                Action::Failure { .. } | Action::UnknownFree => continue,
            };
            program.push(thread, deed);
        }
        program
    }

    /// Adds a call at the end.
    pub(super) fn push(&mut self, thread: u32, deed: Deed) {
        self.threads = self.threads.max(thread + 1);
        match deed {
            Deed::Allocate { slot, stream, .. } => {
                self.slots = self.slots.max(slot + 1);
                self.streams = self.streams.max(stream + 1);
                self.operations += 1;
            }
            Deed::Free { stream, .. } => {
                self.streams = self.streams.max(stream + 1);
                self.operations += 1;
                self.frees += 1;
            }
            Deed::Use { stream, .. } | Deed::Note { stream, .. } => {
                self.streams = self.streams.max(stream + 1);
            }
            Deed::Order { before, after } => {
                self.streams = self.streams.max(before.max(after) + 1);
            }
        }
        self.calls.push(Call { thread, deed });
    }

    /// The part of the program whose blocks are allocated on one stream, all of it on that stream.
    #[must_use]
    pub fn on_stream(&self, wanted: u32) -> Self {
        let mut part = Self::default();
        let mut here = vec![false; self.slots as usize];
        for call in &self.calls {
            match call.deed {
                Deed::Allocate { slot, stream, size_bytes } => {
                    here[slot as usize] = stream == wanted;
                    if stream == wanted {
                        part.push(0, Deed::Allocate { slot, stream: 0, size_bytes });
                    }
                }
                Deed::Free { slot, .. } if here[slot as usize] => {
                    part.push(0, Deed::Free { slot, stream: 0 });
                }
                _ => {}
            }
        }
        part
    }

    /// The program several times at once, in lockstep: each call once for every copy, in the
    /// copies' order, before the next call. A copy has streams of its own, and makes all calls
    /// from one thread of its own. `None` if that is more than can be counted.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::replay::Pipeline;
    ///
    /// let one = Pipeline::default().program();
    /// let two = one.copies(2).unwrap();
    /// assert_eq!((two.streams(), two.threads()), (2 * one.streams(), 2));
    /// assert_eq!(two.peak_live_bytes(256), 2 * one.peak_live_bytes(256));
    /// ```
    #[must_use]
    pub fn copies(&self, copies: u32) -> Option<Self> {
        self.calls.len().checked_mul(copies as usize)?;
        self.slots.checked_mul(copies)?;
        self.streams.checked_mul(copies)?;
        let mut program = Self::default();
        for call in &self.calls {
            for copy in 0..copies {
                // Below the products above.
                program.push(copy, call.deed.moved(copy * self.slots, copy * self.streams));
            }
        }
        Some(program)
    }

    /// The calls, in order.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// How many streams there are.
    #[must_use]
    pub fn streams(&self) -> u32 {
        self.streams
    }

    /// How many threads there are.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// How many slots there are: the most blocks live at once.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// How many calls are allocations or frees.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.operations
    }

    /// How many calls are frees.
    #[must_use]
    pub fn frees(&self) -> usize {
        self.frees
    }

    /// The most bytes live at once, each block rounded up to `granule_bytes` (0 counts as 1). A
    /// sum past `u64::MAX` is `u64::MAX`.
    #[must_use]
    pub fn peak_live_bytes(&self, granule_bytes: u64) -> u64 {
        let granule_bytes = granule_bytes.max(1);
        let mut sizes_bytes = vec![0_u64; self.slots as usize];
        let (mut live_bytes, mut peak_bytes) = (0_u64, 0_u64);
        for call in &self.calls {
            match call.deed {
                Deed::Allocate { slot, size_bytes, .. } => {
                    let rounded_bytes = size_bytes
                        .max(1)
                        .checked_next_multiple_of(granule_bytes)
                        .unwrap_or(u64::MAX);
                    sizes_bytes[slot as usize] = rounded_bytes;
                    live_bytes = live_bytes.saturating_add(rounded_bytes);
                    peak_bytes = peak_bytes.max(live_bytes);
                }
                Deed::Free { slot, .. } => {
                    live_bytes -= core::mem::take(&mut sizes_bytes[slot as usize]);
                }
                _ => {}
            }
        }
        peak_bytes
    }
}
