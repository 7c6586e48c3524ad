//! The rules of advice, in the order in which they are asked: each changes one value, or leaves it.

mod cache;
mod growth;
mod reclaim;
mod start;

use super::evidence::Evidence;
use super::reason::Reason;
use crate::pool::policy::Settings;

/// A rule: what the run had, what is advised so far, what the run has shown. It changes what is
/// advised, and says why.
pub(super) type Rule = fn(&Settings, &mut Settings, &Evidence) -> Option<Reason>;

/// All rules. Those behind the start see what that is to be.
pub(super) const ALL: [Rule; 8] = [
    start::fit,
    start::keep_together,
    growth::fit_steps,
    growth::begin_later,
    reclaim::keep_more,
    reclaim::wait_longer,
    cache::raise,
    cache::lower,
];
