//! When freed memory is free, and when free memory goes back to the device.

use core::time::Duration;

/// When blocks that wait for work of the device are looked after.
///
/// # Example
///
/// ```
/// use pool_core::{Deferred, PoolConfig};
///
/// let eager = PoolConfig::new().deferred(Deferred::AtOnce);
/// let lazy = PoolConfig::new().deferred(Deferred::Queue { blocks: 10_000, bytes: 1 << 30 });
/// # let _ = (eager, lazy);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
#[non_exhaustive]
pub enum Deferred {
    /// Fences are recorded at each free that has to wait, and polled then. Memory comes back
    /// soonest; each such free costs device calls.
    AtOnce,
    /// Blocks wait in a queue, and one fence a stream serves many. It is drained when so many were put
    /// into it since the last time, when memory is short, at a [`tick`](crate::Pool::tick), and on
    /// [request](crate::Pool::reclaim); and when a 16th of what the pool has waits, where streams rather
    /// take new memory in pages than each other's.
    Queue {
        /// The most blocks.
        blocks: u32,
        /// The most bytes.
        bytes: u64,
    },
}

/// Whether a freed block is held back from its own stream, too.
///
/// For finding faults: on one stream nothing shows that a block is used after its free, since all
/// work is in order, until the bytes are another's. With a cool-down they are nobody's meanwhile, and
/// the device knows.
///
/// # Example
///
/// ```
/// use pool_core::device::Device;
/// use pool_core::policy::{CoolDown, Reclaim};
/// use pool_core::{Pool, PoolConfig};
/// use pool_mock::device::{Access, SimConfig, SimDevice, Violation};
///
/// let device = SimDevice::new(SimConfig::new());
/// let reclaim = Reclaim { cool_down: CoolDown::UntilDone, ..Reclaim::default() };
/// let pool = Pool::new(device.clone(), PoolConfig::new().reclaim(reclaim))?;
/// let stream = pool.create_stream()?;
/// let queue = pool.stream(stream).unwrap();
///
/// let block = pool.allocate_on(stream, 4096)?;
/// let (place, owner) = (pool.location(block.handle())?, device.new_owner());
/// let (range, at) = (place.arena.range(), place.offset_bytes);
/// device.queue_use(queue, range, at, 4096, owner, Access::Write)?;
/// pool.free_on(stream, block.handle())?;
/// device.assert_clean();
///
/// // A use after the free, in order with all else.
/// device.queue_use(queue, range, at, 4096, owner, Access::Write)?;
/// let found = device.take_violations();
/// assert!(matches!(found.as_slice(), [Violation::Resting { .. }]));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum CoolDown {
    /// It serves its own stream again at once.
    #[default]
    Off,
    /// It rests until the host has seen done what was queued at its free: on the stream of the free,
    /// on the one whose memory it is, and on those that were [noted](crate::Pool::record_use); all work
    /// of the device, if no stream is named. Until then it serves nobody, and the device
    /// [is told](crate::device::Device::quarantine), so that one that checks reports every use that is
    /// queued in between. It rests at least until the pool looks at fences the next time after the
    /// free: at a [`tick`](crate::Pool::tick), on [request](crate::Pool::reclaim), when more is freed
    /// than [`Deferred`] says, or when a request is no hit.
    ///
    /// Costs memory, as long as work is queued, and what a fence costs for those that wait together;
    /// no free is a hit. A request whose own memory rests asks for fences before it takes memory
    /// elsewhere, and waits on the host before it is refused. An arena of which a part rests does not
    /// go back to the device. During a capture nothing can be seen done, so what rests goes on resting.
    ///
    /// What belongs to a graph does not rest: its launches use it until the graph is released. On a
    /// device without fences nothing can be seen done, and this is as if off.
    UntilDone,
}

/// What counts as idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Idle {
    /// Memory that was not needed for so long, by the device's clock or
    /// [`tick_at`](crate::Pool::tick_at).
    For(Duration),
    /// Memory that was not needed by so many requests in a row.
    Requests(u64),
}

/// Idle memory goes back by itself, at [ticks](crate::Pool::tick), in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Decay {
    /// After what time it is idle, and over what time it then goes back.
    pub period: Idle,
}

/// When freed memory is free, and when free memory goes back to the device. It can be changed while
/// the pool runs.
///
/// # Example
///
/// ```
/// use core::time::Duration;
/// use pool_core::{PoolConfig, policy::{Decay, Idle, Reclaim}};
///
/// let ten_seconds = Decay { period: Idle::For(Duration::from_secs(10)) };
/// let reclaim = Reclaim {
///     watermark_bytes: Some(1 << 30),
///     decay: Some(ten_seconds),
///     ..Reclaim::default()
/// };
/// let config = PoolConfig::new().reclaim(reclaim);
/// # let _ = config;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Reclaim {
    /// When what waits is looked after: by default in a queue of up to 1,024 blocks or 256 MiB.
    pub deferred: Deferred,
    /// Whether a freed block is held back from its own stream: not by default.
    pub cool_down: CoolDown,
    /// Idle memory above it goes back: at a tick, or as [`decay`](Self::decay) says. `None`, the
    /// default: nothing goes back by itself.
    pub watermark_bytes: Option<u64>,
    /// Idle memory above the watermark goes back only once it was idle for a while, and in steps.
    pub decay: Option<Decay>,
    /// If others leave the device with less free memory than this, idle memory goes back at a
    /// tick, until so much is free, whatever the watermark.
    pub free_floor_bytes: Option<u64>,
}

impl Reclaim {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            deferred: Deferred::Queue { blocks: 1024, bytes: 256 << 20 },
            cool_down: CoolDown::Off,
            watermark_bytes: None,
            decay: None,
            free_floor_bytes: None,
        }
    }
}

impl Default for Reclaim {
    fn default() -> Self {
        Self::new()
    }
}
