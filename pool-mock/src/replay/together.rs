//! Replays on several threads at once.

use std::{
    io,
    panic::resume_unwind,
    sync::{Barrier, OnceLock},
    thread::{self, ScopedJoinHandle},
    time::Instant,
};

use super::{
    placer::Placer,
    script::Script,
    timing::{Pass, Stage},
};

/// Replays a script on each allocator at once, timed: a thread each, which all start together
/// when the last of them is there.
///
/// The pass lasts from the first thread's first step to the last thread's last; its failures are
/// those of all threads. What is live at the end is released after the last thread has ended.
///
/// # Errors
///
/// The system has no more threads. Nothing has been replayed then.
///
/// # Panics
///
/// When an allocator does.
///
/// # Example
///
/// ```
/// use pool_core::{RangeConfig, SharedAllocator};
/// use pool_mock::{Trace, replay::{Cached, Script, pass_together}};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,64,0\nfree,0xa0,64,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
/// let shared = SharedAllocator::new(RangeConfig::new(1 << 30))?;
/// let pass = pass_together(&script, &mut Cached::copies(&shared, 4, 2))?;
/// assert_eq!(pass.failures, 0);
/// assert_eq!(shared.stats().live_blocks, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pass_together<P>(script: &Script, placers: &mut [P]) -> io::Result<Pass>
where
    P: Placer + Send,
    P::Block: Send,
{
    let barrier = &Barrier::new(placers.len());
    // False if a thread could not be made: the others would wait at the barrier for ever.
    let complete = &OnceLock::<bool>::new();
    let finished = thread::scope(|scope| -> io::Result<Vec<_>> {
        let threads: io::Result<Vec<_>> = placers
            .iter_mut()
            .map(|placer| {
                let mut stage = Stage::new(script);
                thread::Builder::new().spawn_scoped(scope, move || {
                    if !*complete.wait() {
                        return None;
                    }
                    barrier.wait();
                    let start = Instant::now();
                    let failures = stage.play(placer);
                    Some(Finished { start, end: Instant::now(), failures, stage, placer })
                })
            })
            .collect();
        // Nobody else sets it, so this does.
        let _ = complete.set(threads.is_ok());
        let join = |thread: ScopedJoinHandle<'_, _>| match thread.join() {
            Ok(finished) => finished,
            Err(panic) => resume_unwind(panic),
        };
        Ok(threads?.into_iter().filter_map(join).collect())
    })?;
    let start = finished.iter().map(|thread| thread.start).min();
    let end = finished.iter().map(|thread| thread.end).max();
    let failures = finished.iter().map(|thread| thread.failures).sum();
    for Finished { mut stage, placer, .. } in finished {
        stage.clear(placer);
    }
    let elapsed = start.zip(end).map(|(start, end)| end - start).unwrap_or_default();
    Ok(Pass { elapsed, failures })
}

/// What a thread comes back with: its figures, and what it still holds.
struct Finished<'a, 'p, P: Placer> {
    start: Instant,
    end: Instant,
    failures: u64,
    stage: Stage<'a, P::Block>,
    placer: &'p mut P,
}

#[cfg(test)]
mod tests {
    use core::{
        sync::atomic::{AtomicBool, Ordering},
        time::Duration,
    };
    use std::sync::Arc;

    use super::*;
    use crate::Trace;

    /// Waits in its first request until every other thread is in its own.
    struct Meeting {
        barrier: Arc<Barrier>,
        left: bool,
    }

    impl Placer for Meeting {
        type Block = ();

        fn place(&mut self, _granules: u64) -> Option<()> {
            if !core::mem::replace(&mut self.left, true) {
                self.barrier.wait();
            }
            Some(())
        }

        fn release(&mut self, (): ()) {}
    }

    fn script() -> Script {
        let log = "Action,Pointer,Size,Stream\n\
                   allocate,0xa0,1,0\nallocate,0xb0,1,0\nfree,0xa0,1,0\n";
        Script::new(&Trace::read(log.as_bytes()).unwrap(), 1)
    }

    #[test]
    fn all_threads_run_at_once_in_every_repetition() {
        let barrier = Arc::new(Barrier::new(4));
        for _ in 0..3 {
            let meeting = || Meeting { barrier: Arc::clone(&barrier), left: false };
            let mut placers: Vec<_> = (0..4).map(|_| meeting()).collect();
            assert_eq!(pass_together(&script(), &mut placers).unwrap().failures, 0);
        }
    }

    /// Refuses its second request; notes that a live block was given back.
    #[derive(Default)]
    struct Second {
        requests: u32,
        released: u32,
    }

    impl Placer for Second {
        type Block = u32;

        fn place(&mut self, _granules: u64) -> Option<u32> {
            self.requests += 1;
            (self.requests != 2).then_some(self.requests)
        }

        fn release(&mut self, _block: u32) {
            self.released += 1;
        }
    }

    #[test]
    fn failures_are_summed_and_nothing_stays_live() {
        let mut placers: Vec<Second> = (0..5).map(|_| Second::default()).collect();
        assert_eq!(pass_together(&script(), &mut placers).unwrap().failures, 5);
        assert!(placers.iter().all(|placer| (placer.requests, placer.released) == (2, 1)));
    }

    #[test]
    fn no_allocators_take_no_time() {
        let pass = pass_together::<Second>(&script(), &mut []).unwrap();
        assert_eq!(pass, Pass { elapsed: Duration::ZERO, failures: 0 });
    }

    #[test]
    fn a_panic_comes_through_and_nobody_hangs() {
        struct Broken<'a>(&'a AtomicBool);
        impl Placer for Broken<'_> {
            type Block = ();
            fn place(&mut self, _granules: u64) -> Option<()> {
                assert!(self.0.swap(true, Ordering::Relaxed), "the first request");
                Some(())
            }
            fn release(&mut self, (): ()) {}
        }
        let asked = AtomicBool::new(false);
        let result = std::panic::catch_unwind(|| {
            let mut placers: Vec<_> = (0..3).map(|_| Broken(&asked)).collect();
            pass_together(&script(), &mut placers).map(|pass| pass.failures)
        });
        assert!(result.is_err());
    }
}
