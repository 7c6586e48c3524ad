//! The lock around the state, and what has to happen without it: callbacks and hooks.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};
use pool_core::device::Call;

use super::clock::{Actor, Point};
use super::config::Pacing;
use super::schedule::{Holds, Progress};
use super::state::State;
use super::stream::Callback;
use super::thread;

/// What a test has run at each call.
pub(super) type Hook = Arc<dyn Fn(Call) + Send + Sync>;

/// The state under its lock.
pub(super) type Locked<'a> = MutexGuard<'a, State>;

/// Devices that know each other's streams and fences.
pub(super) struct World {
    state: Mutex<State>,
    /// A callback has ended.
    ended: Condvar,
}

impl World {
    pub(super) fn new(state: State) -> Self {
        Self { state: Mutex::new(state), ended: Condvar::new() }
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        self.state.lock()
    }

    /// Runs what a point needs.
    pub(super) fn reach<'a>(
        &'a self,
        mut state: Locked<'a>,
        goal: Point,
        holds: Holds,
    ) -> Locked<'a> {
        loop {
            match state.run_towards(goal, holds) {
                Progress::Done => return state,
                // A callback that waits for its own stream would wait for ever.
                Progress::Busy if thread::is_in_callback() => return state,
                Progress::Busy => self.ended.wait(&mut state),
                Progress::Callback(actor, callback) => {
                    state = self.call_back(state, actor, callback);
                }
            }
        }
    }

    /// Runs all that was queued before this call on a device, and has the host see it.
    pub(super) fn synchronize<'a>(&'a self, mut state: Locked<'a>, device: u32) -> Locked<'a> {
        let ends = state.ends(device);
        for (end, _) in &ends {
            state = self.reach(state, *end, Holds::Run);
        }
        for (end, clock) in &ends {
            state.see(*end, clock);
        }
        state
    }

    /// Runs one of the items that may run, by a number that chooses; whether there was one.
    pub(super) fn step<'a>(&'a self, mut state: Locked<'a>, choice: u64) -> (Locked<'a>, bool) {
        let ready = state.ready().count() as u64;
        if ready == 0 {
            return (state, false);
        }
        let place = usize::try_from(choice % ready).unwrap_or(0);
        let Some(actor) = state.ready().nth(place) else { return (state, false) };
        if let Some(callback) = state.run_item(actor) {
            state = self.call_back(state, actor, callback);
        }
        (state, true)
    }

    /// Runs what the pacing has run now that something was called, or queued on `actor`.
    pub(super) fn settle<'a>(&'a self, mut state: Locked<'a>, actor: Option<Actor>) -> Locked<'a> {
        match state.pacing {
            Pacing::Idle => {}
            Pacing::Eager => loop {
                let ran;
                (state, ran) = self.step(state, 0);
                if !ran {
                    break;
                }
            },
            Pacing::Lag(items) => {
                if let Some(actor) = actor {
                    let position = state.stream(actor).submitted.saturating_sub(items);
                    state = self.reach(state, Point { actor, position }, Holds::Stay);
                }
            }
            Pacing::Random(_) => {
                for _ in 0..state.random.u32(0..4) {
                    let choice = state.random.u64(..);
                    let ran;
                    (state, ran) = self.step(state, choice);
                    if !ran {
                        break;
                    }
                }
            }
        }
        state
    }

    fn call_back<'a>(&'a self, state: Locked<'a>, actor: Actor, callback: Callback) -> Locked<'a> {
        drop(state);
        // Also when the callback panics: other threads may wait for it.
        let ended = Ended { world: self, actor };
        thread::in_callback(callback);
        drop(ended);
        self.lock()
    }
}

/// Ends a callback's item.
struct Ended<'a> {
    world: &'a World,
    actor: Actor,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.world.lock().finish_item(self.actor);
        self.world.ended.notify_all();
    }
}
