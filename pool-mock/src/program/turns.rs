//! A seeded scheduler: of several threads one has its turn, and hands it on where another may act.

use core::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Who has its turn.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Vec<Condvar>,
}

#[derive(Debug)]
struct State {
    current: usize,
    running: Vec<bool>,
    random: fastrand::Rng,
    /// Of how many hundred occasions one is taken.
    percent: u8,
}

std::thread_local! {
    static ME: RefCell<Option<(Arc<Turns>, usize)>> = const { RefCell::new(None) };
}

impl Turns {
    pub(super) fn new(threads: usize, seed: u64, percent: u8) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                current: 0,
                running: vec![true; threads],
                random: fastrand::Rng::with_seed(seed),
                percent,
            }),
            changed: (0..threads).map(|_| Condvar::new()).collect(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the calling thread one of those that have turns, until the guard is dropped.
    pub(super) fn enter(self: &Arc<Self>, number: usize) -> Entered {
        ME.set(Some((self.clone(), number)));
        self.wait_for_turn(self.lock(), number);
        Entered
    }

    fn wait_for_turn(&self, mut state: MutexGuard<'_, State>, number: usize) {
        while state.current != number {
            state = self.changed[number].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives the turn to another that runs, if there is one.
    fn hand_on(&self, state: &mut State, number: usize) {
        let others = state.running.iter().enumerate();
        let others: Vec<usize> = others
            .filter(|&(other, &runs)| runs && other != number)
            .map(|(other, _)| other)
            .collect();
        if let Some(place) = (!others.is_empty()).then(|| state.random.usize(..others.len())) {
            state.current = others[place];
            self.changed[state.current].notify_one();
        }
    }
}

/// A thread that has turns.
pub(super) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some((turns, number)) = ME.take() {
            let mut state = turns.lock();
            state.running[number] = false;
            turns.hand_on(&mut state, number);
        }
    }
}

fn hand_over(wanted: impl FnOnce(&mut State) -> bool) {
    // None if the thread has no turns.
    let Ok(Some((turns, number))) = ME.try_with(|me| me.borrow().clone()) else { return };
    let mut state = turns.lock();
    if wanted(&mut state) {
        turns.hand_on(&mut state, number);
        turns.wait_for_turn(state, number);
    }
}

/// The turn may pass here.
pub(super) fn may_pass() {
    hand_over(|state| state.random.u8(..100) < state.percent);
}

/// The turn passes here, if another thread runs.
pub(super) fn pass() {
    hand_over(|_| true);
}
