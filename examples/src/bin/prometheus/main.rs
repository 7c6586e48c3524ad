//! A pool's figures as a Prometheus server reads them: a recorded program is replayed, and what the
//! pool then says is written out in Prometheus' text format.
//!
//! ```text
//! cargo run --release -p examples --bin prometheus --features metrics -- \
//!     examples/traces/multi_stream.csv.gz
//! ```
//!
//! A server would answer a request with that text, at `/metrics`. Any other exporter of the facade `metrics`
//! takes the place of this one without a change to the pool. What happens off the way of an allocation
//! (growth, memory that goes back, failed calls) goes to subscribers of `tracing`, by the feature of that
//! name.

use core::error::Error;
use std::{env, path::Path, process::ExitCode};

use metrics_exporter_prometheus::PrometheusBuilder;
use pool_core::record::{Clock, RecordConfig, describe_metrics};
use pool_core::{Pool, PoolConfig};
use pool_mock::{
    Trace,
    device::{SimConfig, SimDevice},
    replay::{Pooled, Program},
};

fn main() -> ExitCode {
    let Some(trace) = env::args_os().nth(1) else {
        eprintln!("prometheus: name a trace");
        return ExitCode::from(2);
    };
    match run(Path::new(&trace)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("prometheus: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Replays a trace under a label, and gives the text.
fn run(trace: &Path) -> Result<String, Box<dyn Error>> {
    let program = Program::of(&Trace::open(trace)?);
    // Once a program: where the metrics go, and what they are.
    let exporter = PrometheusBuilder::new().install_recorder()?;
    describe_metrics();

    let device = SimDevice::new(SimConfig::new().memory_bytes(1 << 40));
    let pool = Pool::new(device, PoolConfig::new())?;
    pool.start_recording(&RecordConfig::new(Clock::system()))?;
    let label = pool.label("replay");
    Pooled::new(&pool, &program)?.pass()?;
    drop(label);

    // Before each answer: the figures are the pool's, and cost nothing until they are asked for.
    pool.figures().publish("replay");
    Ok(exporter.render())
}
