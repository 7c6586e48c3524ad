//! CSV logs: headers, columns, line ends, damaged rows.

use pool_mock::{
    Action, LogError, Operation, StreamId, ThreadId, Trace,
    log::{
        Location, Oddity,
        rmm::{Reader, RowError},
    },
};

use crate::helpers::{HEADER, allocate, free, gzip, read, with_header};

type Check<'a> = &'a dyn Fn(&RowError) -> bool;

#[test]
fn p093_failures_and_streams_are_kept_and_lines_are_named() {
    let trace = with_header(
        "7,10:00:00.000001,allocate,0x7f00,1000,0x0\n\
         7,10:00:00.000002,allocate failure,,5000,0x1\n\
         8,10:00:00.000003,allocate failure,(nil),6000,0x2\n\
         7,10:00:00.000004,allocate failure,0x0,7000,0x5582aa00\n\
         7,10:00:00.000005,free,0x7f00,1000,0\n\
         7,10:00:00.000006,allocate,0x7f00,8,2\n",
    );
    assert_eq!(trace.streams(), [0, 1, 2, 0x5582_aa00]);
    assert_eq!(trace.threads(), [7, 8]);
    assert_eq!(trace.recorded_failures(), 3);
    let failure = |thread, stream, size_bytes| Operation {
        thread: ThreadId(thread),
        stream: StreamId(stream),
        action: Action::Failure { size_bytes },
    };
    let expected = [
        allocate(0, 0, 0, 1000),
        failure(0, 1, 5000),
        failure(1, 2, 6000),
        failure(0, 3, 7000),
        free(0, 0, 0),
        allocate(0, 2, 1, 8),
    ];
    assert_eq!(trace.operations, expected);
    for index in 0..expected.len() {
        assert_eq!(trace.location(index), Some(Location::Line(index as u64 + 2)));
    }
    assert!(trace.report().is_clean());
}

#[test]
fn p094_every_generation_of_header_gives_the_same_trace() {
    let newest = with_header(
        "0,10:00:00.000001,allocate,0x7f00,1000,0x0\n\
         0,10:00:00.000002,allocate,0x7f80,64,0x2\n\
         0,10:00:00.000003,free,0x7f00,1000,0x0\n",
    );
    let no_thread = read(
        "Time,Action,Pointer,Size,Stream\n\
         10:00:00:000001,allocate,0x7f00,1000,0\n\
         10:00:00:000002,allocate,0x7f80,64,2\n\
         10:00:00:000003,free,0x7f00,1000,0\n",
    );
    let oldest = read(
        "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,\
         Current Allocs,Start,End,Elapsed,Location\n\
         Alloc,0,0x7f00,0,1000,0,0,1,1.10549,1.1074,0.00191666,/a/b.py:683\n\
         Alloc,0,0x7f80,0x2,64,0,0,2,1.2,1.3,1e-05,<lambda>(int, int), f,g.cu:1\n\
         Free,0,0x7f00,0,0,0,0,1,1.4,1.5,0.1,\n",
    );
    for trace in [&no_thread, &oldest] {
        assert_eq!(trace.operations, newest.operations);
        assert_eq!(trace.streams(), [0, 2]);
        assert!(trace.report().is_clean(), "{}", trace.report());
    }
    // A reallocation names the new pointer only, which may be the old one.
    let moved = read(
        "Event Type,Device ID,Address,Stream,Size (bytes)\n\
         Alloc,0,0xa0,0,8\nRealloc,0,0xa0,0,16\nRealloc,0,0xb0,0,24\n",
    );
    assert_eq!(
        moved.operations,
        [allocate(0, 0, 0, 8), free(0, 0, 0), allocate(0, 0, 1, 16), allocate(0, 0, 2, 24)]
    );
    assert_eq!(moved.report().count(Oddity::Reallocation), 2);
    assert_eq!(moved.report().count(Oddity::ImplicitFree), 0);
}

#[test]
fn p094_columns_are_found_by_name_in_any_order() {
    let columns = ["Thread", "Time", "Action", "Pointer", "Size", "Stream", "New"];
    let row = ["7", "10:00:00.000001", "allocate", "0x7f00", "1000", "0x2", "?"];
    for turn in 0..columns.len() {
        for reverse in [false, true] {
            let order = |fields: [&str; 7]| {
                let mut fields = fields.to_vec();
                fields.rotate_left(turn);
                if reverse {
                    fields.reverse();
                }
                fields.join(", ")
            };
            let trace = read(&format!("{}\n{}\n", order(columns), order(row)));
            assert_eq!(trace.operations, [allocate(0, 0, 0, 1000)]);
            assert_eq!((trace.threads(), trace.streams()), (&[7][..], &[2][..]));
        }
    }
    for missing in ["Action", "Pointer", "Size", "Stream"] {
        let header: Vec<_> = columns.into_iter().filter(|name| *name != missing).collect();
        let error = Trace::read(header.join(",").as_bytes()).unwrap_err();
        assert!(
            matches!(error, LogError::MissingColumn { column, line: 1 } if column == missing),
            "{error}"
        );
        let error = Trace::read(format!("{},{missing}", columns.join(",")).as_bytes()).unwrap_err();
        assert!(
            matches!(error, LogError::DuplicateColumn { column, line: 1 } if column == missing),
            "{error}"
        );
    }
    assert!(matches!(
        Trace::read(&b"name,value\n1,2\n"[..]),
        Err(LogError::Foreign { start }) if start == "name,value"
    ));
}

#[test]
fn p094_a_bad_row_names_its_line_and_the_rows_before() {
    let good = "1,10:00:00.000001,allocate,0x10,8,0\n";
    let number = |column| move |error: &RowError| matches!(error, RowError::Number { column: at, .. } if *at == column);
    let unknown: Check<'_> =
        &|error| matches!(error, RowError::UnknownAction { action } if action == "resize");
    let too_short: Check<'_> = &|error| matches!(error, RowError::TooShort { column: "Stream" });
    let too_long: Check<'_> = &|error| matches!(error, RowError::TooLong { fields: 7, columns: 6 });
    let cases: [(&str, Check<'_>); 10] = [
        ("1,10:00:00.000001,resize,0x10,8,0", unknown),
        ("1,10:00:00.000001,allocate,0x10,8", too_short),
        ("1,10:00:00.000001,allocate,0x10,8,0,9", too_long),
        ("1,10:00:00.000001,allocate,0xzz,8,0", &number("Pointer")),
        ("1,10:00:00.000001,allocate,0x10,-8,0", &number("Size")),
        ("1,10:00:00.000001,allocate,0x10,18446744073709551616,0", &number("Size")),
        ("1,10:00:00.000001,allocate,0x10,1e3,0", &number("Size")),
        ("1,10:00:00.000001,allocate,0x10,8,", &number("Stream")),
        ("1,10:00:00.000001,allocate,0x10,8,0x10000000000000000", &number("Stream")),
        ("x,10:00:00.000001,allocate,0x10,8,0", &number("Thread")),
    ];
    for (row, check) in cases {
        for blank_lines in ["", "\n\r\n"] {
            let log = format!("{HEADER}{good}{blank_lines}{row}\n{good}");
            let expected = 3 + blank_lines.matches('\n').count() as u64;
            match Trace::read(log.as_bytes()) {
                Err(LogError::Row { line, rows: 1, source }) => {
                    assert_eq!(line, expected, "{row}");
                    assert!(check(&source), "{row}: {source}");
                }
                other => panic!("{row}: {other:?}"),
            }
        }
    }
    // After an error the reader has ended.
    let log = format!("{HEADER}bad\n{good}");
    let mut rows = Reader::new(log.as_bytes()).unwrap();
    assert!(rows.next().unwrap().is_err());
    assert!(rows.next().is_none());
}

#[test]
fn p095_line_ends_of_every_kind_read_alike() {
    let lines = [
        "Thread,Time,Action,Pointer,Size,Stream",
        "7,10:00:00.000001,allocate,0x7f00,1000,0x2",
        "7,10:00:00.000002,allocate,0x7f80,8,5",
        "7,10:00:00.000003,free,0x7f00,1000,0x2",
    ];
    let plain = read(&lines.join("\n"));
    assert_eq!(plain.streams(), [2, 5]);
    assert_eq!(plain.operations.len(), 3);
    for mark in ["", "\u{feff}"] {
        for ends in [["\n"; 4], ["\r\n"; 4], ["\n", "\r\n", "\r\n", "\n"]] {
            for blank in ["", "\n", "\r\n", " \t\r\n", "\n\n\r\n"] {
                for last in ["", "\n", "\r\n", "\r", "\n\n", "\r\n\r\n"] {
                    let mut log = mark.to_owned();
                    for (line, end) in lines.iter().zip(ends) {
                        log += line;
                        log += end;
                        log += blank;
                    }
                    let log = log.trim_end().to_owned() + last;
                    let trace = read(&log);
                    assert_eq!(trace.operations, plain.operations, "{log:?}");
                    assert_eq!(trace.streams(), plain.streams(), "{log:?}");
                    assert!(trace.report().is_clean(), "{log:?}: {}", trace.report());
                    let zipped = Trace::read(&gzip(log.as_bytes())[..]).unwrap();
                    assert_eq!(zipped.operations, plain.operations, "{log:?}");
                    // Lines are counted as an editor counts them.
                    let line = log.split('\n').position(|line| line.contains("free")).unwrap();
                    assert_eq!(trace.location(2), Some(Location::Line(line as u64 + 1)));
                }
            }
        }
    }
}

#[test]
fn p095_text_that_is_no_log_is_a_typed_error() {
    let foreign: [&[u8]; 6] =
        [b"\n\n \n", b"\xff\xfeT\0h\0", b"PK\x03\x04", b"{}", b"\0\0\0\0", b"\xef\xbb\xbf"];
    for bytes in foreign {
        let plain = Trace::read(bytes);
        let zipped = Trace::read(&gzip(bytes)[..]);
        for result in [plain, zipped] {
            assert!(
                matches!(result, Err(LogError::Foreign { .. } | LogError::Empty)),
                "{bytes:?}: {result:?}"
            );
        }
    }
    assert!(matches!(Trace::read(&b""[..]), Err(LogError::Empty)));
    assert!(matches!(Trace::read(&gzip(b"")[..]), Err(LogError::Empty)));
    // A header and no rows is a log of nothing.
    assert_eq!(with_header("").operations, []);
    // Bytes that are no UTF-8 do no harm where they are not looked at.
    let odd = b"Action,Pointer,Size,Stream,Location\nallocate,0xa0,8,0,\xff\xfe\"\n";
    assert_eq!(Trace::read(&odd[..]).unwrap().blocks(), 1);
    let odd = b"Action,Pointer,Size,Stream\nallo\xffcate,0xa0,8,0\n";
    assert!(matches!(Trace::read(&odd[..]), Err(LogError::Row { line: 2, .. })));
}

#[test]
fn p098_unknown_frees_of_a_csv_log_are_kept_and_counted() {
    let trace = with_header(
        "1,10:00:00.000001,free,0xa0,64,0\n\
         1,10:00:00.000002,allocate,0xa0,64,0\n\
         1,10:00:00.000003,free,0xa0,64,0\n\
         1,10:00:00.000004,free,0xa0,64,0\n",
    );
    let unknown = Operation { action: Action::UnknownFree, ..free(0, 0, 0) };
    assert_eq!(trace.operations, [unknown, allocate(0, 0, 0, 64), free(0, 0, 0), unknown]);
    assert_eq!(trace.unknown_frees(), 2);
    assert_eq!(trace.report().first(Oddity::UnknownFree), Some(Location::Line(2)));
}
