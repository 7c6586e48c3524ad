//! What a program does, step by step.

use pool_core::device::Call;
use pool_core::policy::{Reuse, Steps};
use pool_core::{Affinity, Deferred, Placement};

/// The pool and the device of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Shape {
    /// What the pool has from the start.
    pub initial_bytes: u64,
    /// The most it may have.
    pub limit_bytes: Option<u64>,
    /// Whether that is its quota of a budget.
    pub is_tenant: bool,
    /// From so many bytes on memory is short, also without a limit.
    pub short_from_bytes: Option<u64>,
    /// The least that it takes at a time.
    pub arena_bytes: u64,
    /// What one thread's cache keeps.
    pub cache_bytes: u64,
    /// When blocks that wait are looked after.
    pub deferred: Deferred,
    /// How much it takes at a time.
    pub steps: Steps,
    /// Whether it grows before it has to.
    pub ahead: bool,
    /// Above which idle memory goes back by itself.
    pub watermark_bytes: Option<u64>,
    /// After how many requests memory is idle.
    pub decay: Option<u64>,
    /// Whether freed blocks rest, from the start.
    pub cool_down: bool,
    /// Which free memory serves.
    pub reuse: Reuse,
    /// If memory comes and goes in pages, the smallest one, and whether handles are of several sizes.
    pub pages: Option<(u64, bool)>,
    /// What the device has.
    pub memory_bytes: u64,
    /// How far its ranges begin from where they should.
    pub misalign_bytes: u64,
    /// Whether its streams have identities.
    pub stream_ids: bool,
    /// Whether it allocates while something is captured.
    pub grows_in_capture: bool,
    /// Whether freeing a range waits for all work.
    pub free_waits: bool,
    /// Whether it makes ranges longer.
    pub extends: bool,
    /// Whether it can tell its streams.
    pub lists_streams: bool,
    /// When work runs.
    pub pace: Pace,
    /// Whether the pool is dropped with all that is live and pending.
    pub abrupt_end: bool,
    /// Streams that the pool makes before the first operation.
    pub streams: u8,
    /// The share of what is free, in hundredths, from which on movable buffers are moved together.
    pub migrate_from_percent: u8,
    /// Whether most buffers may be moved, and not some.
    pub mostly_movable: bool,
    /// Of how many hundred device calls one is met by a call of another thread that is made
    /// meanwhile.
    pub meetings: u8,
}

impl Shape {
    /// Whether every block is a buddy.
    pub(super) fn rounds(&self) -> bool {
        self.reuse.placement == Placement::Buddy
    }
}

/// When queued work runs by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At once.
    Eager,
    /// When it is waited for.
    Idle,
    /// So many items late.
    Lag(u8),
    /// At random.
    Random(u8),
}

/// Which of those that there are, modulo their number.
pub type Pick = u8;

/// The stream of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// None.
    Nowhere,
    /// One, by its number at the pool if it has one.
    Known(Pick),
    /// One, by its handle.
    Raw(Pick),
}

/// How a block is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// On the stream that it was allocated on.
    AtHome,
    /// On a stream.
    On(Where),
}

/// A program: a pool, and what is done to it. At the end all is undone and looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The pool and the device.
    pub shape: Shape,
    /// What is done, in order.
    pub operations: Vec<Operation>,
}

/// One step. One that has nothing to choose from, or would break the rules that a program has to
/// keep, does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the arguments of the call")]
pub enum Operation {
    /// A request, and a write of all its bytes unless told otherwise.
    Allocate {
        on: Where,
        size_bytes: u64,
        align_bytes: u64,
        tag: Option<u8>,
        affinity: Option<Affinity>,
        write: bool,
    },
    /// Work that uses a block, on the stream that it was allocated on or another, which then is
    /// ordered behind that.
    Use {
        block: Pick,
        on: Option<Pick>,
        write: bool,
    },
    /// Tells the pool of a block's uses.
    Note {
        block: Pick,
        by_handle: bool,
    },
    /// A free. What was not noted is, before.
    Free {
        block: Pick,
        release: Release,
        last_use: bool,
    },
    /// Frees a block and asks at once for the same size elsewhere, which is written.
    Reuse {
        block: Pick,
        release: Release,
        on: Where,
        plus_bytes: u64,
    },
    /// A request for a buffer that may be moved, whose bytes are written.
    AllocateMovable {
        on: Where,
        size_bytes: u64,
        align_bytes: u64,
    },
    /// Work that uses such a buffer under a guard, on its own stream or another.
    UseMovable {
        movable: Pick,
        on: Option<Pick>,
        write: bool,
        by_handle: bool,
    },
    FreeMovable {
        movable: Pick,
        release: Release,
    },
    /// Frees every so-many-th block on the stream that it was allocated on.
    FreeMany {
        step: u8,
        first: u8,
    },
    /// The program has one stream wait for another.
    Wait {
        before: Pick,
        after: Pick,
    },
    /// The pool has one stream wait for another, or the host wait for one.
    Order {
        after: Where,
        on: Where,
    },
    /// The pool orders a stream behind that of a block, which is then used there.
    UseInOrder {
        block: Pick,
        on: Pick,
        by_handle: bool,
        write: bool,
    },
    /// The program waits for a stream.
    HostWait {
        stream: Pick,
    },
    Create,
    OpenRaw {
        blocking: bool,
    },
    CloseRaw {
        stream: Pick,
    },
    Adopt {
        stream: Pick,
    },
    Retire {
        stream: Pick,
    },
    BeginCapture {
        stream: Pick,
        graph: u8,
        mode: u8,
        announce_first: bool,
    },
    /// Another stream joins a capture.
    Fork {
        capture: Pick,
        stream: Pick,
    },
    /// One that joined comes back.
    Join {
        stream: Pick,
    },
    EndCapture {
        capture: Pick,
        spoil: bool,
    },
    Launch {
        graph: Pick,
        stream: Pick,
    },
    ReleaseGraph {
        graph: Pick,
    },
    Flush,
    /// Has what is freed rest from now on, or not.
    SetCoolDown {
        on: bool,
    },
    Reclaim,
    Tick {
        nanoseconds: u64,
    },
    Trim {
        keep_bytes: u64,
        wait: bool,
    },
    SetLimit {
        limit_bytes: Option<u64>,
    },
    SetQuota {
        tag: u8,
        quota_bytes: Option<u64>,
    },
    /// Another thread of the operating system goes on.
    Thread {
        number: u8,
    },
    /// A thread ends.
    EndThread {
        number: u8,
    },
    /// The device's n-th call from here on fails.
    FailNth {
        nth: u8,
        of_memory: bool,
    },
    /// The next calls of a kind fail.
    FailNext {
        call: Call,
        times: u8,
    },
    /// Work of the device runs.
    Step {
        count: u8,
        choice: u8,
    },
    Hold {
        stream: Pick,
    },
    Go {
        stream: Pick,
    },
    Advance {
        stream: Pick,
        items: u8,
    },
    RunAll,
    Pace(Pace),
}
