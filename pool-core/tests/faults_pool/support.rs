//! What the tests of all kinds share.

use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use pool_core::device::{Call, Capabilities};
use pool_core::policy::Growth;
use pool_core::pool::Location;
use pool_core::{Block, Deferred, Handle, On, Pool, PoolConfig, PoolError, Request, StreamId};
use pool_mock::device::{
    Access, Owner, Pacing, SimConfig, SimDevice, SimError, SimStream, StreamKind,
};

pub(crate) const GRANULE: u64 = 256;
pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

pub(crate) type SimPool = Pool<SimDevice>;
pub(crate) type Refusal = PoolError<SimError>;
pub(crate) type Where<'a> = On<'a, SimStream>;

/// When work runs, and how long freed blocks may wait before anything is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) pacing: Pacing,
    pub(crate) deferred: Deferred,
    /// Whether the device tells streams apart whose handles are the same.
    pub(crate) ids: bool,
}

impl Way {
    /// A device that does things this way, with all that it can do.
    pub(crate) fn device(&self) -> SimConfig {
        // Tables are as large as the memory could be.
        let config = SimConfig::new().pacing(self.pacing).memory_bytes(GIB);
        // Arenas stay as they are, as most devices have them.
        let config = config.without(Capabilities::EXTEND);
        if self.ids { config } else { config.without(Capabilities::STREAM_IDS) }
    }

    /// A pool's configuration: it grows only by need, so that figures are exact.
    pub(crate) fn pool(&self) -> PoolConfig {
        let growth = Growth { ahead: None, ..Growth::new() };
        PoolConfig::new().deferred(self.deferred).growth(growth)
    }

    /// A pool over such a device, all of whose memory it has from the start.
    pub(crate) fn fixed(&self, capacity_bytes: u64) -> World {
        World::new(
            self.device().memory_bytes(capacity_bytes.max(GIB)),
            self.pool().initial_bytes(capacity_bytes).limit_bytes(capacity_bytes),
        )
    }

    /// A pool over such a device that grows as it needs.
    pub(crate) fn growing(&self) -> World {
        World::new(self.device(), self.pool())
    }
}

/// All ways.
pub(crate) fn each_way(test: impl Fn(Way)) {
    let pacings = [
        Pacing::Idle,
        Pacing::Eager,
        Pacing::Lag(1),
        Pacing::Lag(7),
        Pacing::Random(11),
        Pacing::Random(12),
    ];
    let queues = [Deferred::AtOnce, Deferred::Queue { blocks: 2, bytes: u64::MAX }, USUAL];
    for (place, pacing) in pacings.into_iter().enumerate() {
        for (turn, deferred) in queues.into_iter().enumerate() {
            for ids in [true, false] {
                // Where everything is late both; elsewhere one of them.
                if pacing != Pacing::Idle && ids == ((place + turn) % 2 == 0) {
                    continue;
                }
                let way = Named(Way { pacing, deferred, ids });
                test(way.0);
            }
        }
    }
}

/// Says which way it was, if a test fails on it.
struct Named(Way);

impl Drop for Named {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{:?}", self.0);
        }
    }
}

/// A pool's usual queue.
const USUAL: Deferred = Deferred::Queue { blocks: 1024, bytes: 256 << 20 };

/// The way in which everything takes longest.
pub(crate) const LATE: Way = Way { pacing: Pacing::Idle, deferred: USUAL, ids: true };

/// A live block, and who owns its bytes.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) handle: Handle,
    pub(crate) offset_bytes: u64,
    pub(crate) size_bytes: u64,
    pub(crate) owner: Owner,
    /// The stream that it was taken on: others come after that one.
    stream: Option<SimStream>,
    location: Arc<Location<SimDevice>>,
}

impl Buffer {
    /// The same bytes with the same owner, for work that is queued after the free.
    pub(crate) fn again(&self) -> Self {
        Self { location: self.location.clone(), ..*self }
    }

    /// Whether it shares a byte with another one.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.offset_bytes < other.offset_bytes + other.size_bytes
            && other.offset_bytes < self.offset_bytes + self.size_bytes
    }
}

/// A pool and the device that judges it.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) device: SimDevice,
    pub(crate) pool: SimPool,
}

impl World {
    pub(crate) fn new(device: SimConfig, config: PoolConfig) -> Self {
        Self::over(SimDevice::new(device), config)
    }

    pub(crate) fn over(device: SimDevice, config: PoolConfig) -> Self {
        Self { pool: Pool::new(device.clone(), config).unwrap(), device }
    }

    /// A stream of the pool's own.
    pub(crate) fn stream(&self) -> StreamId {
        self.pool.create_stream().unwrap()
    }

    pub(crate) fn streams<const COUNT: usize>(&self) -> [StreamId; COUNT] {
        [(); COUNT].map(|()| self.stream())
    }

    /// A stream of the program's, which the pool does not know.
    pub(crate) fn foreign(&self) -> SimStream {
        self.device.open_stream(StreamKind::NonBlocking)
    }

    /// A stream of the program's that the pool is told of. Whoever calls this retires it before it
    /// closes it.
    pub(crate) fn adopt(&self, handle: SimStream) -> StreamId {
        adopt(&self.pool, handle).unwrap()
    }

    /// The device's handle of a stream.
    pub(crate) fn raw(&self, stream: StreamId) -> SimStream {
        self.pool.stream(stream).unwrap()
    }

    /// A buffer, with an owner that no other has.
    pub(crate) fn try_allocate<'a>(
        &self,
        on: impl Into<Where<'a>>,
        request: impl Into<Request>,
    ) -> Result<Buffer, Refusal> {
        let on = on.into();
        let stream = self.named(&on);
        Ok(self.own(self.pool.allocate_on(on, request)?, stream))
    }

    pub(crate) fn allocate<'a>(
        &self,
        on: impl Into<Where<'a>>,
        request: impl Into<Request>,
    ) -> Buffer {
        let request = request.into();
        let on = on.into();
        let served = self.try_allocate(on, request);
        served.unwrap_or_else(|refusal| panic!("{request:?} on {on:?}: {refusal}"))
    }

    /// The handle of the stream that a call names.
    fn named(&self, on: &Where<'_>) -> Option<SimStream> {
        match on {
            On::Stream(id) => self.pool.stream(*id),
            On::Raw(handle) => Some(**handle),
            On::Nothing => None,
        }
    }

    /// A buffer out of a block that was taken on a stream.
    pub(crate) fn own(&self, block: Block, stream: Option<SimStream>) -> Buffer {
        let location = Arc::new(self.pool.location(block.handle()).unwrap());
        Buffer {
            handle: block.handle(),
            offset_bytes: block.offset_bytes(),
            size_bytes: block.size_bytes(),
            owner: self.device.new_owner(),
            stream,
            location,
        }
    }

    /// Queues work on a stream that writes all of a buffer, and reads it again.
    pub(crate) fn touch(&self, buffer: &Buffer, stream: SimStream) {
        self.queue(buffer, stream, Access::Write);
        self.queue(buffer, stream, Access::Read);
    }

    pub(crate) fn queue(&self, buffer: &Buffer, stream: SimStream, access: Access) {
        let range = buffer.location.arena.range();
        let (at, size) = (buffer.location.offset_bytes, buffer.size_bytes);
        self.device.queue_use(stream, range, at, size, buffer.owner, access).unwrap();
    }

    /// A buffer that is used on its stream.
    pub(crate) fn used(&self, on: StreamId, request: impl Into<Request>) -> Buffer {
        let buffer = self.allocate(on, request);
        self.touch(&buffer, self.raw(on));
        buffer
    }

    /// Has a stream wait for all work of another so far, as programs do.
    pub(crate) fn order(&self, before: SimStream, after: SimStream) {
        let fence = self.device.queue_record(before).unwrap();
        self.device.queue_wait(after, &fence).unwrap();
        self.device.discard_fence(fence);
    }

    /// Uses a buffer on a further stream, behind the one that it was taken on, and declares that.
    pub(crate) fn share<'a>(&self, buffer: &Buffer, on: impl Into<Where<'a>>) {
        let on = on.into();
        let stream = self.named(&on).unwrap();
        self.pool.record_use(buffer.handle, on).unwrap();
        self.touch_behind(buffer, stream);
    }

    /// Uses a buffer on a further stream, behind the one that it was taken on.
    pub(crate) fn touch_behind(&self, buffer: &Buffer, stream: SimStream) {
        if let Some(before) = buffer.stream
            && before != stream
        {
            self.order(before, stream);
        }
        self.touch(buffer, stream);
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is gone")]
    pub(crate) fn free<'a>(&self, on: impl Into<Where<'a>>, buffer: Buffer) {
        match on.into() {
            On::Nothing => self.pool.free(buffer.handle).unwrap(),
            on => self.pool.free_on(on, buffer.handle).unwrap(),
        };
    }

    /// Takes a block for a moment, uses it, and frees it there.
    pub(crate) fn pass(&self, on: StreamId, request: impl Into<Request>) -> u64 {
        let buffer = self.used(on, request);
        let offset_bytes = buffer.offset_bytes;
        self.free(on, buffer);
        offset_bytes
    }

    /// What may be checked at any time when no call is under way.
    pub(crate) fn check(&self) {
        self.device.assert_clean();
        self.pool.verify().unwrap();
        let (stats, balance) = (self.pool.stats(), self.device.balance());
        assert_eq!(stats.reserved_bytes, balance.bytes);
        assert_eq!(stats.resting_bytes, self.device.resting_bytes());
        assert_eq!(usize::try_from(stats.arenas).unwrap(), balance.ranges);
        let parts = stats.live_bytes + stats.cached_bytes + stats.deferred_bytes + stats.free_bytes;
        assert_eq!(parts, stats.reserved_bytes, "{stats:?}");
    }

    /// Ends the pool: everything is the device's again.
    pub(crate) fn end(self) {
        self.check();
        let Self { device, pool } = self;
        drop(pool);
        assert!(device.balance().is_zero(), "{}", device.balance());
        device.run_all();
        device.assert_clean();
    }

    /// Calls of the device of a kind since a moment.
    pub(crate) fn calls(&self, call: Call) -> u64 {
        self.device.calls().of(call)
    }
}

/// Makes a stream known to a pool.
#[expect(unsafe_code, reason = "the caller retires the stream before it closes it")]
pub(crate) fn adopt(pool: &SimPool, handle: SimStream) -> Result<StreamId, Refusal> {
    // SAFETY: the caller retires the stream before it closes it.
    unsafe { pool.adopt(handle) }
}

/// A walk of a program: blocks taken, used on several streams, and freed in all ways, in an order
/// that a seed chooses. A refusal is asked again, and must be one again.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    pub(crate) world: &'a World,
    pub(crate) streams: Vec<StreamId>,
    pub(crate) live: Vec<(usize, Buffer)>,
    pub(crate) random: fastrand::Rng,
    pub(crate) most_bytes: u64,
    pub(crate) refusals: u64,
    /// Whether nobody else acts: then a refusal is final.
    pub(crate) is_final: bool,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(world: &'a World, streams: &[StreamId], seed: u64, most_bytes: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let streams = streams.to_vec();
        Self { world, streams, live: Vec::new(), random, most_bytes, refusals: 0, is_final: true }
    }

    /// Sizes of every order of magnitude alike.
    pub(crate) fn size(&mut self) -> u64 {
        let bits = self.random.u32(8..=self.most_bytes.ilog2());
        self.random.u64(1..=(1 << bits)).min(self.most_bytes)
    }

    pub(crate) fn step(&mut self) {
        match self.random.u32(0..20) {
            0..8 => self.allocate(),
            8..14 => self.free(),
            14..17 => self.share(),
            17 => {
                let choice = self.random.u32(..);
                self.world.device.step(choice);
            }
            18 => {
                self.world.pool.reclaim().unwrap();
            }
            _ => match self.random.u32(0..8) {
                0 => self.world.pool.flush(),
                1 => {
                    self.world.pool.trim(self.most_bytes).unwrap();
                }
                _ => {
                    let place = self.random.usize(0..self.streams.len());
                    let stream = self.world.raw(self.streams[place]);
                    self.world.device.advance(stream, 3).unwrap();
                }
            },
        }
    }

    fn allocate(&mut self) {
        let place = self.random.usize(0..self.streams.len());
        let size_bytes = self.size();
        let on = self.streams[place];
        match self.world.try_allocate(on, size_bytes) {
            Ok(buffer) => {
                self.world.touch(&buffer, self.world.raw(on));
                self.live.push((place, buffer));
            }
            Err(PoolError::OutOfMemory { .. }) => {
                self.refusals += 1;
                if let Ok(again) = self.world.try_allocate(on, size_bytes) {
                    assert!(!self.is_final, "{size_bytes} bytes were refused, and then served");
                    self.world.free(on, again);
                }
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn free(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let (place, buffer) = self.live.swap_remove(self.random.usize(0..self.live.len()));
        match self.random.u32(0..8) {
            0 => self.world.free(On::Nothing, buffer),
            1 => {
                let other = self.streams[self.random.usize(0..self.streams.len())];
                self.world.free(other, buffer);
            }
            _ => self.world.free(self.streams[place], buffer),
        }
    }

    fn share(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let place = self.random.usize(0..self.live.len());
        let other = self.streams[self.random.usize(0..self.streams.len())];
        self.world.share(&self.live[place].1, other);
    }

    /// Frees what is live, each block on its stream.
    pub(crate) fn end(mut self) {
        for (place, buffer) in core::mem::take(&mut self.live) {
            self.world.free(self.streams[place], buffer);
        }
    }
}

/// Runs `work` on a thread of its own, which must end in time.
pub(crate) fn in_time<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let start = Instant::now();
    let thread = thread::spawn(work);
    while !thread.is_finished() {
        assert!(start.elapsed() < Duration::from_mins(1), "it hangs");
        thread::sleep(Duration::from_millis(1));
    }
    thread.join().unwrap()
}
