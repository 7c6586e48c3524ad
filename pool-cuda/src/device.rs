//! A CUDA device: what it is called, what it has, how its memory can be managed.

use core::ffi::CStr;
use core::ffi::c_char;

use pool_core::RangeConfig;

use crate::context::{ContextGuard, PrimaryContext};
use crate::driver::Driver;
use crate::error::CudaError;
use crate::sys::{ATTRIBUTE_VIRTUAL_MEMORY, GRANULARITY_MINIMUM, PageProperties, RawDevice};

/// The granule of every range on CUDA: what the driver's own allocations are aligned to.
pub const GRANULE_BYTES: u64 = 256;

/// An open device. It holds a reference to the primary context until it is dropped.
///
/// # Example
///
/// ```
/// use pool_cuda::{CudaError, Device};
///
/// match Device::open(0) {
///     Ok(device) => assert!(device.memory()?.free_bytes <= device.total_bytes()),
///     Err(CudaError::NoDriver { reason }) => println!("nothing to open here: {reason}"),
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Debug)]
pub struct Device {
    name: String,
    total_bytes: u64,
    page_bytes: Option<u64>,
    context: PrimaryContext,
}

/// The memory of a device at one moment, of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that could be allocated.
    pub free_bytes: u64,
    /// All bytes of the device.
    pub total_bytes: u64,
}

impl Device {
    /// Opens a device of this machine by its ordinal, from 0.
    ///
    /// # Errors
    ///
    /// Those of [`Driver::system`], [`CudaError::NoSuchDevice`], and [`CudaError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// match pool_cuda::Device::open(0) {
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
    /// use pool_cuda::{CudaError, Device, Driver};
    ///
    /// // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// let driver = unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?;
    /// let driver = Box::leak(Box::new(driver));
    /// let error = Device::open_on(driver, 7).unwrap_err();
    /// assert_eq!(error, CudaError::NoSuchDevice { ordinal: 7, devices: 2 });
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn open_on(driver: &'static Driver, ordinal: u32) -> Result<Self, CudaError> {
        let devices = driver.device_count()?;
        let number = i32::try_from(ordinal).ok().filter(|_| ordinal < devices);
        let number = number.ok_or(CudaError::NoSuchDevice { ordinal, devices })?;
        let mut device = 0;
        // SAFETY: the pointer is to a local.
        unsafe { driver.functions.device(&raw mut device, number) }?;
        Self::from_raw(driver, device)
    }

    pub(crate) fn from_raw(driver: &'static Driver, device: RawDevice) -> Result<Self, CudaError> {
        let name = name(driver, device)?;
        let total_bytes = total_bytes(driver, device)?;
        let page_bytes = page_bytes(driver, device)?;
        let context = PrimaryContext::retain(driver, device)?;
        Ok(Self { name, total_bytes, page_bytes, context })
    }

    /// The product's name.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{Device, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// assert_eq!(Device::open_on(driver, 0)?.name(), "Simulated device 0");
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All memory of the device in bytes.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{Device, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// assert_eq!(Device::open_on(driver, 0)?.total_bytes(), 8 << 30);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The size of the pages that can be mapped and unmapped (2 MiB on every device so far);
    /// `None` where the device has no virtual memory management.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{Device, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// assert_eq!(Device::open_on(driver, 0)?.page_bytes(), Some(2 << 20));
    /// assert_eq!(Device::open_on(driver, 1)?.page_bytes(), None);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    #[must_use]
    pub fn page_bytes(&self) -> Option<u64> {
        self.page_bytes
    }

    /// Asks how much memory is free now. The call takes some microseconds.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`]; the thread's current context is as before.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{Device, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// let memory = Device::open_on(driver, 0)?.memory()?;
    /// assert!(memory.free_bytes < memory.total_bytes);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn memory(&self) -> Result<MemoryInfo, CudaError> {
        let (mut free, mut total) = (0, 0);
        let current = self.enter()?;
        let functions = &self.context.driver().functions;
        // SAFETY: both pointers are to locals.
        let asked = unsafe { functions.memory_info(&raw mut free, &raw mut total) };
        let left = current.leave();
        asked.and(left)?;
        Ok(MemoryInfo { free_bytes: free as u64, total_bytes: total as u64 })
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
    /// # use pool_cuda::{Device, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// let device = Device::open_on(driver, 0)?;
    /// let _current = device.enter()?;
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn enter(&self) -> Result<ContextGuard<'_>, CudaError> {
        self.context.enter()
    }

    /// The shape of a range over memory of this device: whole pages where it has pages, and
    /// CUDA's granule.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::RangeConfig;
    /// # use pool_cuda::{Device, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    ///
    /// let device = Device::open_on(driver, 0)?;
    /// assert_eq!(device.range_config((3 << 20) + 1), RangeConfig::new(2 << 20).granule_bytes(256));
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    #[must_use]
    pub fn range_config(&self, capacity_bytes: u64) -> RangeConfig {
        let unit_bytes = self.page_bytes.unwrap_or(GRANULE_BYTES);
        let odd_bytes = capacity_bytes.checked_rem(unit_bytes).unwrap_or(0);
        RangeConfig::new(capacity_bytes - odd_bytes).granule_bytes(GRANULE_BYTES)
    }
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

fn page_bytes(driver: &Driver, device: RawDevice) -> Result<Option<u64>, CudaError> {
    let mut supported = 0;
    // SAFETY: the pointer is to a local.
    unsafe {
        driver.functions.device_attribute(&raw mut supported, ATTRIBUTE_VIRTUAL_MEMORY, device)
    }?;
    if supported == 0 {
        return Ok(None);
    }
    let mut bytes = 0;
    let properties = PageProperties::on(device);
    // SAFETY: both pointers are to locals, and the properties have the driver's layout.
    unsafe {
        driver.functions.page_size(&raw mut bytes, &raw const properties, GRANULARITY_MINIMUM)
    }?;
    Ok(Some(bytes as u64))
}
