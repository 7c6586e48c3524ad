//! What only another process can show: forks, and the end with live blocks.
//!
//! The test starts this program again, which then plays a part.

use core::ffi::c_int;
use std::process::Command;

use crate::bed::*;
use pool_cuda_c::{poolResetPeaks, poolSetLimit, poolStreamDestroyed, poolTrim};

const PART: &str = "POOL_CUDA_C_PART";

/// How the part ends if all is well.
const ALL_IS_WELL: c_int = 42;

/// `cudaErrorInitializationError`.
const FORKED: c_int = 3;

fn play(part: &str) {
    for _ in 0..10 {
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args(["--exact", "child::part", "--nocapture"]).env(PART, part);
        let output = program.output().unwrap();
        let said =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        assert_eq!(output.status.code(), Some(ALL_IS_WELL), "{}", said.concat());
    }
}

#[test]
fn a_forked_child_gets_errors_and_ends() {
    play("fork");
}

#[test]
fn no_call_comes_after_the_end_of_the_process() {
    play("exit");
}

/// The part that the environment names; none, in a run of all tests.
#[test]
fn part() {
    match std::env::var(PART).as_deref() {
        Ok("fork") => fork_with_live_blocks(),
        Ok("exit") => exit_with_live_blocks(),
        _ => {}
    }
}

/// A program in the midst of its work, with other threads that hold whatever they do.
fn with_threads(stream: usize, work: impl FnOnce()) {
    let stop = core::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let job = || {
            scope.spawn(|| {
                let stream = core::ptr::without_provenance_mut(stream);
                let mut random = fastrand::Rng::new();
                while !stop.load(core::sync::atomic::Ordering::Relaxed) {
                    free(malloc(random.usize(1..3 * MIB), stream), stream);
                    stats(0);
                }
            })
        };
        let jobs = [job(), job()];
        work();
        stop.store(true, core::sync::atomic::Ordering::Relaxed);
        // Wholly, which the scope does not wait for.
        for job in jobs {
            job.join().unwrap();
        }
    });
}

fn fork_with_live_blocks() {
    let bed = Bed::new();
    let stream = bed.stream();
    let (small, large) = (malloc(4096, stream), malloc(40 * MIB, stream));
    free(malloc(4096, stream), stream);
    with_threads(stream.addr(), || {
        // SAFETY: the child calls what a child may, and ends at once.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let codes = [
                try_malloc(4096, stream).unwrap_err(),
                try_malloc(0, stream).unwrap_err(),
                try_malloc(90 * MIB, core::ptr::null_mut()).unwrap_err(),
                try_free(small, stream),
                try_free(large, per_thread()),
                poolSetLimit(0, 1),
                poolTrim(0, 0),
                poolResetPeaks(0),
                // SAFETY: only the handle is looked at.
                unsafe { poolStreamDestroyed(stream) },
            ];
            let well = codes == [FORKED; 9] && bed.simulation.late_calls().is_empty();
            // SAFETY: it only ends the child.
            unsafe { libc::_exit(if well { ALL_IS_WELL } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the pointer is to a local.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status));
        assert_eq!(libc::WEXITSTATUS(status), ALL_IS_WELL);
    });
    // The parent goes on.
    free(small, stream);
    free(large, stream);
    drop(bed);
    std::process::exit(ALL_IS_WELL);
}

extern "C" fn after_the_end() {
    // Registered first, so that it runs last.
    let bed = BED.get().unwrap();
    bed.0.simulation.exit();
    let block = try_malloc(90 * MIB, core::ptr::null_mut());
    let well = block.is_err() && bed.0.simulation.late_calls().is_empty();
    // SAFETY: nothing is to run any more.
    unsafe { libc::_exit(if well { ALL_IS_WELL } else { 1 }) };
}

/// What the last handler looks at.
struct Kept(Bed);
// SAFETY: the last handler has it alone.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}
static BED: std::sync::OnceLock<Kept> = std::sync::OnceLock::new();

fn exit_with_live_blocks() {
    // SAFETY: the handler may run at any end of the process.
    unsafe { libc::atexit(after_the_end) };
    let bed = Bed::new();
    let stream = bed.stream();
    malloc(4096, stream);
    write(malloc(40 * MIB, stream), MIB, stream);
    free(malloc(4096, stream), stream);
    let kept = BED.set(Kept(bed));
    assert!(kept.is_ok());
    std::process::exit(0);
}
