//! An OpenCL device, as a pool takes it.

use core::time::Duration;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use cl3::device::{
    self, CL_DEVICE_GLOBAL_MEM_SIZE, CL_DEVICE_HOST_UNIFIED_MEMORY, CL_DEVICE_MAX_MEM_ALLOC_SIZE,
    CL_DEVICE_MEM_BASE_ADDR_ALIGN, CL_DEVICE_NAME, CL_DEVICE_TYPE_ALL,
};
use cl3::error_codes::{
    CL_DEVICE_NOT_FOUND, CL_INVALID_BUFFER_SIZE, CL_PLATFORM_NOT_FOUND_KHR,
    DLOPEN_RUNTIME_LOAD_FAILED, error_text,
};
use cl3::platform;
use cl3::types::{cl_context, cl_device_id, cl_device_info};
use pool_core::device::{Capabilities, Device, Failure, Severity};

use crate::error::ClError;
use crate::fence::ClFence;
use crate::handle::{Context, Owned, Program};
use crate::kernels;
use crate::process;
use crate::queue::{ClStream, Streams};
use crate::range::ClRange;

/// What the trait's calls give.
type Result<T> = core::result::Result<T, Failure<ClError>>;

/// An open device, with a context of its own. A clone is the same device.
///
/// It has to make the streams that pools over it use, for OpenCL lists the queues of a context to
/// nobody.
///
/// # Example
///
/// ```
/// use pool_opencl::{ClDevice, ClError};
///
/// match ClDevice::open(0) {
///     Ok(device) => println!("{}, {} bytes", device.name(), device.total_bytes()),
///     Err(ClError::NoPlatform { reason }) => println!("nothing to open here: {reason}"),
///     Err(error) => return Err(error),
/// }
/// # Ok::<(), ClError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClDevice {
    inner: Arc<Inner>,
    most_range_bytes: u64,
}

#[derive(Debug)]
struct Inner {
    // Dropped in this order: what is of the context, then that.
    streams: Streams,
    /// In which memory is used first, so that it is there.
    first_uses: ClStream,
    /// The kernels, once they are built.
    program: OnceLock<Owned<Program>>,
    context: Owned<Context>,
    raw: Raw,
    name: String,
    total_bytes: u64,
    granule_bytes: u64,
    /// Whether its memory is the host's.
    is_hosts: bool,
}

/// The runtime's name for a device.
#[derive(Clone, Copy, Debug)]
struct Raw(cl_device_id);

// SAFETY: it is a name, good on any thread and for as long as the process runs.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

impl ClDevice {
    /// Opens a device of this machine by its number among those of all platforms, from 0.
    ///
    /// # Errors
    ///
    /// [`ClError::NoPlatform`], [`ClError::NoSuchDevice`], [`ClError::Forked`], [`ClError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// match pool_opencl::ClDevice::open(1000) {
    ///     Ok(device) => println!("{}", device.name()),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn open(ordinal: usize) -> core::result::Result<Self, ClError> {
        // A runtime sets itself up in its first calls. PoCL 3.1 lets other threads see its devices before
        // they are there.
        static OPENING: Mutex<()> = Mutex::new(());
        process::enter()?;
        let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
        let devices = all_devices()?;
        let raw = *devices
            .get(ordinal)
            .ok_or(ClError::NoSuchDevice { ordinal, devices: devices.len() })?;
        let context =
            cl3::context::create_context(&[raw], core::ptr::null(), None, core::ptr::null_mut())
                .map_err(ClError::of("clCreateContext"))?;
        // SAFETY: the reference was made just now.
        let context: Owned<Context> = unsafe { Owned::new(context) };
        let most_range_bytes = bytes_of(raw, CL_DEVICE_MAX_MEM_ALLOC_SIZE)?;
        let align_bits = number_of(raw, CL_DEVICE_MEM_BASE_ADDR_ALIGN)?;
        let inner = Inner {
            streams: Streams::default(),
            first_uses: ClStream::create(context.raw(), raw)?,
            program: OnceLock::new(),
            context,
            name: name_of(raw)?,
            total_bytes: bytes_of(raw, CL_DEVICE_GLOBAL_MEM_SIZE)?,
            granule_bytes: u64::from(align_bits / 8).max(1).next_power_of_two(),
            is_hosts: number_of(raw, CL_DEVICE_HOST_UNIFIED_MEMORY)? != 0,
            raw: Raw(raw),
        };
        Ok(Self { inner: Arc::new(inner), most_range_bytes })
    }

    /// The same device, which gives no more than so many bytes at once, nor than it does by itself.
    /// For trying out how a pool gets along with that.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    ///
    /// # let Ok(device) = pool_opencl::ClDevice::open(0) else { return };
    /// let device = device.giving_at_most(1 << 20);
    /// assert_eq!(device.most_range_bytes(), 1 << 20);
    /// assert!(device.allocate(2 << 20).is_err());
    /// ```
    #[must_use]
    pub fn giving_at_most(&self, bytes: u64) -> Self {
        let most_range_bytes = self.most_range_bytes.min(bytes);
        Self { inner: self.inner.clone(), most_range_bytes }
    }

    /// A stream of the program's own. Pools over the device may be told of it, and know of it when they
    /// wait for all work.
    ///
    /// # Errors
    ///
    /// [`ClError::Forked`], [`ClError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Pool, PoolConfig};
    ///
    /// # let Ok(device) = pool_opencl::ClDevice::open(0) else { return Ok(()) };
    /// let pool = Pool::new(device.clone(), PoolConfig::new())?;
    /// let queue = device.create_stream()?;
    /// // A pool that does not know a queue records an event at each free.
    /// let block = pool.allocate_on(&queue, 4096)?;
    /// pool.free_on(&queue, block.handle())?;
    /// // SAFETY: the pool has a clone, so the queue stays what it is.
    /// let stream = unsafe { pool.adopt(queue)? };
    /// pool.retire(stream)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_stream(&self) -> core::result::Result<ClStream, ClError> {
        self.check()?;
        let stream = ClStream::create(self.context(), self.raw())?;
        self.inner.streams.add(&stream);
        Ok(stream)
    }

    /// What the platform calls it.
    ///
    /// # Example
    ///
    /// See [`ClDevice`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// All its memory. How much of it is free OpenCL does not say.
    ///
    /// # Example
    ///
    /// See [`ClDevice`].
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.inner.total_bytes
    }

    /// Whether its memory is the host's. A pool over it needs a limit then: the host gives out more than
    /// it has.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::PoolConfig;
    ///
    /// # let Ok(device) = pool_opencl::ClDevice::open(0) else { return };
    /// let config = PoolConfig::new();
    /// let config = if device.has_host_memory() {
    ///     config.limit_bytes(device.total_bytes() / 2)
    /// } else {
    ///     config
    /// };
    /// # let _ = config;
    /// ```
    #[must_use]
    pub fn has_host_memory(&self) -> bool {
        self.inner.is_hosts
    }

    /// The kernels, which are built if they are not.
    pub(crate) fn program(&self) -> core::result::Result<&Owned<Program>, ClError> {
        if let Some(program) = self.inner.program.get() {
            return Ok(program);
        }
        // Of two threads that come here at the same time one builds in vain.
        let built = kernels::build(self.context(), self.raw())?;
        Ok(self.inner.program.get_or_init(|| built))
    }

    pub(crate) fn context(&self) -> cl_context {
        self.inner.context.raw()
    }

    pub(crate) fn raw(&self) -> cl_device_id {
        self.inner.raw.0
    }

    /// Whether the runtime can be called.
    #[expect(clippy::unused_self, reason = "to be asked of a device")]
    pub(crate) fn check(&self) -> core::result::Result<(), ClError> {
        if process::is_usable() { Ok(()) } else { Err(ClError::Forked) }
    }
}

impl Device for ClDevice {
    type Range = ClRange;
    type Stream = ClStream;
    type Fence = ClFence;
    /// OpenCL maps no pages.
    type Pages = ();
    type Error = ClError;

    fn allocate(&self, size_bytes: u64) -> Result<ClRange> {
        self.check()?;
        if size_bytes > self.most_range_bytes {
            // As the runtime says it, which would say it of less if the device is asked for less.
            let code = CL_INVALID_BUFFER_SIZE;
            return Err(ClError::Call { call: "clCreateBuffer", code }.into());
        }
        let Inner { first_uses, granule_bytes, is_hosts, .. } = &*self.inner;
        let context = self.context();
        Ok(ClRange::allocate(context, first_uses, size_bytes, *granule_bytes, *is_hosts)?)
    }

    /// The runtime waits for what uses the buffer, and the caller does not.
    fn free(&self, range: &ClRange) -> Result<()> {
        self.check()?;
        Ok(range.free()?)
    }

    fn capabilities(&self) -> Capabilities {
        // Buffers have no addresses, nor pages, and grow nowhere; OpenCL says nothing of free memory.
        Capabilities::FENCES
            | Capabilities::STREAMS
            | Capabilities::COPY
            | Capabilities::CLOCK
            | Capabilities::STREAM_IDS
    }

    fn granule_bytes(&self) -> u64 {
        self.inner.granule_bytes
    }

    fn most_range_bytes(&self) -> u64 {
        self.most_range_bytes
    }

    fn total_bytes(&self) -> Option<u64> {
        Some(self.inner.total_bytes)
    }

    fn severity(&self, error: &ClError) -> Severity {
        error.severity()
    }

    fn is_alive(&self) -> bool {
        process::is_usable()
    }

    fn create_stream(&self) -> Result<ClStream> {
        Ok(self.create_stream()?)
    }

    /// The queue goes with the last clone, once its work is done; until then it is among the
    /// [`streams`](Device::streams).
    fn destroy_stream(&self, stream: &ClStream) -> Result<()> {
        self.check()?;
        Ok(stream.flush()?)
    }

    fn stream_key(&self, stream: &ClStream) -> u64 {
        stream.key()
    }

    fn stream_id(&self, stream: &ClStream) -> Result<u64> {
        Ok(stream.id())
    }

    fn record(&self, stream: &ClStream) -> Result<ClFence> {
        self.check()?;
        Ok(ClFence::record(stream)?)
    }

    fn streams(&self) -> Option<Vec<ClStream>> {
        self.check().ok()?;
        Some(self.inner.streams.list())
    }

    fn is_done(&self, fence: &ClFence) -> Result<bool> {
        self.check()?;
        Ok(fence.is_done()?)
    }

    fn wait(&self, stream: &ClStream, fence: &ClFence) -> Result<()> {
        self.check()?;
        Ok(fence.have_wait(stream)?)
    }

    fn wait_on_host(&self, fence: &ClFence) -> Result<()> {
        self.check()?;
        Ok(fence.wait()?)
    }

    fn synchronize(&self) -> Result<()> {
        self.check()?;
        for stream in self.inner.streams.list() {
            stream.finish()?;
        }
        Ok(())
    }

    /// Of parts, not of whole ranges, since other streams use other parts meanwhile.
    fn copy(
        &self,
        stream: &ClStream,
        (from, from_bytes): (&ClRange, u64),
        (to, to_bytes): (&ClRange, u64),
        size_bytes: u64,
    ) -> Result<()> {
        self.check()?;
        let (from, to) = (from.part(from_bytes, size_bytes)?, to.part(to_bytes, size_bytes)?);
        Ok(from.copy_to(&to, stream)?)
    }

    fn now(&self) -> Option<Duration> {
        static START: OnceLock<Instant> = OnceLock::new();
        Some(START.get_or_init(Instant::now).elapsed())
    }
}

/// The devices of all platforms, in the platforms' order.
fn all_devices() -> core::result::Result<Vec<cl_device_id>, ClError> {
    let none = |code| ClError::NoPlatform {
        reason: match code {
            DLOPEN_RUNTIME_LOAD_FAILED => "its library cannot be loaded".to_owned(),
            CL_PLATFORM_NOT_FOUND_KHR => "there is its library, but no platform".to_owned(),
            code => error_text(code).to_owned(),
        },
    };
    let mut devices = Vec::new();
    for platform in platform::get_platform_ids().map_err(none)? {
        match device::get_device_ids(platform, CL_DEVICE_TYPE_ALL) {
            Ok(found) => devices.extend(found),
            // A platform without a device is none.
            Err(CL_DEVICE_NOT_FOUND) => {}
            Err(code) => return Err(ClError::Call { call: "clGetDeviceIDs", code }),
        }
    }
    if devices.is_empty() {
        return Err(ClError::NoPlatform { reason: "no platform has a device".to_owned() });
    }
    Ok(devices)
}

fn bytes_of(device: cl_device_id, of: cl_device_info) -> core::result::Result<u64, ClError> {
    let bytes = device::get_device_info(device, of).map_err(ClError::of("clGetDeviceInfo"))?;
    Ok(u64::from(bytes))
}

fn number_of(device: cl_device_id, of: cl_device_info) -> core::result::Result<u32, ClError> {
    let number = device::get_device_info(device, of).map_err(ClError::of("clGetDeviceInfo"))?;
    Ok(u32::from(number))
}

fn name_of(device: cl_device_id) -> core::result::Result<String, ClError> {
    let name = device::get_device_info(device, CL_DEVICE_NAME);
    Ok(String::from(name.map_err(ClError::of("clGetDeviceInfo"))?))
}
