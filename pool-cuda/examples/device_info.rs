//! Prints the CUDA devices of this machine, or why there are none.

use std::process::ExitCode;

use pool_cuda::{CudaError, Device, Driver};

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
    for ordinal in 0..driver.device_count()? {
        let device = Device::open(ordinal)?;
        let memory = device.memory()?;
        let pages = match device.page_bytes() {
            Some(bytes) => format!("pages of {} KiB", bytes >> 10),
            None => "no virtual memory management".to_owned(),
        };
        println!(
            "device {ordinal}: {}, {} MiB, {} MiB free, {pages}",
            device.name(),
            device.total_bytes() >> 20,
            memory.free_bytes >> 20,
        );
    }
    Ok(())
}
