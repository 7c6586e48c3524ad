//! Threads that replay a recorded program, a copy each.

use pool_mock::replay::{Script, Stage, Step, roomy_capacity};

use super::{Crowd, Job, Pass, Room, together};

/// Each thread replays the same program under an owner number of its own, over and over, in an
/// allocator of 1.25 times as many peaks as there are threads. What is live at the end of the
/// program is freed, which counts.
#[derive(Clone, Debug)]
pub struct Copies {
    script: Script,
    operations: u64,
}

impl Copies {
    /// Copies of a program.
    ///
    /// ```
    /// use peers::crowd::{Contestant, Copies};
    /// use pool_mock::{Trace, replay::Script};
    ///
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,64,0\n";
    /// let copies = Copies::new(Script::new(&Trace::read(log.as_bytes())?, 256));
    /// let outcome = Contestant::Caches.pass(&copies, 2, 10)?;
    /// assert_eq!((outcome.pass.operations, outcome.pass.refused), (2 * 2 * 10, 0));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn new(script: Script) -> Self {
        // Each block that is allocated is freed, by the program or at its end.
        let is_allocation = |step: &&Step| matches!(step, Step::Allocate { .. });
        let operations = 2 * script.steps().iter().filter(is_allocation).count() as u64;
        Self { script, operations }
    }
}

impl Job for Copies {
    fn room(&self, threads: u32) -> Room {
        Room {
            threads,
            granules_each: roomy_capacity(&self.script),
            blocks_each: self.script.peak_live_blocks(),
            owners: true,
        }
    }

    fn pass<C: Crowd>(&self, crowd: &C, threads: u32, rounds: u32) -> Pass {
        together(0..threads, |thread, line| {
            let mut hand = crowd.hand(thread);
            let mut stage = Stage::new(&self.script);
            line.lap(self.operations * u64::from(rounds), || {
                (0..rounds).map(|_| stage.pass(&mut hand).failures).sum()
            })
        })
    }
}
