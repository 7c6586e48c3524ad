//! Protections that can be taken out, to show that the models of `models` notice.
//!
//! `--cfg pool_sabotage="NAME"` takes out the one of that name. Tests alone set it; without it
//! every constant is the right one, and the compiler removes the rest.

use crate::sync::Ordering;

/// A free looks and then stores, in two steps. (`torn_free`)
pub(crate) const TORN_FREE: bool = cfg!(pool_sabotage = "torn_free");

/// A block keeps its generation when it is freed. (`lost_generation`)
pub(crate) const LOSES_GENERATIONS: bool = cfg!(pool_sabotage = "lost_generation");

/// A cache takes a block out of its slot in two steps. (`torn_take`)
pub(crate) const TORN_TAKE: bool = cfg!(pool_sabotage = "torn_take");

/// A flush takes a block out of a slot in two steps. (`torn_steal`)
pub(crate) const TORN_STEAL: bool = cfg!(pool_sabotage = "torn_steal");

/// A block is put into a slot without what its last hand did. (`relaxed_put`)
pub(crate) const PUT: Ordering =
    if cfg!(pool_sabotage = "relaxed_put") { Ordering::Relaxed } else { Ordering::Release };

/// A block is taken out of a slot without what its last hand did. (`relaxed_take`)
pub(crate) const TAKE: Ordering =
    if cfg!(pool_sabotage = "relaxed_take") { Ordering::Relaxed } else { Ordering::Acquire };

/// The head of a stack carries no tag. (`no_tag`)
pub(crate) const TAG_STEP: u64 = if cfg!(pool_sabotage = "no_tag") { 0 } else { 1 << 32 };

/// A magazine is published before what is in it. (`relaxed_push`)
pub(crate) const PUBLISH: Ordering =
    if cfg!(pool_sabotage = "relaxed_push") { Ordering::Relaxed } else { Ordering::Release };

/// A magazine is taken without seeing what is in it. (`relaxed_pop`)
pub(crate) const RECEIVE: Ordering =
    if cfg!(pool_sabotage = "relaxed_pop") { Ordering::Relaxed } else { Ordering::Acquire };
