//! Runs a scenario in every order within a bound, and sees to it that the orders were of all kinds.
//! The models of a pool (`tests/pool_models`, and `pool::models` of its tables) are built with this file
//! too; the bounds are where they are listed.

use loom::thread::{Builder, JoinHandle};

use super::std::sync::Arc;
use super::std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use super::std::time::Instant;
use super::std::{env, format, print, println};
use super::{MOST_BRANCHES, STACK_WORDS};

/// Something that must happen in at least one execution of a model, and is counted where the
/// model's checker does not see it.
pub(crate) struct Seen(&'static str, AtomicU64);

impl Seen {
    pub(crate) const fn new(what: &'static str) -> Self {
        Self(what, AtomicU64::new(0))
    }

    /// It happened.
    pub(crate) fn note(&self) {
        self.1.fetch_add(1, Relaxed);
    }

    /// It happened, if so.
    pub(crate) fn note_if(&self, happened: bool) {
        if happened {
            self.note();
        }
    }
}

/// How much of a model is explored.
#[derive(Clone, Copy)]
pub(crate) enum Bound {
    /// Every order.
    None,
    /// Every order in which threads are interrupted so often at most, apart from where they wait.
    Preemptions(usize),
}

/// A thread of a model, with a stack that all that it works on can be made on.
pub(crate) fn spawn<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    Builder::new().stack_size(STACK_WORDS).spawn(work).unwrap()
}

/// Which of two threads runs first, before the checker interrupts any.
///
/// The checker only looks back to the last access of an atomic: where a thread loads it and then
/// exchanges it, it does not see that another thread's load came before both, and leaves out the
/// orders in which that load comes later. It sees them from the other side: so every model is
/// explored twice, with either thread first.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Straight,
    Reversed,
}

impl Order {
    /// Runs two threads' parts on what they share: what each of them returns.
    pub(crate) fn race<W: Clone + Send + 'static, A: Send + 'static, B: Send + 'static>(
        self,
        world: &W,
        one: impl FnOnce(&W) -> A + Send + 'static,
        other: impl FnOnce(&W) -> B + Send + 'static,
    ) -> (A, B) {
        self.race_for(world.clone(), move |world| one(&world), move |world| other(&world))
    }

    /// The same where each part gets a copy, and may end it.
    pub(crate) fn race_for<W: Clone + Send + 'static, A: Send + 'static, B: Send + 'static>(
        self,
        world: W,
        one: impl FnOnce(W) -> A + Send + 'static,
        other: impl FnOnce(W) -> B + Send + 'static,
    ) -> (A, B) {
        let shared = world.clone();
        match self {
            Self::Straight => {
                let thread = spawn(move || other(shared));
                (one(world), thread.join().unwrap())
            }
            Self::Reversed => {
                let thread = spawn(move || one(shared));
                let others = other(world);
                (thread.join().unwrap(), others)
            }
        }
    }
}

/// Explores a scenario with either thread first, prints how many executions there were, and
/// demands that there were several and that all of `seen` happened in some.
pub(crate) fn explore(
    name: &str,
    bound: Bound,
    seen: &[&'static Seen],
    scenario: impl Fn(Order) + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    // With these a model ends early and passes.
    for variable in ["LOOM_MAX_PERMUTATIONS", "LOOM_MAX_DURATION", "LOOM_MAX_PREEMPTIONS"] {
        assert!(env::var_os(variable).is_none(), "{variable} would cut the exploration short");
    }
    (builder.max_permutations, builder.max_duration) = (None, None);
    builder.max_branches = MOST_BRANCHES;
    builder.preemption_bound = match bound {
        Bound::None => None,
        Bound::Preemptions(most) => Some(most),
    };
    let executions = Arc::new(AtomicU64::new(0));
    let scenario = Arc::new(scenario);
    let start = Instant::now();
    for order in [Order::Straight, Order::Reversed] {
        let (counted, scenario) = (executions.clone(), scenario.clone());
        builder.check(move || {
            counted.fetch_add(1, Relaxed);
            let scenario = scenario.clone();
            // The checker's first thread has a small stack.
            spawn(move || scenario(order)).join().unwrap();
        });
    }
    let executions = executions.load(Relaxed);
    let bound = builder.preemption_bound.map_or("none".into(), |most| format!("{most}"));
    print!("model {name}: {executions} executions, bound {bound}, {:.2?}", start.elapsed());
    for Seen(what, times) in seen {
        print!("; {what} {}", times.load(Relaxed));
    }
    println!();
    assert!(executions > 2, "{name}: the threads never met");
    for Seen(what, times) in seen {
        assert_ne!(times.load(Relaxed), 0, "{name}: in no execution: {what}");
    }
}
