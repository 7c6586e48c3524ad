//! Snapshots: numbers, protocols, opcodes, blocks of before the recording.

use pool_mock::{
    Action, BlockId, LogError, Operation, ThreadId, Trace,
    log::{Location, Oddity, snapshot::PickleError},
};

use crate::{
    helpers::{allocate, bundled, check_order, free, gzip, read},
    memory,
    pickle::{self, STYLES, Style, event, segment, snapshot},
};

fn read_pickle(value: &pickle::Value, protocol: u8, style: Style) -> Result<Trace, LogError> {
    Trace::read(&pickle::write(value, protocol, style)[..])
}

#[test]
fn p096_integers_up_to_64_bits_and_no_further() {
    for address in [0xFFFF_8000_0000_0000, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 255] {
        for stream in [0, 1 << 63, u64::MAX] {
            let events = vec![
                event("alloc", address, u64::MAX, stream),
                event("free_requested", address, u64::MAX, stream),
            ];
            for protocol in 2..=5 {
                let value = snapshot(vec![], vec![events.clone()]);
                let trace = read_pickle(&value, protocol, Style::Python).unwrap();
                assert_eq!(trace.operations, [allocate(0, 0, 0, u64::MAX), free(0, 0, 0)]);
                assert_eq!(trace.streams(), [stream]);
                assert_eq!(trace.peak_live_bytes(1), u64::MAX);
            }
        }
    }
    let bad = [-1, i128::from(i32::MIN), -(1 << 63), -(1 << 70), 1 << 64, i128::MAX, i128::MIN];
    for number in bad {
        for key in ["addr", "size", "stream"] {
            let mut event = event("alloc", 1, 1, 0);
            let pickle::Value::Dict(pairs) = &mut event else { unreachable!() };
            for (name, value) in pairs {
                if matches!(name, pickle::Value::Text(name) if name == key) {
                    *value = pickle::Value::Int(number);
                }
            }
            let error = read_pickle(&snapshot(vec![], vec![vec![event]]), 4, Style::Python);
            let Err(LogError::Pickle { source: PickleError::BadNumber { key: at, .. }, .. }) =
                error
            else {
                panic!("{number} as {key}: {error:?}");
            };
            assert_eq!(at, key);
        }
    }
}

/// A snapshot of one event whose address is written by `opcodes`.
fn with_address(opcodes: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x80\x02}X\x0d\0\0\0device_traces](](}(X\x06\0\0\0actionX\x05\0\0\0alloc\
                      X\x04\0\0\0sizeK\x01X\x04\0\0\0addr"
        .to_vec();
    bytes.extend_from_slice(opcodes);
    bytes.extend_from_slice(b"uees.");
    bytes
}

/// A snapshot of an event whose size is written by `opcodes`.
fn size_by(opcodes: &[u8]) -> Result<Trace, LogError> {
    let mut bytes = b"\x80\x02}X\x0d\0\0\0device_traces](](}(X\x06\0\0\0actionX\x05\0\0\0alloc\
                      X\x04\0\0\0addrK\x01X\x04\0\0\0size"
        .to_vec();
    bytes.extend_from_slice(opcodes);
    bytes.extend_from_slice(b"uees.");
    Trace::read(&bytes[..])
}

#[test]
fn p096_long_integers_of_any_length() {
    let read = |opcodes: &[u8]| size_by(opcodes).map(|trace| trace.peak_live_bytes(1));
    // A long of no bytes is zero, which is no size; the event is passed over.
    let empty = size_by(b"\x8a\0").unwrap();
    assert_eq!((empty.blocks(), empty.report().count(Oddity::ZeroSize)), (0, 1));
    assert_eq!(read(b"\x8a\x01\x7f").unwrap(), 0x7f);
    assert_eq!(read(b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0").unwrap(), u64::MAX);
    assert_eq!(read(b"\x8a\x0c\x05\0\0\0\0\0\0\0\0\0\0\0").unwrap(), 5);
    assert_eq!(read(b"\x8b\x02\0\0\0\x34\x12").unwrap(), 0x1234);
    let bad: [&[u8]; 5] = [
        b"\x8a\x01\xff",
        b"\x8a\x09\0\0\0\0\0\0\0\0\x01",
        b"\x8a\x0a\0\0\0\0\0\0\0\0\0\xff",
        b"\x8b\x01\0\0\0\x80",
        b"\x8b\xff\xff\xff\xff",
    ];
    for opcodes in bad {
        assert!(matches!(read(opcodes), Err(LogError::Pickle { .. })), "{opcodes:?}");
    }
    // A length that the input cannot back costs nothing.
    let huge: [&[u8]; 6] = [
        b"\x8b\xff\xff\xff\x7f",
        b"X\xff\xff\xff\xff",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x96\xff\xff\xff\xff\xff\xff\xff\xff",
        b"T\xff\xff\xff\x7f",
    ];
    for opcodes in huge {
        let (result, peak_bytes) = memory::peak_bytes(|| read(opcodes));
        assert!(
            matches!(result, Err(LogError::Pickle { source: PickleError::Cut, .. })),
            "{result:?}"
        );
        assert!(peak_bytes < 64 << 10, "{peak_bytes}");
    }
}

/// A snapshot with something of everything.
fn rich_snapshot() -> pickle::Value {
    let mut events = vec![event("segment_alloc", 0x1000, 4096, 7)];
    for number in 0..7 {
        events.push(event("alloc", 0x1000 + number * 512, 100 + number, 7 + number % 2));
    }
    for number in 0..5 {
        events.push(event("free_requested", 0x1000 + number * 512, 100 + number, 7));
        events.push(event("free_completed", 0x1000 + number * 512, 100 + number, 7));
    }
    events.push(event("oom", 0, 1 << 40, 8));
    events.push(event("snapshot", 0, 1, 0));
    let segments = vec![
        segment(7, &[(0x1a00, 105, "active_allocated"), (0x1c00, 106, "active_allocated")]),
        segment(9, &[(0x9000, 300, "active_allocated"), (0x9200, 9, "inactive")]),
    ];
    snapshot(segments, vec![vec![], events, vec![]])
}

#[test]
fn p097_protocols_2_to_5_in_every_style_give_the_same_trace() {
    let first = read_pickle(&rich_snapshot(), 2, Style::Python).unwrap();
    check_order(&first);
    assert_eq!(first.blocks(), 7);
    assert_eq!(first.recorded_failures(), 1);
    assert_eq!(first.streams(), [7, 8]);
    for protocol in 2..=5 {
        for style in STYLES {
            let bytes = pickle::write(&rich_snapshot(), protocol, style);
            for bytes in [gzip(&bytes), bytes] {
                let trace = Trace::read(&bytes[..]).unwrap();
                assert_eq!(trace.operations, first.operations, "{protocol} {style:?}");
                assert_eq!(trace.streams(), first.streams());
                assert_eq!(trace.report(), first.report());
            }
        }
    }
    for protocol in [0, 1, 6, 255] {
        let error = read_pickle(&rich_snapshot(), protocol, Style::Python);
        assert!(
            matches!(
                error,
                Err(LogError::Pickle { offset: 0, source: PickleError::Protocol { protocol: at }, .. })
                    if at == protocol
            ),
            "{error:?}"
        );
    }
}

#[test]
fn p097_what_newer_writers_add_is_passed_over() {
    let mut events = vec![event("alloc", 1 << 9, 5, 0), event("annotate", 0, 0, 0)];
    let pickle::Value::Dict(pairs) = &mut events[0] else { unreachable!() };
    let pool = pickle::Value::Tuple(vec![pickle::int(0), pickle::int(-1)]);
    pairs.push((pickle::text("pool_id"), pool));
    pairs.push((pickle::int(7), pickle::Value::None));
    let value = snapshot(vec![], vec![events]);
    for style in STYLES {
        let mut bytes = pickle::write(&value, 4, style);
        // A viewer's copy is padded with zeros.
        bytes.extend_from_slice(&[0; 3]);
        let trace = Trace::read(&bytes[..]).unwrap();
        assert_eq!(trace.operations, [allocate(0, 0, 0, 5)]);
        assert_eq!(trace.report().first(Oddity::UnknownEvent), Some(Location::Event(1)));
        assert_eq!(trace.report().count(Oddity::TrailingBytes), 0);
        let end = bytes.len() as u64;
        bytes.extend_from_slice(b"tail");
        let trace = Trace::read(&bytes[..]).unwrap();
        assert_eq!(trace.report().first(Oddity::TrailingBytes), Some(Location::Offset(end)));
    }
}

#[test]
fn p097_an_opcode_that_is_not_read_is_named_with_its_place() {
    let offset = with_address(b"").len() as u64 - 5;
    let refused: [(u8, &str); 22] = [
        (b'F', "FLOAT"),
        (b'I', "INT"),
        (b'L', "LONG"),
        (b'S', "STRING"),
        (b'V', "UNICODE"),
        (b'g', "GET"),
        (b'p', "PUT"),
        (b'P', "PERSID"),
        (b'Q', "BINPERSID"),
        (b'R', "REDUCE"),
        (b'b', "BUILD"),
        (b'c', "GLOBAL"),
        (b'i', "INST"),
        (b'o', "OBJ"),
        (0x81, "NEWOBJ"),
        (0x82, "EXT1"),
        (0x83, "EXT2"),
        (0x84, "EXT4"),
        (0x92, "NEWOBJ_EX"),
        (0x93, "STACK_GLOBAL"),
        (0x97, "NEXT_BUFFER"),
        (0x98, "READONLY_BUFFER"),
    ];
    let mut unknown = 0;
    for byte in 0..=u8::MAX {
        let result = Trace::read(&with_address(&[byte])[..]);
        let source = match result {
            Err(LogError::Pickle { offset: at, source, .. }) => {
                if matches!(
                    source,
                    PickleError::Unsupported { .. } | PickleError::UnknownOpcode { .. }
                ) {
                    assert_eq!(at, offset);
                }
                source
            }
            // One opcode alone is no good address, whatever it is.
            other => panic!("{byte:#x}: {other:?}"),
        };
        if let Some((_, name)) = refused.iter().find(|refused| refused.0 == byte) {
            assert_eq!(source, PickleError::Unsupported { opcode: name });
        } else if source == (PickleError::UnknownOpcode { byte }) {
            unknown += 1;
        }
    }
    // Protocols 2 to 5 know 68 opcodes.
    assert_eq!(unknown, 256 - 68);
}

#[test]
fn p097_frames_must_fit_together() {
    let framed = |length: u64, body: &[u8]| {
        let mut bytes = b"\x80\x04\x95".to_vec();
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(body);
        Trace::read(&bytes[..])
    };
    let bad_frame =
        |result| matches!(result, Err(LogError::Pickle { source: PickleError::BadFrame, .. }));
    let body = b"}\x8c\x08segments]s.";
    assert_eq!(framed(14, body).unwrap().blocks(), 0);
    assert!(bad_frame(framed(3, body)));
    assert!(bad_frame(framed(u64::MAX, body)));
    assert!(bad_frame(framed(30, b"}\x95\x01\0\0\0\0\0\0\0.")));
}

#[test]
fn p098_blocks_of_before_the_recording_are_live_at_the_start() {
    let events = vec![
        event("free_requested", 0x100, 1000, 1), // live at the start
        event("free_completed", 0x100, 1000, 1),
        event("free_completed", 0x200, 2000, 1), // given back before the start
        event("alloc", 0x100, 10, 1),            // the address again
        event("free_requested", 0x100, 10, 1),
        event("free_requested", 0x100, 10, 1), // twice: no block can be meant
        event("free_completed", 0x100, 10, 1),
        event("alloc", 0x200, 20, 2),
    ];
    let segments = vec![
        segment(1, &[(0x200, 20, "active_allocated"), (0x300, 3000, "active_allocated")]),
        segment(5, &[(0x400, 4000, "active_pending_free"), (0x500, 50, "inactive")]),
        segment(6, &[(0x100, 10, "active_allocated")]), // against the events
    ];
    for style in STYLES {
        let value = snapshot(segments.clone(), vec![events.clone()]);
        let trace = read_pickle(&value, 4, style).unwrap();
        check_order(&trace);
        let unknown = Operation { action: Action::UnknownFree, ..free(0, 0, 0) };
        assert_eq!(
            trace.operations,
            [
                allocate(0, 0, 0, 1000),
                allocate(0, 0, 1, 3000),
                free(0, 0, 0),
                allocate(0, 0, 2, 10),
                free(0, 0, 2),
                unknown,
                allocate(0, 1, 3, 20),
            ]
        );
        assert_eq!(trace.live_at_start(), 2);
        assert_eq!(trace.unknown_frees(), 2);
        assert_eq!(trace.peak_live_bytes(1), 4000);
        assert_eq!(trace.location(1), None);
        assert_eq!(trace.location(2), Some(Location::Event(0)));
        assert_eq!(trace.location(6), Some(Location::Event(7)));
        let report = trace.report();
        assert_eq!(report.count(Oddity::LiveAtStart), 2);
        assert_eq!(report.count(Oddity::UnrequestedCompletion), 1);
        assert_eq!(report.count(Oddity::Contradiction), 1);
        assert_eq!(report.first(Oddity::UnknownFree), Some(Location::Event(0)));
    }
}

#[test]
fn p098_a_snapshot_without_history_is_its_live_blocks() {
    let segments = vec![segment(3, &[(0x100, 7, "active_allocated"), (0x300, 8, "inactive")])];
    let trace = read_pickle(&snapshot(segments, vec![vec![], vec![]]), 4, Style::Python).unwrap();
    assert_eq!(trace.operations, [allocate(0, 0, 0, 7)]);
    assert_eq!((trace.live_at_start(), trace.streams()), (1, &[3][..]));
}

#[test]
fn p098_nothing_lives_at_the_null_pointer() {
    let segments = vec![segment(0, &[(0, 7, "active_allocated")])];
    let value = snapshot(segments, vec![vec![event("free_requested", 0, 8, 0)]]);
    let trace = read_pickle(&value, 4, Style::Python).unwrap();
    assert_eq!((trace.live_at_start(), trace.blocks()), (0, 0));
    assert_eq!(trace.operations.len(), 1);
    assert_eq!(trace.operations[0].action, Action::UnknownFree);
    assert_eq!(trace.unknown_frees(), 1);
}

#[test]
fn p098_devices_are_kept_apart() {
    let events = |size_bytes| vec![event("alloc", 0x100, size_bytes, 0)];
    let value = snapshot(vec![], vec![vec![], events(1), events(2)]);
    for style in STYLES {
        let bytes = pickle::write(&value, 4, style);
        let first = Trace::read(&bytes[..]).unwrap();
        assert_eq!(first.operations, [allocate(0, 0, 0, 1)]);
        assert_eq!(first.report().count(Oddity::OtherDevice), 1);
        let sizes = [0, 1, 2]
            .map(|device| Trace::read_device(&bytes[..], device).unwrap().peak_live_bytes(1));
        assert_eq!(sizes, [0, 1, 2]);
        assert!(matches!(
            Trace::read_device(&bytes[..], 3),
            Err(LogError::NoSuchDevice { device: 3 })
        ));
    }
    let log = "Event Type,Device ID,Address,Stream,Size (bytes)\n\
               Alloc,1,0x100,0,5\nAlloc,0,0x100,0,6\n";
    let first = read(log);
    assert_eq!(first.operations, [allocate(0, 0, 0, 5)]);
    assert_eq!(first.report().count(Oddity::OtherDevice), 1);
    let other = Trace::read_device(log.as_bytes(), 0).unwrap();
    assert_eq!(other.operations, [allocate(0, 0, 0, 6)]);
}

#[test]
fn p126_numbers_have_the_byte_order_of_the_format() {
    let size = |opcodes: &[u8]| size_by(opcodes).unwrap().peak_live_bytes(1);
    assert_eq!(size(b"K\xfe"), 0xfe);
    assert_eq!(size(b"M\x34\x12"), 0x1234);
    assert_eq!(size(b"J\x78\x56\x34\x12"), 0x1234_5678);
    assert_eq!(size(b"\x8a\x05\x01\x02\x03\x04\x05"), 0x05_0403_0201);
    assert_eq!(size(b"\x8b\x03\0\0\0\x01\x02\x03"), 0x03_0201);
    // A float is passed over whole, and is no size.
    assert!(matches!(
        size_by(b"G\x40\x09\x21\xfb\x54\x44\x2d\x18"),
        Err(LogError::Pickle { source: PickleError::BadNumber { key: "size", .. }, .. })
    ));
    // Lengths of 4 and 8 bytes, numbers of the memo of 4.
    assert_eq!(size(b"X\x02\0\0\0hi0K\x05"), 5);
    assert_eq!(size(b"\x8d\x02\0\0\0\0\0\0\0hi0K\x05"), 5);
    assert_eq!(size(b"B\x02\0\0\0hi0K\x05"), 5);
    assert_eq!(size(b"K\x05r\x01\x02\0\x000j\x01\x02\0\0"), 5);
    assert!(matches!(
        size_by(b"K\x05r\x01\x02\0\x000j\x01\0\x02\0"),
        Err(LogError::Pickle { source: PickleError::NotRemembered { index: 0x2_0001 }, .. })
    ));
    // The frame's length, too: p097_frames_must_fit_together.
}

#[test]
fn both_logs_of_one_run_give_the_same_trace() {
    let rows = bundled("multi_stream.csv.gz");
    let events = bundled("multi_stream.snapshot.pickle.gz");
    check_order(&rows);
    check_order(&events);
    assert_eq!((rows.operations.len(), rows.blocks(), rows.unknown_frees()), (1930, 966, 0));
    assert_eq!(events.unknown_frees(), 0);
    // The CSV does not carry the blocks that were live before it began.
    let before = events.live_at_start();
    assert_eq!((rows.live_at_start(), before), (0, 3));
    let (start, recorded) = events.operations.split_at(before as usize);
    assert!(start.iter().all(|operation| matches!(operation.action, Action::Allocate { .. })));
    assert_eq!(recorded.len(), rows.operations.len());
    // Everything else is equal, but for the names of the streams.
    let mut names = vec![None; events.streams().len()];
    for (row, event) in rows.operations.iter().zip(recorded) {
        let name = names[event.stream.0 as usize].get_or_insert(row.stream);
        let action = match event.action {
            Action::Allocate { block: BlockId(block), size_bytes } => {
                Action::Allocate { block: BlockId(block - before), size_bytes }
            }
            Action::Free { block: BlockId(block) } => {
                Action::Free { block: BlockId(block - before) }
            }
            other => other,
        };
        assert_eq!(*row, Operation { thread: ThreadId(0), stream: *name, action });
    }
    let mut distinct: Vec<_> = names.iter().flatten().collect();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), rows.streams().len());
    assert_eq!(names.iter().flatten().count(), rows.streams().len());
}
