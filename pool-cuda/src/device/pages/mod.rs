//! Pages: addresses without memory, memory without addresses, and the two put together.
//!
//! | module | its one job |
//! | --- | --- |
//! | `mapped` | what is mapped where, and who may use it |
//! | `shared` | memory for other processes |
//! | `imported` | memory of other processes |

mod imported;
mod mapped;
#[cfg(all(test, loom))]
mod models;
mod shared;

use core::sync::atomic::{AtomicU64, Ordering};

use self::imported::Imports;
use self::mapped::Mapped;
use super::CudaDevice;
use super::memory::CudaRange;
use crate::driver::Driver;
use crate::error::{CudaError, host_size};
use crate::sys::{
    ATTRIBUTE_FILE_DESCRIPTORS, ATTRIBUTE_VIRTUAL_MEMORY, GRANULARITY_MINIMUM, PageFunctions,
    PageProperties, RawDevice, RawPages,
};

pub use imported::ImportedBytes;
pub use shared::{PagesId, SharedBytes, SharedPages};

/// Sizes of handles that make sense, in pages. On an H200, to create, map and open a GiB takes 23 ms in
/// handles of 2 MiB, 1.8 ms in those of 32 MiB, 0.4 ms in 256 MiB and 0.15 ms in 1 GiB, and to take it
/// away again 19, 1.7, 0.7 and 0.5 ms; larger ones gain nothing.
const SIZES_PAGES: [u64; 4] = [1, 16, 128, 512];

/// A handle is at most such a part of the device's memory, but for the least.
const LARGEST_PART: u64 = 8;

/// Physical memory of a device, in one handle, by the driver's number for it. A plain value: it is
/// given back by [`destroy_pages`](pool_core::device::Device::destroy_pages) alone.
#[derive(Debug)]
#[must_use = "the memory is not given back by itself"]
pub struct CudaPages {
    raw: RawPages,
    size_bytes: u64,
    id: PagesId,
}

impl CudaPages {
    /// How much memory it is: what was asked for.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

/// How much a device has of what pages are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageCounts {
    /// Bytes of addresses.
    pub reserved_bytes: u64,
    /// Bytes of physical memory that there are handles of; of other processes', too.
    pub held_bytes: u64,
    /// Bytes that are mapped; what is mapped twice counts twice.
    pub mapped_bytes: u64,
}

/// A device's pages.
#[derive(Debug)]
pub(super) struct Paging {
    functions: &'static PageFunctions,
    device: RawDevice,
    /// Whether other processes may have them.
    exportable: bool,
    sizes: Vec<u64>,
    reserved_bytes: AtomicU64,
    held_bytes: AtomicU64,
    mapped: Mapped,
    imports: Imports,
}

/// The size of the least page of a device; `None` where it has none, or the driver has no such calls.
pub(super) fn page_bytes(
    driver: &Driver,
    device: RawDevice,
    exportable: bool,
) -> Result<Option<u64>, CudaError> {
    let Some(functions) = &driver.pages else { return Ok(None) };
    if !driver.has(ATTRIBUTE_VIRTUAL_MEMORY, device)? {
        return Ok(None);
    }
    let mut bytes = 0;
    let properties = PageProperties::on(device, exportable);
    // SAFETY: both pointers are to locals, and the properties have the driver's layout.
    unsafe { functions.granularity(&raw mut bytes, &raw const properties, GRANULARITY_MINIMUM) }?;
    Ok(Some(bytes as u64))
}

impl Paging {
    /// The pages of a device, if it has any.
    pub(super) fn of(
        driver: &'static Driver,
        device: RawDevice,
        total_bytes: u64,
        exportable: bool,
    ) -> Result<Option<Self>, CudaError> {
        let Some(page_bytes) = page_bytes(driver, device, exportable)? else { return Ok(None) };
        let Some(functions) = &driver.pages else { return Ok(None) };
        let sizes = SIZES_PAGES.iter().filter_map(|pages| page_bytes.checked_mul(*pages));
        let sizes = sizes.filter(|&size| size == page_bytes || size <= total_bytes / LARGEST_PART);
        Ok(Some(Self::over(functions, device, exportable, sizes.collect())))
    }

    /// Pages by these functions.
    fn over(
        functions: &'static PageFunctions,
        device: RawDevice,
        exportable: bool,
        sizes: Vec<u64>,
    ) -> Self {
        Self {
            functions,
            device,
            exportable,
            sizes,
            reserved_bytes: AtomicU64::new(0),
            held_bytes: AtomicU64::new(0),
            mapped: Mapped::default(),
            imports: Imports::default(),
        }
    }

    pub(super) fn sizes(&self) -> &[u64] {
        &self.sizes
    }

    /// Addresses, aligned to the least page.
    pub(super) fn reserve(&self, size_bytes: u64) -> Result<CudaRange, CudaError> {
        let bytes = host_size("cuMemAddressReserve", size_bytes)?;
        let mut address = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.functions.reserve(&raw mut address, bytes, 0, 0, 0) }?;
        self.reserved_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        Ok(CudaRange { address, reserved_bytes: size_bytes })
    }

    /// Gives addresses back; the driver refuses where something is mapped.
    pub(super) fn free(&self, range: &CudaRange) -> Result<(), CudaError> {
        let bytes = host_size("cuMemAddressFree", range.reserved_bytes)?;
        // SAFETY: they were reserved so, and are given back once.
        unsafe { self.functions.free_addresses(range.address, bytes) }?;
        self.reserved_bytes.fetch_sub(range.reserved_bytes, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn create(&self, size_bytes: u64) -> Result<CudaPages, CudaError> {
        let bytes = host_size("cuMemCreate", size_bytes)?;
        let properties = PageProperties::on(self.device, self.exportable);
        let mut raw = 0;
        // SAFETY: both pointers are to locals, and the properties have the driver's layout.
        unsafe { self.functions.create(&raw mut raw, bytes, &raw const properties, 0) }?;
        Ok(self.hold(raw, size_bytes, PagesId::new()))
    }

    fn hold(&self, raw: RawPages, size_bytes: u64, id: PagesId) -> CudaPages {
        self.held_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        CudaPages { raw, size_bytes, id }
    }

    #[expect(clippy::needless_pass_by_value, reason = "nobody has it after")]
    pub(super) fn destroy(&self, pages: CudaPages) -> Result<(), CudaError> {
        // SAFETY: the handle is the driver's, and nobody has it any more.
        unsafe { self.functions.release(pages.raw) }?;
        self.held_bytes.fetch_sub(pages.size_bytes, Ordering::Relaxed);
        Ok(())
    }

    fn counts(&self) -> PageCounts {
        PageCounts {
            reserved_bytes: self.reserved_bytes.load(Ordering::Relaxed),
            held_bytes: self.held_bytes.load(Ordering::Relaxed),
            mapped_bytes: self.mapped.bytes(),
        }
    }
}

impl CudaDevice {
    /// Does something with the device's pages, in its context, whatever is being captured.
    pub(super) fn with_pages<R>(
        &self,
        work: impl FnOnce(&Paging) -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        let unsupported = CudaError::Unsupported { what: "pages" };
        let paging = self.inner.pages.as_ref().ok_or(unsupported)?;
        self.within(|| self.driver().relaxed(|| work(paging)))
    }

    /// The same device, whose pages other processes can have: [`export_pages`](Self::export_pages),
    /// [`PoolBuffer::share`](crate::PoolBuffer::share). Of another [source](Self::with_source) it is
    /// as any.
    ///
    /// # Errors
    ///
    /// [`CudaError::Unsupported`] where the device has no such pages, or its arenas are no pages;
    /// [`CudaError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// use pool_core::device::Device;
    ///
    /// let device = CudaDevice::open_on(driver, 0)?.exportable()?;
    /// let pages = device.create_pages(2 << 20)?;
    /// let descriptor = device.export_pages(&pages)?.descriptor;
    /// # let _ = descriptor;
    /// device.destroy_pages(pages)?; // the descriptor keeps the memory
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn exportable(&self) -> Result<Self, CudaError> {
        crate::process::check()?;
        let core = self.core();
        let can = self.inner.pages.is_some()
            && self.driver().has(ATTRIBUTE_FILE_DESCRIPTORS, core.raw)?;
        if !can {
            return Err(CudaError::Unsupported { what: "pages for other processes" });
        }
        Self::with_memory(
            std::sync::Arc::clone(&self.inner.core),
            super::ArenaSource::Automatic,
            true,
        )
    }

    /// How much there is of what pages are made of, over this device and its clones; what is opened by
    /// itself, or of another [source](Self::with_source), counts by itself.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// use pool_core::device::Device;
    ///
    /// let device = CudaDevice::open_on(driver, 0)?;
    /// let range = device.reserve(1 << 40)?;
    /// assert_eq!(device.page_counts().reserved_bytes, 1 << 40);
    /// assert_eq!(device.page_counts().held_bytes, 0);
    /// device.free(&range)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn page_counts(&self) -> PageCounts {
        self.inner.pages.as_ref().map_or_else(PageCounts::default, Paging::counts)
    }
}
