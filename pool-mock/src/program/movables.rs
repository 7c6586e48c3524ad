//! Buffers that the pool may move: asked for, used under guards, freed.

use pool_core::{Movable, MovableGuard, PoolError, Request};

use super::act::Named;
use super::blocks::Wanted;
use super::finding::Fault;
use super::operation::Release;
use super::platform::ProgramThreads;
use super::run::{Answer, Run};
use super::world::{Held, Moving, Origin};
use crate::device::{Access, SimDevice};

/// The most such buffers at a time.
const MOST_MOVABLES: usize = 24;

/// How often a buffer is guarded for its size, while calls that are to fail do.
const MOST_TRIES: u32 = 64;

type Guard<'a> = MovableGuard<'a, SimDevice, ProgramThreads>;

impl Run {
    /// Whether this call is made in the midst of another, for which it would wait in vain if that
    /// moves what it is about.
    fn is_guest(&self) -> bool {
        self.alone && !self.is_alone()
    }

    /// Whether a stream is there and not captured: one that is takes part in nothing here.
    fn takes_part(&self, on: Named) -> bool {
        self.world().stream(on.number).is_some_and(|stream| stream.capture.is_none())
    }

    pub(super) fn allocate_movable(&self, wanted: &Wanted) -> Result<(), Fault> {
        let on = wanted.on;
        if self.world().movables.len() >= MOST_MOVABLES || on.is_some_and(|on| !self.takes_part(on))
        {
            return Ok(());
        }
        // Until the buffer was looked at, its stream stays.
        if let Some(on) = on {
            self.world().hold_stream(on.number);
        }
        let done = self.take_and_use(wanted);
        if let Some(on) = on {
            self.world().let_stream_go(on.number);
        }
        done
    }

    fn take_and_use(&self, wanted: &Wanted) -> Result<(), Fault> {
        let &Wanted { on, size_bytes, align_bytes, .. } = wanted;
        let request = Request::new(size_bytes).align_bytes(align_bytes);
        let injected = self.device.injected();
        let movable = match self.call(on, |on| self.pool.allocate_movable(on, request)) {
            Ok(movable) => movable,
            Err(PoolError::OutOfMemory { .. }) => {
                self.tally(|tally| tally.refused += 1);
                return Ok(());
            }
            Err(error) => {
                let gone = matches!(error, PoolError::UnknownStream(_)) && !self.is_there(on);
                return self.judge("allocate_movable", injected, &error, gone);
            }
        };
        self.tally(|tally| tally.served += 1);
        let guard = self.first_guard(movable, on)?;
        let block = guard.block();
        if block.size_bytes() < size_bytes {
            let (size_bytes, asked_bytes) = (block.size_bytes(), size_bytes);
            return Err(Fault::TooSmall { size_bytes, asked_bytes });
        }
        let location = self.pool.location(block.handle());
        let location =
            location.map_err(|error| Fault::unexpected("location", &PoolError::Handle(error)))?;
        let mut world = self.world();
        world.count(&block, None, true);
        let origin = match on {
            None => Origin::Nowhere,
            Some(on) if world.stream(on.number).is_none() => Origin::Gone,
            Some(on) => Origin::Stream(on.number),
        };
        let place = (*location.arena.range(), location.offset_bytes);
        let on_number = on.map(|on| on.number);
        let held = Held::fresh(block, place, self.device.new_owner(), origin, on_number);
        drop(world);
        let mut moving = Moving { movable, align_bytes, held };
        if let Some(on) = on {
            self.pin(&mut moving.held, on);
            self.use_under(&mut moving.held, &guard, align_bytes, on.number, true)?;
        }
        drop(guard);
        self.world().put_movable_back(moving);
        Ok(())
    }

    /// A guard of a buffer that nobody else knows.
    fn first_guard(&self, movable: Movable, on: Option<Named>) -> Result<Guard<'_>, Fault> {
        let mut failed = None;
        for _ in 0..MOST_TRIES {
            match self.guard(movable, on) {
                Ok(guard) => return Ok(guard),
                Err(error) => failed = Some(error),
            }
        }
        let error = failed.map_or_else(String::new, |error| error.to_string());
        Err(Fault::Unexpected { call: "guard", error })
    }

    fn guard(&self, movable: Movable, on: Option<Named>) -> Answer<Guard<'_>> {
        self.call(on, |on| self.pool.guard(movable, on))
    }

    /// A use was noted: a stream that the pool does not know stays open until the buffer is freed.
    fn pin(&self, held: &mut Held, on: Named) {
        let mut world = self.world();
        if let Some(stream) = world.stream_mut(on.number)
            && stream.id.is_none()
        {
            stream.pins += 1;
            held.pinned.push(stream.handle);
        }
    }

    pub(super) fn use_movable(
        &self,
        pick: u8,
        on: Option<u8>,
        write: bool,
        by_handle: bool,
    ) -> Result<(), Fault> {
        if self.is_guest() {
            return Ok(());
        }
        let Some(mut moving) = self.world().take_movable(pick) else { return Ok(()) };
        let stream = {
            let world = self.world();
            let home = moving.held.ready.first().map(|ready| ready.stream);
            let other = on.and_then(|pick| world.pick_stream(pick, |_| true)).map(|s| s.number);
            let stream = other.or(home).and_then(|number| world.stream(number));
            let stream = stream.filter(|stream| !stream.leaving && stream.capture.is_none());
            stream.map(|stream| Named::of(stream, by_handle))
        };
        let used = stream.map_or(Ok(()), |on| self.use_on(&mut moving, on, write));
        self.world().put_movable_back(moving);
        used
    }

    fn use_on(&self, moving: &mut Moving, on: Named, write: bool) -> Result<(), Fault> {
        let injected = self.device.injected();
        self.world().hold_stream(on.number);
        let used = match self.guard(moving.movable, Some(on)) {
            Ok(guard) => {
                self.tally(|tally| tally.guards += 1);
                self.pin(&mut moving.held, on);
                self.use_under(&mut moving.held, &guard, moving.align_bytes, on.number, write)
            }
            Err(error) => {
                let expected = match error {
                    PoolError::UnknownStream(_) => !self.is_there(Some(on)),
                    PoolError::Captured(_) => self.world().is_capturing(),
                    // Others had it in their hands for long.
                    PoolError::InHand(_) => !self.alone,
                    _ => false,
                };
                self.judge("guard", injected, &error, expected)
            }
        };
        self.world().let_stream_go(on.number);
        used
    }

    /// Queues work that uses a buffer where its guard holds it, if a program may.
    fn use_under(
        &self,
        held: &mut Held,
        guard: &Guard<'_>,
        align_bytes: u64,
        stream: u32,
        write: bool,
    ) -> Result<(), Fault> {
        let block = guard.block();
        let location = self.pool.location(block.handle());
        let location =
            location.map_err(|error| Fault::unexpected("location", &PoolError::Handle(error)))?;
        let address = guard.address().unwrap_or(0);
        if !address.is_multiple_of(align_bytes) {
            return Err(Fault::Misaligned { address, align_bytes });
        }
        held.block = block;
        held.range = *location.arena.range();
        held.offset_bytes = location.offset_bytes;
        let mut world = self.world();
        world.look_at(held)?;
        let there = world.stream(stream).filter(|there| !there.leaving && there.capture.is_none());
        let Some(handle) = there.map(|there| there.handle) else { return Ok(()) };
        let Some(behind) = world.prepare(&self.device, held, stream, !write) else {
            return Ok(());
        };
        let access = if write || !behind { Access::Write } else { Access::Read };
        self.queue_use(held, handle, access);
        if access == Access::Write {
            let known = held.ready.iter_mut().filter(|ready| ready.stream == stream);
            known.for_each(|ready| ready.reads = true);
        }
        Ok(())
    }

    pub(super) fn free_movable(&self, pick: u8, release: Release) -> Result<(), Fault> {
        if self.is_guest() {
            return Ok(());
        }
        let Some(moving) = self.world().take_movable(pick) else { return Ok(()) };
        let on = match release {
            Release::AtHome => match moving.held.origin {
                Origin::Stream(home) => {
                    self.world().stream(home).map(|stream| Named::of(stream, false))
                }
                _ => None,
            },
            Release::On(on) => self.named(on),
        };
        let on = on.filter(|&on| self.takes_part(on));
        self.free_moving(moving, on)
    }

    fn free_moving(&self, mut moving: Moving, on: Option<Named>) -> Result<(), Fault> {
        let injected = self.device.injected();
        let block = moving.held.block;
        self.world().count(&block, None, false);
        let freed = self.call(on, |on| self.pool.free_movable(moving.movable, on));
        match freed {
            Ok(freed) if freed.size_bytes() == block.size_bytes() => {
                self.tally(|tally| tally.freed += 1);
                self.world().forget(&mut moving.held);
                let born = moving.held.born.take();
                if let Some(fence) = born {
                    self.device.discard_fence(fence);
                }
                match self.pool.free_movable(moving.movable, pool_core::On::Nothing) {
                    Err(PoolError::UnknownMovable(_)) => Ok(()),
                    Ok(_) => {
                        Err(Fault::Unexpected { call: "free_movable", error: "freed twice".into() })
                    }
                    Err(error) => Err(Fault::unexpected("free_movable", &error)),
                }
            }
            Ok(_) => Err(Fault::Unexpected { call: "free_movable", error: "another block".into() }),
            Err(error) => {
                let expected = match error {
                    PoolError::UnknownStream(_) => !self.is_there(on),
                    PoolError::InHand(_) => !self.alone,
                    _ => false,
                };
                let mut world = self.world();
                world.count(&block, None, true);
                world.put_movable_back(moving);
                drop(world);
                self.judge("free_movable", injected, &error, expected)
            }
        }
    }
}
