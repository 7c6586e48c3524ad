//! One call of the simulated driver after another fails.

use core::fmt::Display;
use std::collections::BTreeSet;

use crate::world::World;

/// A code that no version of CUDA has.
pub(crate) const FOREIGN_CODE: i32 = 54_321;

/// Without these nothing can be ended, nor anybody be told in a drop.
const NEEDED: [&str; 3] =
    ["cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuThreadExchangeStreamCaptureMode"];

/// Does something once for each call that it makes, which fails: the error names it, nothing stays, and
/// nothing is used wrongly. Only what the driver does not end when it is asked by one of `ends` may stay,
/// and what cannot be ended in a drop, of which the error begins so. Gives the calls that failed.
pub(crate) fn each_call_fails<E: Display>(
    world: &World,
    work: fn(&World) -> Result<(), E>,
    ends: &[&str],
) -> BTreeSet<&'static str> {
    let simulation = world.simulation();
    let succeed = || {
        let done = work(world);
        assert!(
            done.is_ok(),
            "{}",
            done.map_or_else(|error| error.to_string(), |()| String::new())
        );
    };
    // Once before, for what a thread does once.
    succeed();
    simulation.restart();
    succeed();
    let calls = simulation.calls();
    let mut failed = BTreeSet::new();
    for index in 0..calls.len() {
        simulation.restart();
        simulation.fail_call(index, FOREIGN_CODE);
        let outcome = work(world);
        let Some(&call) = simulation.calls().get(index) else { continue };
        failed.insert(call);
        let mut in_a_drop = true;
        if let Err(error) = &outcome {
            let told = error.to_string();
            in_a_drop = told.starts_with("in a drop");
            assert!(
                told.contains(&format!("{call} failed with CUDA error {FOREIGN_CODE}")),
                "{told}"
            );
        }
        if let Some(left) = simulation.left_behind() {
            let may_leave = ends.contains(&call) || in_a_drop && NEEDED.contains(&call);
            assert!(may_leave, "call {index}, {call}: {left}");
        }
        assert_eq!(world.take_violations(), [""; 0], "call {index}, {call}");
    }
    simulation.restart();
    failed
}
