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

/// Several blocks are taken out of a bin at once by two. (`ignored_busy`)
pub(crate) const IGNORES_BUSY: bool = cfg!(pool_sabotage = "ignored_busy");

/// A block is put into a slot without what its last hand did. (`relaxed_put`)
pub(crate) const PUT: Ordering =
    if cfg!(pool_sabotage = "relaxed_put") { Ordering::Relaxed } else { Ordering::Release };

/// A block is taken out of a slot without what its last hand did. (`relaxed_take`)
pub(crate) const TAKE: Ordering =
    if cfg!(pool_sabotage = "relaxed_take") { Ordering::Relaxed } else { Ordering::Acquire };

/// A cell of a ring is claimed in two steps. (`torn_claim`)
pub(crate) const TORN_CLAIM: bool = cfg!(pool_sabotage = "torn_claim");

/// Nobody asks whether it is a cell's turn. (`unchecked_round`)
pub(crate) const UNCHECKED_ROUND: bool = cfg!(pool_sabotage = "unchecked_round");

/// A magazine is published before what is in it. (`relaxed_push`)
pub(crate) const PUBLISH: Ordering =
    if cfg!(pool_sabotage = "relaxed_push") { Ordering::Relaxed } else { Ordering::Release };

/// A magazine is taken without seeing what is in it. (`relaxed_pop`)
pub(crate) const RECEIVE: Ordering =
    if cfg!(pool_sabotage = "relaxed_pop") { Ordering::Relaxed } else { Ordering::Acquire };

/// A look by offset takes cached blocks for live ones. (`finds_cached`)
pub(crate) const FINDS_CACHED: bool = cfg!(pool_sabotage = "finds_cached");

/// A look by offset does not look again whether the block is still there. (`one_look`)
pub(crate) const ONE_LOOK: bool = cfg!(pool_sabotage = "one_look");

/// A block's start is noted without what was struck out before. (`relaxed_start`)
pub(crate) const START: Ordering =
    if cfg!(pool_sabotage = "relaxed_start") { Ordering::Relaxed } else { Ordering::Release };

/// A block is struck out when its place may be another's already. (`late_strike`)
pub(crate) const LATE_STRIKE: bool = cfg!(pool_sabotage = "late_strike");

/// An owner gets magazines of another. (`mixed_owners`)
pub(crate) const MIXES_OWNERS: bool = cfg!(pool_sabotage = "mixed_owners");

/// A block is cached for a stream whose space it is not of. (`cached_elsewhere`)
pub(crate) const CACHES_ELSEWHERE: bool = cfg!(pool_sabotage = "cached_elsewhere");

/// A request is refused before the caches are emptied. (`hasty_refusal`)
pub(crate) const HASTY_REFUSAL: bool = cfg!(pool_sabotage = "hasty_refusal");

/// A shard is recalled without what is free in its spans. (`forgotten_gathering`)
pub(crate) const FORGETS_GATHERING: bool = cfg!(pool_sabotage = "forgotten_gathering");

/// A cache that ends keeps its blocks. (`forgotten_end`)
pub(crate) const FORGETS_END: bool = cfg!(pool_sabotage = "forgotten_end");

/// A flush leaves what is in the depot. (`forgotten_depot`)
pub(crate) const FORGETS_DEPOT: bool = cfg!(pool_sabotage = "forgotten_depot");
