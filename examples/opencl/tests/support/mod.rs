//! A device to test on, where there is one.

use pool_opencl::{ClDevice, ClError};

/// Says that there has to be OpenCL: then a test that finds none fails.
pub const REQUIRED: &str = "POOL_OPENCL_REQUIRED";

/// The first device; none, and a word about it, where there is no OpenCL.
pub fn device() -> Option<ClDevice> {
    match ClDevice::open(0) {
        Ok(device) => Some(device),
        Err(error @ ClError::NoPlatform { .. }) if std::env::var_os(REQUIRED).is_none() => {
            eprintln!("{error}: the test is passed over");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
