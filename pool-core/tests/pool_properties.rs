//! Random programs on a pool over the simulated device, by one thread and by several.

use core::cell::RefCell;

use pool_core::policy::Deferred;
use pool_mock::program::{
    Finding, HEADER_BYTES, Operation, Pace, Program, RECORD_BYTES, Release, Shape, Tally, Where,
    check, check_recorded, check_threads, check_threads_recorded, decode,
};
use proptest::array::uniform;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};

/// Programs of any shape. The records are of fixed length, so a smaller program is one with fewer
/// of them or with smaller bytes in them.
fn programs() -> impl Strategy<Value = Program> {
    let records = vec(uniform::<_, RECORD_BYTES>(any::<u8>()), 1..80);
    (uniform::<_, HEADER_BYTES>(any::<u8>()), records).prop_map(|(mut header, records)| {
        // None that the header draws.
        header[HEADER_BYTES - 3] = 0;
        let mut bytes = header.to_vec();
        bytes.extend(records.concat());
        decode(&bytes)
    })
}

/// Runs programs, and adds up what they came to.
fn run(cases: u32, check: impl Fn(&Program) -> Result<Tally, Finding>) -> Tally {
    let mut runner = TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        source_file: Some(file!()),
        ..ProptestConfig::default()
    });
    let total = RefCell::new(Tally::default());
    let outcome = runner.run(&programs(), |program| match check(&program) {
        Ok(tally) => {
            total.borrow_mut().add(&tally);
            Ok(())
        }
        Err(finding) => Err(TestCaseError::fail(finding.to_string())),
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    total.into_inner()
}

#[test]
fn one_thread_and_its_guests() {
    let sum = run(600, check);
    // A run in which nothing happened shows nothing. Each bound is so far below the mean that chance
    // does not reach it.
    assert!(sum.served > 2000 && sum.refused > 500 && sum.freed > 2000, "{sum:?}");
    assert!(sum.uses > 3000 && sum.retired > 300 && sum.failed_calls > 50, "{sum:?}");
    assert!(sum.captures > 100 && sum.launches > 20 && sum.meetings > 500, "{sum:?}");
    assert!(sum.guards > 150 && sum.migrations > 0, "{sum:?}");
    assert!(sum.steals > 5 && sum.growths > 100 && sum.released_bytes > 1 << 20, "{sum:?}");
    assert!(sum.rested > 500, "{sum:?}");
}

/// What a pool notes comes to what its books say: bytes by state, requests, labels and their peaks.
#[test]
fn one_thread_whose_pool_records() {
    let sum = run(250, check_recorded);
    assert!(sum.served > 600 && sum.refused > 150 && sum.freed > 600, "{sum:?}");
    assert!(sum.steals > 0 && sum.growths > 30, "{sum:?}");
}

#[test]
fn threads_whose_pool_records() {
    let sum = run(100, |program| {
        let seed = program.operations.len() as u64 * 17 + u64::from(program.shape.streams);
        check_threads_recorded(program, 3, seed)
    });
    assert!(sum.served > 200 && sum.freed > 200, "{sum:?}");
}

#[test]
fn threads_that_take_turns() {
    for threads in [2, 3, 4] {
        let sum = run(100, |program| {
            let seed = program.operations.len() as u64 * 31 + u64::from(program.shape.streams);
            check_threads(program, threads, seed)
        });
        assert!(sum.served > 300 && sum.freed > 300 && sum.uses > 500, "{sum:?}");
        assert!(sum.retired > 30 && sum.captures > 10 && sum.growths > 10, "{sum:?}");
    }
}

/// In a capture, little is asked for by a call that names no stream, and before the clean memory that
/// serves it lies much that cannot be waited for: more pieces than a search passes over.
#[test]
fn what_is_clean_is_found_behind_much_that_is_not() {
    use Operation::{Allocate, AllocateMovable, BeginCapture, Create, Free, Retire};
    let allocate = |on, size_bytes| Allocate {
        on,
        size_bytes,
        align_bytes: 1,
        tag: None,
        affinity: None,
        write: true,
    };
    let movable = |on, size_bytes, align_bytes| AllocateMovable { on, size_bytes, align_bytes };
    let free = |block, release| Free { block, release, last_use: true };
    let shape = Shape {
        initial_bytes: 5 << 20,
        limit_bytes: Some(5 << 20),
        arena_bytes: 2 << 20,
        cache_bytes: 0,
        deferred: Deferred::Queue { blocks: 8, bytes: 256 << 10 },
        pages: Some((192 << 10, true)),
        memory_bytes: 16 << 20,
        grows_in_capture: true,
        pace: Pace::Lag(30),
        abrupt_end: true,
        streams: 4,
        ..decode(&[]).shape
    };
    let operations = vec![
        Create,
        allocate(Where::Known(16), 1000),
        allocate(Where::Raw(25), 2 << 20),
        Retire { stream: 128 },
        movable(Where::Known(5), 1_398_101, 64 << 10),
        free(64, Release::On(Where::Known(5))),
        allocate(Where::Raw(20), 512 << 10),
        movable(Where::Raw(14), 2 << 20, 1),
        BeginCapture { stream: 35, graph: 3, mode: 1, announce_first: false },
        free(201, Release::AtHome),
        free(14, Release::AtHome),
        allocate(Where::Nowhere, 4096),
    ];
    check(&Program { shape, operations }).unwrap();
}
