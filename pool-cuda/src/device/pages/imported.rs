//! Memory of other processes: each handle imported and mapped once, for all that lies in it.

use std::collections::HashMap;
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pool_core::device::Device as _;

use super::{CudaPages, PagesId, Paging, SharedBytes, SharedPages};
use crate::device::{CudaDevice, CudaRange};
use crate::error::CudaError;
use crate::process;
use crate::sys::FILE_DESCRIPTOR;

/// What is imported, by the handles that it consists of.
#[derive(Debug, Default)]
pub(super) struct Imports {
    known: Mutex<HashMap<Vec<PagesId>, Weak<Import>>>,
}

/// Handles of another process, mapped in a row at addresses that are just as long.
#[derive(Debug)]
struct Import {
    device: CudaDevice,
    range: CudaRange,
    pages: Vec<CudaPages>,
    is_mapped: bool,
}

/// Bytes of another process, mapped here. A clone is the same bytes; several of the same handles share
/// a mapping, and the last that is dropped ends it, without a wait: what uses the bytes has to be done.
#[derive(Clone, Debug)]
#[must_use = "the bytes are mapped only as long as this lives"]
pub struct ImportedBytes {
    import: Arc<Import>,
    offset_bytes: u64,
    len_bytes: u64,
}

impl ImportedBytes {
    /// Where they begin, for kernels of the device and of its peers.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.import.range.address() + self.offset_bytes
    }

    /// How many there are.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }
}

impl Drop for Import {
    fn drop(&mut self) {
        if !process::is_usable() {
            return;
        }
        // Nobody is left to tell of a failure.
        let mut offset_bytes = 0;
        for pages in self.pages.drain(..) {
            let size_bytes = pages.size_bytes;
            if self.is_mapped {
                let _ = self.device.decommit(&self.range, offset_bytes, &pages);
            }
            let _ = self.device.destroy_pages(pages);
            offset_bytes += size_bytes;
        }
        let _ = self.device.free(&self.range);
    }
}

impl Imports {
    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Vec<PagesId>, Weak<Import>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is imported already.
    fn find(&self, ids: &[PagesId]) -> Option<Arc<Import>> {
        self.known().get(ids).and_then(Weak::upgrade)
    }

    /// Adds an import, unless another thread was faster: then it is that one's.
    fn add(&self, ids: Vec<PagesId>, import: Arc<Import>) -> Arc<Import> {
        let mut known = self.known();
        known.retain(|_, import| import.strong_count() > 0);
        if let Some(faster) = known.get(&ids).and_then(Weak::upgrade) {
            // The lock ends before `import` does, which calls the driver.
            drop(known);
            return faster;
        }
        known.insert(ids, Arc::downgrade(&import));
        import
    }
}

impl Paging {
    fn import(&self, shared: &SharedPages) -> Result<CudaPages, CudaError> {
        let descriptor = usize::try_from(shared.descriptor.as_raw_fd()).unwrap_or(usize::MAX);
        let descriptor = core::ptr::without_provenance_mut(descriptor);
        let mut raw = 0;
        // SAFETY: one pointer is to a local, the other is the number of an open descriptor, which
        // is what the driver takes for this kind.
        unsafe { self.functions.import(&raw mut raw, descriptor, FILE_DESCRIPTOR) }?;
        Ok(self.hold(raw, shared.size_bytes, shared.id))
    }
}

/// How long addresses must be for bytes that were shared.
fn mapped_bytes(shared: &SharedBytes) -> Result<u64, CudaError> {
    let not = |reason| CudaError::NotShared { reason };
    let sizes = shared.parts.iter().map(|part| part.size_bytes);
    let all = sizes.reduce(u64::saturating_add).ok_or(not("nothing is shared"))?;
    let end = shared.offset_bytes.checked_add(shared.len_bytes);
    let is_inside = end.is_some_and(|end| end <= all) && shared.len_bytes > 0;
    if is_inside { Ok(all) } else { Err(not("the bytes are not in what is shared")) }
}

impl CudaDevice {
    /// Takes a handle that another process, or this one, has exported: one more to the same memory. A
    /// wrong size is refused where it is committed.
    ///
    /// # Errors
    ///
    /// [`CudaError::Unsupported`] where the device has no pages; [`CudaError::Call`].
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
    /// let shared = device.export_pages(&pages)?;
    /// // ... in another process ...
    /// let imported = device.import_pages(&shared)?;
    /// device.destroy_pages(imported)?;
    /// device.destroy_pages(pages)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn import_pages(&self, shared: &SharedPages) -> Result<CudaPages, CudaError> {
        process::check()?;
        self.with_pages(|paging| paging.import(shared))
    }

    /// Maps bytes that another process has shared. The descriptors are not needed after that. What
    /// orders the work of the two processes is theirs.
    ///
    /// # Errors
    ///
    /// [`CudaError::NotShared`] for bytes that are not in the handles, [`CudaError::Unsupported`]
    /// where the device has no pages; [`CudaError::Call`], also for handles of another size. Nothing
    /// stays mapped.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// use pool_core::device::Device;
    /// use pool_cuda::SharedBytes;
    ///
    /// let device = CudaDevice::open_on(driver, 0)?.exportable()?;
    /// let pages = device.create_pages(2 << 20)?;
    /// let parts = vec![device.export_pages(&pages)?];
    /// let shared = SharedBytes { parts, offset_bytes: 1000, len_bytes: 24 };
    /// // ... in another process ...
    /// let bytes = device.import_bytes(&shared)?;
    /// assert!(bytes.address() % 4096 == 1000 && bytes.len_bytes() == 24);
    /// # drop(bytes);
    /// # device.destroy_pages(pages)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn import_bytes(&self, shared: &SharedBytes) -> Result<ImportedBytes, CudaError> {
        process::check()?;
        let size_bytes = mapped_bytes(shared)?;
        let paging = self.inner.pages.as_ref();
        let imports = &paging.ok_or(CudaError::Unsupported { what: "pages" })?.imports;
        let ids: Vec<_> = shared.parts.iter().map(|part| part.id).collect();
        let import = match imports.find(&ids) {
            Some(known) => known,
            None => imports.add(ids, Arc::new(self.import_all(&shared.parts, size_bytes)?)),
        };
        if size_bytes > import.range.reserved_bytes {
            return Err(CudaError::NotShared { reason: "the handles have other sizes" });
        }
        let (offset_bytes, len_bytes) = (shared.offset_bytes, shared.len_bytes);
        Ok(ImportedBytes { import, offset_bytes, len_bytes })
    }

    /// Imports handles and maps them in a row. What was done is undone by the drop.
    fn import_all(&self, parts: &[SharedPages], size_bytes: u64) -> Result<Import, CudaError> {
        let range = self.with_pages(|paging| paging.reserve(size_bytes))?;
        let device = self.clone();
        let mut import = Import { device, range, pages: Vec::new(), is_mapped: false };
        for part in parts {
            import.pages.push(self.import_pages(part)?);
        }
        let pages: Vec<_> = import.pages.iter().collect();
        self.with_pages(|paging| paging.commit(&import.range, 0, &pages))?;
        import.is_mapped = true;
        Ok(import)
    }
}
