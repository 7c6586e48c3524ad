//! A CUDA device: its context, its memory, its streams, as a pool takes them.
//!
//! | module | its one job |
//! | --- | --- |
//! | `context` | the context, current in a scope |
//! | `memory` | where arenas come from |
//! | `pages` | physical memory that is mapped, moved, and shared with other processes |
//! | `stream`, `events` | streams and fences |
//! | `calls` | the calls that a pool makes |
//! | `copies` | copies and fills in a stream |
//! | `peers` | several devices that use each other's memory |

mod calls;
mod context;
mod copies;
mod events;
mod memory;
mod pages;
mod peers;
mod stream;

use core::ffi::{CStr, c_char, c_void};
use std::sync::Arc;

use pool_core::device::MemoryInfo;

pub(crate) use self::context::Context;
use self::events::Events;
use self::memory::Memory;
use self::pages::Paging;
use crate::driver::Driver;
use crate::error::CudaError;
use crate::process;
use crate::sys::{RawContext, RawDevice};

pub use context::ContextGuard;
pub use events::{CudaFence, EventCounts};
pub(crate) use memory::host_pointer;
pub use memory::{ArenaSource, CudaRange};
pub use pages::{CudaPages, ImportedBytes, PageCounts, PagesId, SharedBytes, SharedPages};
pub use stream::CudaStream;

/// An open device: what a [`Pool`](pool_core::Pool) is made over. A clone is the same device.
///
/// It has a reference to the device's primary context, which the CUDA runtime uses too, until the
/// last clone is dropped, and everything made over it has a clone. Each call has the context be
/// current and restores the caller's.
///
/// # Example
///
/// ```
/// use pool_cuda::{CudaDevice, CudaError};
///
/// match CudaDevice::open(0) {
///     Ok(device) => assert!(device.memory()?.free_bytes <= device.total_bytes()),
///     Err(CudaError::NoDriver { reason }) => println!("nothing to open here: {reason}"),
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CudaDevice {
    inner: Arc<Inner>,
}

/// A device with a kind of memory.
#[derive(Debug)]
struct Inner {
    memory: Memory,
    /// Where arenas are pages, if the device has any.
    pages: Option<Paging>,
    core: Arc<Core>,
}

/// What a device is, whatever memory is taken.
#[derive(Debug)]
struct Core {
    driver: &'static Driver,
    raw: RawDevice,
    ordinal: u32,
    name: String,
    total_bytes: u64,
    page_bytes: Option<u64>,
    events: Events,
    context: Context,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Memory::DriverPool(pool) = &self.memory
            && process::is_usable()
        {
            // Nobody is left to tell of a failure.
            let _ = self.core.context.within(|| {
                pool.end(self.core.driver);
                Ok(())
            });
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if process::is_usable() {
            // As above.
            let _ = self.context.within(|| {
                self.events.clear(self.driver);
                Ok(())
            });
        }
    }
}

impl CudaDevice {
    /// Opens a device of this machine by its ordinal, from 0.
    ///
    /// # Errors
    ///
    /// Those of [`Driver::system`], [`CudaError::NoSuchDevice`], and [`CudaError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// match pool_cuda::CudaDevice::open(0) {
    ///     Ok(device) => println!("{}", device.name()),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn open(ordinal: u32) -> Result<Self, CudaError> {
        Self::open_on(Driver::system()?, ordinal)
    }

    /// Opens a device of a given driver.
    ///
    /// # Errors
    ///
    /// [`CudaError::NoSuchDevice`] and [`CudaError::Call`]; nothing stays retained.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_cuda::{CudaDevice, CudaError, Driver};
    ///
    /// // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// let driver = unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?;
    /// let driver = Box::leak(Box::new(driver));
    /// let error = CudaDevice::open_on(driver, 7).unwrap_err();
    /// assert_eq!(error, CudaError::NoSuchDevice { ordinal: 7, devices: 2 });
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn open_on(driver: &'static Driver, ordinal: u32) -> Result<Self, CudaError> {
        process::check()?;
        let devices = driver.device_count()?;
        let number = i32::try_from(ordinal).ok().filter(|_| ordinal < devices);
        let number = number.ok_or(CudaError::NoSuchDevice { ordinal, devices })?;
        let mut device = 0;
        // SAFETY: the pointer is to a local.
        unsafe { driver.functions.device(&raw mut device, number) }?;
        Self::with_context(driver, device, ordinal, Context::retain(driver, device)?)
    }

    /// Opens a device by the driver's own number for it (its `CUdevice`), in its primary context.
    ///
    /// # Errors
    ///
    /// [`CudaError::NoSuchDevice`] and [`CudaError::Call`]; nothing stays retained.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// assert!(CudaDevice::from_raw(driver, -1).is_err());
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn from_raw(driver: &'static Driver, device: i32) -> Result<Self, CudaError> {
        process::check()?;
        let ordinal = ordinal_of(driver, device)?;
        Self::with_context(driver, device, ordinal, Context::retain(driver, device)?)
    }

    /// Opens the device of a context that the program made, and uses that instead of the primary
    /// one: streams, events and memory are the context's.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// The context lasts longer than the last clone of the device and all that is made over it.
    pub unsafe fn in_context(
        driver: &'static Driver,
        context: *mut c_void,
    ) -> Result<Self, CudaError> {
        process::check()?;
        // SAFETY: passed on to the caller.
        let context = unsafe { Context::given(driver, RawContext(context)) };
        let device = context.device()?;
        Self::with_context(driver, device, ordinal_of(driver, device)?, context)
    }

    fn with_context(
        driver: &'static Driver,
        device: RawDevice,
        ordinal: u32,
        context: Context,
    ) -> Result<Self, CudaError> {
        let core = Arc::new(Core {
            driver,
            raw: device,
            ordinal,
            name: name(driver, device)?,
            total_bytes: total_bytes(driver, device)?,
            page_bytes: pages::page_bytes(driver, device, false)?,
            events: Events::new(),
            context,
        });
        Self::with_memory(core, ArenaSource::default(), false)
    }

    fn with_memory(
        core: Arc<Core>,
        source: ArenaSource,
        exportable: bool,
    ) -> Result<Self, CudaError> {
        let pages = match source {
            ArenaSource::Automatic => {
                Paging::of(core.driver, core.raw, core.total_bytes, exportable)?
            }
            _ => None,
        };
        let memory = Memory::of(source, core.driver, &core.context, core.raw)?;
        Ok(Self { inner: Arc::new(Inner { memory, pages, core }) })
    }

    /// The same device, whose arenas come from somewhere else.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`] if the driver refuses a pool.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// use pool_core::Pool;
    /// use pool_core::PoolConfig;
    /// use pool_cuda::ArenaSource;
    ///
    /// let device = CudaDevice::open_on(driver, 0)?;
    /// let staging = Pool::new(device.with_source(ArenaSource::PinnedHost)?, PoolConfig::new())?;
    /// # let _ = staging;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn with_source(&self, source: ArenaSource) -> Result<Self, CudaError> {
        process::check()?;
        Self::with_memory(Arc::clone(&self.inner.core), source, false)
    }

    fn core(&self) -> &Core {
        &self.inner.core
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.core().driver
    }

    pub(crate) fn raw_device(&self) -> RawDevice {
        self.core().raw
    }

    /// Does something while the device's context is current, and restores the caller's.
    pub(crate) fn within<R>(
        &self,
        work: impl FnOnce() -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        self.core().context.within(work)
    }

    /// Where the driver keeps the context: a multiple of 4.
    pub(crate) fn context_address(&self) -> u64 {
        self.core().context.raw().0.addr() as u64
    }

    /// Whether another handle is of the same context.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.core().context.raw() == other.core().context.raw()
    }

    /// The number by which the driver's users know the device, from 0.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// assert_eq!(CudaDevice::open_on(driver, 1)?.ordinal(), 1);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    #[must_use]
    pub fn ordinal(&self) -> u32 {
        self.core().ordinal
    }

    /// The context whose memory and streams they are: a `CUcontext`.
    ///
    /// # Example
    ///
    /// See [`Driver::current_context`].
    #[must_use]
    pub fn context(&self) -> *mut c_void {
        self.core().context.raw().0
    }

    /// The product's name.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// assert_eq!(CudaDevice::open_on(driver, 0)?.name(), "Simulated device 0");
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core().name
    }

    /// All memory of the device in bytes.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// assert_eq!(CudaDevice::open_on(driver, 0)?.total_bytes(), 8 << 30);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.core().total_bytes
    }

    /// The size of the pages that can be mapped and unmapped (2 MiB on every device so far);
    /// `None` where the device has no virtual memory management.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// assert_eq!(CudaDevice::open_on(driver, 0)?.page_bytes(), Some(2 << 20));
    /// assert_eq!(CudaDevice::open_on(driver, 1)?.page_bytes(), None);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    #[must_use]
    pub fn page_bytes(&self) -> Option<u64> {
        self.core().page_bytes
    }

    /// How many events there are in the device's context that pools use, or used.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// assert_eq!(CudaDevice::open_on(driver, 0)?.events().live, 0);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    #[must_use]
    pub fn events(&self) -> EventCounts {
        self.core().events.counts()
    }

    /// Asks how much memory is free now, for all processes. The call takes some microseconds.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`]; the thread's current context is as before.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// let memory = CudaDevice::open_on(driver, 0)?.memory()?;
    /// assert!(memory.free_bytes <= memory.total_bytes);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn memory(&self) -> Result<MemoryInfo, CudaError> {
        process::check()?;
        self.within(|| {
            let (mut free, mut total) = (0, 0);
            // SAFETY: both pointers are to locals.
            unsafe { self.driver().functions.memory_info(&raw mut free, &raw mut total) }?;
            Ok(MemoryInfo { free_bytes: free as u64, total_bytes: total as u64 })
        })
    }

    /// A limit for a pool: what is free now, less a margin for others, for the context's own needs
    /// and for what the driver allocates by itself (kernels' stacks, libraries' workspaces).
    ///
    /// # Errors
    ///
    /// As [`memory`](Self::memory).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// use pool_core::{Pool, PoolConfig};
    ///
    /// let device = CudaDevice::open_on(driver, 0)?;
    /// let limit_bytes = device.limit_from_free(1 << 30)?;
    /// let pool = Pool::new(device, PoolConfig::new().limit_bytes(limit_bytes))?;
    /// # let _ = pool;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn limit_from_free(&self, margin_bytes: u64) -> Result<u64, CudaError> {
        Ok(self.memory()?.free_bytes.saturating_sub(margin_bytes))
    }

    /// Makes the device's context current on this thread, until the guard ends.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`]; the thread's current context is as before.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// let device = CudaDevice::open_on(driver, 0)?;
    /// let _current = device.enter()?;
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn enter(&self) -> Result<ContextGuard<'_>, CudaError> {
        process::check()?;
        self.core().context.enter()
    }
}

/// The ordinal of the device that has this number.
pub(crate) fn ordinal_of(driver: &Driver, device: RawDevice) -> Result<u32, CudaError> {
    let devices = driver.device_count()?;
    for ordinal in 0..devices {
        let mut number = 0;
        let asked = i32::try_from(ordinal).unwrap_or(i32::MAX);
        // SAFETY: the pointer is to a local.
        unsafe { driver.functions.device(&raw mut number, asked) }?;
        if number == device {
            return Ok(ordinal);
        }
    }
    Err(CudaError::NoSuchDevice { ordinal: u32::MAX, devices })
}

fn name(driver: &Driver, device: RawDevice) -> Result<String, CudaError> {
    const LENGTH: u8 = u8::MAX;
    let mut buffer = [0_u8; LENGTH as usize];
    let start = buffer.as_mut_ptr().cast::<c_char>();
    // SAFETY: the buffer has the length that is told.
    unsafe { driver.functions.device_name(start, LENGTH.into(), device) }?;
    let name = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}

fn total_bytes(driver: &Driver, device: RawDevice) -> Result<u64, CudaError> {
    let mut bytes = 0;
    // SAFETY: the pointer is to a local.
    unsafe { driver.functions.device_memory(&raw mut bytes, device) }?;
    Ok(bytes as u64)
}
