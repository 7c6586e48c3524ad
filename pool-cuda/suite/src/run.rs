//! The list of tests, and how it is run.

use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::bed::Bed;
use crate::world::World;
use crate::{
    access, buffers, captures, child, conformance, contexts, copies, device, events, faults,
    integrity, movable, order, pages, per_thread, pinned, sleep, sources, streams, stress,
};

/// A test.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Its module and name.
    pub name: &'static str,
    /// What it does; it fails by a panic.
    pub run: fn(&World),
    /// So many devices it needs.
    pub devices: u32,
    /// Whether only a simulated driver can run it.
    pub simulated: bool,
}

/// A list of the tests of a module, by name; after `two:` those that need two devices, and after
/// `simulated:` those that only a simulated driver can run.
#[macro_export]
macro_rules! tests {
    (
        $($one:ident),* $(,)?
        $(; two: $($two:ident),* $(,)?)?
        $(; simulated: $($simulated:ident),* $(,)?)?
    ) => {
        &[
            $($crate::tests!(@ $one, 1, false),)*
            $($($crate::tests!(@ $two, 2, false),)*)?
            $($($crate::tests!(@ $simulated, 2, true),)*)?
        ]
    };
    (@ $test:ident, $devices:literal, $simulated:literal) => {
        $crate::run::Test {
            name: concat!(module_path!(), "::", stringify!($test)),
            run: $test,
            devices: $devices,
            simulated: $simulated,
        }
    };
}

/// The tests of this package.
pub const ALL: &[&[Test]] = &[
    device::TESTS,
    conformance::TESTS,
    contexts::TESTS,
    streams::TESTS,
    events::TESTS,
    sources::TESTS,
    pages::TESTS,
    sleep::TESTS,
    access::TESTS,
    buffers::TESTS,
    copies::TESTS,
    order::TESTS,
    per_thread::TESTS,
    captures::TESTS,
    movable::TESTS,
    pinned::TESTS,
    faults::capture::TESTS,
    faults::default_stream::TESTS,
    faults::event_leak::TESTS,
    faults::ipc::TESTS,
    faults::multi_device::TESTS,
    faults::pinned_host::TESTS,
    faults::stream_lifetime::TESTS,
    faults::teardown::TESTS,
    faults::vmm::TESTS,
    integrity::TESTS,
    stress::TESTS,
    child::TESTS,
];

/// Runs tests on the bed that a function starts, one at a time, as the command line says; a child
/// process of a test does its part.
pub fn run<B: Bed + 'static>(
    start: impl FnOnce() -> Result<B, String>,
    tests: &[&[Test]],
) -> ExitCode {
    let part = child::Part::of_this_process();
    let bed: &'static B = match start() {
        Ok(bed) => Box::leak(Box::new(bed)),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(part) = part {
        return part.play(bed);
    }
    let mut arguments = Arguments::from_args();
    // The driver is one for the whole process.
    arguments.test_threads = Some(1);
    let ways = bed.ways();
    let trials = ways.iter().enumerate().flat_map(|(way, name)| {
        let tests = tests.iter().flat_map(|tests| tests.iter());
        // What only a simulated driver can run sets by itself when work runs.
        let tests = tests.filter(move |test| !test.simulated || bed.is_simulated() && way == 0);
        tests.map(move |&test| {
            let name = format!("{name}::{}", short(test.name));
            let lacks_devices = test.devices > bed.devices();
            Trial::test(name, move || attempt(bed, way, test)).with_ignored_flag(lacks_devices)
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// A test's name without the package's.
fn short(name: &str) -> &str {
    name.split_once("::").map_or(name, |(_, rest)| rest)
}

fn attempt(bed: &dyn Bed, way: usize, test: Test) -> Result<(), Failed> {
    let world = World::new(bed.begin(way));
    let outcome = catch_unwind(AssertUnwindSafe(|| (test.run)(&world)));
    let left = world.end();
    if let Err(panic) = outcome {
        if let Err(left) = left {
            eprintln!("{}: {left}", test.name);
        }
        resume_unwind(panic);
    }
    left.map_err(Failed::from)
}
