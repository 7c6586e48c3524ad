//! What a pool does on an OpenCL device, in figures: `cargo run --release -p pool-opencl`.

use std::process::ExitCode;

use clap::Parser;
use pool_core::device::Device;
use pool_core::{Pool, PoolConfig, PoolError};
use pool_opencl::{ClDevice, ClError, ClPart, Kernels, Outcome, Plan, Unwaiting, stress};

const MIB: u64 = 1 << 20;

type Result<T> = core::result::Result<T, Box<dyn core::error::Error>>;

/// Shows the pool on an OpenCL device.
#[derive(Debug, Parser)]
struct Options {
    /// Which device, counted from 0 over all platforms.
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// How many blocks the stress allocates.
    #[arg(long, default_value_t = Plan::default().blocks)]
    blocks: u32,
    /// What its sizes and its order are drawn from.
    #[arg(long, default_value_t = Plan::default().seed)]
    seed: u64,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("the bytes of a block were not its own");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Shows everything; false if a block's bytes were not its own.
fn run(options: &Options) -> Result<bool> {
    let device = ClDevice::open(options.device)?;
    println!(
        "{}: {} MiB, of which a range has {} at most; parts begin at multiples of {} bytes",
        device.name(),
        device.total_bytes() / MIB,
        device.most_range_bytes() / MIB,
        device.granule_bytes(),
    );
    let mut kernels = Kernels::of(&device)?;
    let reused = show_reuse(&device, &mut kernels)?;
    show_growth(&device)?;
    show_shortage(&device)?;
    let plan = Plan { blocks: options.blocks, seed: options.seed, ..Plan::default() };
    let outcome = stress(&device, device.clone(), &plan)?;
    println!("stress, {} queues, {} threads:", plan.streams, plan.threads);
    print_outcome(&outcome);
    // What the program itself puts in order would be seen, too.
    let plan = Plan { elsewhere: false, ..plan };
    let control = stress(&device, Unwaiting(device.clone()), &plan)?;
    println!("the same where no queue waits for another:");
    print_outcome(&control);
    Ok(reused && outcome.wrong_bytes == 0)
}

/// A block that one queue has used and another gets, in the order of an event; false if the first
/// found other bytes than its own.
fn show_reuse(device: &ClDevice, kernels: &mut Kernels) -> Result<bool> {
    let pool = Pool::new(device.clone(), PoolConfig::new().limit_bytes(16 * MIB))?;
    let (one, other) = (pool.create_stream()?, pool.create_stream()?);
    let (Some(one_queue), Some(other_queue)) = (pool.stream(one), pool.stream(other)) else {
        return Ok(false);
    };
    let counter = device.allocate(device.granule_bytes().max(4))?;
    let wrong = counter.part(0, 4)?;
    kernels.fill(&one_queue, &wrong, 0..4, 0)?;

    let first = pool.allocate_on(one, 12 * MIB)?;
    let part = ClPart::of(&pool, &first)?;
    kernels.mark(&one_queue, &part, 1)?;
    kernels.check(&one_queue, &part, 1, &wrong)?;
    pool.free_on(one, first.handle())?;
    // There is no other memory: it waits on the device, and the host goes on.
    let second = pool.allocate_on(other, 12 * MIB)?;
    kernels.mark(&other_queue, &ClPart::of(&pool, &second)?, 2)?;
    pool.free_on(other, second.handle())?;

    let wrong = wrong.read(&one_queue)?;
    let calls = pool.stats().calls;
    println!(
        "12 MiB of 16 went from one queue to another: {} events, {} waits of a queue, {} of the host",
        calls.records, calls.device_waits, calls.host_waits,
    );
    drop(pool);
    device.free(&counter)?;
    Ok(wrong.iter().all(|&byte| byte == 0))
}

/// A pool that grows, by no more at a time than the device gives.
fn show_growth(device: &ClDevice) -> Result<()> {
    let small = device.giving_at_most(8 * MIB);
    let pool = Pool::new(small, PoolConfig::new().initial_bytes(20 * MIB).arena_bytes(32 * MIB))?;
    let start = pool.stats();
    let blocks = [5 * MIB; 8].map(|size_bytes| pool.allocate(size_bytes));
    let end = pool.stats();
    println!(
        "with at most 8 MiB a range: {} MiB at the start in {} ranges; for {} blocks of 5 MiB {} in {}",
        start.reserved_bytes / MIB,
        start.arenas,
        blocks.iter().flatten().count(),
        end.reserved_bytes / MIB,
        end.arenas,
    );
    Ok(())
}

/// Requests that are refused: by the pool's limit, and by the device.
fn show_shortage(device: &ClDevice) -> Result<()> {
    let pool = Pool::new(device.clone(), PoolConfig::new().limit_bytes(16 * MIB))?;
    let block = pool.allocate(12 * MIB)?;
    println!("a limit of 16 MiB, 12 live:\n{}", refusal(pool.allocate(8 * MIB)));
    pool.free(block.handle())?;
    pool.allocate(8 * MIB)?;
    let pool = Pool::new(device.clone(), PoolConfig::new())?;
    let too_much = device.most_range_bytes().saturating_add(1);
    println!("more than a range has:\n{}", refusal(pool.allocate(too_much)));
    Ok(())
}

fn refusal<T>(result: core::result::Result<T, PoolError<ClError>>) -> String {
    let text = result.err().map_or_else(|| "served".to_owned(), |error| error.to_string());
    text.lines().map(|line| format!("    {}", line.trim_start())).collect::<Vec<_>>().join("\n")
}

fn print_outcome(outcome: &Outcome) {
    let calls = outcome.pool.calls;
    println!(
        "    {} blocks in {:.1} s, {} of them in memory that their queue had used last, {} that another had",
        outcome.blocks,
        outcome.time.as_secs_f64(),
        outcome.same_stream_reuses,
        outcome.other_stream_reuses,
    );
    println!(
        "    {} checked on another queue; {} requests refused until a block was freed",
        outcome.uses_elsewhere, outcome.refusals,
    );
    println!(
        "    {} events, {} waits of a queue, {} of the host, {} queries, {} ranges",
        calls.records, calls.device_waits, calls.host_waits, calls.queries, calls.allocations,
    );
    println!(
        "    {} MiB checked byte by byte: {} bytes were wrong",
        outcome.checked_bytes / MIB,
        outcome.wrong_bytes,
    );
}
