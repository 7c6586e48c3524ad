//! What the simulated driver remembers, under one lock.
//!
//! The lock is never held while queued work runs: a call looks up what it needs, gives the lock
//! back, and only then has a device queue, run or wait. What work needs when it runs (bytes, the
//! accounts of a pool) has locks of its own, which are taken after this one, or without it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use pool_core::device::Capabilities;
use pool_mock::device::{Pacing, SimConfig, SimDevice};

use crate::capture::{Graph, OpenCapture};
use crate::code;
use crate::context::{self, Context, ContextId, Current};
use crate::devices::{SimulatedDevice, SimulatedDevices};
use crate::driver_pools::DriverPool;
use crate::events::Event;
use crate::kernels::{self, Kernels};
use crate::log::Log;
use crate::modules::{Function, Module};
use crate::space::Space;
use crate::streams::Stream;
use crate::virtual_memory::Pages;

/// The state of the driver in this process.
pub(crate) struct State {
    /// Which simulation this is: threads forget what they had in an earlier one.
    pub(crate) epoch: u64,
    pub(crate) initialized: bool,
    pub(crate) config: SimulatedDevices,
    pub(crate) log: Log,
    /// There is at least one, for reports; `config` says how many are shown.
    pub(crate) devices: Vec<Device>,
    pub(crate) contexts: HashMap<u64, Context>,
    pub(crate) streams: HashMap<u64, Stream>,
    pub(crate) events: HashMap<u64, Event>,
    pub(crate) space: Space,
    pub(crate) pages: HashMap<u64, Pages>,
    /// Which pages a handle means.
    pub(crate) page_handles: HashMap<u64, u64>,
    pub(crate) pools: HashMap<u64, Arc<DriverPool>>,
    pub(crate) modules: HashMap<u64, Module>,
    pub(crate) functions: HashMap<u64, Function>,
    pub(crate) captures: HashMap<u64, OpenCapture>,
    pub(crate) graphs: HashMap<u64, Arc<Graph>>,
    pub(crate) executables: HashMap<u64, Arc<Graph>>,
    pub(crate) kernels: Kernels,
    next_handle: u64,
}

/// A device.
pub(crate) struct Device {
    /// Its memory, and the streams of its primary context.
    pub(crate) sim: SimDevice,
    /// The handle of its primary context.
    pub(crate) primary: u64,
    /// The handle of its default pool, if it has pools.
    pub(crate) pool: Option<u64>,
    /// What every call answers since earlier work failed.
    pub(crate) fatal: Option<i32>,
}

/// The state under its lock.
pub(crate) type Locked = MappedMutexGuard<'static, State>;

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Locks the driver's state.
pub(crate) fn lock() -> Locked {
    MutexGuard::map(STATE.lock(), |state| {
        state.get_or_insert_with(|| State::new(0, SimulatedDevices::new()))
    })
}

/// Locks the driver's state, if the driver is started.
pub(crate) fn started() -> Result<Locked, i32> {
    let state = lock();
    if state.initialized { Ok(state) } else { Err(code::NOT_INITIALIZED) }
}

/// The calling thread's context.
pub(crate) fn current() -> Result<Current, i32> {
    started()?.current()
}

/// Starts the driver afresh.
pub(crate) fn restart(config: SimulatedDevices) {
    let epoch = lock().epoch + 1;
    let old = core::mem::replace(&mut *lock(), State::new(epoch, config));
    drop(old);
}

/// The simulated device behind a device of the driver.
fn sim_config(device: &SimulatedDevice) -> SimConfig {
    let lacks =
        if device.page_bytes.is_some() { Capabilities::empty() } else { Capabilities::PAGES };
    SimConfig::new()
        .memory_bytes(device.total_bytes as u64)
        .without(lacks)
        .pacing(Pacing::Eager)
        .marks(false)
}

impl State {
    fn new(epoch: u64, config: SimulatedDevices) -> Self {
        let mut state = Self {
            epoch,
            initialized: false,
            log: Log::default(),
            devices: Vec::new(),
            contexts: HashMap::new(),
            streams: HashMap::new(),
            events: HashMap::new(),
            space: Space::default(),
            pages: HashMap::new(),
            page_handles: HashMap::new(),
            pools: HashMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            captures: HashMap::new(),
            graphs: HashMap::new(),
            executables: HashMap::new(),
            kernels: kernels::built_in(),
            // Apart from the handles of streams, which the simulated device chooses.
            next_handle: 1 << 32,
            config,
        };
        for known in state.config.devices.clone() {
            state.add_device(&known);
        }
        if state.devices.is_empty() {
            state.add_device(&crate::devices::DEVICES[0]);
        }
        state
    }

    fn add_device(&mut self, known: &SimulatedDevice) {
        let config = sim_config(known);
        let device = match self.devices.first() {
            Some(first) => first.sim.peer_with(config),
            None => SimDevice::new(config),
        };
        let others = known.total_bytes.saturating_sub(known.free_bytes);
        device.set_foreign_bytes(others as u64);
        let ordinal = self.devices.len();
        let primary = self.new_handle();
        self.contexts.insert(primary, Context::new(ordinal, device.clone(), true));
        let pool = known.pools.then(|| {
            let handle = self.new_handle();
            self.pools.insert(handle, Arc::new(DriverPool::new(ordinal, device.clone())));
            handle
        });
        self.devices.push(Device { sim: device, primary, pool, fatal: None });
    }

    /// A number that no handle has or had, but for those of streams.
    pub(crate) const fn new_handle(&mut self) -> u64 {
        self.next_handle += 0x10;
        self.next_handle
    }

    /// Whether this was a handle once.
    pub(crate) const fn was_handle(&self, key: u64) -> bool {
        key > 1 << 32 && key <= self.next_handle
    }

    /// The calling thread's context.
    pub(crate) fn current(&self) -> Result<Current, i32> {
        let handle = context::top(self.epoch).ok_or(code::INVALID_CONTEXT)?;
        let context = self.contexts.get(&handle).ok_or(code::INVALID_CONTEXT)?;
        if context.references == 0 {
            return Err(code::CONTEXT_IS_DESTROYED);
        }
        let id = ContextId { handle, generation: context.generation };
        Ok(Current { id, ordinal: context.ordinal, device: context.device.clone() })
    }

    /// A context that something belongs to, if it exists still.
    pub(crate) fn live(&self, id: ContextId) -> Result<&Context, i32> {
        let context = self.contexts.get(&id.handle).ok_or(code::INVALID_CONTEXT)?;
        let same = context.generation == id.generation && context.references > 0;
        if same { Ok(context) } else { Err(code::CONTEXT_IS_DESTROYED) }
    }

    /// The ordinal of a device that a call names by its number.
    pub(crate) fn ordinal(&self, number: i32) -> Result<usize, i32> {
        self.config.ordinal(number)
    }

    /// The simulated devices of all contexts of a device.
    pub(crate) fn all_of(&self, ordinal: usize) -> Vec<SimDevice> {
        let contexts = self.contexts.values().filter(|context| context.ordinal == ordinal);
        contexts.map(|context| context.device.clone()).collect()
    }
}
