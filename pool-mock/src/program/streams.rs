//! Streams: made, adopted, retired.

use super::act::MOST_STREAMS;
use super::finding::Fault;
use super::run::Run;
use super::world::Stream;

impl Run {
    pub(super) fn create(&self) -> Result<(), Fault> {
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
    pub(super) fn adopt(&self, pick: u8) -> Result<(), Fault> {
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
        let ready = self.note_everywhere(number)?;
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
            stream.stayed += 1;
        }
        match retired {
            Err(Some(error)) => self.judge("retire", injected, &error, false),
            _ => Ok(()),
        }
    }

    /// Tells the pool of all blocks that a stream uses; false if a fault stood in the way.
    pub(super) fn note_everywhere(&self, number: u32) -> Result<bool, Fault> {
        loop {
            let mut world = self.world();
            let place = world.blocks.iter().position(|held| held.unnoted.contains(&number));
            let Some(place) = place else { return Ok(true) };
            let mut held = world.take_block_at(place);
            drop(world);
            let noted = self.note(&mut held, number, false);
            self.world().put_back(held);
            if !noted? {
                return Ok(false);
            }
        }
    }
}
