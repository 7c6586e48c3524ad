//! What is in a page, read by a slow reader and compared with a slow model of what happened.

mod support;

use core::{mem, ops::Range};

use pool_report::{Clock, Event, Figure, History, Kind, Peak, Policy, Unit};
use proptest::prelude::*;
use support::{KINDS, Page, Seen};

/// The addresses of the model, in pages of 4 KiB.
const PAGES: usize = 48;
const PAGE_BYTES: u64 = 4096;

fn html(history: &History) -> String {
    let mut page = Vec::new();
    pool_report::write(history, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

fn read(history: &History) -> Page {
    support::read(html(history).as_bytes())
}

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Live(u64),
    Deferred(u64),
}

/// A pool as a table of pages, by the rules that [`History`] states.
struct Model {
    pages: [State; PAGES],
    backed: [bool; PAGES],
    blocks: Vec<(u64, u64, u64, u64)>,
    time: u64,
    odd_events: u64,
    events: Vec<Seen>,
    shares: Vec<Vec<u64>>,
    peak_live: (u64, u64),
    peak_reserved: (u64, u64),
    sizes: Vec<u64>,
}

impl Model {
    fn part(event: &Event) -> Range<usize> {
        let page = |bytes: u64| usize::try_from(bytes / PAGE_BYTES).unwrap();
        page(event.address)..page(event.address + event.bytes)
    }

    fn bytes_of(is: impl Fn(usize) -> bool) -> u64 {
        (0..PAGES).filter(|page| is(*page)).count() as u64 * PAGE_BYTES
    }

    fn live_bytes(&self) -> u64 {
        Self::bytes_of(|page| matches!(self.pages[page], State::Live(_)))
    }

    fn reserved_bytes(&self) -> u64 {
        Self::bytes_of(|page| self.backed[page])
    }

    /// The block that begins at an address, if it is there.
    fn find(&self, address: u64) -> Option<(u64, bool)> {
        let page = usize::try_from(address / PAGE_BYTES).unwrap();
        let (number, is_deferred) = match self.pages[page] {
            State::Free => return None,
            State::Live(number) => (number, false),
            State::Deferred(number) => (number, true),
        };
        let begins = self.blocks[usize::try_from(number).unwrap()].0 == address;
        begins.then_some((number, is_deferred))
    }

    fn set(&mut self, number: u64, state: State) {
        for page in &mut self.pages {
            if [State::Live(number), State::Deferred(number)].contains(page) {
                *page = state;
            }
        }
    }

    fn push(&mut self, event: &Event) {
        let last = (self.time, self.events.len());
        self.time = self.time.max(event.time);
        self.happen(event);
        // What was left out was never there.
        if self.events.len() == last.1 {
            self.time = last.0;
        }
    }

    fn happen(&mut self, event: &Event) {
        let found = self.find(event.address);
        match event.kind {
            Kind::Allocate => {
                // What is there ends, the last first.
                for page in Self::part(event).rev() {
                    let (number, kind) = match self.pages[page] {
                        State::Free => continue,
                        State::Live(number) => (number, Kind::Free),
                        State::Deferred(number) => (number, Kind::FreeDone),
                    };
                    self.odd_events += u64::from(kind == Kind::Free);
                    self.set(number, State::Free);
                    self.say_block(kind, number);
                }
                if Self::part(event).any(|page| !self.backed[page]) {
                    self.change(&Event { kind: Kind::Growth, ..*event });
                }
                let number = self.blocks.len() as u64;
                // Streams and labels are looked at through the page.
                self.blocks.push((event.address, event.bytes, 0, 0));
                self.pages[Self::part(event)].fill(State::Live(number));
                let live_bytes = self.live_bytes();
                if live_bytes > self.peak_live.0 {
                    self.peak_live = (live_bytes, self.time);
                }
                self.say_block(Kind::Allocate, number);
            }
            Kind::FreeAsked => match found {
                Some((number, false)) => {
                    self.set(number, State::Deferred(number));
                    self.say_block(Kind::FreeAsked, number);
                }
                _ => self.odd_events += 1,
            },
            Kind::Free | Kind::FreeDone => match found {
                Some((number, is_deferred)) if is_deferred == (event.kind == Kind::FreeDone) => {
                    self.set(number, State::Free);
                    self.say_block(event.kind, number);
                }
                _ => self.odd_events += u64::from(event.kind == Kind::Free),
            },
            Kind::Growth | Kind::Commit | Kind::Trim | Kind::Decommit => self.change(event),
            _ => self.say(event, 0),
        }
    }

    /// Memory comes or goes.
    fn change(&mut self, event: &Event) {
        let comes = matches!(event.kind, Kind::Growth | Kind::Commit);
        let before = self.reserved_bytes();
        self.backed[Self::part(event)].fill(comes);
        let after = self.reserved_bytes();
        if after > self.peak_reserved.0 {
            self.peak_reserved = (after, self.time);
        }
        self.say(event, before.abs_diff(after));
    }

    fn say_block(&mut self, kind: Kind, number: u64) {
        let (address, bytes, ..) = self.blocks[usize::try_from(number).unwrap()];
        self.say(&Event::new(self.time, kind).at(address, bytes), 0);
    }

    fn say(&mut self, event: &Event, reserved_bytes: u64) {
        self.events.push(Seen {
            kind: event.kind,
            time: self.time,
            address: event.address,
            bytes: event.bytes,
            reserved_bytes,
            stream: 0,
            label: 0,
        });
        let is_free = |page: usize| self.backed[page] && self.pages[page] == State::Free;
        let mut runs = Vec::new();
        let mut run = 0;
        for page in 0..=PAGES {
            if page < PAGES && is_free(page) {
                run += PAGE_BYTES;
            } else if run > 0 {
                runs.push(mem::take(&mut run));
            }
        }
        let free_bytes: u64 = runs.iter().sum();
        let share = |size: &u64| {
            runs.iter().filter(|run| *run < size).sum::<u64>() * 1000 / free_bytes.max(1)
        };
        self.shares.push(self.sizes.iter().map(share).collect());
    }
}

/// Kind, place, length and time of events: blocks often lie where others are.
fn events() -> impl Strategy<Value = Vec<(usize, u64, u64, u64)>> {
    prop::collection::vec((0..KINDS.len(), 0_u64..40, 1_u64..=8, 0_u64..9), 0..120)
}

proptest! {
    #[test]
    fn what_is_read_is_what_happened(drawn in events()) {
        let mut history = History::new("drawn").clock(Clock::Nanoseconds);
        let mut model = Model {
            pages: [State::Free; PAGES],
            backed: [false; PAGES],
            blocks: Vec::new(),
            time: 0,
            odd_events: 0,
            events: Vec::new(),
            shares: Vec::new(),
            peak_live: (0, 0),
            peak_reserved: (0, 0),
            sizes: read(&history).sizes,
        };
        let mut now = 10_u64;
        for (kind, place, pages, later) in drawn {
            // Now and then the clock goes back.
            now = (now + later).saturating_sub(2);
            let kind = KINDS[kind];
            let event = Event::new(now, kind).at(place * PAGE_BYTES, pages * PAGE_BYTES);
            let is_used = Model::part(&event).any(|page| model.pages[page] != State::Free);
            // Nobody takes memory away from under a block.
            if matches!(kind, Kind::Trim | Kind::Decommit) && is_used {
                continue;
            }
            history.push(event);
            model.push(&event);
        }
        let page = read(&history);
        prop_assert_eq!(&page.events, &model.events);
        prop_assert_eq!(page.odd_events, model.odd_events);
        prop_assert_eq!(history.odd_events(), model.odd_events);
        prop_assert_eq!(history.events(), model.events.len() as u64);
        prop_assert_eq!(history.live_bytes(), model.live_bytes());
        prop_assert_eq!(history.reserved_bytes(), model.reserved_bytes());
        let peak = history.peak_live();
        prop_assert_eq!((peak.bytes, peak.time), model.peak_live);
        let peak = history.peak_reserved();
        prop_assert_eq!((peak.bytes, peak.time), model.peak_reserved);
        prop_assert_eq!(page.events_a_place, 1);
        for (size, places) in page.shares.iter().enumerate() {
            let expected: Vec<_> = model.shares.iter().map(|all| (all[size], all[size])).collect();
            prop_assert_eq!(places, &expected);
        }
    }
}

#[test]
fn everything_else_comes_back_as_it_was() {
    let mut history = History::new("ein Titel").source("from nowhere").clock(Clock::Nanoseconds);
    let (copies, weights) = (history.stream("copies"), history.label("Gewichte ⚖"));
    assert_eq!(history.label(""), pool_report::LabelId::default());
    history.arena("high up", u64::MAX - 4096, 4096);
    let event = Event::new(7, Kind::Allocate).at(u64::MAX - 4096, 256);
    history.push(event.on(copies).under(weights));
    history.mark("a mark");
    let mut other = History::new("another");
    let foreign = (0..9).map(|name| other.stream(&format!("stream {name}"))).last().unwrap();
    history.push(Event::new(8, Kind::Failure).at(0, u64::MAX).on(foreign));
    history.figure(Figure::new(Policy::Reclaim, "trims", 2.5, Unit::Times));
    let page = read(&history);
    assert_eq!((&*page.title, &*page.source, page.clock), ("ein Titel", "from nowhere", 1));
    assert_eq!(page.streams, ["copies"]);
    assert_eq!(page.labels, ["Gewichte ⚖"]);
    assert_eq!(page.arenas, [("high up".to_owned(), u64::MAX - 4096, 4096)]);
    assert_eq!(page.markers, [(1, "a mark".to_owned())]);
    assert_eq!(page.figures, [(2, "trims".to_owned(), 2.5, 4)]);
    let streams: Vec<_> = page.events.iter().map(|event| (event.stream, event.label)).collect();
    assert_eq!(streams, [(1, 1), (1, 1), (0, 0)], "growth, block, failure on a foreign stream");
    assert_eq!(page.events[2].bytes, u64::MAX);
}

#[test]
fn a_long_history_keeps_its_peaks_in_few_places() {
    let mut history = History::new("long");
    history.push(Event::new(0, Kind::Growth).at(0, 8 * PAGE_BYTES));
    for round in 0..20_000 {
        // Once every second page is taken: for a moment all that is free is in single pages.
        let step = if round == 3210 { 2 } else { 8 };
        for page in (0..8).step_by(step) {
            history.push(Event::new(round, Kind::Allocate).at(page * PAGE_BYTES, PAGE_BYTES));
        }
        for page in (0..8).step_by(step) {
            history.push(Event::new(round, Kind::Free).at(page * PAGE_BYTES, 0));
        }
    }
    let page = read(&history);
    let size = page.sizes.iter().position(|size| *size == 4 * PAGE_BYTES).unwrap();
    let places = &page.shares[size];
    assert!(places.len() <= 2048 && places.len() as u64 * page.events_a_place >= history.events());
    assert_eq!(places.iter().map(|place| place.1).max(), Some(1000));
    assert_eq!(places.iter().map(|place| place.0).max(), Some(0), "it lasted less than a place");
    assert_eq!(history.peak_live(), Peak { bytes: 4 * PAGE_BYTES, time: 3210 });
}

#[test]
fn texts_cannot_leave_the_data() {
    let hostile = "</script><script>alert('!')</script><!--<img src=x onerror=alert(1)>&{{data}}\0";
    let mut history = History::new(hostile).source(hostile);
    let (stream, label) = (history.stream(hostile), history.label(hostile));
    history.arena(hostile, 0, 4096);
    history.push(Event::new(0, Kind::Allocate).at(0, 256).on(stream).under(label));
    history.mark(hostile);
    history.figure(Figure::new(Policy::Other, hostile, f64::NAN, Unit::Count));
    let page = html(&history);
    let plain = html(&History::new("plain"));
    for part in ["<script", "</script", "<!--", "<img", "{{", "alert"] {
        let expected = plain.matches(part).count();
        let title = if part == "alert" || part == "{{" { hostile.matches(part).count() } else { 0 };
        assert_eq!(page.matches(part).count(), expected + title, "{part}");
    }
    assert!(page.contains("<title>&lt;/script&gt;&lt;script&gt;alert(&#39;!&#39;)"));
    assert!(!page.contains('\0'));
    let read = read(&history);
    assert_eq!((&*read.title, &*read.source), (hostile, hostile));
    assert_eq!(
        (&*read.streams, &*read.labels),
        (&[hostile.to_owned()][..], &[hostile.to_owned()][..])
    );
}

#[test]
fn the_page_reaches_nothing() {
    let page = html(&History::new("alone"));
    assert!(page.contains("default-src 'none'"));
    for part in [
        "http:",
        "https:",
        "src=",
        "href=",
        "@import",
        "url(",
        "fetch(",
        "XMLHttpRequest",
        "innerHTML",
    ] {
        assert!(!page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
    assert_eq!(page.matches("{{").count(), 0, "every word was put in");
}

#[test]
fn memory_that_nobody_grew_into_makes_few_events() {
    let mut history = History::new("scattered");
    let blocks = 60_000;
    for block in 0..blocks {
        // Each place once, in an order that jumps.
        let address = (block * 7919 % 60_013) * PAGE_BYTES;
        history.push(Event::new(block, Kind::Allocate).at(address, 1000));
    }
    let growths = history.events() - blocks;
    assert!(growths < blocks / 2, "{growths} growths");
    assert_eq!(history.peak_live().bytes, blocks * 1000);
    assert!((blocks * 1000..=60_100 * PAGE_BYTES).contains(&history.reserved_bytes()));
    let page = read(&history);
    let touched = page.events.iter().filter(|event| event.kind == Kind::Growth);
    let reserved: u64 = touched.map(|event| event.reserved_bytes).sum();
    assert_eq!(reserved, history.reserved_bytes());
}
