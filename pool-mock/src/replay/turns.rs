//! A program of several threads on as many threads of the system, which take turns: the calls are
//! made in the program's one order, each from its own thread, so that every thread's cache sees
//! what it saw then, and every run is the same.

use std::{
    io,
    panic::resume_unwind,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, ScopedJoinHandle},
};

use pool_core::Device;

use super::{
    pooled::{Pooled, Stopped, Work},
    program::Program,
};

/// Several passes; `ended` is told how many requests each refused.
pub(super) fn passes<D: Device, W: Work<D> + Send>(
    pooled: &mut Pooled<'_, D, W>,
    passes: u32,
    ended: &mut (dyn FnMut(u64) + Send),
) -> Result<(), Stopped<D::Error>> {
    let mut failures = 0;
    take_turns(pooled, passes, &mut |turn| {
        failures += u64::from(!turn.served);
        if turn.is_last {
            ended(core::mem::take(&mut failures));
        }
        true
    })
}

/// Whether every request of a pass is served. Stops at the first that is not.
pub(super) fn serves<D: Device, W: Work<D> + Send>(
    pooled: &mut Pooled<'_, D, W>,
) -> Result<bool, Stopped<D::Error>> {
    let mut all = true;
    take_turns(pooled, 1, &mut |turn| {
        all &= turn.served;
        all
    })?;
    Ok(all)
}

/// What one call did.
struct Turn {
    served: bool,
    /// The last of a pass.
    is_last: bool,
}

/// What all threads share.
struct Table<'p, 'a, D: Device, W: Work<D>> {
    pooled: &'p mut Pooled<'a, D, W>,
    /// Of all calls of all passes, the next.
    next: usize,
    end: usize,
    stopped: Option<Stopped<D::Error>>,
    /// Looks at each call; false ends the replay.
    seen: &'p mut (dyn FnMut(Turn) -> bool + Send),
}

fn take_turns<'p, D: Device, W: Work<D> + Send>(
    pooled: &'p mut Pooled<'_, D, W>,
    passes: u32,
    seen: &'p mut (dyn FnMut(Turn) -> bool + Send),
) -> Result<(), Stopped<D::Error>> {
    let program = pooled.program();
    let end = program.calls().len().saturating_mul(passes as usize);
    let table = Mutex::new(Table { pooled, next: 0, end, stopped: None, seen });
    let turns: Vec<Condvar> = (0..program.threads()).map(|_| Condvar::new()).collect();
    thread::scope(|scope| -> io::Result<()> {
        let mut threads = Vec::new();
        for thread in 0..program.threads() {
            let (table, turns) = (&table, &turns);
            let work = move || work(program, thread, table, turns);
            match thread::Builder::new().spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    end_now(table, turns);
                    return Err(error);
                }
            }
        }
        // A scope alone ends before the threads have let go of their caches.
        threads
            .into_iter()
            .try_for_each(ScopedJoinHandle::join)
            .or_else(|panic| resume_unwind(panic))
    })?;
    let table = table.into_inner().unwrap_or_else(PoisonError::into_inner);
    table.stopped.map_or(Ok(()), Err)
}

/// Whoever waits goes home.
fn end_now<D: Device, W: Work<D>>(table: &Mutex<Table<'_, '_, D, W>>, turns: &[Condvar]) {
    let mut table = lock(table);
    table.next = table.end;
    turns.iter().for_each(Condvar::notify_all);
}

fn lock<'t, 'p, 'a, D: Device, W: Work<D>>(
    table: &'t Mutex<Table<'p, 'a, D, W>>,
) -> MutexGuard<'t, Table<'p, 'a, D, W>> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What each thread does: its own calls, when it is their turn.
fn work<D: Device, W: Work<D>>(
    program: &Program,
    thread: u32,
    table: &Mutex<Table<'_, '_, D, W>>,
    turns: &[Condvar],
) {
    let calls = program.calls();
    // Dropped behind the lock's guard.
    let _leave = Leave { table, turns };
    let mut at = lock(table);
    while at.next < at.end {
        let place = at.next % calls.len();
        let call = calls[place];
        if call.thread != thread {
            turns[call.thread as usize].notify_one();
            at = turns[thread as usize].wait(at).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        let is_last = place + 1 == calls.len();
        let served = at.pooled.call(call.deed).and_then(|served| {
            if is_last {
                at.pooled.clear()?;
            }
            Ok(served)
        });
        at.next += 1;
        let goes_on = match served {
            Ok(served) => (at.seen)(Turn { served, is_last }),
            Err(error) => {
                at.stopped = Some(error);
                false
            }
        };
        if !goes_on {
            at.next = at.end;
        }
    }
}

/// A thread goes: at the end of the replay, or by a panic, which ends it.
struct Leave<'t, 'p, 'a, D: Device, W: Work<D>> {
    table: &'t Mutex<Table<'p, 'a, D, W>>,
    turns: &'t [Condvar],
}

impl<D: Device, W: Work<D>> Drop for Leave<'_, '_, '_, D, W> {
    fn drop(&mut self) {
        end_now(self.table, self.turns);
    }
}
