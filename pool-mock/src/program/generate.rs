//! Turns any bytes into a program.
//!
//! The bytes are a header and records of fixed length, one an operation, so that a fuzzer or a
//! shrinker that removes, swaps or copies records leaves the others what they are. Behind them
//! come operations that the header draws: short inputs are long programs, too.

use pool_core::device::Call;
use pool_core::policy::{Reuse, Steps};
use pool_core::{Affinity, Deferred, Lifetime, Placement};

use super::operation::{Operation, Pace, Program, Release, Shape, Where};

/// The length of the header.
pub const HEADER_BYTES: usize = 12;

/// The length of a record.
pub const RECORD_BYTES: usize = 6;

/// A program has at most so many operations.
const MOST_OPERATIONS: usize = 320;

/// Calls that can fail on demand.
const CALLS: [Call; 14] = [
    Call::Record,
    Call::Wait,
    Call::RecordAll,
    Call::IsDone,
    Call::WaitOnHost,
    Call::Allocate,
    Call::Free,
    Call::CaptureId,
    Call::DestroyStream,
    Call::Copy,
    Call::CreatePages,
    Call::DestroyPages,
    Call::Commit,
    Call::Decommit,
];

/// The program that `bytes` stand for; missing bytes of the header are zero, an incomplete record
/// at the end is dropped.
///
/// # Example
///
/// ```
/// use pool_mock::program::{check, decode};
///
/// let program = decode(b"any bytes at all are a pool, a device, and what is done to them");
/// assert!(!program.operations.is_empty());
/// check(&program)?;
/// # Ok::<(), pool_mock::program::Finding>(())
/// ```
#[must_use]
pub fn decode(bytes: &[u8]) -> Program {
    let mut header = [0; HEADER_BYTES];
    let given = bytes.len().min(HEADER_BYTES);
    header[..given].copy_from_slice(&bytes[..given]);
    let shape = shape(&header);
    let records = bytes[given..].as_chunks::<RECORD_BYTES>().0;
    let mut operations: Vec<Operation> =
        records.iter().map(|record| decode_operation(&shape, *record)).collect();
    operations.truncate(MOST_OPERATIONS);
    let [.., drawn, low, high] = header;
    let seed = u64::from_le_bytes([low, high, header[0], header[1], header[2], header[3], 0, 1]);
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..drawn.min(192) {
        let mut record = [0; RECORD_BYTES];
        random.fill(&mut record);
        operations.push(decode_operation(&shape, record));
    }
    Program { shape, operations }
}

fn shape(header: &[u8; HEADER_BYTES]) -> Shape {
    let [size, start, cache, deferred, device, flags, pace, streams, meetings, ..] = *header;
    let arena_bytes = [2 << 20, 1 << 20, 256 << 10, 64 << 10][usize::from(size % 4)];
    let limit_bytes = match size / 4 % 8 {
        0 => None,
        1 => Some(arena_bytes),
        2 => Some(2 * arena_bytes),
        3 => Some(3 * arena_bytes),
        4 => Some(256 << 10),
        5 => Some(1 << 20),
        6 => Some(5 << 20),
        _ => Some(128 << 10),
    };
    let initial_bytes = match start % 4 {
        0 => 0,
        1 => arena_bytes,
        _ => limit_bytes.unwrap_or(arena_bytes),
    };
    // Policies by all of the header, each by itself: a byte's bits are too few for all of them.
    let draw = |policy: u8, choices: usize| {
        let seed = header
            .iter()
            .fold(u64::from(policy), |seed, &byte| seed.rotate_left(7) ^ u64::from(byte));
        fastrand::Rng::with_seed(seed).usize(..choices)
    };
    let pick = |policy: u8, choices: [u8; 4]| choices[draw(policy, 4)];
    Shape {
        initial_bytes: initial_bytes.min(limit_bytes.unwrap_or(u64::MAX)),
        limit_bytes,
        arena_bytes,
        cache_bytes: [0, 16 << 10, 64 << 10, 256 << 10][usize::from(cache % 4)],
        deferred: match deferred % 4 {
            0 => Deferred::AtOnce,
            1 => Deferred::Queue { blocks: 2, bytes: u64::MAX },
            2 => Deferred::Queue { blocks: 8, bytes: 256 << 10 },
            _ => Deferred::Queue { blocks: 1000, bytes: 1 << 30 },
        },
        steps: match draw(0, 4) {
            0 => Steps::Doubling,
            1 => Steps::AsRequested,
            _ => Steps::Fixed,
        },
        ahead: draw(1, 4) != 0,
        extends: draw(2, 4) == 0,
        watermark_bytes: match draw(3, 4) {
            0 => Some(0),
            1 => Some(arena_bytes),
            _ => None,
        },
        decay: (draw(4, 2) == 0).then_some(40),
        cool_down: draw(5, 4) == 0,
        is_tenant: draw(6, 4) == 0,
        short_from_bytes: (draw(7, 4) == 0).then_some(initial_bytes),
        reuse: Reuse {
            placement: match draw(8, 4) {
                0 => Placement::FirstFit,
                1 => Placement::Buddy,
                _ => Placement::BestFit,
            },
            tolerance_percent: pick(9, [0, 0, 25, 100]),
            shelf_bytes: [64 << 20, 0, 64 << 10, 256 << 10][draw(10, 4)],
            shelf_tolerance_percent: pick(11, [12, 0, 1, 100]),
        },
        pages: match draw(12, 8) {
            0 => Some((64 << 10, false)),
            1 => Some((64 << 10, true)),
            2 => Some((192 << 10, true)),
            _ => None,
        },
        memory_bytes: [16 << 20, 12 << 20, 6 << 20, 16 << 20][usize::from(device % 4)],
        misalign_bytes: [0, 0, 256, 512][usize::from(device / 4 % 4)],
        stream_ids: device / 16 % 4 != 0,
        grows_in_capture: flags % 4 == 0,
        free_waits: flags / 4 % 8 == 0,
        lists_streams: flags / 32 % 4 != 0,
        abrupt_end: flags / 128 == 1,
        pace: self::pace(pace),
        streams: 1 + streams % 4,
        migrate_from_percent: if streams / 4 % 4 == 0 { 30 } else { 0 },
        mostly_movable: streams / 16 % 2 == 0,
        meetings: match meetings % 4 {
            0 => 30,
            1 => 8,
            _ => 0,
        },
    }
}

fn pace(byte: u8) -> Pace {
    match byte % 8 {
        0 => Pace::Eager,
        1..=4 => Pace::Idle,
        5 => Pace::Lag(byte / 8),
        _ => Pace::Random(byte / 8),
    }
}

pub(super) fn decode_operation(shape: &Shape, record: [u8; RECORD_BYTES]) -> Operation {
    let [kind, first, second, third, low, high] = record;
    let value = u16::from_le_bytes([low, high]);
    let on = place(first);
    let release = release(third);
    match kind {
        0..=63 if is_movable(shape, third) => Operation::AllocateMovable {
            on,
            size_bytes: size_bytes(shape, second, value),
            align_bytes: align_bytes(third),
        },
        64..=83 if high.is_multiple_of(2) => Operation::UseMovable {
            movable: second,
            on: (first % 4 != 0).then_some(third),
            write: low.is_multiple_of(2),
            by_handle: low.is_multiple_of(8),
        },
        89..=128 if high.is_multiple_of(3) => Operation::FreeMovable { movable: second, release },
        0..=63 => Operation::Allocate {
            on,
            size_bytes: size_bytes(shape, second, value),
            align_bytes: align_bytes(third),
            tag: (third / 32 == 0).then_some(third % 3),
            affinity: affinity(low, high),
            write: third / 8 % 8 != 1,
        },
        64..=83 => Operation::Use {
            block: second,
            on: (first % 4 != 0).then_some(third),
            write: low.is_multiple_of(2),
        },
        84..=88 => Operation::Note { block: second, by_handle: third.is_multiple_of(2) },
        89..=128 => Operation::Free { block: second, release, last_use: !low.is_multiple_of(4) },
        129..=151 => Operation::Reuse {
            block: second,
            release,
            on,
            plus_bytes: if low < 200 { 0 } else { u64::from(value) },
        },
        152..=154 => Operation::FreeMany { step: 1 + second % 4, first: third % 4 },
        155..=156 => Operation::Wait { before: second, after: third },
        157 => Operation::Order { after: on, on: place(second) },
        158..=160 => Operation::UseInOrder {
            block: second,
            on: third,
            by_handle: first.is_multiple_of(4),
            write: low.is_multiple_of(2),
        },
        161..=162 => Operation::HostWait { stream: second },
        163..=165 => Operation::Create,
        166..=170 => Operation::OpenRaw { blocking: second.is_multiple_of(2) },
        171..=174 => Operation::CloseRaw { stream: second },
        175..=178 => Operation::Adopt { stream: second },
        179..=184 => Operation::Retire { stream: second },
        185..=191 => Operation::BeginCapture {
            stream: second,
            graph: third % 4,
            mode: low % 3,
            announce_first: high.is_multiple_of(2),
        },
        192..=194 => Operation::Fork { capture: second, stream: third },
        195 => Operation::Join { stream: second },
        196..=203 => Operation::EndCapture { capture: second, spoil: third.is_multiple_of(16) },
        204..=210 => Operation::Launch { graph: second, stream: third },
        211..=214 => Operation::ReleaseGraph { graph: second },
        216 if shape.cool_down && third.is_multiple_of(2) => {
            Operation::SetCoolDown { on: second.is_multiple_of(2) }
        }
        215..=216 => Operation::Flush,
        217..=218 => Operation::Reclaim,
        219..=220 => Operation::Tick { nanoseconds: u64::from(value) * 100 },
        221..=224 => Operation::Trim {
            keep_bytes: if second.is_multiple_of(2) { 0 } else { u64::from(value) * 64 },
            wait: third.is_multiple_of(4),
        },
        225..=226 => Operation::SetLimit {
            limit_bytes: (second % 4 != 0).then(|| (64 << 10) + u64::from(value) * 64),
        },
        227..=228 => Operation::SetQuota {
            tag: second % 3,
            quota_bytes: (third % 4 != 0).then(|| u64::from(value) * 8),
        },
        229..=233 => Operation::Thread { number: second % 3 },
        234 => Operation::EndThread { number: second % 3 },
        235..=237 => {
            Operation::FailNth { nth: 1 + second % 12, of_memory: third.is_multiple_of(4) }
        }
        238..=240 => Operation::FailNext {
            call: CALLS[usize::from(second) % CALLS.len()],
            times: 1 + third % 3,
        },
        241..=245 => Operation::Step { count: 1 + second % 16, choice: third },
        246..=248 => Operation::Hold { stream: second },
        249..=250 => Operation::Go { stream: second },
        251..=252 => Operation::Advance { stream: second, items: third % 16 },
        253 => Operation::RunAll,
        _ => Operation::Pace(pace(second)),
    }
}

fn is_movable(shape: &Shape, byte: u8) -> bool {
    let most = if shape.mostly_movable { 7 } else { 4 };
    (2..=most).contains(&(byte / 8 % 8))
}

fn place(byte: u8) -> Where {
    match byte % 8 {
        0 => Where::Nowhere,
        1..=5 => Where::Known(byte / 8),
        _ => Where::Raw(byte / 8),
    }
}

fn release(byte: u8) -> Release {
    match byte % 8 {
        0..=2 => Release::AtHome,
        3 => Release::On(Where::Nowhere),
        4..=5 => Release::On(Where::Known(byte / 8)),
        _ => Release::On(Where::Raw(byte / 8)),
    }
}

/// Sizes of few kinds, so that what is freed serves what is asked for next.
fn size_bytes(shape: &Shape, kind: u8, value: u16) -> u64 {
    let whole = shape.limit_bytes.unwrap_or(shape.arena_bytes).min(4 << 20);
    match kind % 16 {
        0..=1 => 256,
        2 => 512,
        3 => 1000,
        4 => 4096,
        5 => 8 << 10,
        6 => 20_000,
        7 => 64 << 10,
        8 => whole / 8,
        9 => whole / 4,
        10 => whole / 3,
        11..=12 => whole / 2,
        13 => whole,
        14 => whole - whole / 8,
        _ => 1 + u64::from(value) * 8,
    }
}

/// Few, so that they are met again.
fn affinity(low: u8, high: u8) -> Option<Affinity> {
    let affinity = Affinity::new(u32::from(low % 3)).lifetime(match low / 4 % 4 {
        0 | 1 => Lifetime::Usual,
        2 => Lifetime::Short,
        _ => Lifetime::Long,
    });
    high.is_multiple_of(4).then(|| affinity.align_bytes(if low / 16 == 0 { 4096 } else { 1 }))
}

fn align_bytes(byte: u8) -> u64 {
    match byte % 16 {
        0 => 512,
        1 => 4096,
        2 => 64 << 10,
        _ => 1,
    }
}
