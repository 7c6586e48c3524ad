//! Protections of this layer that can be taken out (see `crate::sabotage`).

use crate::sabotage::switches;

switches! {
    /// A free looks and then stores, in two steps.
    TORN_FREE = "torn_free";

    /// A block keeps its generation when it is freed.
    LOSES_GENERATIONS = "lost_generation";

    /// A cache takes a block out of its slot in two steps.
    TORN_TAKE = "torn_take";

    /// A flush takes a block out of a slot in two steps.
    TORN_STEAL = "torn_steal";

    /// Several blocks are taken out of a bin at once by two.
    IGNORES_BUSY = "ignored_busy";

    /// A block is put into a slot without what its last hand did.
    PUT = "relaxed_put";

    /// A block is taken out of a slot without what its last hand did.
    TAKE = "relaxed_take";

    /// A cache takes a block by two plain steps, and makes no fence between them.
    LIGHT = "no_light_fence";

    /// A flush makes no fence before it looks how many blocks there are.
    HEAVY = "no_heavy_fence";

    /// A cache takes a block by plain steps without a look whether a flush is at it.
    UNCHECKED_TAKE = "unchecked_take";

    /// A cell of a ring is claimed in two steps.
    TORN_CLAIM = "torn_claim";

    /// Nobody asks whether it is a cell's turn.
    UNCHECKED_ROUND = "unchecked_round";

    /// A magazine is published before what is in it.
    PUBLISH = "relaxed_push";

    /// A magazine is taken without seeing what is in it.
    RECEIVE = "relaxed_pop";

    /// A look by offset takes cached blocks for live ones.
    FINDS_CACHED = "finds_cached";

    /// A look by offset does not look again whether the block is still there.
    ONE_LOOK = "one_look";

    /// A block's start is noted without what was struck out before.
    START = "relaxed_start";

    /// A block is struck out when its place may be another's already.
    LATE_STRIKE = "late_strike";

    /// An owner gets magazines of another.
    MIXES_OWNERS = "mixed_owners";

    /// A block is cached for a stream whose space it is not of.
    CACHES_ELSEWHERE = "cached_elsewhere";

    /// A request is refused before the caches are emptied.
    HASTY_REFUSAL = "hasty_refusal";

    /// A shard is recalled without what is free in its spans.
    FORGETS_GATHERING = "forgotten_gathering";

    /// A cache that ends keeps its blocks.
    FORGETS_END = "forgotten_end";

    /// A flush leaves what is in the depot.
    FORGETS_DEPOT = "forgotten_depot";

    #[cfg(feature = "record")]
    /// An entry's words are written without the turn before them.
    JOURNAL_WORD = "relaxed_journal_word";

    #[cfg(feature = "record")]
    /// An entry counts as written before its words are there.
    JOURNAL_END = "relaxed_journal_end";

    #[cfg(feature = "record")]
    /// A reader does not look again whether an entry is still there.
    UNCHECKED_TURN = "unchecked_journal_turn";
}
