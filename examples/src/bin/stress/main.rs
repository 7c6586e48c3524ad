//! Puts a shared range under stress, and says whether everything held and where the time went.
//!
//! `stress --help` lists the options. The exit code is 0 if everything held, else 1 (2 for a wrong
//! command line).

mod options;
mod report;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;
use pool_mock::stress::run;

use self::options::Options;

fn main() -> ExitCode {
    let options = Options::parse();
    match stress(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of our output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stress: cannot write the output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The run with the map of granules and the one without; false if anything did not hold.
fn stress(options: &Options) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{} threads, {} allocations and as many frees each, seed {}",
        options.threads, options.operations, options.seed
    )?;
    let mut elapsed = Vec::new();
    for (shadow, title) in [(true, "under the map of granules"), (false, "without the map")] {
        let outcome = match run(&options.plan(shadow)) {
            Ok(outcome) => outcome,
            Err(finding) => {
                writeln!(out, "\n{title}: FAILED: {finding}")?;
                return Ok(false);
            }
        };
        writeln!(out, "\n{title}: everything held\n{}", report::of(&outcome))?;
        elapsed.push(outcome.elapsed);
    }
    if let [with, without] = elapsed[..] {
        writeln!(out, "\n{}", report::share(with, without))?;
    }
    Ok(true)
}
