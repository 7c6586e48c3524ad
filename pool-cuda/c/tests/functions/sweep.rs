//! Each call of the driver fails once: the answer says so, and the books are as before.

use core::ffi::{c_int, c_void};

use pool_cuda_c::{poolResetPeaks, poolSetLimit, poolStats, poolStreamDestroyed, poolTrim};
use pool_mock_driver::*;

use crate::bed::*;

/// The codes that a call fails with: a usual one, and of some calls want of memory.
const CODES: [i32; 2] = [999, 2];

/// A program that does all that there is, and keeps its own books.
struct Program {
    streams: [Handle; 3],
    live: Vec<*mut c_void>,
    allocations: u64,
    frees: u64,
    trims: u64,
    limit: usize,
    refusals: Vec<c_int>,
}

impl Program {
    /// That the figures are what succeeded, whatever failed.
    fn check(&self) {
        let poolStats { liveBytes, allocations, frees, trims, limitBytes, .. } = stats(0);
        assert_eq!((allocations, frees), (self.allocations, self.frees));
        assert_eq!((trims, limitBytes), (self.trims, self.limit));
        assert_eq!(liveBytes == 0, self.live.is_empty());
    }

    fn note(&mut self, code: c_int) -> bool {
        if code != SUCCESS {
            self.refusals.push(code);
        }
        code == SUCCESS
    }

    fn malloc(&mut self, size: usize, stream: Handle) {
        match try_malloc(size, stream) {
            Ok(block) => {
                self.live.push(block);
                self.allocations += 1;
                // SAFETY: the memory is there.
                unsafe { cuMemsetD8Async(block.addr() as u64, 1, 256, stream) };
            }
            Err(code) => {
                self.note(code);
            }
        }
        self.check();
    }

    fn free(&mut self, stream: Handle) {
        let Some(block) = self.live.pop() else { return };
        let code = try_free(block, stream);
        if self.note(code) {
            self.frees += 1;
        } else {
            // It is live still.
            self.live.push(block);
        }
        self.check();
    }

    fn set_limit(&mut self, limit: usize) {
        if self.note(poolSetLimit(0, limit)) {
            self.limit = limit;
        }
        self.check();
    }

    fn trim(&mut self) {
        if self.note(poolTrim(0, 0)) {
            self.trims += 1;
        }
        self.check();
    }

    fn end(&mut self, stream: Handle) {
        // SAFETY: it is there still.
        let code = unsafe { poolStreamDestroyed(stream) };
        self.note(code);
        self.check();
    }

    fn run(&mut self, bed: &Bed) {
        let [one, two, default] = self.streams;
        for size in [5000, MIB, 70 * MIB] {
            self.malloc(size, one);
            self.malloc(size, two);
        }
        self.malloc(MIB, default);
        self.malloc(MIB, per_thread());
        // On their own streams and on others.
        for stream in [per_thread(), one, two, two, default] {
            self.free(stream);
        }
        self.set_limit(150 * MIB);
        // Memory goes from stream to stream.
        for stream in [two, default, per_thread(), one] {
            self.malloc(60 * MIB, stream);
            self.free(stream);
        }
        bed.go();
        self.trim();
        self.note(poolResetPeaks(0));
        self.set_limit(0);
        self.malloc(90 * MIB, one);
        self.end(two);
        while let Some(&last) = self.live.last() {
            self.free(one);
            if self.live.last() == Some(&last) {
                // Once more: one call fails once.
                self.free(one);
            }
        }
        bed.go();
        self.trim();
    }
}

/// Runs the program with one call that fails; false if it makes fewer.
fn run(failing: Option<(usize, i32)>) -> (usize, Vec<c_int>) {
    let bed = Bed::new();
    let streams = [bed.stream(), bed.stream(), core::ptr::null_mut()];
    let before = bed.simulation.calls().len();
    if let Some((index, code)) = failing {
        bed.simulation.fail_call(before + index, code);
    }
    let mut program = Program {
        streams,
        live: Vec::new(),
        allocations: 0,
        frees: 0,
        trims: 0,
        limit: 0,
        refusals: Vec::new(),
    };
    program.run(&bed);
    assert!(program.live.is_empty());
    bed.assert_clean();
    (bed.simulation.calls().len() - before, program.refusals)
}

#[test]
fn every_call_of_the_driver_fails_once() {
    let (calls, refusals) = run(None);
    assert_eq!(refusals, [0; 0]);
    assert!(calls > 100, "{calls}");
    let mut refused = 0;
    for index in 0..calls {
        for code in CODES.into_iter().take(1 + usize::from(index % 4 == 0)) {
            let (_, refusals) = run(Some((index, code)));
            refused += usize::from(!refusals.is_empty());
            let expected = [code, MEMORY];
            assert!(refusals.iter().all(|code| expected.contains(code)), "{index}: {refusals:?}");
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn a_lost_device_says_so_and_costs_nothing_else() {
    let mut bed = Bed::new();
    let stream = bed.stream();
    let (block, next) = (malloc(MIB, stream), malloc(MIB, stream));
    bed.simulation.make_fatal(0);
    bed.is_lost = true;
    for _ in 0..2 {
        assert_eq!(try_malloc(100 * MIB, stream), Err(code::ILLEGAL_ADDRESS));
        assert_eq!(try_malloc(100 * MIB, core::ptr::null_mut()), Err(code::ILLEGAL_ADDRESS));
    }
    let figures = stats(0);
    assert_eq!((figures.allocations, figures.frees), (2, 0));
    // Nothing is idle, so nobody is asked; nor for what is taken back by the books alone.
    assert_eq!(poolTrim(0, 0), SUCCESS);
    assert_eq!((try_free(block, stream), try_free(next, stream)), (SUCCESS, SUCCESS));
    assert_eq!(try_free(block, stream), code::INVALID_VALUE);
    assert_eq!((stats(0).frees, stats(0).liveBytes), (2, 0));
    assert_eq!(poolTrim(0, 0), code::ILLEGAL_ADDRESS);
}
