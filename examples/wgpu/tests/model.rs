//! Any writes, in any submissions, beside plain bytes.

mod support;

use graphics::{Buffers, Gpu, Staging, Upload, UploadError, Usage};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use support::read;

/// So small that most writes go over an end.
const CHUNK_BYTES: u64 = 16 << 10;

/// Bytes of each slice.
const SLICE_BYTES: usize = 100 << 10;

#[derive(Clone, Debug)]
enum Step {
    /// So many of a byte, at a place of one of three slices.
    Write {
        slice: usize,
        at: usize,
        count: usize,
        byte: u8,
    },
    Submit,
}

fn step() -> impl Strategy<Value = Step> {
    let place = prop_oneof![
        9 => (0..SLICE_BYTES / 4).prop_map(|word| word * 4),
        1 => 0..SLICE_BYTES + 8,
    ];
    let count = prop_oneof![0..300_usize, 0..SLICE_BYTES];
    let write = (0..3_usize, place, count, any::<u8>())
        .prop_map(|(slice, at, count, byte)| Step::Write { slice, at, count, byte });
    prop_oneof![4 => write, 1 => proptest::prelude::Just(Step::Submit)]
}

/// What the slices should hold: `None` where the write is refused.
fn model_of(steps: &[Step]) -> (Vec<Vec<u8>>, Vec<bool>) {
    let mut slices = vec![vec![0; SLICE_BYTES]; 3];
    let mut served = Vec::new();
    for step in steps {
        let &Step::Write { slice, at, count, byte } = step else { continue };
        let padded = count.next_multiple_of(4);
        served.push(at % 4 == 0 && at + padded <= SLICE_BYTES);
        if served.last() == Some(&true) {
            slices[slice][at..at + count].fill(byte);
            slices[slice][at + count..at + padded].fill(0);
        }
    }
    (slices, served)
}

fn check(gpu: &Gpu, steps: &[Step]) -> Result<(), Box<dyn core::error::Error>> {
    let storage = Buffers::new(gpu, Usage::Storage)?;
    let slices = [(); 3].map(|()| storage.allocate(SLICE_BYTES as u64));
    let [one, two, three] = slices;
    let slices = [one?, two?, three?];
    let staging = Staging::new(gpu, CHUNK_BYTES);
    let mut upload = Upload::over(gpu, staging, CHUNK_BYTES, Some(2 << 20))?;
    let mut served = Vec::new();
    for step in steps {
        match *step {
            Step::Write { slice, at, count, byte } => {
                match upload.write_at(&slices[slice], at as u64, &vec![byte; count]) {
                    Ok(()) => served.push(true),
                    Err(UploadError::Place { .. }) => served.push(false),
                    Err(error) => return Err(error.into()),
                }
            }
            Step::Submit => {
                upload.submit([])?;
            }
        }
    }
    upload.submit([])?;
    let (expected, expected_served) = model_of(steps);
    if served != expected_served {
        return Err("a write was refused, or not".into());
    }
    for (slice, expected) in slices.iter().zip(expected) {
        if read(gpu, slice)[..SLICE_BYTES] != expected {
            return Err("other bytes".into());
        }
    }
    Ok(())
}

#[test]
fn slices_hold_what_plain_bytes_would() {
    let Some(gpu) = support::gpu() else { return };
    let mut runner = TestRunner::new(Config { cases: 48, ..Config::default() });
    runner
        .run(&vec(step(), 1..60), |steps| {
            check(&gpu, &steps).map_err(|error| TestCaseError::fail(error.to_string()))
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
