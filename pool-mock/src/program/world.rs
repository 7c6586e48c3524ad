//! What a program knows of its streams, blocks and graphs.

use std::collections::BTreeMap;

use pool_core::{Affinity, Block, GraphId, Movable, StreamId};

use super::finding::Fault;
use crate::device::{GraphHandle, Owner, SimDevice, SimFence, SimRange, SimStream};

/// Tags that are charged.
pub(super) const TAGS: usize = 3;

/// A stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// Its number among the program's, never used twice.
    pub(super) number: u32,
    pub(super) handle: SimStream,
    /// What the pool calls it, if it knows it.
    pub(super) id: Option<StreamId>,
    /// Whether the pool made it.
    pub(super) own: bool,
    /// Uses that were noted by its handle, of blocks that are live: until then it stays open.
    pub(super) pins: u32,
    /// Calls under way that name it.
    pub(super) busy: u32,
    /// It is being retired or closed.
    pub(super) leaving: bool,
    /// How often it was about to go, and stayed since the pool could not let go of it.
    pub(super) stayed: u32,
    /// The pool may have destroyed it.
    pub(super) gone: bool,
    /// The capture that it is in.
    pub(super) capture: Option<u32>,
}

/// A stream that may use a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) stream: u32,
    /// Whether it is behind a write of all the block.
    pub(super) reads: bool,
}

/// Where a block comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// No stream.
    Nowhere,
    /// A stream of the program.
    Stream(u32),
    /// A stream that is gone.
    Gone,
    /// A capture, in which it can be used while that lasts, and its graph.
    Capture(u32, GraphId),
}

/// A block that the program holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) block: Block,
    pub(super) range: SimRange,
    pub(super) offset_bytes: u64,
    pub(super) owner: Owner,
    pub(super) origin: Origin,
    /// A fence behind which it can be used anywhere, if its stream is gone.
    pub(super) born: Option<SimFence>,
    pub(super) ready: Vec<Ready>,
    /// Streams that use it, which the pool was not told of.
    pub(super) unnoted: Vec<u32>,
    /// Those of them that stay while the block is in a thread's hands.
    pub(super) guarded: Vec<u32>,
    /// Streams that it was noted for by handle.
    pub(super) pinned: Vec<SimStream>,
    /// A stream that used it is gone, unnoted: only a free that names no stream is right.
    pub(super) nameless: bool,
    pub(super) tag: Option<u8>,
    pub(super) affinity: Option<Affinity>,
}

/// A buffer of the program's that the pool may move: what it knows of its block is what it saw
/// last.
#[derive(Debug)]
pub(super) struct Moving {
    pub(super) movable: Movable,
    pub(super) align_bytes: u64,
    pub(super) held: Held,
}

/// A capture that is under way.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) number: u32,
    pub(super) graph: GraphId,
    /// The stream that it began on.
    pub(super) stream: u32,
    /// Those that joined.
    pub(super) joined: Vec<u32>,
    /// What a launch has to come after.
    pub(super) before: Vec<SimFence>,
}

/// What a program may launch.
#[derive(Debug)]
pub(super) struct Executable {
    pub(super) handle: GraphHandle,
    pub(super) before: Vec<SimFence>,
}

/// A graph by its number at the pool.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) id: GraphId,
    pub(super) executables: Vec<Executable>,
    /// Behind the last launch: launches that share memory do not overlap.
    pub(super) last: Option<SimFence>,
    pub(super) captures: u32,
    /// Whether it was released during a capture, and goes at its end.
    pub(super) released: bool,
    /// Whether it may have gone, though a call said that not all went well.
    pub(super) doubtful: bool,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) streams: Vec<Stream>,
    pub(super) blocks: Vec<Held>,
    pub(super) movables: Vec<Moving>,
    pub(super) captures: Vec<Capture>,
    pub(super) graphs: Vec<Graph>,
    /// The end of each live block, by range and offset.
    pub(super) places: BTreeMap<(u64, u64), u64>,
    pub(super) live_bytes: u64,
    pub(super) live_blocks: u64,
    pub(super) tag_bytes: [u64; TAGS],
    pub(super) limit_bytes: Option<u64>,
    /// The most that may be reserved: the limit, or what was when it was set.
    pub(super) ceiling_bytes: u64,
    /// Calls of other threads that are under way.
    pub(super) calls: u32,
    /// Whether no call may begin.
    pub(super) closed: bool,
    pub(super) next_number: u32,
}

impl World {
    pub(super) fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    pub(super) fn stream(&self, number: u32) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.number == number)
    }

    pub(super) fn stream_mut(&mut self, number: u32) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.number == number)
    }

    /// A stream that is staying, by choice.
    pub(super) fn pick_stream(
        &self,
        pick: u8,
        wanted: impl Fn(&Stream) -> bool,
    ) -> Option<&Stream> {
        let count = self.streams.iter().filter(|s| !s.leaving && wanted(s)).count();
        let place = usize::from(pick).checked_rem(count)?;
        self.streams.iter().filter(|s| !s.leaving && wanted(s)).nth(place)
    }

    /// Takes a block out, by choice. Whoever does [puts it back](Self::put_back), or frees it.
    /// Streams that it still has to be noted for stay meanwhile.
    pub(super) fn take_block(&mut self, pick: u8) -> Option<Held> {
        let count = self.blocks.len();
        // The newest first: those are likely to be met again soon.
        let back = usize::from(pick).checked_rem(count)?;
        Some(self.take_block_at(count - 1 - back))
    }

    pub(super) fn take_block_at(&mut self, place: usize) -> Held {
        let mut held = self.blocks.remove(place);
        held.guarded.clone_from(&held.unnoted);
        for &stream in &held.guarded {
            self.hold_stream(stream);
        }
        held
    }

    /// Puts a block back.
    pub(super) fn put_back(&mut self, mut held: Held) {
        self.unguard(&mut held);
        self.look_for_home(&mut held);
        self.blocks.push(held);
    }

    /// Puts a buffer back that may be moved.
    pub(super) fn put_movable_back(&mut self, mut moving: Moving) {
        self.look_for_home(&mut moving.held);
        self.movables.push(moving);
    }

    /// A block's stream may have gone while a thread had the block in its hands.
    fn look_for_home(&self, held: &mut Held) {
        if let Origin::Stream(stream) = held.origin
            && self.stream(stream).is_none()
        {
            held.origin = Origin::Gone;
        }
    }

    /// Looks whether a buffer that a guard holds lies over a block that is live.
    pub(super) fn look_at(&self, held: &Held) -> Result<(), Fault> {
        let (range, offset_bytes) = (held.range.id(), held.offset_bytes);
        let end = offset_bytes + held.block.size_bytes();
        match self.places.range((range, 0)..(range, end)).next_back() {
            Some((&(_, other_bytes), &other_end)) if other_end > offset_bytes => {
                Err(Fault::Overlap { range, offset_bytes, other_bytes })
            }
            _ => Ok(()),
        }
    }

    /// Takes a buffer out that may be moved, by choice, the newest first.
    pub(super) fn take_movable(&mut self, pick: u8) -> Option<Moving> {
        let count = self.movables.len();
        let back = usize::from(pick).checked_rem(count)?;
        Some(self.movables.remove(count - 1 - back))
    }

    /// A call that names a stream begins.
    pub(super) fn hold_stream(&mut self, stream: u32) {
        if let Some(stream) = self.stream_mut(stream) {
            stream.busy += 1;
        }
    }

    /// A call that names a stream has ended.
    pub(super) fn let_stream_go(&mut self, stream: u32) {
        if let Some(stream) = self.stream_mut(stream) {
            stream.busy = stream.busy.saturating_sub(1);
        }
    }

    fn unguard(&mut self, held: &mut Held) {
        for stream in core::mem::take(&mut held.guarded) {
            self.let_stream_go(stream);
        }
    }

    /// A block is about to be freed: its bytes may be another's at once.
    pub(super) fn leave(&mut self, held: &Held) {
        self.places.remove(&(held.range.id(), held.offset_bytes));
        self.count(&held.block, held.tag, false);
    }

    /// It was not freed after all.
    pub(super) fn come_back(&mut self, held: &Held) {
        let end = held.offset_bytes + held.block.size_bytes();
        self.places.insert((held.range.id(), held.offset_bytes), end);
        self.count(&held.block, held.tag, true);
    }

    pub(super) fn count(&mut self, block: &Block, tag: Option<u8>, live: bool) {
        let add = |figure: &mut u64, more: u64| {
            *figure = if live { *figure + more } else { *figure - more };
        };
        add(&mut self.live_bytes, block.size_bytes());
        add(&mut self.live_blocks, 1);
        if let Some(bytes) = tag.and_then(|tag| self.tag_bytes.get_mut(usize::from(tag))) {
            add(bytes, block.size_bytes());
        }
    }

    /// A block is freed: streams that it was noted for by handle may go.
    pub(super) fn forget(&mut self, held: &mut Held) {
        self.unguard(held);
        for &handle in &held.pinned {
            if let Some(stream) = self.streams.iter_mut().find(|stream| stream.handle == handle) {
                stream.pins = stream.pins.saturating_sub(1);
            }
        }
    }

    pub(super) fn is_capturing(&self) -> bool {
        !self.captures.is_empty()
    }

    /// Has `after` wait for what is queued on `before`. False if the rules of captures forbid it.
    pub(super) fn order(&mut self, device: &SimDevice, before: u32, after: u32) -> bool {
        let (Some(first), Some(second)) = (self.stream(before), self.stream(after)) else {
            return false;
        };
        if first.capture != second.capture || before == after || first.leaving || second.leaving {
            return before == after;
        }
        let (first, second) = (first.handle, second.handle);
        let Ok(fence) = device.queue_record(first) else { return false };
        let waited = device.queue_wait(second, &fence).is_ok();
        device.discard_fence(fence);
        waited
    }

    /// Puts a stream in order for the next use of a block. None if it may not use it; else whether
    /// it is behind a write of all of it.
    pub(super) fn prepare(
        &mut self,
        device: &SimDevice,
        held: &mut Held,
        stream: u32,
        reads: bool,
    ) -> Option<bool> {
        let here = self.stream(stream)?;
        let (handle, capture) = (here.handle, here.capture);
        let known = held.ready.iter().position(|ready| ready.stream == stream);
        if let Some(place) = known
            && (!reads || held.ready[place].reads)
        {
            return Some(held.ready[place].reads);
        }
        // Of those that may use it, one that has written.
        let others = held.ready.iter().copied().filter(|ready| ready.stream != stream);
        let others = others.filter(|ready| {
            let other = self.stream(ready.stream).filter(|other| !other.leaving);
            other.is_some_and(|other| other.capture == capture)
        });
        let before = others.max_by_key(|ready| ready.reads);
        let reads = match before {
            Some(before) if reads || known.is_none() => {
                let needed = held.origin != Origin::Nowhere || (reads && before.reads);
                if needed && !self.order(device, before.stream, stream) {
                    return known.map(|_| false);
                }
                needed && before.reads
            }
            _ if known.is_some() => false,
            _ if held.origin == Origin::Nowhere => false,
            _ if capture.is_none() && !matches!(held.origin, Origin::Capture(..)) => {
                device.queue_wait(handle, held.born.as_ref()?).ok()?;
                false
            }
            _ => return None,
        };
        match known {
            Some(place) => held.ready[place].reads |= reads,
            None => held.ready.push(Ready { stream, reads }),
        }
        Some(reads)
    }

    /// A fence behind which a block can be used anywhere. None if there is none to be had.
    pub(super) fn birth(&self, device: &SimDevice, held: &Held) -> Option<SimFence> {
        let Origin::Stream(origin) = held.origin else { return None };
        let stream = self.stream(origin).filter(|s| s.capture.is_none() && !s.gone)?;
        device.queue_record(stream.handle).ok()
    }

    /// A stream is about to go: what it is needed for is done before.
    pub(super) fn prepare_to_part(&mut self, device: &SimDevice, stream: u32) {
        let mut blocks = core::mem::take(&mut self.blocks);
        let mut movables = core::mem::take(&mut self.movables);
        let movable = movables.iter_mut().map(|moving| &mut moving.held);
        for held in blocks.iter_mut().chain(movable) {
            if held.origin == Origin::Stream(stream) && held.born.is_none() {
                held.born = self.birth(device, held);
            }
        }
        (self.blocks, self.movables) = (blocks, movables);
    }

    /// A stream is gone: what used it unnoted can only be freed naming no stream.
    pub(super) fn part(&mut self, stream: u32) {
        self.streams.retain(|other| other.number != stream);
        let movable = self.movables.iter_mut().map(|moving| &mut moving.held);
        for held in self.blocks.iter_mut().chain(movable) {
            if held.origin == Origin::Stream(stream) {
                held.origin = Origin::Gone;
            }
            held.ready.retain(|ready| ready.stream != stream);
            held.nameless |= held.unnoted.contains(&stream);
            held.unnoted.retain(|&other| other != stream);
        }
    }

    /// A stream was retired: one of the pool's is gone, another is as good as new.
    pub(super) fn retired(&mut self, number: u32) {
        let stream = self.stream(number).cloned();
        self.part(number);
        if let Some(stream) = stream.filter(|stream| !stream.own) {
            let number = self.number();
            self.streams.push(Stream {
                number,
                id: None,
                leaving: false,
                stayed: 0,
                gone: false,
                ..stream
            });
        }
    }

    /// There is a new stream.
    pub(super) fn enter(&mut self, handle: SimStream, id: Option<StreamId>, own: bool) {
        let number = self.number();
        let stream = Stream {
            number,
            handle,
            id,
            own,
            pins: 0,
            busy: 0,
            leaving: false,
            stayed: 0,
            gone: false,
            capture: None,
        };
        self.streams.push(stream);
    }

    /// Where a block comes from that was allocated in a capture.
    pub(super) fn origin_in(&self, capture: u32) -> Origin {
        let found = self.captures.iter().find(|known| known.number == capture);
        found.map_or(Origin::Gone, |found| Origin::Capture(capture, found.graph))
    }

    pub(super) fn drop_executables(&mut self, device: &SimDevice, place: usize) {
        let graph = &mut self.graphs[place];
        for Executable { handle, before } in graph.executables.drain(..) {
            let _ = device.drop_graph(handle);
            for fence in before {
                device.discard_fence(fence);
            }
        }
        graph.last.take().into_iter().for_each(|fence| device.discard_fence(fence));
    }

    /// Takes everything back that the program has of the device but its streams.
    pub(super) fn drop_all(&mut self, device: &SimDevice) {
        (0..self.graphs.len()).for_each(|place| self.drop_executables(device, place));
        let movable = self.movables.iter_mut().map(|moving| &mut moving.held);
        for held in self.blocks.iter_mut().chain(movable) {
            held.born.take().into_iter().for_each(|fence| device.discard_fence(fence));
        }
    }
}

impl Held {
    /// A block that was given out just now, and is used on a stream from here on.
    pub(super) fn fresh(
        block: Block,
        (range, offset_bytes): (SimRange, u64),
        owner: Owner,
        origin: Origin,
        on: Option<u32>,
    ) -> Self {
        let ready = on.map(|stream| Ready { stream, reads: false });
        Self {
            block,
            range,
            offset_bytes,
            owner,
            origin,
            born: None,
            ready: ready.into_iter().collect(),
            unnoted: Vec::new(),
            guarded: Vec::new(),
            pinned: Vec::new(),
            nameless: false,
            tag: None,
            affinity: None,
        }
    }

    /// Whether it was allocated in a capture.
    pub(super) fn is_of_a_graph(&self) -> bool {
        matches!(self.origin, Origin::Capture(..))
    }

    pub(super) fn add_unnoted(&mut self, stream: u32) {
        if !self.unnoted.contains(&stream) {
            self.unnoted.push(stream);
        }
    }
}
