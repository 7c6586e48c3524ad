//! The edge to cust: a device that it has chosen opens as one of ours.

use crate::device::Device;
use crate::driver::Driver;
use crate::error::CudaError;

impl Device {
    /// Opens the device that cust has chosen (feature `cust`). Both share its primary context.
    ///
    /// A program that calls cust is linked to the driver, and starts only where there is one.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`]; nothing stays retained.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_cuda::{Device, Driver};
    ///
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// cust::init(cust::CudaFlags::empty())?;
    /// let chosen = cust::device::Device::get_device(1)?;
    /// let device = Device::from_cust(driver, chosen)?; // or Driver::system()?
    /// assert_eq!(device.name(), chosen.name()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_cust(
        driver: &'static Driver,
        device: cust::device::Device,
    ) -> Result<Self, CudaError> {
        Self::from_raw(driver, device.as_raw())
    }
}
