//! Entries as a snapshot that PyTorch's viewers read.

use std::{
    collections::{BTreeMap, HashMap},
    io::{self, Write},
};

use super::{
    pickler::{List, Pickler, Remembered},
    segments::{Segment, Segments},
};
use crate::log::{Entry, Step};

/// Blocks are shown with the sizes that they take, multiples of this, where there is room.
const GRANULE_BYTES: i128 = 256;

/// Writes a memory snapshot, entry by entry: what `torch.cuda._memory_viz` and the page
/// `memory_viz` read.
///
/// A free is written as requested and complete at once. When all entries are written, the
/// segments follow: the pages of 2 MiB in which any block ever was, as one segment where they
/// adjoin, with the blocks that are live at the end. They are there from the start: what the
/// recorded program got from the device, and when, no entry says. A label becomes a stack of one
/// frame.
///
/// Memory: an entry for each live block, each segment and each label. Each entry is a few small
/// writes: give it a [`std::io::BufWriter`].
///
/// ```
/// use pool_mock::{Trace, log::{Entry, Step, snapshot::Writer}};
///
/// let mut writer = Writer::new(Vec::new())?;
/// let step = Step::Allocate { address: 0x7f00_0000_0000, size_bytes: 1000 };
/// let label = Some("train.py:3 main");
/// writer.write(&Entry { step, stream: 0, thread: 0, time_us: Some(1), label })?;
/// let trace = Trace::read(&writer.finish()?[..])?;
/// assert_eq!(trace.peak_live_bytes(1), 1000);
/// assert_eq!(&*trace.labels()[0], "train.py:3 main");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer<W> {
    pickler: Pickler<W>,
    /// The events of the device.
    events: List,
    /// All devices.
    devices: List,
    live: BTreeMap<u64, Live>,
    segments: Segments,
    /// The stacks that labels have become.
    stacks: HashMap<Box<str>, Option<Remembered>>,
}

/// A live block.
#[derive(Clone, Copy, Debug)]
struct Live {
    size_bytes: u64,
    stack: Option<Remembered>,
}

impl<W: Write> Writer<W> {
    /// Begins a snapshot.
    ///
    /// # Errors
    ///
    /// Those of `inner`.
    ///
    /// ```
    /// let writer = pool_mock::log::snapshot::Writer::new(Vec::new())?;
    /// assert!(!writer.finish()?.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(inner: W) -> io::Result<Self> {
        let mut pickler = Pickler::new(inner)?;
        pickler.begin_dict()?;
        pickler.text("device_traces")?;
        let mut devices = pickler.begin_list()?;
        pickler.item(&mut devices)?;
        let events = pickler.begin_list()?;
        Ok(Self {
            pickler,
            events,
            devices,
            live: BTreeMap::new(),
            segments: Segments::default(),
            stacks: HashMap::new(),
        })
    }

    /// Writes an entry. Its thread is not part of the format. An allocation at the address of a
    /// live block frees that first, for the viewers know no two blocks at one address.
    ///
    /// # Errors
    ///
    /// Those of the inner writer.
    ///
    /// ```
    /// use pool_mock::log::{Entry, Step, snapshot::Writer};
    ///
    /// let mut writer = Writer::new(std::io::sink())?;
    /// let step = Step::Failure { size_bytes: 1 << 30, device_free_bytes: None };
    /// writer.write(&Entry { step, stream: 0, thread: 0, time_us: None, label: None })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn write(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        match entry.step {
            Step::Allocate { address, size_bytes } => {
                if let Some(old) = self.live.remove(&address) {
                    self.free(entry, address, old.size_bytes)?;
                }
                self.begin_event("alloc", entry)?;
                self.number("addr", address)?;
                self.number("size", size_bytes)?;
                let stack = self.stack(entry.label)?;
                self.pickler.end_dict()?;
                self.segments.cover(address, size_bytes, entry.stream);
                if size_bytes > 0 {
                    self.live.insert(address, Live { size_bytes, stack });
                }
                Ok(())
            }
            Step::Free { address, size_bytes } => {
                if let Some(old) = self.live.remove(&address) {
                    return self.free(entry, address, old.size_bytes);
                }
                // It was live before the first entry.
                self.segments.cover(address, size_bytes, entry.stream);
                self.free(entry, address, size_bytes)
            }
            Step::Failure { size_bytes, device_free_bytes } => {
                self.begin_event("oom", entry)?;
                self.number("size", size_bytes)?;
                // The viewers want a number.
                self.number("device_free", device_free_bytes.unwrap_or(0))?;
                self.stack(entry.label)?;
                self.pickler.end_dict()
            }
        }
    }

    /// Writes what is left, and gives the inner writer back, flushed. Without it the snapshot is
    /// not whole.
    ///
    /// # Errors
    ///
    /// Those of the inner writer.
    ///
    /// ```
    /// let written = pool_mock::log::snapshot::Writer::new(Vec::new())?.finish()?;
    /// assert_eq!(pool_mock::Trace::read(&written[..])?.operations, []);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn finish(self) -> io::Result<W> {
        let Self { mut pickler, events, devices, live, segments, .. } = self;
        pickler.end_list(events)?;
        pickler.end_list(devices)?;
        pickler.text("segments")?;
        let mut list = pickler.begin_list()?;
        for segment in segments.iter() {
            pickler.item(&mut list)?;
            write_segment(&mut pickler, segment, &live)?;
        }
        pickler.end_list(list)?;
        write_settings(&mut pickler)?;
        pickler.text("external_annotations")?;
        pickler.empty_list()?;
        pickler.end_dict()?;
        pickler.finish()
    }

    fn free(&mut self, entry: &Entry<'_>, address: u64, size_bytes: u64) -> io::Result<()> {
        for action in ["free_requested", "free_completed"] {
            self.begin_event(action, entry)?;
            self.number("addr", address)?;
            self.number("size", size_bytes)?;
            self.pickler.end_dict()?;
        }
        Ok(())
    }

    fn begin_event(&mut self, action: &str, entry: &Entry<'_>) -> io::Result<()> {
        self.pickler.item(&mut self.events)?;
        self.pickler.begin_dict()?;
        self.pickler.text("action")?;
        self.pickler.text(action)?;
        self.number("stream", entry.stream)?;
        match entry.time_us {
            Some(time_us) => self.number("time_us", time_us),
            None => Ok(()),
        }
    }

    fn number(&mut self, key: &str, number: u64) -> io::Result<()> {
        self.pickler.text(key)?;
        self.pickler.int(number.into())
    }

    /// The frames of an event, if it has a label; gives them to be named again.
    fn stack(&mut self, label: Option<&str>) -> io::Result<Option<Remembered>> {
        let Some(label) = label else { return Ok(None) };
        self.pickler.text("frames")?;
        if let Some(Some(stack)) = self.stacks.get(label) {
            self.pickler.recall(*stack)?;
            return Ok(Some(*stack));
        }
        let stack = write_stack(&mut self.pickler, label)?;
        self.stacks.insert(label.into(), stack);
        Ok(stack)
    }
}

/// Writes a list of the one frame that a label names.
fn write_stack<W: Write>(pickler: &mut Pickler<W>, label: &str) -> io::Result<Option<Remembered>> {
    let (file, line, function) = frame(label);
    let mut list = pickler.begin_list()?;
    pickler.item(&mut list)?;
    pickler.begin_dict()?;
    pickler.text("filename")?;
    pickler.text(file)?;
    pickler.text("line")?;
    pickler.int(line.into())?;
    pickler.text("name")?;
    pickler.text(function)?;
    pickler.end_dict()?;
    pickler.end_list(list)?;
    pickler.remember()
}

/// The parts of a label `file:line function`; any other is the name of a function.
fn frame(label: &str) -> (&str, u32, &str) {
    let parts = label.match_indices(':').find_map(|(colon, _)| {
        let (file, rest) = (label.get(..colon)?, label.get(colon + 1..)?);
        let (line, function) = rest.split_once(' ').unwrap_or((rest, ""));
        Some((file, line.parse().ok()?, function))
    });
    parts.unwrap_or(("", 0, label))
}

/// Writes a segment; its blocks are the live ones and what lies between them.
fn write_segment<W: Write>(
    pickler: &mut Pickler<W>,
    segment: Segment,
    live: &BTreeMap<u64, Live>,
) -> io::Result<()> {
    let Segment { first, start, end, stream } = segment;
    let (mut size_sum, mut requested_sum, mut at) = (0, 0, start);
    pickler.begin_dict()?;
    pickler.text("blocks")?;
    let mut list = pickler.begin_list()?;
    let within = live.range(first..).take_while(|(address, _)| i128::from(**address) < end);
    let mut within = within.peekable();
    while let Some((address, block)) = within.next() {
        let address = i128::from(*address);
        if at < address {
            pickler.item(&mut list)?;
            write_block(pickler, at, address, None)?;
        }
        let room_ends = within.peek().map_or(end, |(next, _)| i128::from(**next));
        let used_to = address + i128::from(block.size_bytes);
        at = ((used_to + GRANULE_BYTES - 1) & !(GRANULE_BYTES - 1)).min(room_ends);
        pickler.item(&mut list)?;
        write_block(pickler, address, at, Some(block))?;
        size_sum += at - address;
        requested_sum += i128::from(block.size_bytes);
    }
    if at < end {
        pickler.item(&mut list)?;
        write_block(pickler, at, end, None)?;
    }
    pickler.end_list(list)?;
    for (key, number) in [
        ("device", 0),
        ("address", start),
        ("total_size", end - start),
        ("allocated_size", size_sum),
        ("active_size", size_sum),
        ("requested_size", requested_sum),
        ("stream", stream.into()),
    ] {
        pickler.text(key)?;
        pickler.int(number)?;
    }
    pickler.text("segment_type")?;
    pickler.text("large")?;
    pickler.text("segment_pool_id")?;
    pickler.int(0)?;
    pickler.int(0)?;
    pickler.pair()?;
    pickler.text("is_expandable")?;
    pickler.bool(false)?;
    pickler.text("frames")?;
    pickler.empty_list()?;
    pickler.end_dict()
}

/// Writes a block, or what lies between two.
fn write_block<W: Write>(
    pickler: &mut Pickler<W>,
    start: i128,
    end: i128,
    live: Option<&Live>,
) -> io::Result<()> {
    pickler.begin_dict()?;
    let requested_bytes = live.map_or(0, |live| live.size_bytes);
    for (key, number) in
        [("address", start), ("size", end - start), ("requested_size", requested_bytes.into())]
    {
        pickler.text(key)?;
        pickler.int(number)?;
    }
    pickler.text("state")?;
    pickler.text(if live.is_some() { "active_allocated" } else { "inactive" })?;
    pickler.text("frames")?;
    match live.and_then(|live| live.stack) {
        Some(stack) => pickler.recall(stack)?,
        None => pickler.empty_list()?,
    }
    pickler.end_dict()
}

/// Writes the settings that PyTorch's allocator has if nobody changes them.
fn write_settings<W: Write>(pickler: &mut Pickler<W>) -> io::Result<()> {
    pickler.text("allocator_settings")?;
    pickler.begin_dict()?;
    pickler.text("PYTORCH_CUDA_ALLOC_CONF")?;
    pickler.text("")?;
    pickler.text("max_split_size")?;
    pickler.int(-1)?;
    pickler.text("garbage_collection_threshold")?;
    pickler.float(0.0)?;
    for key in ["expandable_segments", "release_lock_on_cudamalloc"] {
        pickler.text(key)?;
        pickler.bool(false)?;
    }
    pickler.text("roundup_power2_divisions")?;
    pickler.begin_dict()?;
    for power in 0..16 {
        pickler.text(&(1_u32 << power).to_string())?;
        pickler.int(0)?;
    }
    pickler.end_dict()?;
    pickler.end_dict()
}
