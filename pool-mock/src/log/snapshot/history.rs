//! What a snapshot tells, made into a trace of one device.

use std::collections::HashMap;

use super::{
    error::PickleError,
    frames::{FrameId, Frames},
    record::Record,
    word::Word,
};
use crate::log::{
    Location, LogError, Oddity,
    builder::{Builder, Event},
    labels::LabelId,
    recording::Recording,
};

pub(super) struct History {
    builder: Builder,
    pub(super) frames: Frames,
    /// The labels that frames and notes have become.
    labels: HashMap<(FrameId, u32), Option<LabelId>>,
    /// The device asked for.
    wanted: Option<u32>,
    /// The device whose events make the trace.
    device: Option<u32>,
    /// How many devices there are.
    devices: u32,
    /// How many events were read, of all devices.
    events: u64,
    /// How many of them are of the trace's device.
    place: u64,
    live: Vec<LiveBlock>,
    /// How many blocks of `live` are of segments that are complete.
    placed: usize,
}

/// A block that the segments show as allocated.
struct LiveBlock {
    device: u32,
    stream: u64,
    address: u64,
    size_bytes: u64,
    frame: FrameId,
    note: u32,
    offset: u64,
}

impl History {
    pub(super) fn new(builder: Builder, device: Option<u32>) -> Self {
        Self {
            builder,
            frames: Frames::new(),
            labels: HashMap::new(),
            wanted: device,
            device,
            devices: 0,
            events: 0,
            place: 0,
            live: Vec::new(),
            placed: 0,
        }
    }

    /// How many events were read.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// How many devices are complete.
    pub(super) fn devices(&self) -> u32 {
        self.devices
    }

    /// Takes note that a device's events are complete.
    pub(super) fn end_device(&mut self) {
        self.devices = self.devices.saturating_add(1);
    }

    pub(super) fn trailing_bytes(&mut self, offset: u64) {
        self.builder.note(Oddity::TrailingBytes, Location::Offset(offset));
    }

    /// An event of `device`, the next in order.
    pub(super) fn event(&mut self, device: u32, record: &Record) -> Result<(), LogError> {
        if *self.device.get_or_insert(device) == device {
            self.add(record)?;
            self.place += 1;
        } else {
            self.builder.note(Oddity::OtherDevice, Location::Offset(record.offset));
        }
        self.events += 1;
        Ok(())
    }

    /// A block of the segment that is being read.
    pub(super) fn block(&mut self, record: &Record) -> Result<(), LogError> {
        // A block that waits to be freed is no longer the program's.
        if record.action != Some(Word::ActiveAllocated) {
            return Ok(());
        }
        let fail = |source| self.error(record, source);
        let size_bytes = match record.requested_size.optional().map_err(fail)? {
            Some(size_bytes) if size_bytes > 0 => size_bytes,
            _ => record.size.need().map_err(fail)?,
        };
        self.live.push(LiveBlock {
            device: 0,
            stream: 0,
            address: record.address.need().map_err(fail)?,
            size_bytes,
            frame: record.frame,
            note: record.note,
            offset: record.offset,
        });
        Ok(())
    }

    /// The segment of the blocks before.
    pub(super) fn segment(&mut self, record: &Record) -> Result<(), LogError> {
        let fail = |source| self.error(record, source);
        let device = record.device.device().map_err(fail)?;
        let stream = record.stream.optional().map_err(fail)?.unwrap_or(0);
        for block in self.live.iter_mut().skip(self.placed) {
            (block.device, block.stream) = (device, stream);
        }
        self.placed = self.live.len();
        self.builder.left_out().segments += 1;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Recording, LogError> {
        if let Some(device) = self.wanted
            && device >= self.devices
            && !self.live.iter().any(|block| block.device == device)
        {
            return Err(LogError::NoSuchDevice { device });
        }
        // With no history at all, the segments still tell what is live.
        let device = self.device.or_else(|| self.live.iter().map(|block| block.device).min());
        for block in core::mem::take(&mut self.live) {
            if Some(block.device) != device {
                continue;
            }
            let event = Event {
                label: self.label(block.frame, block.note),
                place: self.place,
                time_us: None,
                thread: 0,
                stream: block.stream,
                pointer: block.address,
                size_bytes: block.size_bytes,
            };
            self.builder.live_at_end(&event, Location::Offset(block.offset))?;
        }
        Ok(self.builder.finish())
    }

    fn add(&mut self, record: &Record) -> Result<(), LogError> {
        let fail = |source| self.error(record, source);
        let action =
            record.action.ok_or_else(|| fail(PickleError::MissingKey { key: "action" }))?;
        let pointer = match action {
            Word::Alloc | Word::FreeRequested | Word::FreeCompleted => {
                record.address.need().map_err(fail)?
            }
            Word::OutOfMemory => record.device_free.lenient().unwrap_or(0),
            Word::Upkeep => {
                self.builder.left_out().segment_events += 1;
                return Ok(());
            }
            _ => {
                self.builder.note(Oddity::UnknownEvent, Location::Event(self.place));
                return Ok(());
            }
        };
        // A free's stack is that of the free, which says nothing about who holds the memory.
        let label = match action {
            Word::Alloc | Word::OutOfMemory => self.label(record.frame, record.note),
            _ => None,
        };
        let fail = |source| self.error(record, source);
        let event = Event {
            label,
            place: self.place,
            time_us: record.time.lenient(),
            thread: 0,
            stream: record.stream.optional().map_err(fail)?.unwrap_or(0),
            pointer,
            size_bytes: record.size.need().map_err(fail)?,
        };
        match action {
            Word::Alloc => self.builder.allocate(&event),
            Word::FreeRequested => self.builder.free(&event),
            Word::FreeCompleted => self.complete(&event),
            _ => self.builder.fail(&event),
        }
    }

    /// A free that is complete was requested before; if not, it counts as requested now.
    fn complete(&mut self, event: &Event) -> Result<(), LogError> {
        self.builder.left_out().completions += 1;
        let location = Location::Event(event.place);
        if self.builder.is_live(event.pointer) {
            self.builder.note(Oddity::UnrequestedCompletion, location);
            return self.builder.free(event);
        }
        if self.builder.is_new(event.pointer) {
            // Requested before the recording began: the program never saw it since.
            self.builder.note(Oddity::UnrequestedCompletion, location);
            self.builder.freed_before(event.pointer);
        }
        Ok(())
    }

    /// The label that a frame and a note make.
    fn label(&mut self, frame: FrameId, note: u32) -> Option<LabelId> {
        let Self { frames, builder, labels, .. } = self;
        *labels.entry((frame, note)).or_insert_with(|| builder.label(&frames.label(frame, note)?))
    }

    fn error(&self, record: &Record, source: PickleError) -> LogError {
        LogError::Pickle { offset: record.offset, events: self.events, source }
    }
}
