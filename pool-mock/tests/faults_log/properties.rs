//! Properties of the readers, on random input.

use pool_mock::{
    Action, Operation, StreamId, ThreadId, Trace,
    log::{
        Format, Oddity, convert,
        rmm::{self, Reader, Row, Writer},
    },
};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::{
    helpers::{HEADER, allocate, check_order, free, gzip},
    pickle::{self, STYLES, Style, event, snapshot},
};

/// Reads `bytes` as they are and gzipped, and converts them: nothing panics, what can be read
/// is in order, both are the same, and what is written can be read.
fn read_anything(bytes: &[u8]) -> Result<(), TestCaseError> {
    let plain = Trace::read(bytes);
    let zipped = Trace::read(&gzip(bytes)[..]);
    if let Ok(trace) = &plain {
        check_order(trace);
        // Gzip in gzip is not undone twice.
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            prop_assert_eq!(&trace.operations, &zipped.expect("the same log").operations);
        }
    }
    for format in [Format::Rmm, Format::Snapshot] {
        let mut written = vec![];
        if convert(bytes, &mut written, format).is_ok() {
            prop_assert!(plain.is_ok() && Trace::read(&written[..]).is_ok());
        }
    }
    Ok(())
}

/// Pieces of pickles, which make deeper programs than random bytes do.
fn opcodes() -> impl Strategy<Value = &'static [u8]> {
    let pieces: &[&[u8]] = &[
        b"(",
        b"}",
        b"]",
        b")",
        b"a",
        b"e",
        b"s",
        b"u",
        b"t",
        b"d",
        b"l",
        b"0",
        b"1",
        b"2",
        b".",
        b"\x85",
        b"\x86",
        b"\x87",
        b"\x94",
        b"q\0",
        b"h\0",
        b"q\x02",
        b"h\x02",
        b"h\x01",
        b"K\x01",
        b"M\0\x02",
        b"J\xff\xff\xff\xff",
        b"\x8a\x01\x7f",
        b"N",
        b"\x88",
        b"G01234567",
        b"\x8c\x08segments",
        b"\x8c\x0ddevice_traces",
        b"\x8c\x06blocks",
        b"\x8c\x06action",
        b"\x8c\x04addr",
        b"\x8c\x04size",
        b"\x8c\x05alloc",
        b"\x8c\x0efree_requested",
        b"\x8c\x06stream",
        b"\x8c\x06device",
        b"\x8c\x05state",
        b"\x8c\x10active_allocated",
        // Whole pieces of a snapshot.
        b"}(\x8c\x0ddevice_traces](](",
        b"}(\x8c\x08segments](}(\x8c\x06blocks](",
        b"}(\x8c\x06action\x8c\x05alloc\x8c\x04sizeK\x07\x8c\x04addrK\x01u",
        b"ees.",
        b"eues.",
    ];
    select(pieces)
}

/// Rows of few pointers and close times, so that they meet.
fn rows() -> impl Strategy<Value = Vec<(bool, u64, u64, u64, u64)>> {
    vec((any::<bool>(), 1..6_u64, 1..4_u64, 0..40_u64, 0..3_u64), 0..200)
}

fn any_row() -> impl Strategy<Value = Row> {
    let action = select(&[rmm::Action::Allocate, rmm::Action::Free, rmm::Action::Failure][..]);
    let time_us = 0..86_400_000_000_u64;
    (any::<u64>(), time_us, action, any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(thread, time_us, action, pointer, size_bytes, stream)| Row {
            line: 0,
            thread,
            time_us: Some(time_us),
            action,
            pointer,
            size_bytes,
            stream: stream % 3 * (stream >> 2),
            device: None,
        },
    )
}

/// A random history of eight addresses, and the operations that it stands for.
fn history(steps: &[(u8, u64, u64)]) -> (Vec<pickle::Value>, Vec<Operation>) {
    let (mut events, mut operations) = (vec![], vec![]);
    let mut live = [None; 8];
    let mut streams = vec![];
    let mut blocks = 0;
    for &(what, size_bytes, stream) in steps {
        let place = usize::from(what % 8);
        let address = (1 << 47) + (place as u64) * (1 << 40);
        let number = streams.iter().position(|known| *known == stream).unwrap_or_else(|| {
            streams.push(stream);
            streams.len() - 1
        });
        let number = u32::try_from(number).expect("few streams");
        if what % 32 >= 24 {
            events.push(event("oom", 0, size_bytes, stream));
            let action = Action::Failure { size_bytes };
            operations.push(Operation { thread: ThreadId(0), stream: StreamId(number), action });
        } else if let Some(block) = live[place].take() {
            events.push(event("free_requested", address, size_bytes, stream));
            events.push(event("free_completed", address, size_bytes, stream));
            operations.push(free(0, number, block));
        } else {
            events.push(event("segment_alloc", address, size_bytes, stream));
            events.push(event("alloc", address, size_bytes, stream));
            operations.push(allocate(0, number, blocks, size_bytes));
            live[place] = Some(blocks);
            blocks += 1;
        }
    }
    (events, operations)
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..600)) {
        for start in ["", "\u{1f}\u{0}", "Action,Pointer,Size,Stream\n", HEADER] {
            read_anything(&[start.as_bytes(), &bytes].concat())?;
        }
        for protocol in 2..=5 {
            read_anything(&[&[0x80, protocol][..], &bytes].concat())?;
        }
        // Gzip that is none after its first bytes.
        read_anything(&[&[0x1f, 0x8b, 8, 0][..], &bytes].concat())?;
    }

    #[test]
    fn random_opcodes_never_panic(pieces in vec(opcodes(), 0..60)) {
        read_anything(&[&[0x80, 4][..], &pieces.concat()].concat())?;
        let inside = b"\x80\x04}(\x8c\x0ddevice_traces](](";
        read_anything(&[&inside[..], &pieces.concat(), b"ees."].concat())?;
    }

    #[test]
    fn damaged_snapshots_never_panic(
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        protocol in 2..=5_u8,
        style in select(&STYLES[..]),
    ) {
        let events = (0..6).map(|number| event("alloc", number << 9, 100, number % 2)).collect();
        let mut bytes = pickle::write(&snapshot(vec![], vec![events]), protocol, style);
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        read_anything(&bytes)?;
    }

    #[test]
    fn every_pointer_has_at_most_one_live_block(rows in rows()) {
        let mut log = HEADER.as_bytes().to_vec();
        let (mut allocations, mut frees) = (0, 0);
        for (is_free, pointer, size_bytes, time, thread) in rows {
            let action = if is_free { "free" } else { "allocate" };
            let row = format!(
                "{thread},10:00:00.0000{time:02},{action},{pointer:#x},{size_bytes},0\n"
            );
            log.extend_from_slice(row.as_bytes());
            allocations += u32::from(!is_free);
            frees += u64::from(is_free);
        }
        let trace = Trace::read(&log[..]).unwrap();
        let peak = check_order(&trace);
        prop_assert!(peak <= 5, "{} live blocks of 5 pointers", peak);
        prop_assert_eq!(trace.blocks(), allocations);
        // Each free of the file is one of the trace, and more only where reported.
        let count = |wanted: fn(&Action) -> bool| {
            trace.operations.iter().filter(|operation| wanted(&operation.action)).count() as u64
        };
        let unknown = count(|action| matches!(action, Action::UnknownFree));
        let known = count(|action| matches!(action, Action::Free { .. }));
        prop_assert_eq!(unknown, trace.unknown_frees());
        prop_assert_eq!(known + unknown, frees + trace.report().count(Oddity::ImplicitFree));
    }

    #[test]
    fn rows_that_are_written_are_read_again(rows in vec(any_row(), 0..50), zipped: bool) {
        let mut writer = Writer::new(vec![]).unwrap();
        for row in &rows {
            writer.write(row).unwrap();
        }
        writer.flush().unwrap();
        let mut log = writer.into_inner();
        if zipped {
            log = gzip(&log);
        }
        let mut reader = Reader::new(&log[..]).unwrap();
        for (row, line) in rows.iter().zip(2..) {
            prop_assert_eq!(reader.next().unwrap().unwrap(), Row { line, ..*row });
        }
        prop_assert!(reader.next().is_none());
        prop_assert_eq!((reader.rows(), reader.unreadable_times()), (rows.len() as u64, 0));
    }

    #[test]
    fn snapshots_of_any_history_give_its_operations(
        steps in vec((any::<u8>(), 1..=u64::MAX, select(&[0, 1, 300, u64::MAX][..])), 0..80),
        protocol in 2..=5_u8,
        style in select(&STYLES[..]),
    ) {
        let (events, operations) = history(&steps);
        let bytes = pickle::write(&snapshot(vec![], vec![events]), protocol, style);
        let trace = Trace::read(&bytes[..]).unwrap();
        check_order(&trace);
        prop_assert_eq!(trace.operations, operations);
    }
}

#[test]
fn a_snapshot_cut_anywhere_is_an_error() {
    let events =
        vec![event("alloc", 1 << 63, 1 << 40, 0), event("free_requested", 1 << 63, 1 << 40, 0)];
    let value = snapshot(vec![], vec![events, vec![]]);
    for protocol in 2..=5 {
        for style in [Style::Python, Style::AtOnce, Style::OneByOne] {
            let bytes = pickle::write(&value, protocol, style);
            assert!(Trace::read(&bytes[..]).is_ok());
            for end in 0..bytes.len() {
                let error = Trace::read(&bytes[..end]).expect_err("a cut snapshot");
                // It can be told to a person.
                assert!(!error.to_string().is_empty());
            }
            let zipped = gzip(&bytes);
            for end in 0..zipped.len() {
                assert!(Trace::read(&zipped[..end]).is_err(), "{end}");
            }
        }
    }
}
