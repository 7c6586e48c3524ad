//! Each call of the driver fails once, under a program that does all that PyTorch does.

use core::ptr::null_mut;

use pool_cuda_c::{pool_torch_empty_cache, pool_torch_record_stream, pool_torch_set_fraction};
use pool_mock_driver::*;

use super::graphs::{Graph, begin, end, release, take_in_pool};
use super::*;

/// The program, and its own books.
struct Program {
    live: Vec<(*mut c_void, Handle)>,
    allocations: u64,
    frees: u64,
    refusals: usize,
}

impl Program {
    fn took(&mut self, block: *mut c_void, stream: Handle) {
        if block.is_null() {
            self.refusals += 1;
            assert!(!message().is_empty());
        } else {
            self.live.push((block, stream));
            self.allocations += 1;
        }
        self.check();
    }

    fn take(&mut self, size: usize, stream: Handle) {
        self.took(ask(size, 0, stream).unwrap_or(null_mut()), stream);
    }

    fn give(&mut self) {
        let Some((block, stream)) = self.live.pop() else { return };
        // There is always a way.
        assert_eq!(give(block, stream), SUCCESS, "{}", message());
        self.frees += 1;
        self.check();
    }

    fn note(&mut self, code: c_int) -> bool {
        self.refusals += usize::from(code != SUCCESS);
        self.check();
        code == SUCCESS
    }

    fn check(&self) {
        let figures = figures(0);
        assert_eq!((figures.allocations, figures.frees), (self.allocations, self.frees));
        assert_eq!(figures.liveBytes == 0, self.live.is_empty());
    }

    fn run(&mut self, bed: &Bed, streams: [Handle; 3]) {
        let [listed, raw, default] = streams;
        self.note(list(0, &[listed]));
        for stream in [listed, raw, default, per_thread()] {
            self.take(5000, stream);
            self.take(3 * MIB, stream);
        }
        if let Some(&(block, _)) = self.live.last() {
            for user in [listed, raw, default] {
                // SAFETY: the stream is there.
                self.note(unsafe { pool_torch_record_stream(block, user) });
            }
        }
        for _ in 0..6 {
            self.give();
        }
        self.capture(listed);
        self.note(pool_torch_set_fraction(0.75, 0));
        self.take(5 * MIB, listed);
        bed.go();
        self.note(pool_torch_empty_cache());
        while !self.live.is_empty() {
            self.give();
        }
        bed.go();
        self.note(pool_torch_empty_cache());
    }

    fn capture(&mut self, stream: Handle) {
        let is_open = self.note(begin(stream));
        // SAFETY: the stream is there.
        if unsafe { cuStreamBeginCapture_v2(stream, 0) } == 0 {
            if is_open {
                self.took(take_in_pool(MIB, stream), stream);
                self.give();
            }
            let mut graph = null_mut();
            // SAFETY: the pointer is to a local.
            if unsafe { cuStreamEndCapture(stream, &raw mut graph) } == 0 {
                // SAFETY: it is there.
                unsafe { cuGraphDestroy(graph) };
            } else {
                // It is still under way: what failed was told to.
                Graph::of(stream).end();
            }
        }
        if is_open {
            self.note(end(stream));
            if !self.note(release()) {
                // One call fails once.
                assert_eq!(release(), SUCCESS);
            }
        }
    }
}

/// Runs the program with one call that fails; how many it makes, and how often it was refused.
fn run(failing: Option<usize>) -> (usize, usize) {
    let bed = Bed::single();
    let streams = [bed.stream(), bed.stream(), null_mut()];
    let before = bed.simulation.calls().len();
    if let Some(index) = failing {
        bed.simulation.fail_call(before + index, 999);
    }
    let mut program = Program { live: Vec::new(), allocations: 0, frees: 0, refusals: 0 };
    program.run(&bed, streams);
    bed.assert_clean();
    (bed.simulation.calls().len() - before, program.refusals)
}

#[test]
fn every_call_of_the_driver_fails_once() {
    let (calls, refusals) = run(None);
    assert_eq!(refusals, 0);
    assert!(calls > 60, "{calls}");
    let refused = (0..calls).filter(|&index| run(Some(index)).1 > 0).count();
    assert!(refused > 10, "{refused}");
}
