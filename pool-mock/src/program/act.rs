//! Makes each call, as a program may.

use core::time::Duration;

use pool_core::{On, PoolError, StreamId, Tag};

use super::blocks::Wanted;
use super::finding::Fault;
use super::operation::{Operation, Where};
use super::run::{Run, pacing, quota, reclaim};
use super::world::Stream;
use super::{platform, turns};
use crate::device::{SimError, SimStream, StreamKind};

/// The most streams at a time.
pub(super) const MOST_STREAMS: usize = 8;

/// A stream that a call names.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) number: u32,
    handle: SimStream,
    /// None: it is named by its handle.
    pub(super) id: Option<StreamId>,
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
            Operation::Allocate { on, size_bytes, align_bytes, tag, affinity, write } => {
                let on = self.named(on);
                self.allocate(Wanted { on, size_bytes, align_bytes, tag, affinity }, write)
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
                let affinity = held.affinity;
                self.free(held, release, true)?;
                let on = self.named(on);
                let wanted = Wanted { on, size_bytes, align_bytes: 1, tag: None, affinity };
                self.allocate(wanted, true)
            }
            Operation::AllocateMovable { on, size_bytes, align_bytes } => {
                let on = self.named(on);
                self.allocate_movable(&Wanted {
                    on,
                    size_bytes,
                    align_bytes,
                    tag: None,
                    affinity: None,
                })
            }
            Operation::UseMovable { movable, on, write, by_handle } => {
                self.use_movable(movable, on, write, by_handle)
            }
            Operation::FreeMovable { movable, release } => self.free_movable(movable, release),
            Operation::FreeMany { step, first } => self.free_many(step, first),
            Operation::Wait { before, after } => {
                self.wait(before, after);
                Ok(())
            }
            Operation::Order { after, on } => {
                self.order(self.named(after), self.named(on)).map(drop)
            }
            Operation::UseInOrder { block, on, by_handle, write } => {
                self.use_in_order(block, on, by_handle, write)
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
            Operation::Fork { capture, stream } => self.fork(capture, stream),
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
            Operation::SetCoolDown { on } => {
                self.pool.set_reclaim(reclaim(&self.shape, on));
                ("set_reclaim", Ok(()))
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
                if let Some(tenancy) = &self.tenancy {
                    return tenancy.set_share(quota(limit_bytes)).map_err(|error| {
                        Fault::Unexpected { call: "set_share", error: error.to_string() }
                    });
                }
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
        error: &PoolError<SimError>,
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
    pub(super) fn call<T>(
        &self,
        on: Option<Named>,
        call: impl FnOnce(On<'_, SimStream>) -> T,
    ) -> T {
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
    pub(super) fn is_there(&self, on: Option<Named>) -> bool {
        on.is_none_or(|named| {
            self.world().stream(named.number).is_some_and(|s| {
                // A call of another thread may have met it just when it was about to go.
                !s.leaving && (self.alone || s.stayed == 0)
            })
        })
    }
}
