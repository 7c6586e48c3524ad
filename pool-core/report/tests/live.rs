//! The report of a pool at work says what the pool's books say.

mod support;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use pool_core::record::{Clock, RecordConfig, Since, What};
use pool_core::{Device, Pool, PoolConfig, PoolStats, threads::Threads};
use pool_mock::device::{Pacing, SimConfig, SimDevice};
use pool_mock::program::{self, HEADER_BYTES, RECORD_BYTES, Tally};
use pool_report::live::{Collector, Source};
use pool_report::{History, Kind};
use proptest::array::uniform;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use support::{Page, read};

const MIB: u64 = 1 << 20;

/// A clock that goes a microsecond on each time that it is read.
fn ticking() -> RecordConfig {
    let ticks = Arc::new(AtomicU64::new(0));
    RecordConfig::new(Clock::new(move || {
        Duration::from_micros(1 + ticks.fetch_add(1, Ordering::Relaxed))
    }))
}

fn small(config: PoolConfig) -> PoolConfig {
    config.initial_bytes(8 * MIB).limit_bytes(16 * MIB)
}

fn recording() -> Pool<SimDevice> {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    let pool = Pool::new(device, small(PoolConfig::new())).unwrap();
    pool.start_recording(&ticking()).unwrap();
    pool
}

fn page(history: &History) -> Page {
    let mut out = Vec::new();
    pool_report::write(history, &mut out).unwrap();
    read(&out)
}

/// What a page comes to, added up event by event from what is in its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Books {
    live: u64,
    deferred: u64,
    reserved: u64,
}

/// At the end, and the most of each at any time.
fn books_of(page: &Page) -> (Books, Books) {
    let (mut now, mut peak) = (Books::default(), Books::default());
    // Sizes, and whether it waits, by where a block begins.
    let mut blocks: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
    for event in &page.events {
        match event.kind {
            Kind::Allocate => {
                let before = blocks.insert(event.address, (event.bytes, false));
                assert_eq!(before, None);
                now.live += event.bytes;
            }
            Kind::Free => now.live -= blocks.remove(&event.address).unwrap().0,
            Kind::FreeAsked => {
                let block = blocks.get_mut(&event.address).unwrap();
                block.1 = true;
                now.live -= block.0;
                now.deferred += block.0;
            }
            Kind::FreeDone => {
                let (bytes, waits) = blocks.remove(&event.address).unwrap();
                assert!(waits);
                now.deferred -= bytes;
            }
            Kind::Growth | Kind::Commit => now.reserved += event.reserved_bytes,
            Kind::Trim | Kind::Decommit => now.reserved -= event.reserved_bytes,
            _ => {}
        }
        peak.live = peak.live.max(now.live);
        peak.deferred = peak.deferred.max(now.deferred);
        peak.reserved = peak.reserved.max(now.reserved);
    }
    (now, peak)
}

/// What the pool's books said after each step: the most of each.
fn raise(peak: &mut Books, stats: &PoolStats) {
    peak.live = peak.live.max(stats.live_bytes);
    peak.deferred = peak.deferred.max(stats.deferred_bytes);
    peak.reserved = peak.reserved.max(stats.peak_reserved_bytes);
}

/// Compares a page of all that a pool has noted with the pool.
fn compare<D: Device, T: Threads>(
    pool: &Pool<D, T>,
    collector: &mut Collector,
    seen: &Books,
    is_paged: bool,
) -> Result<(), TestCaseError> {
    let stats = pool.stats();
    let history = collector.history(pool, "a program");
    prop_assert_eq!(history.odd_events(), 0);
    let (now, peak) = books_of(&page(&history));
    prop_assert_eq!(history.live_bytes(), stats.live_bytes);
    prop_assert_eq!((now.live, now.deferred), (stats.live_bytes, stats.deferred_bytes));
    prop_assert_eq!(history.peak_live().bytes, peak.live);
    prop_assert!(peak.live >= seen.live && peak.deferred >= seen.deferred);
    // Who comes late undoes what happened, and has the same.
    let late = Collector::new(pool).history(pool, "late");
    let (late_now, late_peak) = books_of(&page(&late));
    prop_assert_eq!(late_now, now);
    // A block that was taken for a request which a failed call then ended is freed without ever having
    // been given out: who comes late takes it for one from before.
    let events = pool.events(&mut Since::start()).all;
    if !events.iter().any(|event| matches!(event.what, What::CallFailed(_))) {
        prop_assert_eq!(late_peak, peak);
    }
    let memory: u64 = pool.inventory().memory.iter().map(|(_, bytes)| bytes).sum();
    prop_assert_eq!(now.reserved, memory);
    if is_paged {
        // What is behind no addresses is not on the page.
        prop_assert!(peak.reserved <= seen.reserved);
    } else {
        prop_assert_eq!((now.reserved, peak.reserved), (stats.reserved_bytes, seen.reserved));
    }
    Ok(())
}

/// Random programs, under collectors that keep all, little, and nothing between two looks.
#[test]
fn the_page_of_any_program_agrees_with_the_books() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 250,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let records = vec(uniform::<_, RECORD_BYTES>(any::<u8>()), 1..80);
    let programs = (uniform::<_, HEADER_BYTES>(any::<u8>()), records);
    let sum = Mutex::new((Tally::default(), 0));
    let outcome = runner.run(&programs, |(mut header, records)| {
        header[HEADER_BYTES - 3] = 0;
        let mut bytes = header.to_vec();
        bytes.extend(records.concat());
        let program = program::decode(&bytes);
        let is_paged = program.shape.pages.is_some();
        let (mut whole, mut short) = (None, None);
        let (mut seen, mut steps, mut outcome) = (Books::default(), 0, Ok(()));
        let tally = program::check_watched(&program, |pool| {
            raise(&mut seen, &pool.stats());
            let whole = whole.get_or_insert_with(|| Collector::new(pool));
            let short = short.get_or_insert_with(|| Collector::new(pool).most_events(7));
            short.collect(pool);
            steps += 1;
            if outcome.is_ok() && (steps % 16 == 0 || steps == program.operations.len()) {
                outcome = compare(pool, whole, &seen, is_paged).and_then(|()| {
                    let stats = pool.stats();
                    let history = short.history(pool, "the end of it");
                    let (now, _) = books_of(&page(&history));
                    prop_assert_eq!(history.odd_events(), 0);
                    prop_assert_eq!(now.live, stats.live_bytes);
                    prop_assert_eq!(now.deferred, stats.deferred_bytes);
                    Ok(())
                });
            }
        });
        let tally = tally.map_err(|finding| TestCaseError::fail(finding.to_string()))?;
        let mut sum = sum.lock().unwrap();
        sum.0.add(&tally);
        sum.1 += u32::from(is_paged);
        outcome
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let (sum, paged) = sum.into_inner().unwrap();
    assert!(sum.served > 300 && sum.refused > 50 && sum.growths > 10 && sum.steals > 0, "{sum:?}");
    assert!(sum.released_bytes > 0 && paged > 20, "{sum:?}, {paged} in pages");
}

#[test]
fn what_was_there_before_is_on_the_page() {
    let device = SimDevice::new(SimConfig::new());
    let pool = Pool::new(device, small(PoolConfig::new())).unwrap();
    let blocks: Vec<_> = [256, 5000, MIB, 3 * MIB].map(|size| pool.allocate(size).unwrap()).into();
    // Such as are in a thread's cache, or wait, are the program's no more.
    pool.free(pool.allocate(256).unwrap().handle()).unwrap();
    pool.start_recording(&ticking()).unwrap();
    let stats = pool.stats();
    let mut late = Collector::new(&pool);
    pool.free(blocks[1].handle()).unwrap();
    let labelled = {
        let _label = pool.label("late");
        pool.allocate(2 * MIB).unwrap()
    };
    let (begun, _) = books_of(&page(&late.history(&pool, "late")));
    let live_bytes = pool.stats().live_bytes;
    assert_eq!((begun.live, begun.reserved), (live_bytes, stats.reserved_bytes));
    // Who comes later still has the same, undone event by event, with its label.
    let mut later = Collector::new(&pool);
    assert_eq!(
        page(&later.history(&pool, "late")).events,
        page(&late.history(&pool, "late")).events
    );
    let inventory = pool.inventory();
    let found = inventory.blocks.iter().find(|live| live.block == labelled).unwrap();
    assert_eq!(pool.label_path(found.label).as_deref(), Some("late"));
}

#[test]
fn after_a_loss_it_begins_anew() {
    let pool = recording_with(16);
    let kept = pool.allocate(MIB).unwrap();
    let mut collector = Collector::new(&pool);
    for _ in 0..100 {
        pool.free(pool.allocate(2 * MIB).unwrap().handle()).unwrap();
        pool.device().run_all();
    }
    pool.free(kept.handle()).unwrap();
    let held = pool.allocate(3 * MIB).unwrap();
    let history = collector.history(&pool, "a loss");
    let stats = pool.stats();
    let (now, _) = books_of(&page(&history));
    assert_eq!((now.live, now.reserved), (held.size_bytes(), stats.reserved_bytes));
    assert_eq!(history.odd_events(), 0);
    let page = page(&history);
    assert!(page.source.contains("overwritten"), "{}", page.source);
}

fn recording_with(events: u32) -> Pool<SimDevice> {
    let pool = Pool::new(SimDevice::new(SimConfig::new()), small(PoolConfig::new())).unwrap();
    pool.start_recording(&ticking().events(events)).unwrap();
    pool
}

/// Names are data on the page, whatever they are.
#[test]
fn hostile_labels_stay_data() {
    let hostile = [
        "</script><script>alert(1)</script>",
        "{{data}}",
        "\0\u{202e}\u{2028}'\"&amp;",
        "",
        "a/b",
        "<img src=x onerror=alert(1)>",
    ];
    let pool = recording();
    for name in hostile {
        let _label = pool.label(name);
        pool.allocate(4096).unwrap();
    }
    let mut out = Vec::new();
    pool.report("</title><script>", &mut out).unwrap();
    let page = read(&out);
    let expected: Vec<&str> = hostile.into_iter().filter(|name| !name.is_empty()).collect();
    assert_eq!(page.labels, expected);
    let text = String::from_utf8(out).unwrap();
    for word in ["alert(1)", "onerror", "</title><script>", "{{"] {
        assert!(!text.contains(word), "{word} is on the page");
    }
}

#[test]
fn a_refusal_is_marked() {
    let pool = recording();
    let stream = pool.create_stream().unwrap();
    let block = pool.allocate_on(stream, 4 * MIB).unwrap();
    assert!(pool.allocate_on(stream, 32 * MIB).is_err());
    pool.free_on(stream, block.handle()).unwrap();
    let history = Collector::new(&pool).history(&pool, "a refusal");
    assert_eq!(history.failures(), 1);
    let page = page(&history);
    let failure = page.events.iter().find(|event| event.kind == Kind::Failure).unwrap();
    assert_eq!(failure.bytes, 32 * MIB);
    assert!(page.streams.iter().any(|name| name.starts_with("stream ")) && failure.stream > 0);
    assert!(page.figures.iter().any(|figure| figure.1 == "refused" && figure.2 > 0.5));
}

/// From where the pool asks for help: with no lock held, or this would wait for ever.
#[test]
fn a_page_is_written_while_a_request_is_refused() {
    type Shared = Arc<(OnceLock<Weak<Pool<SimDevice>>>, Mutex<Vec<Vec<u8>>>)>;
    let shared: Shared = Arc::default();
    let of_callback = shared.clone();
    let config = small(PoolConfig::new()).on_shortage(move |shortage| {
        let pool = of_callback.0.get().and_then(Weak::upgrade).unwrap();
        let mut out = Vec::new();
        pool.report_shortage("short", shortage, &mut out).unwrap();
        // Nobody else is kept from the pool meanwhile.
        std::thread::scope(|scope| {
            let other = || pool.free(pool.allocate(4096).unwrap().handle()).unwrap();
            scope.spawn(other).join().unwrap();
        });
        of_callback.1.lock().unwrap().push(out);
        false
    });
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    let pool = Arc::new(Pool::new(device, config).unwrap());
    shared.0.set(Arc::downgrade(&pool)).unwrap();
    pool.start_recording(&ticking()).unwrap();
    let _label = pool.label("layer 3");
    let held = pool.allocate(6 * MIB).unwrap();
    let error = pool.allocate(12 * MIB).unwrap_err().to_string();
    let pages = shared.1.lock().unwrap();
    let [out] = &pages[..] else { panic!("{} pages", pages.len()) };
    let page = read(out);
    let (now, _) = books_of(&page);
    assert_eq!(now.live, held.size_bytes());
    let last = page.events.last().unwrap();
    assert_eq!((last.kind, last.bytes), (Kind::Failure, 12 * MIB));
    let (at, text) = page.markers.last().unwrap();
    assert_eq!(*at, page.events.len() as u64 - 1);
    assert!(text.starts_with("to do: ") && error.ends_with(text.as_str()), "{text}\n{error}");
}

#[test]
fn what_cannot_be_written_is_an_error() {
    struct Full;
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let error = recording().report("full", Full).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
