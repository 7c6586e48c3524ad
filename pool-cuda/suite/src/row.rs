//! Handles of pages in a row under addresses of their own.

use pool_core::device::{Device, Failure};
use pool_cuda::{CudaDevice, CudaError, CudaPages, CudaRange};

/// Handles that are committed in a row, from the start of a range on. They go back when it is
/// dropped; what fails then is told to nobody.
pub(crate) struct Row {
    device: CudaDevice,
    pub(crate) range: CudaRange,
    pub(crate) pages: Vec<CudaPages>,
}

/// A device's error, where a device has the call.
pub(crate) fn driver(failure: Failure<CudaError>) -> CudaError {
    match failure {
        Failure::Device(error) => error,
        other => panic!("{other}"),
    }
}

impl Row {
    /// Addresses for so many bytes, with handles of these sizes at their start.
    pub(crate) fn new(
        device: &CudaDevice,
        reserved_bytes: u64,
        sizes: &[u64],
    ) -> Result<Self, CudaError> {
        let range = device.reserve(reserved_bytes).map_err(driver)?;
        let mut row = Self { device: device.clone(), range, pages: Vec::new() };
        let mut made = Vec::new();
        let outcome = sizes.iter().try_for_each(|&size| {
            made.push(device.create_pages(size)?);
            Ok(())
        });
        let handles: Vec<_> = made.iter().collect();
        let outcome = outcome.and_then(|()| device.commit(&row.range, 0, &handles));
        if outcome.is_ok() {
            row.pages = made;
        } else {
            for pages in made {
                let _ = device.destroy_pages(pages);
            }
        }
        outcome.map(|()| row).map_err(driver)
    }

    /// Where a handle begins, from the start of the range.
    pub(crate) fn offset(&self, place: usize) -> u64 {
        self.pages[..place].iter().map(CudaPages::size_bytes).sum()
    }

    /// Where a handle begins, for kernels.
    pub(crate) fn address(&self, place: usize) -> u64 {
        self.range.address() + self.offset(place)
    }

    /// How long a handle is.
    pub(crate) fn len(&self, place: usize) -> usize {
        usize::try_from(self.pages[place].size_bytes()).unwrap()
    }

    /// Takes the last handle out.
    pub(crate) fn pop(&mut self) -> CudaPages {
        let offset = self.offset(self.pages.len() - 1);
        self.device.decommit(&self.range, offset, self.pages.last().unwrap()).unwrap();
        self.pages.pop().unwrap()
    }

    /// Puts a handle behind the last.
    pub(crate) fn push(&mut self, pages: CudaPages) {
        let offset = self.offset(self.pages.len());
        self.device.commit(&self.range, offset, &[&pages]).unwrap();
        self.pages.push(pages);
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        while let Some(pages) = self.pages.pop() {
            let _ = self.device.decommit(&self.range, self.offset(self.pages.len()), &pages);
            let _ = self.device.destroy_pages(pages);
        }
        let _ = self.device.free(&self.range);
    }
}
