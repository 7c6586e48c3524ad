//! Replays on several threads at once.

use core::time::Duration;
use std::{
    io,
    panic::resume_unwind,
    sync::{Barrier, OnceLock},
    thread::{self, ScopedJoinHandle},
    time::Instant,
};

use pool_core::Device;

use super::{
    placer::Placer,
    pooled::{Pooled, Stopped, Work},
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
    let workers = placers.iter_mut().map(|placer| (Stage::new(script), placer));
    let raced = race(workers, |_| {}, |(stage, placer)| stage.play(*placer))?;
    let (elapsed, finished) = raced.result();
    let mut failures = 0;
    for ((mut stage, placer), of_thread) in finished {
        failures += of_thread;
        stage.clear(placer);
    }
    Ok(Pass { elapsed, failures })
}

/// Replays programs at once, as [`pass_together`] does. Each thread has its cache when the clock
/// starts.
///
/// # Errors
///
/// As [`Pooled::pass`].
///
/// # Example
///
/// ```
/// use pool_core::{Pool, PoolConfig};
/// use pool_mock::device::{SimConfig, SimDevice};
/// use pool_mock::replay::{Pipeline, Pooled, pass_pooled_together};
///
/// let program = Pipeline::default().program();
/// let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
/// let copies = vec![Pooled::new(&pool, &program)?, Pooled::new(&pool, &program)?];
/// assert_eq!(pass_pooled_together(copies)?.failures, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn pass_pooled_together<D: Device, W: Work<D> + Send>(
    copies: Vec<Pooled<'_, D, W>>,
) -> Result<Pass, Stopped<D::Error>> {
    let warm_up = |pooled: &mut Pooled<'_, D, W>| {
        // What is wrong shows again in the pass.
        let _ = pooled.warm_up();
    };
    let raced = race(copies.into_iter(), warm_up, Pooled::play)?;
    let (elapsed, finished) = raced.result();
    let mut failures = 0;
    for (mut pooled, of_thread) in finished {
        failures += of_thread?;
        pooled.clear()?;
    }
    Ok(Pass { elapsed, failures })
}

/// Has each worker play on a thread of its own, all at once, once all are ready.
fn race<W: Send, R: Send>(
    workers: impl Iterator<Item = W>,
    prepare: impl Fn(&mut W) + Sync,
    play: impl Fn(&mut W) -> R + Sync,
) -> io::Result<Raced<W, R>> {
    let workers: Vec<W> = workers.collect();
    let barrier = &Barrier::new(workers.len());
    // False if a thread could not be made: the others would wait at the barrier for ever.
    let complete = &OnceLock::<bool>::new();
    let (prepare, play) = (&prepare, &play);
    let finished = thread::scope(|scope| -> io::Result<Vec<_>> {
        let threads: io::Result<Vec<_>> = workers
            .into_iter()
            .map(|mut worker| {
                thread::Builder::new().spawn_scoped(scope, move || {
                    if !*complete.wait() {
                        return None;
                    }
                    prepare(&mut worker);
                    barrier.wait();
                    let start = Instant::now();
                    let result = play(&mut worker);
                    Some(Finished { start, end: Instant::now(), worker, result })
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
    Ok(Raced(finished))
}

/// What all threads come back with.
struct Raced<W, R>(Vec<Finished<W, R>>);

/// What a thread comes back with.
struct Finished<W, R> {
    start: Instant,
    end: Instant,
    worker: W,
    result: R,
}

impl<W, R> Raced<W, R> {
    /// The time from the first one's start to the last one's end, and what each has.
    fn result(self) -> (Duration, impl Iterator<Item = (W, R)>) {
        let start = self.0.iter().map(|thread| thread.start).min();
        let end = self.0.iter().map(|thread| thread.end).max();
        let elapsed = start.zip(end).map(|(start, end)| end - start).unwrap_or_default();
        (elapsed, self.0.into_iter().map(|thread| (thread.worker, thread.result)))
    }
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
