//! Logs too large for the memory, too long a line, cut short, nested too deep.

use core::fmt::Write as _;
use std::io::{self, Read, Write};

use pool_mock::{
    LogError, Trace,
    log::{
        Progress,
        rmm::{Reader, RowError},
        snapshot::PickleError,
    },
};

use crate::{
    helpers::{HEADER, gzip},
    memory,
};

/// A reader of `count` pieces of text, each made when it is needed.
struct Generated<F> {
    make: F,
    next: u64,
    count: u64,
    piece: Vec<u8>,
    used: usize,
}

fn generated<F: FnMut(u64, &mut Vec<u8>)>(count: u64, make: F) -> Generated<F> {
    Generated { make, next: 0, count, piece: vec![], used: 0 }
}

impl<F: FnMut(u64, &mut Vec<u8>)> Read for Generated<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.used == self.piece.len() {
            if self.next == self.count {
                return Ok(0);
            }
            self.piece.clear();
            (self.make)(self.next, &mut self.piece);
            (self.next, self.used) = (self.next + 1, 0);
        }
        let count = (&self.piece[self.used..]).read(buffer)?;
        self.used += count;
        Ok(count)
    }
}

/// Ten times the work where the code is optimized.
const fn scaled(count: u64) -> u64 {
    if cfg!(debug_assertions) { count } else { 10 * count }
}

#[test]
fn p121_rows_are_read_in_constant_memory() {
    let location = "x".repeat(900);
    let rows = scaled(40_000);
    let log = generated(rows + 1, |number, text| {
        if number == 0 {
            text.extend_from_slice(b"Action,Pointer,Size,Stream,Location\n");
        } else {
            writeln!(text, "allocate,{number:#x},{number},0x{number:x},{location}").unwrap();
        }
    });
    let (read, peak_bytes) = memory::peak_bytes(|| {
        let mut total = 0;
        for row in Reader::new(log).unwrap() {
            total += row.unwrap().size_bytes;
        }
        total
    });
    assert_eq!(read, rows * (rows + 1) / 2);
    assert!(peak_bytes < 64 << 10, "{peak_bytes} bytes for {rows} rows");
}

#[test]
fn p121_a_line_of_any_length_is_bounded() {
    let log = format!("{HEADER}1,10:00:00.000001,allocate,0xa0,64,0\n");
    for filler in ["a", "\r", "\"", ",", "\0"] {
        let endless = log.as_bytes().chain(generated(u64::MAX, |_, text| {
            text.extend_from_slice(filler.repeat(1000).as_bytes());
        }));
        let (result, peak_bytes) = memory::peak_bytes(|| Trace::read(endless));
        assert!(
            matches!(
                result,
                Err(LogError::Row { line: 3, rows: 1, source: RowError::LineTooLong { .. } })
            ),
            "{filler:?}: {result:?}"
        );
        // A row of nothing but commas holds the end of each field.
        assert!(peak_bytes < 40 << 20, "{filler:?}: {peak_bytes}");
    }
}

#[test]
fn p121_a_cut_log_says_how_much_was_read() {
    let mut log = HEADER.to_owned();
    for number in 1..=20 {
        writeln!(log, "1,10:00:00.000001,allocate,{number:#x},64,0x7f00").unwrap();
    }
    for end in HEADER.len()..log.len() {
        let cut = &log[..end];
        let whole = cut.lines().count() as u64 - 1;
        let partial = !cut.ends_with('\n');
        match Trace::read(cut.as_bytes()) {
            // Cut between two rows, or inside the last number, which nothing can tell.
            Ok(trace) => assert_eq!(u64::from(trace.blocks()), whole),
            Err(LogError::Row { line, rows, .. }) => {
                assert!(partial, "{cut}");
                assert_eq!((line, rows), (whole + 1, whole - 1));
            }
            other => panic!("{other:?}"),
        }
    }
    let zipped = gzip(log.as_bytes());
    for end in 3..zipped.len() {
        let result = Trace::read(&zipped[..end]);
        assert!(matches!(result, Err(LogError::Gzip { .. })), "{end}: {result:?}");
    }
    // A damaged byte is found, at the latest by the checksum.
    for place in 10..zipped.len() {
        let mut damaged = zipped.clone();
        damaged[place] ^= 0x10;
        // Some bits mean nothing: those that fill up the last byte of the stream.
        if let Ok(trace) = Trace::read(&damaged[..]) {
            assert_eq!((trace.blocks(), place), (20, zipped.len() - 9));
        }
    }
    let mut tail = zipped.clone();
    tail.extend_from_slice(b"junk");
    assert!(matches!(Trace::read(&tail[..]), Err(LogError::Gzip { read: Progress::Rows(20), .. })));
    // Two gzip members one after another are one log.
    let (head, rest) = log.split_at(100);
    let twice = [gzip(head.as_bytes()), gzip(rest.as_bytes())].concat();
    assert_eq!(Trace::read(&twice[..]).unwrap().blocks(), 20);
}

/// What a large snapshot holds.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Allocations that are never freed.
    Allocations,
    /// Blocks that come and go.
    Cycles,
    /// Frees of blocks of before.
    Frees,
}

/// The pickle of a snapshot of `count` events, as Python writes it, made piece by piece.
fn large_snapshot(count: u64, at_once: bool, shape: Shape) -> impl Read {
    let words = ["action", "addr", "size", "stream", "frames", "time_us", "alloc"];
    generated(count + 2, move |number, bytes| {
        if number == 0 {
            bytes.extend_from_slice(b"\x80\x04}\x8c\x0ddevice_traces](](");
            for word in words.iter().chain(&["free_requested", "free_completed"]) {
                bytes.push(0x8c);
                bytes.push(u8::try_from(word.len()).unwrap());
                bytes.extend_from_slice(word.as_bytes());
                bytes.extend_from_slice(b"\x940");
            }
            return;
        }
        if number > count {
            bytes.extend_from_slice(b"ees.");
            return;
        }
        if number % 1000 == 0 && !at_once {
            bytes.extend_from_slice(b"e(");
        }
        // The number of its word in the memo.
        let (action, address) = match shape {
            Shape::Allocations => (6, number),
            Shape::Cycles => (6 + u8::try_from(number % 3).unwrap(), number / 3),
            Shape::Frees => (7, number),
        };
        bytes.extend_from_slice(b"}\x94(h\0h");
        bytes.push(action);
        bytes.extend_from_slice(b"h\x01\x8a\x08");
        bytes.extend_from_slice(&((address << 9) | (0x7f << 40)).to_le_bytes());
        bytes.extend_from_slice(b"h\x02J\0\x10\0\0h\x03K\0h\x04]\x94(");
        for _ in 0..4 {
            bytes.extend_from_slice(b"}\x94(\x8c\x08filename\x8c\x08train.pyu");
        }
        bytes.extend_from_slice(b"eh\x05\x8a\x07\x01\x02\x03\x04\x05\x06\x07u");
    })
}

#[test]
fn p121_a_snapshot_takes_at_most_200_bytes_an_event() {
    // Just past the sizes at which the table of addresses and the list of operations
    // grow: the worst there is.
    let counts = if cfg!(debug_assertions) { [14_400, 16_400] } else { [229_400, 262_200] };
    for count in counts {
        for at_once in [false, true] {
            for shape in [Shape::Allocations, Shape::Cycles, Shape::Frees] {
                let (trace, peak_bytes) = memory::peak_bytes(|| {
                    Trace::read(large_snapshot(count, at_once, shape)).expect("a snapshot")
                });
                let blocks = if matches!(shape, Shape::Cycles) { count / 3 + 1 } else { count };
                assert!(u64::from(trace.blocks()).abs_diff(blocks) <= 1, "{}", trace.blocks());
                let per_event = peak_bytes as u64 / count;
                println!("{count} events, at once {at_once}, {shape:?}: {per_event} bytes each");
                assert!(per_event <= 200, "{per_event}");
            }
        }
    }
}

#[test]
fn p121_deep_nesting_takes_no_stack() {
    for opener in [&b"("[..], b"](", b"}(K\x01"] {
        for repeats in [100, 1_000_000] {
            let mut bytes = b"\x80\x04}(\x8c\x04deep".to_vec();
            bytes.extend_from_slice(&opener.repeat(repeats));
            let result = Trace::read(&bytes[..]);
            let Err(LogError::Pickle { source, .. }) = result else { panic!("{result:?}") };
            let expected = if repeats == 100 { PickleError::Cut } else { PickleError::TooDeep };
            assert_eq!(source, expected);
        }
    }
    // Values with no mark between are bounded as well.
    let bytes = [&b"\x80\x04}(\x8c\x04deep"[..], &b"N".repeat(1_000_000)].concat();
    assert!(matches!(
        Trace::read(&bytes[..]),
        Err(LogError::Pickle { source: PickleError::TooDeep, .. })
    ));
}
