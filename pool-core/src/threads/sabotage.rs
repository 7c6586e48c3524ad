//! Protections that can be taken out, to show that the models of `models` notice.
//!
//! `--cfg pool_sabotage="NAME"` takes out the one of that name. Tests alone set it; without it
//! every constant is the right one, and the compiler removes the rest.

use crate::sync::Ordering;

/// How a block changes hands: what its last hand did is seen by the next. (`relaxed_word`)
pub(crate) const ACQUIRE_RELEASE: Ordering =
    if cfg!(pool_sabotage = "relaxed_word") { Ordering::Relaxed } else { Ordering::AcqRel };

/// A free looks and then stores, in two steps. (`torn_free`)
pub(crate) const TORN_FREE: bool = cfg!(pool_sabotage = "torn_free");

/// A cache gives a block out in two steps. (`torn_take`)
pub(crate) const TORN_TAKE: bool = cfg!(pool_sabotage = "torn_take");

/// A block keeps its generation when it changes hands. (`lost_generation`)
pub(crate) const LOSES_GENERATIONS: bool = cfg!(pool_sabotage = "lost_generation");

/// The head of a stack carries no tag. (`no_tag`)
pub(crate) const TAG_STEP: u64 = if cfg!(pool_sabotage = "no_tag") { 0 } else { 1 << 32 };

/// A magazine is published before what is in it. (`relaxed_push`)
pub(crate) const PUBLISH: Ordering =
    if cfg!(pool_sabotage = "relaxed_push") { Ordering::Relaxed } else { Ordering::Release };

/// A magazine is taken without seeing what is in it. (`relaxed_pop`)
pub(crate) const RECEIVE: Ordering =
    if cfg!(pool_sabotage = "relaxed_pop") { Ordering::Relaxed } else { Ordering::Acquire };
