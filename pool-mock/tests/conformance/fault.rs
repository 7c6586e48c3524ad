//! What can be wrong with a device.

/// The rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A fence is done as soon as it is there.
    FenceDoneTooEarly,
    /// A fence is never done.
    FenceNeverDone,
    /// A fence whose stream is gone, which cannot be asked for, is taken as done.
    FailureIsDone,
    /// A fence is recorded in a queue that has no work.
    FenceOfAnEmptyQueue,
    /// To ask whether a fence is done waits until it is.
    AskingWaits,
    /// A stream's wait waits for nothing.
    WaitIsNone,
    /// A stream's wait has the host wait.
    WaitOfTheHost,
    /// The host goes on before the fence is done.
    HostGoesOn,
    /// The host waits for ever.
    HostWaitsForEver,
    /// A wait for everything waits for the streams that are still there.
    SynchronizeMissesStreams,
    /// A fence behind everything misses the streams that are gone.
    RecordAllMissesStreams,
    /// There is no fence behind everything, as if all were done.
    RecordAllIsNone,
    /// There are a thousand fences, and never more.
    FencesRunOut,
    /// An identity is the value of the handle, which others had.
    IdentitiesRepeat,
    /// All streams have the same key.
    KeysCoincide,
    /// The end of a stream waits for its work.
    EndOfAStreamWaits,
    /// A stream is said to be captured that is not.
    CapturedForNothing,
    /// A range is given out twice.
    RangesOverlap,
    /// Nothing is ever freed.
    FreeFreesNothing,
    /// A free waits, and the device does not say so.
    FreeWaits,
    /// Want of memory is said to be the device's end.
    OutOfMemoryIsFatal,
    /// Want of memory is said to be any failure.
    OutOfMemoryIsAnyFailure,
    /// A refused request keeps what it had got so far.
    RefusalKeepsMemory,
    /// A request for too much is served with less.
    TooMuchIsServed,
    /// The free memory is said to be always the same.
    MemoryStaysTheSame,
    /// A range is elsewhere after it became longer.
    LongerElsewhere,
    /// A range that became longer has lost what was in it.
    LongerAndEmpty,
    /// The largest page comes first.
    LargestPageFirst,
    /// Addresses are not aligned to a page.
    OddAddresses,
    /// Two handles are the same memory.
    SamePagesTwice,
    /// What a handle holds is lost when it is committed.
    CommitLosesContents,
    /// A commit that is refused leaves the first handle mapped.
    CommitMapsHalf,
    /// To take pages out waits for all work.
    DecommitWaits,
    /// Pages that are destroyed stay the process's.
    PagesAreKept,
    /// A copy goes to the range's start.
    CopyToTheStart,
    /// A copy goes the other way.
    CopyGoesBack,
    /// A copy is queued in another stream.
    CopyElsewhere,
    /// A call that the device says that it has not does nothing, and says that it did.
    SilentCopy,
    /// Time goes back.
    ClockGoesBack,
    /// What it can do changes.
    CapabilitiesChange,
    /// It says that it cannot be called.
    NotAlive,
    /// Bytes that rest are lost.
    NoticesWipe,
    /// It serves one thread alone.
    OneThreadOnly,
    /// A free takes what is in the first range along.
    FreeWipesOthers,
    /// After a refusal there is no memory any more.
    NothingAfterRefusal,
    /// All ranges have the same address.
    AddressesCoincide,
    /// A stream runs its work in any order.
    StreamOutOfOrder,
    /// All streams that it makes are one.
    MadeStreamsAreOne,
    /// What is queued in a stream is lost with it.
    EndOfAStreamDropsWork,
    /// Slow work is none.
    SlowIsQuick,
    /// A fence is not behind what its stream waits for.
    FenceForgetsWaits,
    /// A stream cannot wait for its own fence.
    NoWaitForItself,
    /// A fence that was discarded is used again, and not recorded anew.
    DiscardedIsReused,
    /// A copy comes after its stream's work, and nothing comes after the copy.
    CopyBehindTheFence,
    /// A copy does not wait for what its stream waits for.
    CopyForgetsWaits,
    /// The host waits for a copy.
    CopyHoldsUpTheHost,
    /// Only some sizes are handles.
    FewSizes,
    /// Of several handles only the first is mapped.
    CommitMapsTheFirst,
    /// What is before a handle that is mapped is lost.
    CommitTakesMore,
    /// What is behind a handle that is taken out is lost.
    DecommitTakesMore,
    /// Want of memory for pages is said to be any failure.
    PagesFailAnyhow,
    /// Addresses are not given back.
    AddressesRunOut,
}
