//! What happened, as it is kept until the page is written.

use std::io::{self, Write};

use super::{
    columns::Columns,
    event::{Event, Kind, LabelId, StreamId},
    figure::Figure,
    fragments::{self, Fragments, SIZES},
    names::Names,
    open::{Open, OpenBlocks},
    pack,
    stretches::Stretches,
};

/// The form of what [`History::pack`] makes; the page reads this one.
const VERSION: u64 = 1;

/// What the times of events count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Clock {
    /// The program's operations, in their order.
    #[default]
    Operations = 0,
    /// Nanoseconds since the start.
    Nanoseconds = 1,
}

/// So many times memory that is used untold counts as what is used; then, and after each as many more,
/// its bounds are those of 8 KiB, and twice as coarse each time.
const UNTOLD_A_STEP: u64 = 4096;
const MOST_STEPS: u64 = 30;

/// Stretches of memory with less than this part of all memory between them are shown as one.
const NEAR: u64 = 16;

/// The most that there was at once, and when first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Peak {
    /// How much.
    pub bytes: u64,
    /// The time of the event that reached it.
    pub time: u64,
}

impl Peak {
    fn raise(&mut self, bytes: u64, time: u64) {
        if bytes > self.bytes {
            *self = Self { bytes, time };
        }
    }
}

/// A stretch of addresses that is shown by itself.
#[derive(Clone, Debug)]
struct Arena {
    name: String,
    address: u64,
    bytes: u64,
}

impl Arena {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// What a pool did.
///
/// Events are taken in their order, some ten bytes each; besides, there is an entry for each block
/// that is not free, and for each free stretch. Nothing is refused: what cannot be is mended where
/// it comes in, and [counted](Self::odd_events).
///
/// - Memory that is used without having been grown into counts as grown into at that moment, so a
///   history without growth shows what its blocks touched. After some thousand times the bounds of
///   that get coarser, so that such growths stay few.
/// - A block that is handed out where others are ends those first: what is deferred there waits no
///   longer, since its own stream may have it; what is live is freed, and counted.
/// - A free of what is not live is left out, and counted; so is the end of a wait that is over by then,
///   without being counted: whoever records may hear of it late.
/// - Names of another history are no name.
#[derive(Clone, Debug, Default)]
pub struct History {
    title: String,
    source: String,
    clock: Clock,
    streams: Names,
    labels: Names,
    arenas: Vec<Arena>,
    figures: Vec<Figure>,
    markers: Vec<(u64, String)>,
    columns: Columns,
    open: OpenBlocks,
    backed: Stretches,
    ever_backed: Stretches,
    fragments: Fragments,
    live_bytes: u64,
    reserved_bytes: u64,
    peak_live: Peak,
    peak_reserved: Peak,
    failures: u64,
    odd_events: u64,
    /// Growths that were put in.
    untold: u64,
}

impl History {
    /// An empty one, under a title.
    ///
    /// ```
    /// use pool_report::{Clock, History};
    ///
    /// let history = History::new("training").source("of 30 November").clock(Clock::Nanoseconds);
    /// assert_eq!((history.events(), history.failures(), history.odd_events()), (0, 0, 0));
    /// ```
    #[must_use]
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// A line that says where it is from.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// What times count; [`Clock::Operations`] unless this is called.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The number of a stream's name; the same for the same name.
    ///
    /// ```
    /// let mut history = pool_report::History::new("streams");
    /// assert_eq!(history.stream("copies"), history.stream("copies"));
    /// assert_ne!(history.stream("copies"), history.stream("compute"));
    /// ```
    pub fn stream(&mut self, name: &str) -> StreamId {
        StreamId(self.streams.number(name))
    }

    /// The number of a label's name; the same for the same name.
    ///
    /// ```
    /// let mut history = pool_report::History::new("labels");
    /// assert_ne!(history.label("layer 1"), history.label("layer 2"));
    /// ```
    pub fn label(&mut self, name: &str) -> LabelId {
        LabelId(self.labels.number(name))
    }

    /// Names a stretch of addresses, which the map then shows by itself. Without any, it shows
    /// where memory ever was.
    ///
    /// ```
    /// pool_report::History::new("two devices").arena("device 1", 1 << 40, 80 << 30);
    /// ```
    pub fn arena(&mut self, name: impl Into<String>, address: u64, bytes: u64) {
        self.arenas.push(Arena { name: name.into(), address, bytes });
    }

    /// Adds a figure.
    ///
    /// ```
    /// use pool_report::{Figure, History, Policy, Unit};
    ///
    /// let mut history = History::new("figures");
    /// history.figure(Figure::new(Policy::Reclaim, "given back", 64e6, Unit::Bytes));
    /// ```
    pub fn figure(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// Marks the moment after the last event.
    ///
    /// ```
    /// use pool_report::{Event, History, Kind};
    ///
    /// let mut history = History::new("two iterations");
    /// history.push(Event::new(0, Kind::Allocate).at(0, 256));
    /// history.mark("second iteration");
    /// ```
    pub fn mark(&mut self, text: impl Into<String>) {
        self.markers.push((self.columns.events.saturating_sub(1), text.into()));
    }

    /// Something happened. Logarithmic in the free stretches.
    ///
    /// ```
    /// use pool_report::{Event, History, Kind};
    ///
    /// let mut history = History::new("a block");
    /// history.push(Event::new(0, Kind::Allocate).at(512, 256));
    /// history.push(Event::new(1, Kind::Free).at(512, 0));
    /// assert_eq!((history.events(), history.live_bytes()), (3, 0)); // with the growth
    /// ```
    pub fn push(&mut self, mut event: Event) {
        event.time = event.time.max(self.columns.last_time());
        event.stream = StreamId(self.streams.known(event.stream.0));
        event.label = LabelId(self.labels.known(event.label.0));
        match event.kind {
            Kind::Allocate => self.allocate(&event),
            Kind::Free | Kind::FreeAsked => self.free(&event),
            Kind::FreeDone => self.settle(&event),
            Kind::Growth | Kind::Commit => self.back(&event),
            Kind::Trim | Kind::Decommit => self.take_back(&event),
            Kind::Failure => {
                self.failures += 1;
                self.note(&event, 0);
            }
            Kind::Reuse | Kind::Steal | Kind::PagesMoved => self.note(&event, 0),
        }
    }

    fn allocate(&mut self, event: &Event) {
        while let Some((address, open)) = self.open.within(event.address, event.bytes) {
            if open.is_deferred {
                self.settle(&Event { kind: Kind::FreeDone, address, ..*event });
            } else {
                self.odd_events += 1;
                self.free(&Event { kind: Kind::Free, address, ..*event });
            }
        }
        if !self.backed.gaps(event.address, event.bytes).is_empty() {
            self.back_untold(event);
        }
        self.fragments.remove(event.address, event.bytes);
        let number = self.columns.blocks;
        self.open.insert(event.address, Open { number, bytes: event.bytes, is_deferred: false });
        self.live_bytes = self.live_bytes.saturating_add(event.bytes);
        self.peak_live.raise(self.live_bytes, event.time);
        self.columns.block(event);
        self.fragments.note();
    }

    /// The program gives a block back, which serves again at once or waits.
    fn free(&mut self, event: &Event) {
        let Some(open) = self.open.get_mut(event.address).filter(|open| !open.is_deferred) else {
            self.odd_events += 1;
            return;
        };
        open.is_deferred = true;
        self.live_bytes = self.live_bytes.saturating_sub(open.bytes);
        if event.kind == Kind::Free {
            self.settle(event);
        } else {
            self.columns.free(event, open.number);
            self.fragments.note();
        }
    }

    /// A block that is not live serves again.
    fn settle(&mut self, event: &Event) {
        let Some(open) = self.open.get_mut(event.address).filter(|open| open.is_deferred).copied()
        else {
            return;
        };
        self.open.remove(event.address);
        self.fragments.add(event.address, open.bytes);
        self.columns.free(event, open.number);
        self.fragments.note();
    }

    /// Memory is used that no growth told of.
    fn back_untold(&mut self, event: &Event) {
        let step = match self.untold / UNTOLD_A_STEP {
            0 => 1,
            times => 4096 << times.min(MOST_STEPS),
        };
        self.untold += 1;
        let start = event.address - event.address % step;
        let end = event.address.saturating_add(event.bytes);
        let end = end.checked_next_multiple_of(step).unwrap_or(u64::MAX);
        let event = Event { kind: Kind::Growth, ..*event };
        self.back(&event.at(start, end - start));
    }

    fn back(&mut self, event: &Event) {
        let Event { address, bytes, time, .. } = *event;
        for (address, bytes) in self.backed.gaps(address, bytes) {
            self.fragments.add(address, bytes);
        }
        let fresh_bytes = self.backed.add(address, bytes, |_| {});
        self.ever_backed.add(address, bytes, |_| {});
        self.reserved_bytes = self.reserved_bytes.saturating_add(fresh_bytes);
        self.peak_reserved.raise(self.reserved_bytes, time);
        self.note(event, fresh_bytes);
    }

    fn take_back(&mut self, event: &Event) {
        let Event { address, bytes, .. } = *event;
        self.fragments.remove(address, bytes);
        let gone_bytes = self.backed.remove(address, bytes, |_| {});
        self.reserved_bytes = self.reserved_bytes.saturating_sub(gone_bytes);
        self.note(event, gone_bytes);
    }

    fn note(&mut self, event: &Event, reserved_bytes: u64) {
        self.columns.other(event, reserved_bytes);
        self.fragments.note();
    }

    /// How many events there are, those that were put in included.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.columns.events
    }

    /// What the program has now.
    #[must_use]
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// What is taken from the device now.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    /// The most that was live at once.
    #[must_use]
    pub fn peak_live(&self) -> Peak {
        self.peak_live
    }

    /// The most that was reserved at once.
    ///
    /// ```
    /// use pool_report::{Event, History, Kind};
    ///
    /// let mut history = History::new("growth");
    /// history.push(Event::new(0, Kind::Growth).at(0, 4096));
    /// history.push(Event::new(5, Kind::Trim).at(0, 4096));
    /// let peak = history.peak_reserved();
    /// assert_eq!((history.reserved_bytes(), peak.bytes, peak.time), (0, 4096, 0));
    /// ```
    #[must_use]
    pub fn peak_reserved(&self) -> Peak {
        self.peak_reserved
    }

    /// How many requests were refused.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Whether a block begins there that the program has.
    #[cfg(feature = "live")]
    pub(crate) fn is_live(&self, address: u64) -> bool {
        self.open.get(address).is_some_and(|open| !open.is_deferred)
    }

    /// How many events could not be as they were told.
    #[must_use]
    pub fn odd_events(&self) -> u64 {
        self.odd_events
    }

    /// The title.
    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Writes everything, in the form that the page reads: numbers and texts of [`pack`], in this
    /// order.
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut out = Vec::new();
        pack::number(&mut out, VERSION);
        pack::text(&mut out, &self.title);
        pack::text(&mut out, &self.source);
        pack::number(&mut out, self.clock as u64);
        for names in [&self.streams, &self.labels] {
            pack::number(&mut out, names.list().len() as u64);
            names.list().iter().for_each(|name| pack::text(&mut out, name));
        }
        self.pack_arenas(&mut out);
        pack::number(&mut out, self.figures.len() as u64);
        for Figure { policy, name, value, unit } in &self.figures {
            pack::number(&mut out, *policy as u64);
            pack::text(&mut out, name);
            out.extend_from_slice(&value.to_le_bytes());
            pack::number(&mut out, *unit as u64);
        }
        pack::number(&mut out, self.markers.len() as u64);
        for (event, text) in &self.markers {
            pack::number(&mut out, *event);
            pack::text(&mut out, text);
        }
        pack::number(&mut out, self.odd_events);
        pack::number(&mut out, self.columns.events);
        pack::number(&mut out, self.columns.blocks.into());
        to.write_all(&out)?;
        self.columns.write(to)?;
        out.clear();
        self.pack_fragments(&mut out);
        to.write_all(&out)
    }

    fn pack_arenas(&self, out: &mut Vec<u8>) {
        let found = self.found_arenas();
        let arenas = if self.arenas.is_empty() { &found } else { &self.arenas };
        pack::number(out, arenas.len() as u64);
        for Arena { name, address, bytes } in arenas {
            pack::text(out, name);
            pack::number(out, *address);
            pack::number(out, *bytes);
        }
    }

    /// The stretches that memory was ever behind; those that are near each other, for so much memory, are
    /// one.
    fn found_arenas(&self) -> Vec<Arena> {
        let total =
            self.ever_backed.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(bytes));
        let mut arenas: Vec<Arena> = Vec::new();
        for (address, bytes) in self.ever_backed.iter() {
            match arenas.last_mut() {
                Some(last) if address - last.end() <= total / NEAR => {
                    last.bytes = address + bytes - last.address;
                }
                _ => {
                    let name = format!("arena {}", arenas.len());
                    arenas.push(Arena { name, address, bytes });
                }
            }
        }
        arenas
    }

    /// The sizes, and of each the least and the most share in thousandths, place by place.
    fn pack_fragments(&self, out: &mut Vec<u8>) {
        let history = self.fragments.history();
        pack::number(out, SIZES as u64);
        (0..SIZES).for_each(|size| pack::number(out, fragments::size_bytes(size)));
        pack::number(out, history.events_a_place());
        pack::number(out, history.places().len() as u64);
        for size in 0..SIZES {
            for place in history.places() {
                pack::number(out, place[size].least.into());
                pack::number(out, place[size].most.into());
            }
        }
    }
}
