//! Blocks: asked for, used, noted, freed.

use pool_core::{Affinity, Block, On, PoolError, Request, Tag};

use super::act::Named;
use super::finding::Fault;
use super::operation::Release;
use super::run::{Answer, Run};
use super::world::{Held, Origin};
use crate::device::{Access, SimStream};

/// The most blocks at a time.
const MOST_BLOCKS: usize = 48;

/// A request as a program makes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) on: Option<Named>,
    pub(super) size_bytes: u64,
    pub(super) align_bytes: u64,
    pub(super) tag: Option<u8>,
    /// Not looked at under a tag.
    pub(super) affinity: Option<Affinity>,
}

impl Wanted {
    /// The request's alignment, or that which its affinity asks for.
    fn align_bytes(&self) -> u64 {
        let of_affinity = self.affinity.filter(|_| self.tag.is_none());
        self.align_bytes.max(of_affinity.map_or(1, |affinity| affinity.align_bytes))
    }
}

impl Run {
    fn request(&self, wanted: &Wanted) -> Answer<Block> {
        let request = Request::new(wanted.size_bytes).align_bytes(wanted.align_bytes);
        self.call(wanted.on, |on| match (wanted.tag, wanted.affinity) {
            (Some(tag), _) => self.pool.allocate_tagged(on, Tag(tag.into()), request),
            (None, Some(affinity)) => self.pool.allocate_for(on, affinity, request),
            (None, None) if on == On::Nothing => self.pool.allocate(request),
            (None, None) => self.pool.allocate_on(on, request),
        })
    }

    pub(super) fn allocate(&self, wanted: Wanted, write: bool) -> Result<(), Fault> {
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
        let fits = self.holds(wanted, most_bytes);
        if idle && fits { Err(Fault::NeedlessRefusal { size_bytes, refusal }) } else { Ok(()) }
    }

    /// Whether an arena of so many bytes, or so much in whole pages, holds a request wherever it
    /// begins.
    fn holds(&self, wanted: &Wanted, most_bytes: u64) -> bool {
        let align_bytes = wanted.align_bytes();
        if let Some((page_bytes, _)) = self.shape.pages
            && !self.shape.rounds()
        {
            let pages = wanted.size_bytes.saturating_add(align_bytes).div_ceil(page_bytes);
            return pages.saturating_mul(page_bytes) <= most_bytes;
        }
        if !self.shape.rounds() {
            return wanted.size_bytes.saturating_add(align_bytes + 1024) <= most_bytes;
        }
        let buddy_bytes = wanted.size_bytes.max(align_bytes).next_power_of_two();
        let askew = self.shape.misalign_bytes > 0;
        buddy_bytes + if askew { buddy_bytes.min(2 << 20) } else { 0 } <= most_bytes
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
        let align_bytes = wanted.align_bytes();
        if !address.is_multiple_of(align_bytes) {
            return Err(Fault::Misaligned { address, align_bytes });
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
        let on = wanted.on.map(|on| on.number);
        let held = Held::fresh(*block, (range, start), self.device.new_owner(), origin, on);
        Ok(Held { tag: wanted.tag, affinity: wanted.affinity, ..held })
    }

    pub(super) fn use_some(&self, block: u8, on: Option<u8>, write: bool) -> Result<(), Fault> {
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
    pub(super) fn use_block(&self, held: &mut Held, stream: u32, write: bool) -> Result<(), Fault> {
        let capture = {
            let world = self.world();
            let Some(stream) = world.stream(stream).filter(|stream| !stream.leaving) else {
                return Ok(());
            };
            stream.capture
        };
        let is_home = held.ready.first().is_some_and(|first| first.stream == stream);
        match (capture, held.origin) {
            (_, Origin::Capture(of, _)) if capture != Some(of) => return Ok(()),
            (Some(_), Origin::Nowhere | Origin::Stream(_) | Origin::Gone) => {
                return self.use_in_capture(held, stream);
            }
            // In a capture a use is noted while the stream is captured.
            (Some(_), _) if !is_home && !self.note(held, stream, false)? => return Ok(()),
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
                if let Some(birth) = birth {
                    self.device.discard_fence(birth);
                }
                noted.map(drop)
            }
        }
    }

    pub(super) fn queue_use(&self, held: &Held, handle: SimStream, access: Access) {
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

    pub(super) fn note_some(&self, block: u8, by_handle: bool) -> Result<(), Fault> {
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
    pub(super) fn free(
        &self,
        mut held: Held,
        release: Release,
        last_use: bool,
    ) -> Result<(), Fault> {
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
        // What is named by its handle stays meanwhile.
        self.call(on, |_| self.free_by(held, on))
    }

    fn free_by(&self, mut held: Held, on: Option<Named>) -> Result<(), Fault> {
        // A free that names no stream is behind all of them.
        if on.is_some() && !self.note_all(&mut held, on.map(|on| on.number), false)? {
            self.world().put_back(held);
            return Ok(());
        }
        let injected = self.device.injected();
        self.world().leave(&held);
        let freed = match &on {
            None => self.pool.free(held.block.handle()),
            Some(on) => self.pool.free_on(on.on(), held.block.handle()),
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

    pub(super) fn free_many(&self, step: u8, first: u8) -> Result<(), Fault> {
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
}
