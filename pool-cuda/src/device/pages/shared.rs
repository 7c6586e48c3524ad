//! Memory for other processes: handles as file descriptors, and where in them bytes lie.

use core::hash::{BuildHasher as _, Hasher as _};
use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::RandomState;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::OnceLock;

use super::{CudaPages, Paging};
use crate::device::CudaDevice;
use crate::error::CudaError;
use crate::process;
use crate::sys::{FILE_DESCRIPTOR, RawPages};

/// A name of physical memory that no other has or had, in whichever process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PagesId(u128);

impl PagesId {
    pub(super) fn new() -> Self {
        static PROCESS: OnceLock<u64> = OnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Drawn by the standard library for each process.
        let process = *PROCESS.get_or_init(|| RandomState::new().build_hasher().finish());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(u128::from(process) << 64 | u128::from(number))
    }
}

impl From<u128> for PagesId {
    fn from(bits: u128) -> Self {
        Self(bits)
    }
}

impl From<PagesId> for u128 {
    fn from(id: PagesId) -> Self {
        id.0
    }
}

/// Physical memory on its way to another process. The descriptor keeps it, as a handle does.
#[derive(Debug)]
pub struct SharedPages {
    /// What the other process is to be sent, over a Unix socket for instance.
    pub descriptor: OwnedFd,
    /// How much memory it is.
    pub size_bytes: u64,
    /// Which memory it is.
    pub id: PagesId,
}

/// Bytes on their way to another process: whole handles, and where in them the bytes lie, for the
/// driver knows only handles. All but the descriptors is plain data, which a program sends as it likes.
#[derive(Debug)]
pub struct SharedBytes {
    /// The handles, in the order of addresses, without gaps.
    pub parts: Vec<SharedPages>,
    /// Where the bytes begin, from the first handle's start.
    pub offset_bytes: u64,
    /// How many there are.
    pub len_bytes: u64,
}

impl Paging {
    fn export(
        &self,
        raw: RawPages,
        size_bytes: u64,
        id: super::PagesId,
    ) -> Result<SharedPages, CudaError> {
        if !self.exportable {
            return Err(CudaError::Unsupported { what: "pages for other processes" });
        }
        let mut descriptor = -1_i32;
        let out = (&raw mut descriptor).cast();
        // SAFETY: the pointer is to a local, which is what the driver writes for this kind; the
        // handle exists.
        unsafe { self.functions.export(out, raw, FILE_DESCRIPTOR, 0) }?;
        // SAFETY: it was opened for this call, and nobody else has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(SharedPages { descriptor, size_bytes, id })
    }
}

impl CudaDevice {
    /// Makes a handle of an [`exportable`](Self::exportable) device ready for another process.
    ///
    /// # Errors
    ///
    /// [`CudaError::Unsupported`] if the device is not exportable; [`CudaError::Call`].
    ///
    /// # Example
    ///
    /// See [`exportable`](Self::exportable).
    pub fn export_pages(&self, pages: &CudaPages) -> Result<SharedPages, CudaError> {
        process::check()?;
        self.with_pages(|paging| paging.export(pages.raw, pages.size_bytes, pages.id))
    }

    /// Makes bytes that are committed under a range of an [`exportable`](Self::exportable) device
    /// ready for another process. What other blocks have of the same handles comes along.
    ///
    /// # Errors
    ///
    /// [`CudaError::Unsupported`] if the device is not exportable, [`CudaError::NotShared`] where no
    /// pages are, or no bytes are asked for; [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// What is committed there stays so during the call.
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
    /// let (range, pages) = (device.reserve(8 << 20)?, device.create_pages(4 << 20)?);
    /// device.commit(&range, 0, &[&pages])?;
    /// // SAFETY: the pages are decommitted below.
    /// let shared = unsafe { device.export_bytes(range.address() + 1000, 24) }?;
    /// assert_eq!((shared.parts.len(), shared.offset_bytes, shared.len_bytes), (1, 1000, 24));
    /// device.decommit(&range, 0, &pages)?;
    /// device.destroy_pages(pages)?;
    /// device.free(&range)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub unsafe fn export_bytes(
        &self,
        address: u64,
        len_bytes: u64,
    ) -> Result<SharedBytes, CudaError> {
        process::check()?;
        self.with_pages(|paging| {
            let mappings = paging.mapped.of(address, len_bytes).filter(|_| len_bytes > 0);
            let mappings = mappings.ok_or(CudaError::NotShared { reason: "there are no pages" })?;
            let offset_bytes = address - mappings[0].address;
            let parts = mappings.iter().map(|of| paging.export(of.pages, of.size_bytes, of.id));
            Ok(SharedBytes { parts: parts.collect::<Result<_, _>>()?, offset_bytes, len_bytes })
        })
    }
}
