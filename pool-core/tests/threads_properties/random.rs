//! Random operations.

use core::cell::RefCell;

use pool_core::{Options, Placement};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};

use crate::check::{Summary, check};
use crate::setting::{GRANULE, Setting};
use crate::step::{CACHES, Door, Size, Step};

fn door() -> impl Strategy<Value = Door> {
    prop_oneof![1 => Just(Door::Shared), 4 => (0..CACHES).prop_map(Door::Cache)]
}

/// Mostly nobody in particular.
fn owner() -> impl Strategy<Value = u32> {
    prop_oneof![8 => Just(0), 1 => 1u32..3]
}

/// How a case goes: in a calm one hardly anything is refused, so that caches fill; in a rough one
/// every other request empties them.
#[derive(Clone, Copy, Debug)]
enum Mood {
    Calm,
    Rough,
}

/// What caches keep, as often in each power of two.
fn small_size() -> impl Strategy<Value = Size> {
    (0u32..7, 0u64..GRANULE).prop_map(|(power, less)| Size::Bytes((GRANULE << power) - less))
}

fn size(mood: Mood) -> BoxedStrategy<Size> {
    match mood {
        Mood::Calm => prop_oneof![
            20 => small_size(),
            1 => (16u64 << 10..64 << 10).prop_map(Size::Bytes),
        ]
        .boxed(),
        Mood::Rough => prop_oneof![
            12 => small_size(),
            4 => (1u64..64).prop_map(|granules| Size::Bytes(granules * GRANULE)),
            3 => (16u64 << 10..600 << 10).prop_map(Size::Bytes),
            2 => (1u64..=16).prop_map(Size::Sixteenths),
            2 => (-2i64..3).prop_map(Size::Largest),
            1 => prop_oneof![
                Just(Size::Bytes(0)),
                (0u64..600).prop_map(Size::BelowTheMost),
                Just(Size::Sixteenths(17)),
            ],
        ]
        .boxed(),
    }
}

fn align_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => Just(1),
        3 => (8u32..17).prop_map(|power| 1 << power),
        1 => prop_oneof![Just(0), Just(3), Just(1 << 40), Just(1 << 63)],
    ]
}

fn options() -> impl Strategy<Value = Options> {
    prop_oneof![
        6 => Just(Options::empty()),
        1 => Just(Options::HIGH_END),
        1 => Just(Options::OUTSIDE_SPANS),
        1 => Just(Options::NO_NEW_SPAN),
    ]
}

fn allocate(mood: Mood) -> impl Strategy<Value = Step> {
    let plain = (door(), owner(), size(mood)).prop_map(|(door, owner, size)| Step::Allocate {
        door,
        owner,
        size,
        align_bytes: 1,
        options: Options::empty(),
        limit: false,
    });
    let any = (door(), size(mood), align_bytes(), options(), any::<bool>()).prop_map(
        |(door, size, align_bytes, options, limit)| Step::Allocate {
            door,
            owner: 0,
            size,
            align_bytes,
            options,
            limit,
        },
    );
    match mood {
        Mood::Calm => prop_oneof![30 => plain, 1 => any],
        Mood::Rough => prop_oneof![3 => plain, 2 => any],
    }
}

fn step(mood: Mood) -> impl Strategy<Value = Step> {
    let cache = 0..CACHES;
    prop_oneof![
        60 => allocate(mood),
        50 => (door(), owner(), any::<usize>())
            .prop_map(|(door, owner, pick)| Step::Free { door, owner, pick }),
        5 => (door(), any::<usize>()).prop_map(|(door, pick)| Step::FreeAgain { door, pick }),
        5 => (door(), any::<u64>(), 0u32..64)
            .prop_map(|(door, bits, shift)| Step::FreeForeign { door, bits: bits >> shift }),
        2 => door().prop_map(Step::Flush),
        2 => (cache.clone(), 0u32..4).prop_map(|(cache, shard)| Step::Renew { cache, shard }),
        2 => (cache, 0u32..4).prop_map(|(cache, shard)| Step::UseShard { cache, shard }),
        2 => Just(Step::ResetPeak),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![vec(step(Mood::Calm), 1..400), vec(step(Mood::Rough), 1..200)]
}

/// Capacities from a few granules to 64 MiB, as often small as large; not all powers of two.
fn granules() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 1u64..200,
        2 => (6u32..12).prop_map(|power| 1 << power),
        2 => 200u64..5000,
        4 => Just(1 << 14),
        1 => Just(1 << 18),
    ]
}

/// Runs cases under one placement and with so many shards, and demands that enough happened.
fn run(placement: Placement, shards: u32) -> Summary {
    let settings = (
        granules(),
        prop_oneof![1 => Just(0u64), 2 => Just(64), 2 => Just(128)],
        prop_oneof![Just(0u64), Just(8 << 10), Just(64 << 10), Just(1 << 20)],
    )
        .prop_map(move |(granules, span_granules, cache_bytes)| {
            let span_granules = if placement == Placement::BestFit { span_granules } else { 0 };
            Setting { granules, placement, span_granules, shards, cache_bytes }
        });
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 128,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    });
    let sum = RefCell::new(Summary::default());
    let outcome = runner.run(&(settings, steps()), |(setting, steps)| {
        let summary = check(setting, &steps, 8).map_err(TestCaseError::fail)?;
        sum.borrow_mut().add(&summary);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    let sum = sum.into_inner();
    assert!(sum.served > 3000 && sum.refused > 300 && sum.misuses > 100, "{sum:?}");
    assert!(sum.flushes > 100 && sum.fragmented > 20, "{sum:?}");
    sum
}

#[test]
fn best_fit_in_one_shard() {
    let sum = run(Placement::BestFit, 1);
    assert!(sum.in_cache > 200 && sum.recalls == 0, "{sum:?}");
}

#[test]
fn best_fit_in_two_shards() {
    let sum = run(Placement::BestFit, 2);
    assert!(sum.in_cache > 200 && sum.recalls > 20, "{sum:?}");
}

#[test]
fn best_fit_in_four_shards() {
    let sum = run(Placement::BestFit, 4);
    assert!(sum.in_cache > 200 && sum.recalls > 20, "{sum:?}");
}

#[test]
fn first_fit() {
    run(Placement::FirstFit, 4);
}

#[test]
fn buddy() {
    run(Placement::Buddy, 4);
}
