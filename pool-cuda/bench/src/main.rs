//! Measures the pool on a GPU, beside the driver's own calls: tables of medians, for people and as
//! JSON.
//!
//! `pool-cuda-bench --help` lists the options. The program is built where there is no CUDA, and can
//! be carried to a machine with a GPU: it needs the driver alone, and says so where there is none.
//! The exit code is 0, or 1 if something failed (2 for a wrong command line).
//!
//! | module | its one job |
//! | --- | --- |
//! | `options` | the command line |
//! | `rig` | what every measurement is made with: device, calls, kernels |
//! | `calls` | the driver's functions, those that the pool does not give |
//! | `kernels` | kernels that take time |
//! | `timing` | times of many runs |
//! | `figures`, `report` | what came out, and tables of it |
//! | `measure` | the measurements |

mod calls;
mod figures;
mod kernels;
mod measure;
mod options;
mod report;
mod rig;
mod timing;

use core::error::Error;
use core::time::Duration;
use std::fs;
use std::process::ExitCode;

use clap::Parser;
use pool_cuda::CudaDevice;

use self::figures::Report;
use self::options::Options;
use self::rig::Rig;

/// What a measurement gives.
type Result<T> = core::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("pool-cuda-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures what was asked for, and prints each table once it is there; false if one could not be
/// made.
fn run(options: &Options) -> Result<bool> {
    let device = CudaDevice::open(options.device)?;
    // As in a program that uses CUDA: its context is current on its thread.
    let _current = device.enter()?;
    let rig = Rig::new(device.clone())?;
    let mut report = Report::of(&rig)?;
    println!("{report}");
    // Else the first figures are of a processor that is still asleep.
    timing::spin(Duration::from_secs(3));
    let mut all_well = true;
    for table in options.tables() {
        match measure::section(table, &rig, options) {
            Ok(section) => {
                println!("\n{}", report::table(&section));
                report.sections.push(section);
            }
            // The others may do.
            Err(error) => {
                all_well = false;
                eprintln!("pool-cuda-bench: {table:?}: {error}");
            }
        }
        if let Some(file) = &options.json {
            fs::write(file, serde_json::to_string_pretty(&report)?)?;
        }
    }
    Ok(all_well)
}
