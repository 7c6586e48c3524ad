//! What the threads of a model share: a small pool over a simulated device, and a program that
//! uses every block which it gets.

use std::sync::Arc;

#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
#[cfg(all(shuttle, not(loom)))]
use shuttle::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pool_core::device::Capabilities;
use pool_core::policy::Growth;
use pool_core::threads::ModelThreads;
use pool_core::{Block, Deferred, Pool, PoolConfig, PoolError, StreamId};
use pool_mock::device::{Access, Owner, Pacing, SimConfig, SimDevice, SimError, SimStream};

/// The unit of all sizes: large, so that a pool has few tables.
pub(crate) const GRANULE: u64 = 1 << 20;

/// A refusal by the pool.
pub(crate) type Refused = PoolError<SimError>;

/// A stream of the pool's, by both its names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) raw: SimStream,
}

/// A block, and whom the device knows as its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) block: Block,
    owner: Owner,
}

#[derive(Clone)]
pub(crate) struct World {
    pub(crate) pool: Pool<SimDevice, ModelThreads>,
    pub(crate) device: SimDevice,
    turn: Arc<AtomicUsize>,
}

impl World {
    /// A pool on a device of so many granules, which it takes at its start. It may have more, so
    /// that each stream keeps what it has.
    #[cfg(loom)]
    pub(crate) fn new(granules: u64, pacing: Pacing, deferred: Deferred) -> Self {
        let bytes = granules * GRANULE;
        let config = PoolConfig::new().initial_bytes(bytes).arena_bytes(GRANULE);
        Self::on(SimConfig::new().memory_bytes(bytes), config, pacing, deferred)
    }

    /// The same, and it may not: streams have nothing to themselves.
    #[cfg(loom)]
    pub(crate) fn short(granules: u64, pacing: Pacing, deferred: Deferred) -> Self {
        let bytes = granules * GRANULE;
        Self::of(PoolConfig::new().initial_bytes(bytes).limit_bytes(bytes), pacing, deferred)
    }

    pub(crate) fn of(config: PoolConfig, pacing: Pacing, deferred: Deferred) -> Self {
        Self::on(SimConfig::new(), config, pacing, deferred)
    }

    fn on(device: SimConfig, config: PoolConfig, pacing: Pacing, deferred: Deferred) -> Self {
        let device = SimDevice::new(device.pacing(pacing).without(Capabilities::EXTEND));
        let turn = Arc::new(AtomicUsize::new(0));
        let growth = Growth { ahead: None, ..config.settings().growth };
        let config = config.growth(growth).granule_bytes(GRANULE).cache_bytes(0).deferred(deferred);
        let pool = Pool::on_platform(device.clone(), config).unwrap();
        let world = Self { pool, device, turn: turn.clone() };
        world.device.on_call(move |_| {
            turn.fetch_add(1, Relaxed);
        });
        world
    }

    /// A step that any other of its kind may come before or after.
    pub(crate) fn turn(&self) {
        self.turn.fetch_add(1, Relaxed);
    }

    pub(crate) fn stream(&self) -> Stream {
        let id = self.pool.create_stream().unwrap();
        Stream { id, raw: self.pool.stream(id).unwrap() }
    }

    /// Allocates so many granules for a stream, which writes them.
    pub(crate) fn try_allocate(&self, on: Stream, granules: u64) -> Result<Held, Refused> {
        let block = self.pool.allocate_on(on.id, granules * GRANULE)?;
        let held = Held { block, owner: self.device.new_owner() };
        self.write(on, held);
        Ok(held)
    }

    #[cfg(loom)]
    pub(crate) fn allocate(&self, on: Stream, granules: u64) -> Held {
        self.try_allocate(on, granules).unwrap()
    }

    /// A stream writes a block: a use that nobody else's may meet.
    pub(crate) fn write(&self, on: Stream, held: Held) {
        self.write_by(on.raw, held);
    }

    /// The same on a stream that the pool need not know.
    pub(crate) fn write_by(&self, on: SimStream, held: Held) {
        let location = self.pool.location(held.block.handle()).unwrap();
        let (range, offset_bytes) = (location.arena.range(), location.offset_bytes);
        let size_bytes = held.block.size_bytes();
        self.turn();
        self.device
            .queue_use(on, range, offset_bytes, size_bytes, held.owner, Access::Write)
            .unwrap();
    }

    /// Frees a block on a stream, which has written it once more before.
    pub(crate) fn free(&self, on: Stream, held: Held) {
        self.write(on, held);
        self.pool.free_on(on.id, held.block.handle()).unwrap();
    }

    /// That the device found nothing and the books are right.
    pub(crate) fn check(&self) {
        self.device.assert_clean();
        self.pool.verify().unwrap();
    }

    /// The same, and again once the pool has ended and given everything back.
    pub(crate) fn finish(self) {
        self.check();
        let Self { pool, device, .. } = self;
        drop(pool);
        device.assert_clean();
        let balance = device.balance();
        assert!(balance.is_zero(), "left on the device: {balance:?}");
    }
}

/// A queue so long that nothing in it is looked at unless somebody asks.
pub(crate) const PATIENT: Deferred = Deferred::Queue { blocks: 1 << 20, bytes: 1 << 40 };
