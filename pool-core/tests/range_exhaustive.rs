//! Every sequence of a few operations on ranges so small that all of them can be tried.

use pool_core::{Options, Placement};
use pool_mock::oracle::{Case, NodeBudget, Operation, Shape, Size, Storage, Verify, check};

const fn granules(count: u32) -> Operation {
    Operation::allocate(Size::Granules(count))
}

const fn aligned(count: u32, align_granules: u64) -> Operation {
    Operation::allocate_aligned(Size::Granules(count), align_granules * 256)
}

const fn high(count: u32) -> Operation {
    Operation::allocate_with(Size::Granules(count), Options::HIGH_END)
}

/// Checks every sequence of `length` operations out of `alphabet`; shorter ones are their
/// beginnings, and each step is checked. Returns how many there were.
fn every_sequence(shape: Shape, alphabet: &[Operation], length: u32) -> usize {
    let count = alphabet.len().pow(length);
    for number in 0..count {
        let mut rest = number;
        let operations = (0..length)
            .map(|_| {
                let operation = alphabet[rest % alphabet.len()];
                rest /= alphabet.len();
                operation
            })
            .collect();
        let case = Case { shape, operations };
        if let Err(discrepancy) = check(&case, Verify::EachStep) {
            panic!("{discrepancy}\n{case:?}");
        }
    }
    count
}

/// Sizes, alignments, frees and resizes around seven granules: not a power of two, and few enough
/// that holes of every kind arise.
const AROUND_SEVEN: [Operation; 7] = [
    granules(1),
    granules(3),
    aligned(1, 2),
    high(2),
    Operation::Free(0),
    Operation::Free(1),
    Operation::ResizeBy { pick: 0, by: 1 },
];

#[test]
fn all_sequences_on_seven_granules_best_fit() {
    assert_eq!(every_sequence(Shape::new(7), &AROUND_SEVEN, 5), 16_807);
}

#[test]
fn all_sequences_on_seven_granules_first_fit() {
    let shape = Shape::new(7).placement(Placement::FirstFit);
    assert_eq!(every_sequence(shape, &AROUND_SEVEN, 5), 16_807);
}

#[test]
fn all_sequences_on_seven_granules_buddy() {
    let shape = Shape::new(7).placement(Placement::Buddy);
    assert_eq!(every_sequence(shape, &AROUND_SEVEN, 5), 16_807);
}

/// A span of 64 granules in 67: opened, filled, pinned, emptied and dissolved for the whole range.
#[test]
fn all_sequences_around_one_span() {
    let alphabet = [
        granules(1),
        granules(16),
        Operation::allocate(Size::LargestHole { plus: 0 }),
        Operation::allocate_with(Size::Granules(2), Options::OUTSIDE_SPANS),
        Operation::Free(0),
        Operation::Free(1),
        Operation::ResizeBy { pick: 0, by: 3 },
    ];
    assert_eq!(every_sequence(Shape::new(67).spans(64, 16), &alphabet, 5), 16_807);
}

/// Three nodes: most steps find none to spare.
#[test]
fn all_sequences_with_three_nodes() {
    for placement in [Placement::BestFit, Placement::FirstFit, Placement::Buddy] {
        let storage = Storage::Borrowed { nodes: NodeBudget::Nodes(3), spans: 0 };
        let shape = Shape::new(7).placement(placement).storage(storage);
        let alphabet = [
            granules(1),
            granules(3),
            aligned(1, 4),
            high(2),
            Operation::Free(0),
            Operation::ResizeBy { pick: 0, by: -1 },
            Operation::Grow { bytes: 256 },
            Operation::Shrink { bytes: 256 },
        ];
        assert_eq!(every_sequence(shape, &alphabet, 4), 4096);
    }
}

/// The range's end, moved up and down between blocks.
#[test]
fn all_sequences_at_the_end() {
    for placement in [Placement::BestFit, Placement::FirstFit, Placement::Buddy] {
        let shape = Shape::new(3).placement(placement);
        let alphabet = [
            granules(1),
            high(1),
            granules(2),
            Operation::Free(0),
            Operation::Grow { bytes: 256 },
            Operation::Grow { bytes: 5 * 256 },
            Operation::Shrink { bytes: 256 },
            Operation::ShrinkTail { plus: 0 },
        ];
        assert_eq!(every_sequence(shape, &alphabet, 4), 4096);
    }
}

/// Seven operations deep where the alphabet is small.
#[test]
fn all_long_sequences_of_allocate_and_free() {
    for placement in [Placement::BestFit, Placement::FirstFit, Placement::Buddy] {
        let alphabet = [granules(1), granules(2), Operation::Free(0), Operation::Free(1)];
        let shape = Shape::new(5).placement(placement);
        assert_eq!(every_sequence(shape, &alphabet, 7), 16_384);
    }
}
