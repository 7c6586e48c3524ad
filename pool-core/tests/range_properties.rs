//! Random operations on one range against the reference model, for each placement and storage.

use pool_core::Placement;
use pool_mock::oracle::{
    Case, NodeBudget, RECORD_BYTES, SHAPE_BYTES, Shape, Storage, Summary, Verify, check, decode,
};
use proptest::array::uniform;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};

/// Cases of any shape. The records are of fixed length, so a smaller case is one with fewer of
/// them or with smaller bytes in them.
fn cases(operations: usize) -> impl Strategy<Value = Case> {
    let records = vec(uniform::<_, RECORD_BYTES>(any::<u8>()), 1..operations);
    (uniform::<_, SHAPE_BYTES>(any::<u8>()), records).prop_map(|(header, records)| {
        let mut bytes = header.to_vec();
        bytes.extend(records.concat());
        decode(&bytes)
    })
}

/// Runs cases of one placement and storage, and adds up what they came to.
fn run(placement: Placement, storage: fn(&Shape) -> Storage, with_twin: bool) -> Summary {
    let mut sum = Summary::default();
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 128,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        source_file: Some(file!()),
        ..ProptestConfig::default()
    });
    let total = core::cell::RefCell::new(Summary::default());
    let outcome = runner.run(&cases(100), |mut case| {
        case.shape.placement = placement;
        case.shape.storage = storage(&case.shape);
        case.shape.twin = with_twin;
        match check(&case, Verify::Every(16)) {
            Ok(summary) => {
                total.borrow_mut().add(&summary);
                Ok(())
            }
            Err(discrepancy) => Err(TestCaseError::fail(discrepancy.to_string())),
        }
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    sum.add(&total.borrow());
    // A run in which nothing happened shows nothing.
    assert!(sum.served > 1000 && sum.refused > 100 && sum.resized > 50, "{sum:?}");
    assert!(sum.misuses > 50 && sum.end_moves > 20, "{sum:?}");
    sum
}

fn chunked(_: &Shape) -> Storage {
    Storage::Chunked
}

fn lent(_: &Shape) -> Storage {
    Storage::Borrowed { nodes: NodeBudget::Ample, spans: 64 }
}

/// Nodes for a number of blocks that many cases reach and go past, and tables for two spans.
fn scarce(shape: &Shape) -> Storage {
    Storage::Borrowed { nodes: NodeBudget::Blocks(shape.handle_seed % 24), spans: 2 }
}

#[test]
fn best_fit_in_chunks() {
    let sum = run(Placement::BestFit, chunked, false);
    assert!(sum.from_spans > 200, "{sum:?}");
}

#[test]
fn best_fit_in_lent_storage() {
    let sum = run(Placement::BestFit, lent, false);
    assert!(sum.from_spans > 200, "{sum:?}");
}

#[test]
fn best_fit_with_few_nodes() {
    let sum = run(Placement::BestFit, scarce, false);
    assert!(sum.starved > 50 && sum.from_spans > 50, "{sum:?}");
}

#[test]
fn best_fit_alike_in_both_storages() {
    run(Placement::BestFit, chunked, true);
    run(Placement::BestFit, |_| Storage::Borrowed { nodes: NodeBudget::Ample, spans: 4096 }, true);
}

#[test]
fn first_fit_in_chunks() {
    run(Placement::FirstFit, chunked, false);
}

#[test]
fn first_fit_in_lent_storage() {
    run(Placement::FirstFit, lent, false);
}

#[test]
fn first_fit_with_few_nodes() {
    let sum = run(Placement::FirstFit, scarce, false);
    assert!(sum.starved > 50, "{sum:?}");
}

#[test]
fn first_fit_alike_in_both_storages() {
    run(Placement::FirstFit, chunked, true);
}

#[test]
fn buddy_in_chunks() {
    run(Placement::Buddy, chunked, false);
}

#[test]
fn buddy_in_lent_storage() {
    run(Placement::Buddy, lent, false);
}

#[test]
fn buddy_with_few_nodes() {
    let sum = run(Placement::Buddy, scarce, false);
    assert!(sum.starved > 50, "{sum:?}");
}

#[test]
fn buddy_alike_in_both_storages() {
    run(Placement::Buddy, chunked, true);
}
