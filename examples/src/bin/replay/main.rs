//! Replays recorded allocation logs and says what range each would have needed.
//!
//! `replay --help` lists the options. The exit code is 0 if every trace was read and every
//! request served, else 1 (2 for a wrong command line).

mod bare;
mod job;
mod options;
mod progress;
mod row;
mod shared;
mod table;

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use clap::Parser;
use pool_mock::{Trace, replay::Script};

use self::{job::Job, options::Options, progress::Progress};

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of our output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: cannot write the output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Replays all traces; false if any was damaged or any request refused.
fn run(options: &Options) -> io::Result<bool> {
    let traces = options.traces();
    let placements = options.placement.placements();
    let progress = Progress::new(traces.len() * placements.len());
    let mut out = io::stdout().lock();
    let mut rows = Vec::new();
    let mut all_well = true;
    for path in &traces {
        progress.show(&format!("reading {}", path.display()));
        let read = Trace::open(path).map(|trace| {
            let script = Script::new(&trace, options.granule_bytes());
            (trace, script)
        });
        let (trace, script) = match read {
            Ok(read) => read,
            Err(error) => {
                all_well = false;
                complain(&progress, path, &error);
                progress.advance(placements.len());
                continue;
            }
        };
        for placement in placements {
            let job = Job { path, trace: &trace, script: &script, placement: *placement, options };
            match job.run(&progress) {
                Ok(row) => {
                    all_well &= row.failures == 0;
                    if options.json {
                        progress.suspend(|| writeln!(out, "{}", row.json()))?;
                    }
                    rows.push(row);
                }
                Err(error) => {
                    all_well = false;
                    complain(&progress, path, &error);
                }
            }
            progress.advance(1);
        }
    }
    progress.finish();
    if !options.json && !rows.is_empty() {
        writeln!(out, "{}", table::of(&rows))?;
    }
    Ok(all_well)
}

fn complain(progress: &Progress, path: &Path, error: &dyn core::error::Error) {
    progress.suspend(|| eprintln!("replay: {}: {error}", path.display()));
}
