//! Runs a synthetic program of a given size once, for a tool that counts instructions.
//!
//! `valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/count ALLOCATOR LIVE
//! EXCHANGES` counts all of the program's instructions. The difference between EXCHANGES and
//! twice as many is that of the exchanges alone; `cargo bench -p peers --bench scale --
//! --instructions` does the subtraction.

use std::process::ExitCode;

use clap::Parser;
use peers::{churn::Churn, subject::Subject};

/// Instructions are counted fifty times slower than they run.
const MOST_WARM_UP: u32 = 200_000;

#[derive(Parser)]
struct Options {
    /// What to run on; `none` does nothing, for the cost of the program around it
    allocator: Subject,
    /// How many blocks are live
    live: u32,
    /// How many are freed, and others allocated for them
    exchanges: u32,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let warm_up = options.live.min(MOST_WARM_UP);
    let churn = Churn::new(options.live, warm_up, options.exchanges, 1);
    match options.allocator.run(&churn) {
        Ok(failures) => {
            println!("{failures} requests refused");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
