//! Turns any bytes into a case.
//!
//! The bytes are a header and records of fixed length, one an operation, so that a fuzzer or a
//! shrinker that removes, swaps or copies records leaves the others what they are. Sizes are
//! mixed so that the run is not spent on requests that can never fit.

use pool_core::{Options, Placement, Spans};

use super::operation::{Case, Forgery, Operation, Size};
use super::shape::{NodeBudget, Shape, Storage};

/// The length of the header.
pub const SHAPE_BYTES: usize = 12;

/// The length of a record.
pub const RECORD_BYTES: usize = 8;

/// A case has at most so many operations.
const MOST_OPERATIONS: usize = 1024;

/// The case that `bytes` stand for; missing bytes of the header are zero, an incomplete record at
/// the end is dropped.
///
/// # Example
///
/// ```
/// use pool_mock::oracle::{check, decode, Verify};
///
/// let case = decode(b"any bytes at all are a range and operations on it");
/// assert!(check(&case, Verify::EachStep).is_ok());
/// assert!(decode(&[]).operations.is_empty());
/// ```
#[must_use]
pub fn decode(bytes: &[u8]) -> Case {
    let mut header = [0; SHAPE_BYTES];
    let given = bytes.len().min(SHAPE_BYTES);
    header[..given].copy_from_slice(&bytes[..given]);
    let shape = shape(&header);
    let mut operations = Vec::new();
    for record in bytes[given..].as_chunks::<RECORD_BYTES>().0 {
        push_operations(&shape, *record, &mut operations);
        if operations.len() >= MOST_OPERATIONS {
            operations.truncate(MOST_OPERATIONS);
            break;
        }
    }
    Case { shape, operations }
}

fn shape(header: &[u8; SHAPE_BYTES]) -> Shape {
    let [place, granule, mode, low, high, odd, spans, small, storage, budget, twin, seed] = *header;
    let granule: u32 = if granule % 4 == 3 { 16 << (granule / 4 % 9) } else { 256 };
    let granule_bytes = u64::from(granule);
    let value = u32::from(u16::from_le_bytes([low, high]));
    let granules = match mode % 8 {
        0 | 1 => 1 + value % 64,
        2 => 64 + value % 200,
        3 => 128 + value % 900,
        4 => (64 << (value % 5)) - 1 + value / 8 % 3,
        5 => 64 * (1 + value % 24),
        6 => 1024 + value % 2048,
        _ => 2048 + value % 18_000,
    };
    let span_granules: u64 = 64 << (spans / 4 % 4);
    let spans = match spans % 4 {
        0 => Spans::Off,
        1 => Spans::Automatic,
        _ => Spans::Sized {
            span_bytes: span_granules * granule_bytes,
            small_bytes: (1 + u64::from(small) % (span_granules / 2)) * granule_bytes,
        },
    };
    let storage = match storage % 4 {
        0 | 1 => Storage::Chunked,
        2 => Storage::Borrowed { nodes: NodeBudget::Ample, spans: Shape::MOST_GROWTH },
        _ => Storage::Borrowed {
            nodes: if budget % 2 == 0 {
                // Mostly few: then one sequence in many needs every node of the promise.
                let blocks = u32::from(budget / 2 % 32);
                NodeBudget::Blocks(1 + blocks * blocks / 48)
            } else {
                NodeBudget::Nodes(u32::from(budget / 2 % 64))
            },
            spans: u32::from(storage / 4 % 8),
        },
    };
    Shape {
        granules,
        odd_bytes: u32::from(odd) % granule,
        granule_bytes,
        placement: match place % 4 {
            0 | 1 => Placement::BestFit,
            2 => Placement::FirstFit,
            _ => Placement::Buddy,
        },
        spans,
        tolerance_percent: [0, 0, 0, 1, 12, 50, 100, 0][usize::from(place / 4 % 8)],
        handle_seed: seed.into(),
        storage,
        twin: twin % 4 == 1,
    }
}

fn push_operations(shape: &Shape, record: [u8; RECORD_BYTES], out: &mut Vec<Operation>) {
    let [kind, first, mode, flags, low, high, third, fourth] = record;
    let value = u32::from_le_bytes([low, high, third, fourth]);
    let pick = u16::from_le_bytes([first, fourth]);
    let size = size(mode, value);
    let allocate = || {
        let options = options(flags);
        Operation::Allocate {
            size,
            align_bytes: align_bytes(first, shape.granule_bytes),
            options,
            split_limit: split_limit(options, flags),
            no_new_metadata: flags % 16 == 9,
        }
    };
    match kind % 32 {
        0..=10 => out.push(allocate()),
        11..=12 => {
            let count = 2 + usize::from(first) % 30;
            out.extend(core::iter::repeat_n(Operation::allocate_with(size, options(flags)), count));
        }
        13..=19 => out.push(Operation::Free(pick)),
        20..=21 => out.push(Operation::FreeStride { first: first % 8, step: 1 + mode % 8 }),
        22 => out.push(Operation::Resize { pick, size }),
        23..=24 => out.push(Operation::ResizeBy { pick, by: mode.cast_signed() / 8 }),
        25 => out.push(Operation::Misuse(forgery(mode, first, value))),
        26 => out.push(Operation::Grow { bytes: end_bytes(shape, mode, value) }),
        27 if mode % 2 == 0 => out.push(Operation::ShrinkTail { plus: small_step(value) - 2 }),
        27 => out.push(Operation::Shrink { bytes: end_bytes(shape, mode, value) }),
        28 if mode % 4 == 0 => out.push(Operation::Query(pick)),
        28 => out.push(Operation::Misuse(Forgery::Stale(first))),
        29 => {
            if let Operation::Allocate { size, align_bytes, options, split_limit, .. } = allocate()
            {
                out.push(Operation::Fits { size, align_bytes, options, split_limit });
            }
        }
        30 if first < 64 => out.push(Operation::FreeAll),
        _ => out.push(Operation::allocate(Size::Hole { pick, plus: 0 })),
    }
}

fn low_half(value: u32) -> u16 {
    let [low, high, ..] = value.to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// From -2 to 2.
fn small_step(value: u32) -> i8 {
    [-2, -1, 0, 1, 2][value as usize % 5]
}

fn size(mode: u8, value: u32) -> Size {
    match mode % 20 {
        0..=4 => Size::Granules(1 + value % 16),
        5 | 6 => Size::Granules(1 + value % 300),
        7 | 8 => Size::Granules(((1 << (value % 13)) + value / 16 % 5).saturating_sub(2).max(1)),
        // The lowest size of a class of 64 a power of two, and its neighbours.
        9 => Size::Granules((((64 + value / 8 % 64) << (value % 8)) + value / 512 % 3) - 1),
        10 | 11 => Size::Earlier(value.to_le_bytes()[0]),
        12 | 13 => Size::Hole { pick: low_half(value), plus: 0 },
        14 => Size::Hole { pick: low_half(value), plus: small_step(value >> 16) },
        15 => Size::LargestHole { plus: small_step(value) },
        16 => Size::Capacity { plus: small_step(value) - 1 },
        17 => Size::JustBelow { granules: 1 + value % 64, less_bytes: value / 64 },
        18 => Size::Bytes(extreme(value)),
        _ => Size::Granules(1 + value % 4096),
    }
}

/// Zero, sizes around powers of two over 32 bits, and sizes that wrap when they are rounded up.
fn extreme(value: u32) -> u64 {
    let near = u64::from(value / 8 % 600);
    match value % 8 {
        0 => 0,
        1..=3 => u64::MAX - near,
        4 => (u64::MAX >> 1) - 4 + near % 8,
        _ => (1_u64 << (30 + value / 8 % 34))
            .wrapping_add(u64::from(value / 512 % 11))
            .wrapping_sub(5),
    }
}

fn align_bytes(byte: u8, granule_bytes: u64) -> u64 {
    let exponent = u32::from(byte / 8);
    match byte % 8 {
        0..=3 => 1,
        // The sizes of spans and their parts.
        4 => granule_bytes << (3 + exponent % 6),
        5 => granule_bytes << (exponent % 5),
        6 => granule_bytes << (exponent % 14),
        // Any power of two, and now and then none.
        _ => match byte / 8 {
            29 => 0,
            30 => 3 * granule_bytes,
            31 => u64::MAX,
            exponent => 1 << (2 * exponent),
        },
    }
}

fn options(byte: u8) -> Options {
    if byte.is_multiple_of(4) {
        Options::from_bits_retain(u32::from(byte / 4 % 32))
    } else {
        Options::empty()
    }
}

fn split_limit(options: Options, byte: u8) -> Size {
    if !options.contains(Options::LIMIT_SPLIT) {
        return Size::Bytes(0);
    }
    match byte / 32 {
        0 => Size::LargestHole { plus: 0 },
        1 => Size::LargestHole { plus: -1 },
        2 => Size::Granules(16),
        3 => Size::Granules(64),
        4 => Size::Granules(100),
        5 => Size::Hole { pick: 1, plus: 0 },
        6 => Size::Bytes(0),
        _ => Size::Bytes(u64::MAX),
    }
}

fn forgery(mode: u8, pick: u8, value: u32) -> Forgery {
    match mode % 5 {
        0 | 1 => Forgery::Stale(pick),
        2 => Forgery::Foreign(pick),
        3 => Forgery::Bits(u64::from(value) << (pick % 33)),
        _ => Forgery::Damaged { pick: pick.into(), flip: 1 << (value % 64) },
    }
}

fn end_bytes(shape: &Shape, mode: u8, value: u32) -> u64 {
    match mode / 2 % 8 {
        0..=5 => u64::from(value % 256) * shape.granule_bytes + u64::from(value / 256 % 16),
        6 => u64::from(value % 1024) * shape.granule_bytes,
        _ => extreme(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_bytes_of_a_record_are_safe_to_decode() {
        for first in 0..=255 {
            for second in 0..=255 {
                let mut record = [second; RECORD_BYTES];
                record[0] = first;
                let mut operations = Vec::new();
                push_operations(&Shape::new(64), record, &mut operations);
                assert!(!operations.is_empty() || first % 32 == 30);
            }
        }
    }

    #[test]
    fn a_removed_record_leaves_the_others_alone() {
        let bytes: Vec<u8> = (0..36_u8).collect();
        let whole = decode(&bytes);
        let mut cut = bytes.clone();
        cut.drain(SHAPE_BYTES..SHAPE_BYTES + RECORD_BYTES);
        assert!(whole.operations.ends_with(&decode(&cut).operations));
    }
}
