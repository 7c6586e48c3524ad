//! A real device, where there is one; elsewhere the error that says why not.
//!
//! This test does not name the simulated driver, so none of it is linked in here.

use pool_cuda::{CudaError, Device, Driver};

#[test]
fn open_real_device() {
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error @ CudaError::NoDriver { .. }) => {
            println!("skipped: {error}");
            // Asked again, the answer is the same, and neither time a crash.
            assert_eq!(Driver::system().unwrap_err(), error);
            return;
        }
        Err(error) if error.code() == Some(100) => {
            println!("skipped: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(!device.name().is_empty());
    assert!(Driver::system().unwrap().version().unwrap() >= 11_000);

    let memory = device.memory().unwrap();
    assert!(0 < memory.free_bytes && memory.free_bytes <= memory.total_bytes);
    assert!(memory.total_bytes <= device.total_bytes());
    if let Some(page_bytes) = device.page_bytes() {
        assert!(page_bytes.is_power_of_two(), "{page_bytes}");
    }

    // Another thread has no current context of its own, and needs none.
    std::thread::scope(|scope| {
        let other = scope.spawn(|| device.memory());
        assert_eq!(other.join().unwrap().unwrap().total_bytes, memory.total_bytes);
    });

    let devices = Driver::system().unwrap().device_count().unwrap();
    let error = Device::open(devices).unwrap_err();
    assert_eq!(error, CudaError::NoSuchDevice { ordinal: devices, devices });
}
