//! Protections that can be taken out, to show that fuzzing, models and tests notice.
//!
//! `--cfg pool_sabotage="NAME"` takes out the one of that name. Tests alone set it; without it
//! every constant is false, and the compiler removes the rest.

/// A stretch is stolen from a stream that nobody waits for. (`no_fence_on_steal`)
pub(super) const STEALS_UNFENCED: bool = cfg!(pool_sabotage = "no_fence_on_steal");

/// A stretch is in its new space before its fence is recorded. (`late_fence`)
pub(super) const FENCES_LATE: bool = cfg!(pool_sabotage = "late_fence");

/// Memory joins the hub without the fences that it is behind. (`lost_wait_on_merge`)
pub(super) const LOSES_WAITS: bool = cfg!(pool_sabotage = "lost_wait_on_merge");

/// A stream that was retired is still known by its handle. (`identity_by_handle`)
pub(super) const KNOWS_BY_HANDLE: bool = cfg!(pool_sabotage = "identity_by_handle");

/// A fence that could not be recorded counts as done. (`failed_record_is_done`)
pub(super) const IGNORES_FAILED_RECORD: bool = cfg!(pool_sabotage = "failed_record_is_done");

/// Arenas go back to the device before the work that uses them is done. (`early_release`)
pub(super) const RELEASES_EARLY: bool = cfg!(pool_sabotage = "early_release");

/// A graph's memory is anybody's once its capture has ended. (`forgotten_graph`)
pub(super) const FORGETS_GRAPH: bool = cfg!(pool_sabotage = "forgotten_graph");

/// A use in a capture does not bind a block to the graph. (`forgotten_capture_use`)
pub(super) const FORGETS_CAPTURE_USE: bool = cfg!(pool_sabotage = "forgotten_capture_use");

/// The memory of a stream that is retired waits for nothing. (`retire_without_fence`)
pub(super) const RETIRES_UNFENCED: bool = cfg!(pool_sabotage = "retire_without_fence");

/// A stream is retired while a call of the device names it. (`ignored_busy_stream`)
pub(super) const IGNORES_BUSY_STREAM: bool = cfg!(pool_sabotage = "ignored_busy_stream");

/// A free that names no stream counts as one of the owner's. (`nobodys_free_as_owners`)
pub(super) const NOBODY_IS_OWNER: bool = cfg!(pool_sabotage = "nobodys_free_as_owners");

/// A use on a further stream is not noted. (`forgotten_use`)
pub(super) const FORGETS_USE: bool = cfg!(pool_sabotage = "forgotten_use");

/// A free by another stream than the owner counts as one of the owner's. (`foreign_free_as_owners`)
pub(super) const FOREIGN_IS_OWNER: bool = cfg!(pool_sabotage = "foreign_free_as_owners");

/// A free on a stream that is not known waits for no fence. (`raw_free_unfenced`)
pub(super) const RAW_UNFENCED: bool = cfg!(pool_sabotage = "raw_free_unfenced");

/// Memory of the hub is given out to whoever comes. (`unjoined_hub`)
pub(super) const IGNORES_HUB_FENCES: bool = cfg!(pool_sabotage = "unjoined_hub");

/// What is freed after a fence counts as before it. (`late_epoch`)
pub(super) const LATE_EPOCH: bool = cfg!(pool_sabotage = "late_epoch");

/// A stream gets its parcels without waiting for them. (`unwaited_parcel`)
pub(super) const COLLECTS_UNWAITED: bool = cfg!(pool_sabotage = "unwaited_parcel");

/// A fence that is pending counts as done. (`pending_is_done`)
pub(super) const PENDING_IS_DONE: bool = cfg!(pool_sabotage = "pending_is_done");

/// Fences are recorded in streams that are captured. (`record_in_capture`)
pub(super) const RECORDS_IN_CAPTURE: bool = cfg!(pool_sabotage = "record_in_capture");

/// Fences are asked for while something is captured. (`query_in_capture`)
pub(super) const QUERIES_IN_CAPTURE: bool = cfg!(pool_sabotage = "query_in_capture");

/// The free of a block that waits for a stream which was retired meanwhile forgets that one.
/// (`forgotten_retired`)
pub(super) const FORGETS_RETIRED: bool = cfg!(pool_sabotage = "forgotten_retired");

/// The pool ends before the device's work has. (`early_end`)
pub(super) const ENDS_EARLY: bool = cfg!(pool_sabotage = "early_end");

/// A stream counts as having waited before it does. (`early_join`)
pub(super) const JOINS_EARLY: bool = cfg!(pool_sabotage = "early_join");

/// A capture begins while calls that it forbids are under way. (`ignored_calls`)
pub(super) const IGNORES_CALLS: bool = cfg!(pool_sabotage = "ignored_calls");

/// A space is somebody's before it is there. (`early_holder`)
pub(super) const HOLDS_EARLY: bool = cfg!(pool_sabotage = "early_holder");

/// Streams that the program puts in order are left as they are. (`forgotten_order`)
pub(super) const ORDERS_NOTHING: bool = cfg!(pool_sabotage = "forgotten_order");
