//! Replays a recorded program on a pool that records, or does not, and says what an operation took;
//! with the feature `record` also what the pool has noted.
//!
//! ```text
//! cargo run --release -p examples --bin recorder --features record -- \
//!     examples/traces/gpt2_train.csv.gz --passes 20 --on
//! ```
//!
//! To count instructions, run it under callgrind, built with the feature and without: `--hits` in place
//! of a trace takes one block of 4 KiB and gives it back, so many thousand times.

use core::error::Error;
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use clap::Parser;
use pool_core::{Pool, PoolConfig};
use pool_mock::{
    Trace,
    device::{SimConfig, SimDevice},
    replay::{Pooled, Program},
};

/// Replays a recorded program on a pool that records, or does not.
#[derive(Debug, Parser)]
struct Options {
    /// The log to replay.
    trace: Option<PathBuf>,
    /// In place of a trace, so many thousand pairs of an allocation and a free of 4 KiB.
    #[arg(long, value_name = "THOUSANDS")]
    hits: Option<u32>,
    /// How often the log is replayed on one pool, after a pass that is not counted.
    #[arg(long, default_value_t = 10)]
    passes: u32,
    /// Record while it runs.
    #[arg(long)]
    on: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has seen enough.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("recorder: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let memory = SimConfig::new().memory_bytes(1 << 40);
    let pool = Pool::new(SimDevice::new(memory), PoolConfig::new())?;
    if options.on {
        start(&pool)?;
    }
    let (operations, nanoseconds) = match (&options.trace, options.hits) {
        (Some(trace), _) => replay(&pool, &Program::of(&Trace::open(trace)?), options.passes)?,
        (None, Some(thousands)) => hit(&pool, thousands)?,
        (None, None) => return Err("name a trace, or --hits".into()),
    };
    let each = nanoseconds / u128::from(operations.max(1)).max(1);
    let mut out = io::stdout().lock();
    writeln!(out, "{operations} operations, {each} ns each")?;
    Ok(show(&pool, &mut out)?)
}

/// Operations, and the time that all of them took in nanoseconds.
type Took = (u64, u128);

fn replay(pool: &Pool<SimDevice>, program: &Program, passes: u32) -> Result<Took, Box<dyn Error>> {
    let mut pooled = Pooled::new(pool, program)?;
    pooled.pass()?;
    let start = Instant::now();
    for _ in 0..passes {
        pooled.pass()?;
    }
    let spent = start.elapsed().as_nanos();
    Ok((program.operations() as u64 * u64::from(passes), spent))
}

fn hit(pool: &Pool<SimDevice>, thousands: u32) -> Result<Took, Box<dyn Error>> {
    let stream = pool.create_stream()?;
    let pairs = u64::from(thousands) * 1000;
    let start = Instant::now();
    for _ in 0..pairs {
        let block = pool.allocate_on(stream, 4096)?;
        pool.free_on(stream, block.handle())?;
    }
    Ok((2 * pairs, start.elapsed().as_nanos()))
}

#[cfg(feature = "record")]
fn start(pool: &Pool<SimDevice>) -> Result<(), Box<dyn Error>> {
    use pool_core::record::{Clock, RecordConfig};
    Ok(pool.start_recording(&RecordConfig::new(Clock::system()))?)
}

#[cfg(not(feature = "record"))]
fn start(_: &Pool<SimDevice>) -> Result<(), Box<dyn Error>> {
    Err("this program was built without the feature \"record\"".into())
}

#[cfg(feature = "record")]
fn show(pool: &Pool<SimDevice>, out: &mut impl Write) -> io::Result<()> {
    if !pool.is_recording() {
        return Ok(());
    }
    let events = pool.events(&mut pool_core::record::Since::start());
    write!(out, "{}", pool.figures())?;
    let (kept, lost) = (events.all.len(), events.lost);
    writeln!(out, "{kept} events are kept, {lost} were overwritten; the last:")?;
    let latest = &events.all[kept.saturating_sub(5)..];
    latest.iter().try_for_each(|event| writeln!(out, "  {event}"))
}

#[cfg(not(feature = "record"))]
fn show(_: &Pool<SimDevice>, out: &mut impl Write) -> io::Result<()> {
    // Nothing was recorded.
    out.flush()
}
