//! Makes each call, as a program may.

use core::time::Duration;

use pool_core::{Block, On, PoolError, Request, StreamId, Tag};

use super::finding::Fault;
use super::operation::{Operation, Release, Where};
use super::run::{Answer, Run, pacing};
use super::world::{Held, Origin, Ready, Stream};
use super::{platform, turns};
use crate::device::{Access, SimStream, StreamKind};

/// The most streams at a time.
const MOST_STREAMS: usize = 8;

/// The most blocks at a time.
const MOST_BLOCKS: usize = 48;

/// A stream that a call names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) number: u32,
    handle: SimStream,
    /// None: it is named by its handle.
    id: Option<StreamId>,
}

impl Named {
    pub(super) fn of(stream: &Stream, by_handle: bool) -> Self {
        let id = stream.id.filter(|_| !by_handle);
        Self { number: stream.number, handle: stream.handle, id }
    }

    pub(super) const fn handle(&self) -> SimStream {
        self.handle
    }

    pub(super) fn on(&self) -> On<'_, SimStream> {
        self.id.map_or(On::Raw(&self.handle), On::Stream)
    }
}

/// A request as a program makes it.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    on: Option<Named>,
    size_bytes: u64,
    align_bytes: u64,
    tag: Option<u8>,
}

impl Run {
    /// Makes one step, when its turn has come.
    pub(super) fn step(&self, operation: &Operation) -> Result<(), Fault> {
        let exclusive = matches!(
            operation,
            Operation::BeginCapture { .. }
                | Operation::Fork { .. }
                | Operation::EndCapture { .. }
                | Operation::ReleaseGraph { .. }
        );
        if self.alone {
            return self.act(operation);
        }
        // Which streams are captured changes only when nobody else is in a call: on a device it
        // cannot be asked and used in one step.
        loop {
            let mut world = self.world();
            if !world.closed && !exclusive {
                world.calls += 1;
                break;
            }
            if exclusive && !world.closed {
                world.closed = true;
                break;
            }
            drop(world);
            turns::pass();
        }
        while exclusive && self.world().calls > 0 {
            turns::pass();
        }
        let done = self.act(operation);
        let mut world = self.world();
        if exclusive {
            world.closed = false;
        } else {
            world.calls -= 1;
        }
        done
    }

    fn act(&self, operation: &Operation) -> Result<(), Fault> {
        match *operation {
            Operation::Allocate { on, size_bytes, align_bytes, tag, write } => {
                let on = self.named(on);
                self.allocate(Wanted { on, size_bytes, align_bytes, tag }, write)
            }
            Operation::Use { block, on, write } => self.use_some(block, on, write),
            Operation::Note { block, by_handle } => self.note_some(block, by_handle),
            Operation::Free { block, release, last_use } => {
                let taken = self.world().take_block(block);
                taken.map_or(Ok(()), |held| self.free(held, release, last_use))
            }
            Operation::Reuse { block, release, on, plus_bytes } => {
                let Some(held) = self.world().take_block(block) else { return Ok(()) };
                let size_bytes = held.block.size_bytes() + plus_bytes;
                self.free(held, release, true)?;
                let on = self.named(on);
                self.allocate(Wanted { on, size_bytes, align_bytes: 1, tag: None }, true)
            }
            Operation::FreeMany { step, first } => self.free_many(step, first),
            Operation::Wait { before, after } => {
                let mut world = self.world();
                let number = |stream: &Stream| stream.number;
                let first = world.pick_stream(before, |_| true).map(number);
                let second = world.pick_stream(after, |_| true).map(number);
                if let (Some(first), Some(second)) = (first, second) {
                    world.order(&self.device, first, second);
                }
                Ok(())
            }
            Operation::HostWait { stream } => {
                let world = self.world();
                if let Some(stream) = world.pick_stream(stream, |_| !world.is_capturing()) {
                    let _ = self.device.host_wait_stream(stream.handle);
                }
                Ok(())
            }
            Operation::Create => self.create(),
            Operation::OpenRaw { blocking } => {
                let mut world = self.world();
                if world.streams.len() < MOST_STREAMS {
                    let kind =
                        if blocking { StreamKind::Blocking } else { StreamKind::NonBlocking };
                    let handle = self.device.open_stream(kind);
                    world.enter(handle, None, false);
                }
                Ok(())
            }
            Operation::CloseRaw { stream } => {
                let mut world = self.world();
                let closes = |stream: &Stream| {
                    stream.id.is_none()
                        && stream.capture.is_none()
                        && (stream.pins, stream.busy) == (0, 0)
                };
                let found = world.pick_stream(stream, closes).map(|s| (s.number, s.handle));
                if let Some((number, handle)) = found {
                    world.prepare_to_part(&self.device, number);
                    let _ = self.device.close_stream(handle);
                    world.part(number);
                }
                Ok(())
            }
            Operation::Adopt { stream } => self.adopt(stream),
            Operation::Retire { stream } => {
                let found = self.world().pick_stream(stream, |s| s.id.is_some()).map(|s| s.number);
                found.map_or(Ok(()), |number| self.retire(number))
            }
            Operation::BeginCapture { stream, graph, mode, announce_first } => {
                self.begin_capture(stream, graph, mode, announce_first)
            }
            Operation::Fork { capture, stream } => {
                self.fork(capture, stream);
                Ok(())
            }
            Operation::Join { stream } => {
                self.join(stream);
                Ok(())
            }
            Operation::EndCapture { capture, spoil } => self.end_capture(capture, spoil),
            Operation::Launch { graph, stream } => {
                self.launch(graph, stream);
                Ok(())
            }
            Operation::ReleaseGraph { graph } => self.release_some_graph(graph),
            _ => self.keep_tidy(operation),
        }
    }

    /// What names no stream of the pool, block or graph.
    fn keep_tidy(&self, operation: &Operation) -> Result<(), Fault> {
        let injected = self.device.injected();
        let (call, answer) = match *operation {
            Operation::Flush => {
                self.pool.flush();
                ("flush", Ok(()))
            }
            Operation::Reclaim => ("reclaim", self.pool.reclaim().map(drop)),
            Operation::Tick { nanoseconds } => {
                self.device.pass(Duration::from_nanos(nanoseconds));
                ("tick", self.pool.tick().map(drop))
            }
            Operation::Trim { keep_bytes, wait } => {
                let trimmed = if wait {
                    self.pool.trim_waiting(keep_bytes)
                } else {
                    self.pool.trim(keep_bytes)
                };
                let answer = trimmed.map(|trimmed| {
                    self.tally(|tally| tally.released_bytes += trimmed.released_bytes);
                });
                ("trim", answer)
            }
            Operation::SetLimit { limit_bytes } => {
                self.world().limit_bytes = limit_bytes;
                ("set_limit", self.pool.set_limit(limit_bytes))
            }
            Operation::SetQuota { tag, quota_bytes } => {
                self.pool.set_quota(Tag(tag.into()), quota_bytes);
                ("set_quota", Ok(()))
            }
            Operation::FailNth { nth, of_memory } => {
                self.fail_with(of_memory);
                self.device.fail_nth(nth.into());
                ("fail_nth", Ok(()))
            }
            Operation::FailNext { call, times } => {
                self.fail_with(false);
                self.device.fail_next(call, times.into());
                ("fail_next", Ok(()))
            }
            _ => {
                self.drive(operation);
                ("drive", Ok(()))
            }
        };
        answer.or_else(|error| self.judge(call, injected, &error, false))
    }

    fn fail_with(&self, of_memory: bool) {
        use crate::device::Fault::{OutOfMemory, Plain};
        self.device.fail_with(if of_memory { OutOfMemory } else { Plain });
    }

    /// What is about threads, and about when work runs.
    fn drive(&self, operation: &Operation) {
        let stream = |pick: u8| self.world().pick_stream(pick, |_| true).map(|s| s.handle);
        match *operation {
            Operation::Thread { number } if self.alone => {
                platform::switch_thread(number.into());
            }
            Operation::EndThread { number } if self.alone => {
                platform::end_thread(number.into());
            }
            Operation::Step { count, choice } => {
                for item in 0..count {
                    self.device.step(u32::from(choice) + u32::from(item) * 7);
                }
            }
            Operation::Hold { stream: pick } => {
                stream(pick).map(|handle| self.device.hold(handle));
            }
            Operation::Go { stream: pick } => {
                stream(pick).map(|handle| self.device.go(handle));
            }
            Operation::Advance { stream: pick, items } => {
                stream(pick).map(|handle| self.device.advance(handle, items.into()));
            }
            Operation::RunAll => self.device.run_all(),
            Operation::Pace(pace) => self.device.set_pacing(pacing(pace)),
            _ => {}
        }
    }

    /// Whether a call may fail so: a fault was injected meanwhile, or it was to be expected.
    pub(super) fn judge(
        &self,
        call: &'static str,
        injected: u64,
        error: &PoolError<crate::device::SimError>,
        expected: bool,
    ) -> Result<(), Fault> {
        let faulty = self.device.injected() > injected;
        self.tally(|tally| tally.failed_calls += u64::from(faulty));
        if faulty || expected { Ok(()) } else { Err(Fault::unexpected(call, error)) }
    }

    pub(super) fn named(&self, on: Where) -> Option<Named> {
        let (pick, by_handle) = match on {
            Where::Nowhere => return None,
            Where::Known(pick) => (pick, false),
            Where::Raw(pick) => (pick, true),
        };
        self.world().pick_stream(pick, |_| true).map(|stream| Named::of(stream, by_handle))
    }

    /// A call that names a stream. One that is named by its handle stays meanwhile.
    fn call<T>(&self, on: Option<Named>, call: impl FnOnce(On<'_, SimStream>) -> T) -> T {
        let held = on.filter(|named| named.id.is_none());
        if let Some(named) = held {
            self.world().hold_stream(named.number);
        }
        let answer = call(on.as_ref().map_or(On::Nothing, Named::on));
        if let Some(named) = held {
            self.world().let_stream_go(named.number);
        }
        answer
    }

    /// Whether a stream is there for all calls: then none may say that it is unknown.
    fn is_there(&self, on: Option<Named>) -> bool {
        on.is_none_or(|named| self.world().stream(named.number).is_some_and(|s| !s.leaving))
    }

    // ---- blocks ----

    fn request(&self, wanted: &Wanted) -> Answer<Block> {
        let request = Request::new(wanted.size_bytes).align_bytes(wanted.align_bytes);
        self.call(wanted.on, |on| match wanted.tag {
            Some(tag) => self.pool.allocate_tagged(on, Tag(tag.into()), request),
            None if on == On::Nothing => self.pool.allocate(request),
            None => self.pool.allocate_on(on, request),
        })
    }

    fn allocate(&self, wanted: Wanted, write: bool) -> Result<(), Fault> {
        if self.world().blocks.len() >= MOST_BLOCKS {
            return Ok(());
        }
        let (injected, meetings) = (self.device.injected(), self.meetings());
        match self.request(&wanted) {
            Ok(block) => {
                let mut held = self.receive(&block, &wanted)?;
                if write && let Some(ready) = held.ready.first().copied() {
                    self.use_block(&mut held, ready.stream, true)?;
                }
                self.world().put_back(held);
                Ok(())
            }
            Err(PoolError::OutOfMemory { shortage, cause }) => {
                self.tally(|tally| tally.refused += 1);
                let refusal = format!("{shortage}{cause}");
                self.is_final(&wanted, injected, meetings, refusal)
            }
            Err(PoolError::Quota { size_bytes, live_bytes, quota_bytes, .. })
                if live_bytes + size_bytes > quota_bytes && wanted.tag.is_some() =>
            {
                Ok(())
            }
            Err(error @ PoolError::UnknownStream(_)) => {
                self.judge("allocate", injected, &error, !self.is_there(wanted.on))
            }
            Err(error) => self.judge("allocate", injected, &error, false),
        }
    }

    /// A refusal is final, and not without need.
    fn is_final(
        &self,
        wanted: &Wanted,
        injected: u64,
        meetings: u64,
        refusal: String,
    ) -> Result<(), Fault> {
        let size_bytes = wanted.size_bytes;
        if !self.is_alone() || self.device.injected() > injected || self.meetings() > meetings {
            return Ok(());
        }
        let again = self.request(wanted);
        if self.device.injected() > injected || self.meetings() > meetings {
            if let Ok(block) = again {
                let held = self.receive(&block, wanted)?;
                self.world().put_back(held);
            }
            return Ok(());
        }
        if again.is_ok() {
            return Err(Fault::NotFinal { size_bytes, refusal });
        }
        let world = self.world();
        let most_bytes = world.limit_bytes.unwrap_or(u64::MAX).min(self.shape.memory_bytes);
        let idle = world.live_blocks == 0 && world.graphs.is_empty() && !world.is_capturing();
        let fits = size_bytes.saturating_add(wanted.align_bytes + 1024) <= most_bytes;
        if idle && fits { Err(Fault::NeedlessRefusal { size_bytes, refusal }) } else { Ok(()) }
    }

    /// Takes note of a block that was given out, and looks where it lies.
    fn receive(&self, block: &Block, wanted: &Wanted) -> Result<Held, Fault> {
        self.tally(|tally| tally.served += 1);
        if block.size_bytes() < wanted.size_bytes {
            return Err(Fault::TooSmall {
                size_bytes: block.size_bytes(),
                asked_bytes: wanted.size_bytes,
            });
        }
        let location = self.pool.location(block.handle());
        let location =
            location.map_err(|error| Fault::unexpected("location", &PoolError::Handle(error)))?;
        let range = *location.arena.range();
        let address = self.pool.address(block).unwrap_or(0);
        if address % wanted.align_bytes != 0 {
            return Err(Fault::Misaligned { address, align_bytes: wanted.align_bytes });
        }
        let mut world = self.world();
        let (id, start) = (range.id(), location.offset_bytes);
        let end = start + block.size_bytes();
        let before = world.places.range((id, 0)..(id, end)).next_back();
        if let Some((&(_, other_bytes), &other_end)) = before
            && other_end > start
        {
            return Err(Fault::Overlap { range: id, offset_bytes: start, other_bytes });
        }
        world.places.insert((id, start), end);
        world.count(block, wanted.tag, true);
        let origin = match wanted.on {
            None => Origin::Nowhere,
            Some(on) => match world.stream(on.number).map(|stream| stream.capture) {
                None => Origin::Gone,
                Some(None) => Origin::Stream(on.number),
                Some(Some(of)) => world.origin_in(of),
            },
        };
        let ready = wanted.on.map(|on| Ready { stream: on.number, reads: false });
        Ok(Held {
            block: *block,
            range,
            offset_bytes: start,
            owner: self.device.new_owner(),
            origin,
            born: None,
            ready: ready.into_iter().collect(),
            unnoted: Vec::new(),
            guarded: Vec::new(),
            pinned: Vec::new(),
            nameless: false,
            tag: wanted.tag,
        })
    }

    fn use_some(&self, block: u8, on: Option<u8>, write: bool) -> Result<(), Fault> {
        let (held, stream) = {
            let mut world = self.world();
            let Some(held) = world.take_block(block) else { return Ok(()) };
            let home = held.ready.first().map(|ready| ready.stream);
            let other = on.and_then(|pick| world.pick_stream(pick, |_| true)).map(|s| s.number);
            (held, other.or(home))
        };
        let mut held = held;
        let used = stream.map_or(Ok(()), |stream| self.use_block(&mut held, stream, write));
        self.world().put_back(held);
        used
    }

    /// Queues work that uses a block on a stream, if a program may.
    fn use_block(&self, held: &mut Held, stream: u32, write: bool) -> Result<(), Fault> {
        let capture = {
            let world = self.world();
            let Some(stream) = world.stream(stream).filter(|stream| !stream.leaving) else {
                return Ok(());
            };
            stream.capture
        };
        match (capture, held.origin) {
            (_, Origin::Capture(of, _)) if capture != Some(of) => return Ok(()),
            (Some(_), Origin::Nowhere | Origin::Stream(_) | Origin::Gone) => {
                return self.use_in_capture(held, stream);
            }
            // In a capture a use is noted while the stream is captured.
            (Some(_), _) if held.ready.first().is_none_or(|first| first.stream != stream) => {
                if !self.note(held, stream, false)? {
                    return Ok(());
                }
            }
            _ => {}
        }
        let mut world = self.world();
        let Some(behind) = world.prepare(&self.device, held, stream, !write) else {
            return Ok(());
        };
        let Some(handle) = world.stream(stream).map(|stream| stream.handle) else { return Ok(()) };
        let access = if write || !behind { Access::Write } else { Access::Read };
        self.queue_use(held, handle, access);
        if access == Access::Write {
            let known = held.ready.iter_mut().filter(|ready| ready.stream == stream);
            known.for_each(|ready| ready.reads = true);
        }
        if capture.is_none() && held.origin != Origin::Stream(stream) {
            held.add_unnoted(stream);
        }
        Ok(())
    }

    /// Queues a write in a capture, of a block that is not the graph's: its launches come behind
    /// the allocation.
    fn use_in_capture(&self, held: &mut Held, stream: u32) -> Result<(), Fault> {
        let birth = {
            let world = self.world();
            match held.origin {
                Origin::Nowhere => None,
                _ => match world.birth(&self.device, held) {
                    Some(birth) => Some(birth),
                    None => return Ok(()),
                },
            }
        };
        let noted = self.note(held, stream, false);
        let mut world = self.world();
        let found = world.stream(stream).map(|stream| (stream.handle, stream.capture));
        let capture =
            found.and_then(|(_, of)| world.captures.iter_mut().find(|c| Some(c.number) == of));
        match (noted, found, capture) {
            (Ok(true), Some((handle, _)), Some(capture)) => {
                capture.before.extend(birth);
                self.queue_use(held, handle, Access::Write);
                Ok(())
            }
            (noted, ..) => {
                birth.into_iter().for_each(|birth| self.device.discard_fence(birth));
                noted.map(drop)
            }
        }
    }

    fn queue_use(&self, held: &Held, handle: SimStream, access: Access) {
        self.tally(|tally| tally.uses += 1);
        let (offset, size) = (held.offset_bytes, held.block.size_bytes());
        // What is wrong with it is among the violations.
        let _ = self.device.queue_use(handle, &held.range, offset, size, held.owner, access);
    }

    /// Tells the pool of a stream that uses a block; false if a fault stood in the way.
    pub(super) fn note(
        &self,
        held: &mut Held,
        stream: u32,
        by_handle: bool,
    ) -> Result<bool, Fault> {
        let injected = self.device.injected();
        let named = {
            let mut world = self.world();
            let Some(known) = world.stream(stream) else { return Ok(false) };
            let named = Named::of(known, by_handle);
            world.hold_stream(stream);
            named
        };
        let noted = self.pool.record_use(held.block.handle(), named.on());
        let mut world = self.world();
        world.let_stream_go(stream);
        match noted {
            Ok(()) => {
                if let Some(stream) = world.stream_mut(stream)
                    && stream.id.is_none()
                {
                    stream.pins += 1;
                    held.pinned.push(stream.handle);
                }
                held.unnoted.retain(|&other| other != stream);
                Ok(true)
            }
            Err(error) => {
                drop(world);
                self.judge("record_use", injected, &error, false).map(|()| false)
            }
        }
    }

    fn note_some(&self, block: u8, by_handle: bool) -> Result<(), Fault> {
        let Some(mut held) = self.world().take_block(block) else { return Ok(()) };
        let noted = self.note_all(&mut held, None, by_handle);
        self.world().put_back(held);
        noted.map(drop)
    }

    fn note_all(&self, held: &mut Held, but: Option<u32>, by_handle: bool) -> Result<bool, Fault> {
        for stream in held.unnoted.clone() {
            if Some(stream) != but && !self.note(held, stream, by_handle)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Notes what was not, and frees a block.
    fn free(&self, mut held: Held, release: Release, last_use: bool) -> Result<(), Fault> {
        if last_use && let Some(ready) = held.ready.last().copied() {
            self.use_block(&mut held, ready.stream, false)?;
        }
        let on = match release {
            _ if held.nameless => None,
            Release::AtHome => {
                let world = self.world();
                let home = match held.origin {
                    Origin::Stream(home) => world.stream(home),
                    Origin::Capture(of, _) => {
                        let first = held.ready.first().and_then(|ready| world.stream(ready.stream));
                        first.filter(|stream| stream.capture == Some(of))
                    }
                    Origin::Nowhere | Origin::Gone => None,
                };
                home.map(|stream| Named::of(stream, false))
            }
            Release::On(on) => self.named(on),
        };
        // A free that names no stream is behind all of them.
        if on.is_some() && !self.note_all(&mut held, on.map(|on| on.number), false)? {
            self.world().put_back(held);
            return Ok(());
        }
        let injected = self.device.injected();
        self.world().leave(&held);
        let freed = match on {
            None => self.pool.free(held.block.handle()),
            Some(_) => self.call(on, |on| self.pool.free_on(on, held.block.handle())),
        };
        match freed {
            Ok(block) if block == held.block => {
                self.tally(|tally| tally.freed += 1);
                self.world().forget(&mut held);
                held.born.take().into_iter().for_each(|fence| self.device.discard_fence(fence));
                self.free_again(&held)
            }
            Ok(_) => Err(Fault::Unexpected { call: "free", error: "another block".into() }),
            Err(error) => {
                let gone = matches!(error, PoolError::UnknownStream(_)) && !self.is_there(on);
                let mut world = self.world();
                world.come_back(&held);
                world.put_back(held);
                drop(world);
                self.judge("free", injected, &error, gone)
            }
        }
    }

    /// A handle of a block that was freed is refused.
    fn free_again(&self, held: &Held) -> Result<(), Fault> {
        match self.pool.free(held.block.handle()) {
            Err(PoolError::Handle(_)) => Ok(()),
            Ok(_) => Err(Fault::Unexpected { call: "free", error: "freed twice".into() }),
            Err(error) => Err(Fault::unexpected("free", &error)),
        }
    }

    fn free_many(&self, step: u8, first: u8) -> Result<(), Fault> {
        let mut place = usize::from(first);
        loop {
            let mut world = self.world();
            if place >= world.blocks.len() {
                return Ok(());
            }
            let held = world.take_block_at(place);
            drop(world);
            self.free(held, Release::AtHome, true)?;
            place += usize::from(step) - 1;
        }
    }

    // ---- streams ----

    fn create(&self) -> Result<(), Fault> {
        if self.world().streams.len() >= MOST_STREAMS {
            return Ok(());
        }
        let injected = self.device.injected();
        match self.pool.create_stream() {
            Ok(id) => {
                let handle = self.pool.stream(id);
                let handle = handle.ok_or(Fault::Unexpected {
                    call: "stream",
                    error: "a stream that was just made is unknown".into(),
                })?;
                self.world().enter(handle, Some(id), true);
                Ok(())
            }
            Err(error) => self.judge("create_stream", injected, &error, false),
        }
    }

    #[expect(unsafe_code, reason = "what the program promises, the compiler cannot check")]
    fn adopt(&self, pick: u8) -> Result<(), Fault> {
        let injected = self.device.injected();
        let found = {
            let mut world = self.world();
            let foreign = |stream: &Stream| stream.id.is_none() && stream.busy == 0;
            let found = world.pick_stream(pick, foreign).map(|s| (s.number, s.handle));
            if let Some((number, _)) = found {
                world.hold_stream(number);
            }
            found
        };
        let Some((number, handle)) = found else { return Ok(()) };
        // SAFETY: a stream with a number at the pool is not closed.
        let adopted = unsafe { self.pool.adopt(handle) };
        let mut world = self.world();
        world.let_stream_go(number);
        match adopted {
            Ok(id) => {
                if let Some(stream) = world.stream_mut(number) {
                    stream.id = Some(id);
                }
                Ok(())
            }
            Err(error) => {
                drop(world);
                self.judge("adopt", injected, &error, false)
            }
        }
    }

    /// Notes what a stream uses, and has the pool forget it.
    pub(super) fn retire(&self, number: u32) -> Result<(), Fault> {
        let id = {
            let mut world = self.world();
            let Some(stream) = world.stream_mut(number) else { return Ok(()) };
            let (busy, captured) = (stream.busy > 0, stream.capture.is_some());
            let Some(id) = stream.id.filter(|_| !busy && !captured && !stream.leaving) else {
                return Ok(());
            };
            stream.leaving = true;
            id
        };
        let mut ready = true;
        loop {
            let mut world = self.world();
            let place = world.blocks.iter().position(|held| held.unnoted.contains(&number));
            let Some(place) = place.filter(|_| ready) else { break };
            let mut held = world.take_block_at(place);
            drop(world);
            let noted = self.note(&mut held, number, false);
            self.world().put_back(held);
            ready = noted?;
        }
        let injected = self.device.injected();
        let mut world = self.world();
        world.prepare_to_part(&self.device, number);
        if let Some(stream) = world.stream_mut(number) {
            stream.gone = true;
        }
        drop(world);
        let retired = if ready { self.pool.retire(id).map_err(Some) } else { Err(None) };
        if retired.is_ok() || self.pool.stream(id).is_none() {
            self.world().retired(number);
            self.tally(|tally| tally.retired += 1);
        } else if let Some(stream) = self.world().stream_mut(number) {
            (stream.leaving, stream.gone) = (false, false);
        }
        match retired {
            Err(Some(error)) => self.judge("retire", injected, &error, false),
            _ => Ok(()),
        }
    }
}
