//! The bed.

use core::ffi::{CStr, c_int, c_uint, c_void};
use std::sync::Arc;

use pool_cuda::{CudaDevice, Driver};
use pool_cuda_suite::{Bed, Gate, Session, Simulated};

use crate::library::{is_in_driver, loaded_libraries, symbol};

/// What the driver may keep for itself after a test, in bytes.
const SLACK_BYTES: u64 = 32 << 20;

unsafe extern "C" {
    // As this program is linked with it.
    fn cuInit(flags: c_uint) -> c_int;
    fn cuCtxSynchronize() -> c_int;
}

/// The GPUs of this machine. Their primary contexts last as long as this, so that what they take is
/// no part of what a test takes.
#[derive(Debug)]
pub struct GpuBed {
    driver: &'static Driver,
    devices: Vec<CudaDevice>,
}

impl GpuBed {
    /// Starts the driver, and says what it is.
    ///
    /// # Errors
    ///
    /// Why there is none, in words: also if what answers is no driver of a GPU.
    pub fn start() -> Result<Self, String> {
        let driver = Driver::system().map_err(|error| error.to_string())?;
        let linked = cuInit as unsafe extern "C" fn(c_uint) -> c_int as *const c_void;
        if !is_in_driver(linked) {
            return Err("this program calls functions that are not the driver's".to_owned());
        }
        let count = driver.device_count().map_err(|error| error.to_string())?;
        let devices: Result<Vec<_>, _> =
            (0..count).map(|ordinal| CudaDevice::open_on(driver, ordinal)).collect();
        let devices = devices.map_err(|error| error.to_string())?;
        if devices.is_empty() {
            return Err("there is no device".to_owned());
        }
        println!("driver: {:?}, for {:?}", driver.version(), loaded_libraries());
        for device in &devices {
            println!("device {}: {}", device.ordinal(), device.name());
        }
        Ok(Self { driver, devices })
    }

    fn free_bytes(&self) -> Vec<u64> {
        let free = |device: &CudaDevice| device.memory().map_or(0, |memory| memory.free_bytes);
        self.devices.iter().map(free).collect()
    }
}

impl Bed for GpuBed {
    fn ways(&self) -> &'static [&'static str] {
        &["gpu"]
    }

    fn is_simulated(&self) -> bool {
        false
    }

    fn devices(&self) -> u32 {
        u32::try_from(self.devices.len()).unwrap_or(u32::MAX)
    }

    fn begin(&self, _: usize) -> Box<dyn Session> {
        Box::new(GpuSession {
            driver: self.driver,
            devices: self.devices.clone(),
            free_bytes: self.free_bytes(),
        })
    }
}

struct GpuSession {
    driver: &'static Driver,
    devices: Vec<CudaDevice>,
    /// What was free when the test began.
    free_bytes: Vec<u64>,
}

/// Work takes its time.
struct NoGate;

impl Gate for NoGate {
    fn hold(&self, _: *mut c_void) {}

    fn go(&self) {}

    fn fail_next(&self, _: &str) -> bool {
        false
    }
}

impl Session for GpuSession {
    fn driver(&self) -> &'static Driver {
        self.driver
    }

    fn symbol(&self, name: &CStr) -> *const c_void {
        symbol(name)
    }

    fn gate(&self) -> Arc<dyn Gate> {
        Arc::new(NoGate)
    }

    fn simulated(&self) -> Option<&dyn Simulated> {
        None
    }

    fn take_violations(&self) -> Vec<String> {
        Vec::new()
    }

    fn end(self: Box<Self>) -> Result<(), String> {
        for (device, &before) in self.devices.iter().zip(&self.free_bytes) {
            let current = device.enter().map_err(|error| error.to_string())?;
            // SAFETY: no pointers.
            let code = unsafe { cuCtxSynchronize() };
            if code != 0 {
                return Err(format!("error {code} of work that ran"));
            }
            let free = device.memory().map_err(|error| error.to_string())?.free_bytes;
            if free + SLACK_BYTES < before {
                return Err(format!("{free} bytes are free, of {before} at the beginning"));
            }
            current.leave().map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
