//! Protections of this layer that can be taken out (see `crate::sabotage`).

use crate::sabotage::switches;

switches! {
    /// A stretch is stolen from a stream that nobody waits for.
    STEALS_UNFENCED = "no_fence_on_steal";

    /// A stretch is in its new space before its fence is recorded.
    FENCES_LATE = "late_fence";

    /// Memory joins the hub without the fences that it is behind.
    LOSES_WAITS = "lost_wait_on_merge";

    /// A stream that was retired is still known by its handle.
    KNOWS_BY_HANDLE = "identity_by_handle";

    /// A fence that could not be recorded counts as done.
    IGNORES_FAILED_RECORD = "failed_record_is_done";

    /// Arenas go back to the device before the work that uses them is done.
    RELEASES_EARLY = "early_release";

    /// A graph's memory is anybody's once its capture has ended.
    FORGETS_GRAPH = "forgotten_graph";

    /// A use in a capture does not bind a block to the graph.
    FORGETS_CAPTURE_USE = "forgotten_capture_use";

    /// The memory of a stream that is retired waits for nothing.
    RETIRES_UNFENCED = "retire_without_fence";

    /// A stream is retired while a call of the device names it.
    IGNORES_BUSY_STREAM = "ignored_busy_stream";

    /// A free that names no stream counts as one of the owner's.
    NOBODY_IS_OWNER = "nobodys_free_as_owners";

    /// A use on a further stream is not noted.
    FORGETS_USE = "forgotten_use";

    /// A free by another stream than the owner counts as one of the owner's.
    FOREIGN_IS_OWNER = "foreign_free_as_owners";

    /// A free on a stream that is not known waits for no fence.
    RAW_UNFENCED = "raw_free_unfenced";

    /// Memory of the hub is given out to whoever comes.
    IGNORES_HUB_FENCES = "unjoined_hub";

    /// What is freed after a fence counts as before it.
    LATE_EPOCH = "late_epoch";

    /// A stream gets its parcels without waiting for them.
    COLLECTS_UNWAITED = "unwaited_parcel";

    /// A fence that is pending counts as done.
    PENDING_IS_DONE = "pending_is_done";

    /// Fences are recorded in streams that are captured.
    RECORDS_IN_CAPTURE = "record_in_capture";

    /// Fences are asked for while something is captured.
    QUERIES_IN_CAPTURE = "query_in_capture";

    /// The free of a block that waits for a stream which was retired meanwhile forgets that one.
    FORGETS_RETIRED = "forgotten_retired";

    /// The pool ends before the device's work has.
    ENDS_EARLY = "early_end";

    /// A stream counts as having waited before it does.
    JOINS_EARLY = "early_join";

    /// A capture begins while calls that it forbids are under way.
    IGNORES_CALLS = "ignored_calls";

    /// A space is somebody's before it is there.
    HOLDS_EARLY = "early_holder";

    /// Memory of the hub that was given to a space meanwhile is not looked for.
    FORGETS_GIVEN = "forgotten_gift";

    /// Whether others have memory in their hands is asked after it was looked for.
    ASKS_LATE = "late_question";

    /// A stream is known before it has its space, by another name.
    NAMES_EARLY = "early_name";

    /// Streams that the program puts in order are left as they are.
    ORDERS_NOTHING = "forgotten_order";
}
