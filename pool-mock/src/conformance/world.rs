//! What a case works with, and gives back.

use core::ops::Deref;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use pool_core::device::{Failure, Severity};

use super::report::{Outcome, Stop};
use super::trial::{Pace, Trial};

/// What a case gets, unless it says otherwise.
pub(super) type Answer<T> = Result<T, Stop>;

/// As much memory as a case usually takes at a time.
pub(super) const PIECE: u64 = 64 << 10;

/// How many bytes are looked at in one place.
const LOOK: u64 = 256;

/// So often a call may meet slow work that is done already before it counts as one that waits: a
/// machine that is busy with other things makes it look so now and then.
const TRIES: u8 = 10;

/// A device, and the time that there is to try it.
pub(super) struct World<D> {
    pub(super) device: D,
    start: Instant,
    patience: Duration,
}

impl<D> Deref for World<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.device
    }
}

/// A range that goes back at its end, when all work is done.
pub(super) struct Memory<'w, D: Trial> {
    device: &'w D,
    range: Option<D::Range>,
    pub(super) size_bytes: u64,
}

impl<D: Trial> Memory<'_, D> {
    pub(super) fn range(&self) -> &D::Range {
        self.range.as_ref().expect("it is there until it goes back")
    }

    /// Gives it back now.
    pub(super) fn free(mut self) -> Result<(), Failure<D::Error>> {
        let freed = self.device.free(self.range());
        if freed.is_ok() {
            self.range = None;
        }
        freed
    }
}

impl<D: Trial> Drop for Memory<'_, D> {
    fn drop(&mut self) {
        if let Some(range) = &self.range {
            // What is left of a case that failed is not what it is about.
            let _ = self.device.synchronize();
            let _ = self.device.free(range);
        }
    }
}

/// Addresses with handles of pages under them, which go back at the end, when all work is done.
pub(super) struct Row<'w, D: Trial> {
    device: &'w D,
    pub(super) range: D::Range,
    /// By where they begin.
    pages: Vec<(u64, D::Pages)>,
}

impl<D: Trial> Row<'_, D> {
    /// Puts handles in a row, from an offset on; each with its size.
    pub(super) fn put(
        &mut self,
        offset_bytes: u64,
        pages: Vec<(u64, D::Pages)>,
    ) -> Result<(), Failure<D::Error>> {
        let handles: Vec<_> = pages.iter().map(|(_, handle)| handle).collect();
        self.device.commit(&self.range, offset_bytes, &handles)?;
        let mut at = offset_bytes;
        for (size_bytes, handle) in pages {
            self.pages.push((at, handle));
            at += size_bytes;
        }
        Ok(())
    }

    /// Takes the handle out that begins at an offset.
    pub(super) fn take(&mut self, offset_bytes: u64) -> Result<D::Pages, Stop> {
        let place = self.pages.iter().position(|(at, _)| *at == offset_bytes);
        let (at, handle) = self.pages.swap_remove(place.expect("the case has put one there"));
        match self.device.decommit(&self.range, at, &handle) {
            Ok(()) => Ok(handle),
            Err(error) => {
                self.pages.push((at, handle));
                Err(error.into())
            }
        }
    }
}

impl<D: Trial> Drop for Row<'_, D> {
    fn drop(&mut self) {
        let _ = self.device.synchronize();
        for (at, handle) in self.pages.drain(..) {
            let _ = self.device.decommit(&self.range, at, &handle);
            let _ = self.device.destroy_pages(handle);
        }
        let _ = self.device.free(&self.range);
    }
}

/// A stream of the program's that goes back at its end.
pub(super) struct Queue<'w, D: Trial> {
    device: &'w D,
    pub(super) stream: D::Stream,
}

impl<D: Trial> Drop for Queue<'_, D> {
    fn drop(&mut self) {
        let _ = self.device.end_stream(&self.stream);
    }
}

/// A fence that goes back at its end.
pub(super) struct Point<'w, D: Trial> {
    device: &'w D,
    fence: Option<D::Fence>,
}

impl<D: Trial> Point<'_, D> {
    pub(super) fn fence(&self) -> &D::Fence {
        self.fence.as_ref().expect("it is there until it goes back")
    }
}

impl<D: Trial> Drop for Point<'_, D> {
    fn drop(&mut self) {
        self.fence.take().into_iter().for_each(|fence| self.device.discard(fence));
    }
}

impl<D: Trial> World<D> {
    pub(super) fn new(device: D, patience: Duration) -> Self {
        Self { device, start: Instant::now(), patience }
    }

    /// Memory of so many bytes.
    pub(super) fn memory(&self, size_bytes: u64) -> Result<Memory<'_, D>, Failure<D::Error>> {
        let range = Some(self.device.allocate(size_bytes)?);
        Ok(Memory { device: &self.device, range, size_bytes })
    }

    /// Addresses for so many bytes, with nothing under them.
    pub(super) fn row(&self, size_bytes: u64) -> Result<Row<'_, D>, Failure<D::Error>> {
        let range = self.device.reserve(size_bytes)?;
        Ok(Row { device: &self.device, range, pages: Vec::new() })
    }

    /// A stream of the program's.
    pub(super) fn queue(&self) -> Result<Queue<'_, D>, Failure<D::Error>> {
        Ok(Queue { device: &self.device, stream: self.device.begin_stream()? })
    }

    /// A fence in a stream.
    pub(super) fn point(&self, queue: &Queue<'_, D>) -> Result<Point<'_, D>, Failure<D::Error>> {
        let fence = Some(self.device.record(&queue.stream)?);
        Ok(Point { device: &self.device, fence })
    }

    /// Has a stream mark all bytes of a range.
    pub(super) fn fill(
        &self,
        queue: &Queue<'_, D>,
        memory: &Memory<'_, D>,
        mark: u8,
        pace: Pace,
    ) -> Result<(), Failure<D::Error>> {
        self.device.mark(&queue.stream, memory.range(), 0, memory.size_bytes, mark, pace)
    }

    /// What is in some bytes now that should all have a mark: at both ends and in the midst.
    /// `Ok` if they have.
    pub(super) fn look(
        &self,
        range: &D::Range,
        offset_bytes: u64,
        size_bytes: u64,
        mark: u8,
    ) -> Answer<Result<(), String>> {
        Ok(look(&self.device, range, offset_bytes, size_bytes, mark)?)
    }

    /// Demands that bytes have a mark now.
    #[track_caller]
    pub(super) fn expect(&self, memory: &Memory<'_, D>, mark: u8, when: &str) -> Outcome {
        self.expect_at(memory.range(), 0, memory.size_bytes, mark, when)
    }

    /// Demands that bytes from an offset on have a mark now.
    #[track_caller]
    pub(super) fn expect_at(
        &self,
        range: &D::Range,
        offset_bytes: u64,
        size_bytes: u64,
        mark: u8,
        when: &str,
    ) -> Outcome {
        match self.look(range, offset_bytes, size_bytes, mark)? {
            Ok(()) => Ok(()),
            Err(seen) => Err(Stop::broken(format!("{when}, {seen}"))),
        }
    }

    /// Waits for all work: also where the device has no fences, whose one queue a read waits for.
    pub(super) fn settle(&self) -> Result<(), Failure<D::Error>> {
        match self.device.synchronize() {
            Err(Failure::Unsupported(_)) => Ok(()),
            outcome => outcome,
        }
    }

    /// Demands that something does not wait for slow work. It is done with a mark, which it has slow
    /// work write to memory, and may be done several times.
    #[track_caller]
    pub(super) fn does_not_wait(
        &self,
        what: &str,
        memory: &Memory<'_, D>,
        act: impl Fn(u8) -> Outcome,
    ) -> Outcome {
        let waits = Stop::broken(format!(
            "slow work was done each of the {TRIES} times when {what} returned"
        ));
        for mark in 1..=TRIES {
            act(mark)?;
            let is_done = self.look(memory.range(), 0, memory.size_bytes, mark)?.is_ok();
            self.device.hurry();
            self.settle()?;
            if !is_done {
                return Ok(());
            }
        }
        Err(waits)
    }

    /// Memory of the device that is free, of which a case takes a part.
    pub(super) fn free_bytes(&self) -> Result<u64, Failure<D::Error>> {
        Ok(self.device.memory()?.free_bytes)
    }

    /// Demands that a call was refused for want of memory.
    #[track_caller]
    pub(super) fn expect_out_of_memory<T>(
        &self,
        what: &str,
        outcome: Result<T, Failure<D::Error>>,
    ) -> Outcome {
        match outcome {
            Ok(_) => Err(Stop::broken(format!("{what} was served, which is more than there is"))),
            Err(Failure::Device(error)) => match self.device.severity(&error) {
                Severity::OutOfMemory => Ok(()),
                other => Err(Stop::broken(format!("{what}: {other:?} is said of \"{error}\""))),
            },
            Err(other) => Err(Stop::broken(format!("{what}: {other}"))),
        }
    }

    /// Asks until something is so, as long as there is time.
    #[track_caller]
    pub(super) fn until(
        &self,
        what: &str,
        is_so: impl Fn() -> Result<bool, Failure<D::Error>>,
    ) -> Outcome {
        let place = Stop::broken(format!("{what} is not, for as long as the case may take"));
        // A quarter of the patience is left to say so, and to give back what there is.
        let most = self.patience / 4 * 3;
        while !is_so()? {
            self.device.hurry();
            if self.start.elapsed() > most {
                return Err(place);
            }
            thread::yield_now();
        }
        Ok(())
    }
}

/// What is in some bytes of a device now that should all have a mark: at both ends and in the midst.
pub(super) fn look<D: Trial>(
    device: &D,
    range: &D::Range,
    offset_bytes: u64,
    size_bytes: u64,
    mark: u8,
) -> Result<Result<(), String>, Failure<D::Error>> {
    let size = size_bytes.min(LOOK);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    for inside in [0, (size_bytes - size) / 2, size_bytes - size] {
        let at = offset_bytes + inside;
        // Whatever a read does not write is not the mark.
        bytes.fill(!mark);
        device.read(range, at, &mut bytes)?;
        if let Some(wrong) = bytes.iter().position(|&byte| byte != mark) {
            let (found, place) = (bytes[wrong], at + wrong as u64);
            return Ok(Err(format!("the byte at {place} is {found}, not {mark}")));
        }
    }
    Ok(Ok(()))
}

/// Demands that something is so.
#[track_caller]
pub(super) fn demand(is_so: bool, else_seen: impl FnOnce() -> String) -> Outcome {
    if is_so { Ok(()) } else { Err(Stop::broken(else_seen())) }
}
