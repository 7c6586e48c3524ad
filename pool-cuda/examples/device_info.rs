//! Prints the CUDA devices of this machine, or why there are none.

use std::process::ExitCode;

use pool_cuda::{CudaDevice, CudaError, Driver};

fn main() -> ExitCode {
    match print_devices() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print_devices() -> Result<(), CudaError> {
    let driver = Driver::system()?;
    let version = driver.version()?;
    println!("driver for CUDA {}.{}", version / 1000, version % 1000 / 10);
    let devices = (0..driver.device_count()?).map(CudaDevice::open);
    let devices = devices.collect::<Result<Vec<_>, _>>()?;
    for device in &devices {
        let pages = match device.page_bytes() {
            Some(bytes) => format!("pages of {} KiB", bytes >> 10),
            None => "no virtual memory management".to_owned(),
        };
        println!(
            "device {}: {}, {} MiB, {} MiB free, {pages}",
            device.ordinal(),
            device.name(),
            device.total_bytes() >> 20,
            device.memory()?.free_bytes >> 20,
        );
    }
    for device in &devices {
        for peer in devices.iter().filter(|peer| peer.ordinal() != device.ordinal()) {
            let can = if device.can_access(peer)? { "can" } else { "cannot" };
            println!("device {} {can} use memory of device {}", device.ordinal(), peer.ordinal());
        }
    }
    Ok(())
}
