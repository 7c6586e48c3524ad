//! From one kind of log to the other and back: what is lost, and that nothing else is.

use core::fmt::Write as _;
use std::{fs::File, path::PathBuf};

use pool_mock::{
    Action, Trace,
    log::{
        Conversion, ConvertError, Entry, Format, LogError, Loss, Oddity, Recording, Step, convert,
        rmm::{self, Reader, Row, Writer},
        snapshot::{self, PickleError},
    },
};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::{
    helpers::{HEADER, gzip, with_header},
    memory,
    pickle::{self, STYLES, Style, event, segment, snapshot as value},
};

const CSV: [&str; 8] = [
    "etl_rmm",
    "gnn_train",
    "gpt2_train",
    "llama_finetune",
    "llama_generate",
    "maskrcnn_train",
    "multi_stream",
    "resnet_train",
];

const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/traces").join(name)
}

fn to(format: Format, log: &[u8]) -> (Vec<u8>, Conversion) {
    let mut written = vec![];
    let conversion = convert(log, &mut written, format).expect("a readable log");
    (written, conversion)
}

fn recording(log: &[u8]) -> Recording {
    Recording::read(log).expect("a readable log")
}

fn rows(log: impl std::io::Read) -> Vec<Row> {
    Reader::new(log).expect("a log").map(|row| row.expect("a row")).collect()
}

/// Checks that RMM's own parser takes every line: it knows one header, three actions, pointers in
/// lower-case hexadecimal or `(nil)`, sizes in decimal, and times with six digits behind a dot.
fn check_rows(log: &[u8]) {
    let rows = str::from_utf8(log).unwrap().strip_prefix(HEADER).expect("the newest header");
    let is = |text: &str, digits: &str| {
        !text.is_empty() && text.bytes().all(|byte| digits.as_bytes().contains(&byte))
    };
    let (decimal, hexadecimal) = ("0123456789", "0123456789abcdef");
    let is_address = |text: &str| text.strip_prefix("0x").is_some_and(|text| is(text, hexadecimal));
    assert!(rows.is_empty() || rows.ends_with('\n'));
    for row in rows.lines() {
        let [thread, time, action, pointer, size, stream] =
            row.split(',').collect::<Vec<_>>().try_into().expect("six columns");
        assert!(is(thread, decimal) && is(size, decimal), "{row}");
        let shape: String =
            time.chars().map(|char| if char.is_ascii_digit() { '9' } else { char }).collect();
        assert_eq!(shape, "99:99:99.999999", "{row}");
        match action {
            "allocate" | "free" => assert!(is_address(pointer), "{row}"),
            _ => assert_eq!((action, pointer), ("allocate failure", "(nil)"), "{row}"),
        }
        assert!(stream == "0" || is_address(stream), "{row}");
    }
}

#[test]
fn every_log_of_the_repository_comes_back_as_it_was_but_for_its_threads() {
    for name in CSV {
        let file = File::open(path(&format!("{name}.csv.gz"))).unwrap();
        let mut snapshot = vec![];
        let sent = convert(file, &mut snapshot, Format::Snapshot).unwrap();
        let (back, returned) = to(Format::Rmm, &snapshot);

        // One of them has threads.
        let threads = if name == "etl_rmm" { vec![Loss::Threads(4)] } else { vec![] };
        assert_eq!(sent.lost, threads, "{name}");
        assert_eq!(sent.entries, returned.entries);
        let completions = returned.lost.iter().find_map(|loss| match loss {
            Loss::Completions(count) => Some(*count),
            _ => None,
        });
        let original = rows(File::open(path(&format!("{name}.csv.gz"))).unwrap());
        let freed = original.iter().filter(|row| row.action == rmm::Action::Free).count();
        assert_eq!(completions, Some(freed as u64), "what the snapshot says more than the log");

        check_rows(&back);
        let back = rows(&back[..]);
        assert_eq!(back.len(), original.len());
        for (row, before) in back.iter().zip(original) {
            assert_eq!(*row, Row { thread: 0, ..before }, "{name}");
        }
    }
}

#[test]
fn the_snapshot_of_the_repository_comes_back_but_for_dates_and_segments() {
    let file = || File::open(path("multi_stream.snapshot.pickle.gz")).unwrap();
    let before = Recording::read(file()).unwrap();
    let mut log = vec![];
    let conversion = convert(file(), &mut log, Format::Rmm).unwrap();
    assert_eq!(
        conversion.lost,
        [
            Loss::Completions(920),
            Loss::Segments(56),
            Loss::SegmentEvents(53),
            Loss::LiveAtStart(3),
            Loss::Dates
        ]
    );
    let (snapshot, lost) = to(Format::Snapshot, &log);
    assert_eq!(lost.lost, []);
    let after = recording(&snapshot);
    assert_eq!((before.trace().live_at_start(), after.trace().live_at_start()), (3, 0));
    assert_eq!(after.trace().operations, before.trace().operations);
    assert_eq!(after.trace().streams(), before.trace().streams());
    for (after, before) in after.entries().zip(before.entries()) {
        let time_us = before.time_us.map(|time_us| time_us % DAY_US);
        assert_eq!(after, Entry { time_us, ..before });
    }
}

#[test]
fn from_a_kind_to_itself_nothing_is_lost() {
    // A log of several devices keeps one, or their pointers would mix.
    let old = "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,\
               Current Allocs,Start,End,Elapsed,Location\n\
               Alloc,1,0x100,0,5,0,0,0,0.000001,0.000002,0.000001,a.cpp:1\n\
               Alloc,0,0x100,0,6,0,0,0,0.000003,0.000004,0.000001,a.cpp:2\n\
               Realloc,1,0x200,2,7,0,0,0,0.000005,0.000006,0.000001,a.cpp:3\n";
    let (new, conversion) = to(Format::Rmm, old.as_bytes());
    assert_eq!(
        conversion.lost,
        [Loss::OtherDevices(1), Loss::Reallocations(1), Loss::Columns(7)],
        "{conversion:?}"
    );
    let expected = format!(
        "{HEADER}0,00:00:00.000001,allocate,0x100,5,0\n\
         0,00:00:00.000005,allocate,0x200,7,0x2\n"
    );
    assert_eq!(str::from_utf8(&new).unwrap(), expected);
    let (again, conversion) = to(Format::Rmm, &new);
    assert_eq!((&again, &conversion.lost), (&new, &vec![]));

    let events = vec![event("alloc", 0x100, 10, 1 << 40), event("oom", 0, 300, 2)];
    let value = value(vec![segment(1, &[(0x100, 10, "active_allocated")])], vec![events]);
    let newest = pickle::write(&value, 5, Style::Python);
    let (viewable, conversion) = to(Format::Snapshot, &newest);
    assert_eq!((conversion.entries, &conversion.lost), (2, &vec![]));
    assert_eq!(viewable[..2], [0x80, 4]);
    let entries = |log| recording(log).entries().map(|entry| format!("{entry:?}")).collect();
    let (before, after): (Vec<_>, Vec<_>) = (entries(&newest), entries(&viewable));
    assert_eq!(before, after);
    let (again, _) = to(Format::Snapshot, &gzip(&viewable));
    assert_eq!(again, viewable);
}

#[test]
fn p097_opcodes_that_the_viewers_lack_are_refused_or_written_otherwise() {
    let with = |opcodes: &[u8]| {
        let mut bytes = b"\x80\x05}(\x8c\x08segments]\x8c\x01x".to_vec();
        bytes.extend_from_slice(opcodes);
        bytes.extend_from_slice(b"u.");
        bytes
    };
    let recoded = |opcodes: &[u8]| {
        let mut written = vec![];
        convert(&with(opcodes)[..], &mut written, Format::Snapshot).map(|_| written)
    };
    let written: [(&[u8], &[u8]); 4] = [
        (b"\x8b\x02\0\0\0\x01\x02", b"\x8a\x02\x01\x02"),
        (b"\x8d\x02\0\0\0\0\0\0\0hi", b"X\x02\0\0\0hi"),
        (b"\x95\x02\0\0\0\0\0\0\0K\x01", b"K\x01"),
        (b"\x8a\0", b"\x8a\0"),
    ];
    for (before, after) in written {
        let bytes = recoded(before).unwrap();
        assert!(bytes.ends_with(&[after, b"u."].concat()), "{bytes:?}");
    }
    let refused: [(&[u8], &str); 4] = [
        (b"C\x01x", "SHORT_BINBYTES"),
        (b"\x8f", "EMPTY_SET"),
        (b"K\x012", "DUP"),
        (b"\x8b\0\x01\0\0", "LONG4"),
    ];
    for (opcodes, name) in refused {
        let result = recoded(opcodes);
        let Err(ConvertError::Log(LogError::Pickle { offset, source, .. })) = result else {
            panic!("{result:?}");
        };
        assert_eq!(source, PickleError::Unsupported { opcode: name });
        let place = with(opcodes).len() - 2 - opcodes.len();
        assert_eq!(offset, place as u64 + if name == "DUP" { 2 } else { 0 });
    }
}

#[test]
fn a_writer_that_fails_is_told_from_a_log_that_does() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            match self.0.checked_sub(bytes.len()) {
                Some(left) => {
                    self.0 = left;
                    Ok(bytes.len())
                }
                None => Err(std::io::ErrorKind::StorageFull.into()),
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let rows = format!("{HEADER}1,10:00:00.000001,allocate,0x100,5,0\n");
    let events = value(vec![], vec![vec![event("alloc", 0x100, 5, 0)]]);
    let pickle = pickle::write(&events, 4, Style::Python);
    for log in [rows.as_bytes(), &pickle] {
        for format in [Format::Rmm, Format::Snapshot] {
            let (whole, _) = to(format, log);
            for room in 0..whole.len() {
                let result = convert(log, Full(room), format);
                assert!(matches!(result, Err(ConvertError::Write(_))), "{result:?}");
            }
            convert(log, Full(whole.len()), format).unwrap();
        }
    }
}

#[test]
fn the_clock_of_a_log_without_dates_goes_on_over_midnight() {
    let rows = "1,23:59:59.000000,allocate,0x100,5,0\n\
                1,00:00:01.000000,allocate,0x200,5,0\n\
                1,00:00:00.500000,free,0x100,5,0\n\
                1,00:00:00.000000,free,0x200,5,0\n";
    let log = format!("{HEADER}{rows}");
    let (snapshot, conversion) = to(Format::Snapshot, log.as_bytes());
    assert_eq!(conversion.report.count(Oddity::MidnightWrap), 1);
    let times: Vec<_> = recording(&snapshot).entries().map(|entry| entry.time_us).collect();
    let second = 1_000_000;
    assert_eq!(
        times,
        [DAY_US - second, DAY_US + second, DAY_US + second / 2, DAY_US].map(Some),
        "a day more, whatever the clock does then"
    );
    let (back, _) = to(Format::Rmm, &snapshot);
    assert_eq!(str::from_utf8(&back).unwrap(), log.replace("\n1,", "\n0,"));
}

#[test]
fn what_has_no_time_gets_that_of_the_entry_before() {
    let log = "Time,Action,Pointer,Size,Stream\n\
               noon,allocate,0x100,5,0\n\
               10:00:00.000001,free,0x100,5,0\n\
               ,allocate failure,(nil),7,0\n";
    let (snapshot, conversion) = to(Format::Snapshot, log.as_bytes());
    assert_eq!(conversion.lost, [Loss::UnreadableTimes(1)]);
    let times: Vec<_> = recording(&snapshot).entries().map(|entry| entry.time_us).collect();
    assert_eq!(times, [None, Some(36_000_000_001), None]);
    let (back, conversion) = to(Format::Rmm, &snapshot);
    assert!(conversion.lost.contains(&Loss::DeviceFree(1)));
    let expected = format!(
        "{HEADER}0,00:00:00.000000,allocate,0x100,5,0\n\
         0,10:00:00.000001,free,0x100,5,0\n\
         0,10:00:00.000001,allocate failure,(nil),7,0\n"
    );
    assert_eq!(str::from_utf8(&back).unwrap(), expected);
}

#[test]
fn lines_in_the_wrong_order_are_right_in_the_snapshot() {
    // The allocation comes after its free, by its time before it.
    let trace = with_header(
        "1,10:00:00.000002,free,0x100,5,0\n\
         2,10:00:00.000001,allocate,0x100,5,3\n",
    );
    assert_eq!(trace.report().count(Oddity::LateAllocation), 1);
    let log = format!(
        "{HEADER}1,10:00:00.000002,free,0x100,5,0\n\
         2,10:00:00.000001,allocate,0x100,5,3\n"
    );
    let entries: Vec<_> = recording(log.as_bytes())
        .entries()
        .map(|entry| (entry.step, entry.thread, entry.stream, entry.time_us.unwrap() % 10))
        .collect();
    let (address, size_bytes) = (0x100, 5);
    assert_eq!(
        entries,
        [
            (Step::Allocate { address, size_bytes }, 2, 3, 1),
            (Step::Free { address, size_bytes }, 1, 0, 2)
        ]
    );
}

#[test]
fn a_free_of_an_unknown_pointer_is_a_block_of_before_in_a_snapshot() {
    let log = format!("{HEADER}1,10:00:00.000001,free,0x100,5,2\n");
    let (snapshot, conversion) = to(Format::Snapshot, log.as_bytes());
    assert_eq!(conversion.lost, [Loss::UnknownFrees(1), Loss::Threads(1)]);
    assert_eq!(conversion.report.count(Oddity::UnknownFree), 1);
    let trace = Trace::read(&snapshot[..]).unwrap();
    assert_eq!((trace.live_at_start(), trace.peak_live_bytes(1)), (1, 5));
}

#[test]
fn p121_a_log_of_any_size_is_copied_in_constant_memory() {
    let count: u32 = 20_000;
    let mut log = HEADER.to_owned();
    for number in 1..=count {
        writeln!(log, "1,10:00:00.000001,allocate,{number:#x}00,64,0").unwrap();
    }
    let (conversion, peak_bytes) = memory::peak_bytes(|| {
        convert(log.as_bytes(), std::io::sink(), Format::Rmm).expect("a log")
    });
    assert_eq!(conversion.entries, u64::from(count));
    assert!(peak_bytes < 64 << 10, "{peak_bytes}");
    let (_, peak_bytes) = memory::peak_bytes(|| {
        convert(log.as_bytes(), std::io::sink(), Format::Snapshot).expect("a log")
    });
    let per_entry = peak_bytes / count as usize;
    println!("{per_entry} bytes an entry that is never freed");
    assert!(per_entry <= 200, "{per_entry}");
}

/// An entry, and for a free which one of those before it frees, if any.
fn any_entry(wide: bool) -> impl Strategy<Value = (Entry<'static>, prop::sample::Index)> {
    let address = if wide { any::<u64>().boxed() } else { (1..6_u64).boxed() };
    let size = if wide { any::<u64>().boxed() } else { (0..5_000_u64).boxed() };
    let stream = select(&[0, 1, 300, u64::MAX][..]);
    let time_us = prop_oneof![0..40_u64, 0..DAY_US];
    let which = any::<prop::sample::Index>();
    (0..8_u8, address, size, stream, time_us, any::<u64>(), which).prop_map(
        |(what, address, size_bytes, stream, time_us, thread, which)| {
            let step = match what {
                0 => Step::Failure { size_bytes, device_free_bytes: None },
                1..=4 => Step::Allocate { address, size_bytes },
                _ => Step::Free { address, size_bytes },
            };
            (Entry { step, stream, thread, time_us: Some(time_us), label: None }, which)
        },
    )
}

/// Any entries, as a CSV log.
fn any_log() -> impl Strategy<Value = Vec<u8>> {
    let entries = any::<bool>().prop_flat_map(|wide| vec(any_entry(wide), 0..120));
    entries.prop_map(|entries| {
        let mut writer = Writer::new(vec![]).unwrap();
        let mut given = vec![];
        for (mut entry, which) in entries {
            match &mut entry.step {
                Step::Allocate { address, .. } => given.push(*address),
                // Most frees are of something.
                Step::Free { address, .. } if !given.is_empty() => {
                    *address = given[which.index(given.len())];
                }
                _ => {}
            }
            writer.write(&Row::from(entry)).unwrap();
        }
        writer.into_inner()
    })
}

/// Its entries without what a snapshot has no place for: threads, and the frees that are of blocks
/// of before there.
fn essence(recording: &Recording) -> Vec<Entry<'_>> {
    let trace = recording.trace();
    let is_of_before = |action| match action {
        Action::Allocate { block, .. } | Action::Free { block } => block.0 < trace.live_at_start(),
        Action::UnknownFree => true,
        Action::Failure { .. } => false,
    };
    let entries = recording.entries().zip(&trace.operations);
    let entries = entries.filter(|(_, operation)| !is_of_before(operation.action));
    let without = |step| match step {
        Step::Failure { size_bytes, .. } => Step::Failure { size_bytes, device_free_bytes: None },
        step => step,
    };
    // Where frees are unknown, it cannot be told once more which of two is.
    let is_sure = |step| trace.unknown_frees() == 0 || !matches!(step, Step::Free { .. });
    let entries = entries.filter(|(entry, _)| is_sure(entry.step));
    let entries = entries.map(|(entry, _)| Entry { thread: 0, step: without(entry.step), ..entry });
    entries.collect()
}

proptest! {
    #[test]
    fn any_log_through_a_snapshot_keeps_all_but_its_threads(log in any_log()) {
        let before = recording(&log);
        let (snapshot, conversion) = to(Format::Snapshot, &log);
        let after = recording(&snapshot);
        let (kept, expected) = (essence(&after), essence(&before));
        for (kept, expected) in kept.iter().zip(&expected) {
            prop_assert_eq!(kept, expected);
        }
        prop_assert_eq!(kept.len(), expected.len());
        let unknown = before.trace().operations.iter();
        let unknown = unknown.filter(|operation| operation.action == Action::UnknownFree).count();
        let lost = conversion.lost.iter().any(|loss| matches!(loss, Loss::UnknownFrees(_)));
        prop_assert_eq!(lost, unknown > 0);
        if unknown == 0 {
            prop_assert_eq!(&after.trace().operations.len(), &before.trace().operations.len());
            // Once in order, it stays as it is, but for the days: a line may be gone that was
            // on the next one.
            let (back, _) = to(Format::Rmm, &snapshot);
            let again = recording(&back);
            for (again, entry) in again.entries().zip(after.entries()) {
                let time_us = |entry: Entry<'_>| entry.time_us.map(|time_us| time_us % DAY_US);
                prop_assert_eq!(again.stream, entry.stream);
                prop_assert_eq!(time_us(again), time_us(entry));
            }
            prop_assert_eq!(&again.trace().operations, &after.trace().operations);
        }
        crate::viewers::check_snapshot(&to(Format::Snapshot, &log).0);
    }

    #[test]
    fn any_snapshot_through_a_log_keeps_its_operations(
        steps in vec((0..8_u8, 0..8_u64, 1..=u64::MAX, select(&[0, 1, u64::MAX][..])), 0..60),
        protocol in 2..=5_u8,
        style in select(&STYLES[..]),
    ) {
        let actions = ["alloc", "alloc", "alloc", "free_requested", "free_requested",
            "free_completed", "oom", "segment_map"];
        let events = steps.iter().map(|&(what, place, size_bytes, stream)| {
            event(actions[usize::from(what)], (place + 1) << 40, size_bytes, stream)
        });
        let segments = vec![segment(7, &[(1 << 50, 100, "active_allocated")])];
        let bytes = pickle::write(&value(segments, vec![events.collect()]), protocol, style);
        let before = recording(&bytes);
        let (log, _) = to(Format::Rmm, &bytes);
        check_rows(&log);
        let after = recording(&log);
        // In another order of streams: a log knows from the start which its first blocks are of.
        let actions = |recording: &Recording| -> Vec<_> {
            recording.trace().operations.iter().map(|operation| operation.action).collect()
        };
        prop_assert_eq!(actions(&after), actions(&before));
        for (after, before) in after.entries().zip(before.entries()) {
            let time_us = before.time_us.map(|time_us| time_us % DAY_US);
            // What has none at all is of midnight.
            let time_us = time_us.or(Some(0));
            let step = match before.step {
                Step::Failure { size_bytes, .. } => {
                    Step::Failure { size_bytes, device_free_bytes: None }
                }
                step => step,
            };
            prop_assert_eq!(after, Entry { step, time_us, label: None, ..before });
        }
        let (copy, conversion) = to(Format::Snapshot, &bytes);
        prop_assert_eq!(conversion.lost, vec![]);
        prop_assert_eq!(recording(&copy).trace().operations.len(), before.trace().operations.len());
    }

    #[test]
    fn the_writer_takes_any_entries(entries in vec(any_entry(true), 0..60)) {
        let mut writer = snapshot::Writer::new(vec![]).unwrap();
        for (entry, _) in &entries {
            writer.write(entry).unwrap();
        }
        let bytes = writer.finish().unwrap();
        crate::viewers::check_snapshot(&bytes);
        prop_assert!(Trace::read(&bytes[..]).is_ok());
    }
}
