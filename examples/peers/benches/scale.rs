//! How time, instructions and visits grow with the number of live blocks.
//!
//! `cargo bench -p peers --bench scale`: a steady state of blocks of 1 to 1,024 granules,
//! log-uniform, one freed at random for each allocated, beside the crate offset-allocator. With
//! `--instructions`, counts instructions under valgrind instead of time.

use core::{error::Error, time::Duration};
use std::{
    process::{Command, ExitCode},
    time::Instant,
};

use clap::Parser;
use fastrand::Rng;
use peers::{
    churn::Churn,
    ours,
    subject::{Driver, Subject},
    table,
    visits::{self, MostVisits},
};
use pool_mock::replay::Placer;

/// Exchanges before anything is measured, at most.
const MOST_WARM_UP: u32 = 2_000_000;

/// Ranges that are filled to look for visits have at most so many granules, some 10^5 to 10^6
/// blocks: what a request visits depends on the lengths that are free, not on how many blocks
/// there are.
const MOST_SEARCHED_GRANULES: u64 = 1 << 26;

/// Runs with a look at the clock around each operation, at most.
const MOST_SINGLE_RUNS: u32 = 3;

#[derive(Parser)]
struct Options {
    /// How many blocks are live, a row each
    #[arg(long, value_delimiter = ',', default_value = "1000,100000,10000000")]
    live: Vec<u32>,

    /// How many blocks are freed and allocated in a pass
    #[arg(long, default_value_t = 1_000_000)]
    exchanges: u32,

    /// Passes, of which the best counts
    #[arg(long, default_value_t = 5)]
    passes: u32,

    /// Count instructions under valgrind, which must be installed
    #[arg(long)]
    instructions: bool,

    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let run = if options.instructions { count(&options) } else { time(&options) };
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints time and visits.
fn time(options: &Options) -> Result<(), Box<dyn Error>> {
    let mut table = table::new(
        &[
            "live blocks",
            "allocator",
            "ns an\noperation",
            "refused",
            "p99.99\nns",
            "worst\nns",
            "most visits:\nfirst look",
            "second\nlook",
            "refusal",
        ],
        2,
    );
    for &live in &options.live {
        let churn = Churn::new(live, live.min(MOST_WARM_UP), options.exchanges, 1);
        for subject in Subject::ALL {
            let passes = options.passes.max(1);
            let (ns_per_operation, failures) = subject.with(&churn, &mut Whole { passes })?;
            let mut each = Each { least: Vec::new(), clock: clock_cost() };
            for _ in 0..passes.min(MOST_SINGLE_RUNS) {
                subject.with(&churn, &mut each)?;
            }
            each.least.sort_unstable();
            let last = each.least.len().saturating_sub(1);
            let high = each.least.get(last - last / 10_000).copied().unwrap_or_default();
            let worst = each.least.last().copied().unwrap_or_default();
            let most = most_visits(subject, &churn)?;
            let visits = |of: fn(&MostVisits) -> u32| {
                most.as_ref().map_or_else(|| "-".to_owned(), |most| of(most).to_string())
            };
            table.add_row([
                live.to_string(),
                subject.name().to_owned(),
                table::figure(Some(ns_per_operation), 1),
                failures.to_string(),
                high.as_nanos().to_string(),
                worst.as_nanos().to_string(),
                visits(|most| most.first_look),
                visits(|most| most.second_look),
                visits(|most| most.refused),
            ]);
        }
    }
    println!("{table}");
    println!(
        "p99.99 and worst: of single operations, each the best of {} runs of the same program, \
         the clock's own time taken off.",
        options.passes.clamp(1, MOST_SINGLE_RUNS)
    );
    Ok(())
}

/// Runs the program in passes: nanoseconds an operation in the best, and refusals in the last.
struct Whole {
    passes: u32,
}

impl Driver for Whole {
    type Output = (f64, u64);

    fn drive<P: Placer>(&mut self, churn: &Churn, placer: &mut P) -> (f64, u64) {
        let mut live = churn.fill(placer);
        let mut best = Duration::MAX;
        let mut failures = 0;
        for _ in 0..self.passes {
            let start = Instant::now();
            failures = churn.run(placer, &mut live);
            best = best.min(start.elapsed());
        }
        (best.as_secs_f64() * 1e9 / (2.0 * exact(churn.exchanges.len())), failures)
    }
}

/// Runs the program with a look at the clock around each operation. The same program takes the
/// same steps in each run, so the least of several times is the operation's own: the others have
/// an interruption in them.
struct Each {
    least: Vec<Duration>,
    clock: Duration,
}

impl Driver for Each {
    type Output = ();

    fn drive<P: Placer>(&mut self, churn: &Churn, placer: &mut P) {
        let mut live = churn.fill(placer);
        self.least.resize(2 * churn.exchanges.len(), Duration::MAX);
        for (exchange, least) in churn.exchanges.iter().zip(self.least.chunks_exact_mut(2)) {
            let slot = &mut live[exchange.slot as usize];
            let block = slot.take();
            let start = Instant::now();
            if let Some(block) = block {
                placer.release(block);
            }
            let freed = Instant::now();
            *slot = placer.place(u64::from(exchange.granules));
            let took = [freed - start, freed.elapsed()];
            for (least, took) in least.iter_mut().zip(took) {
                *least = took.saturating_sub(self.clock).min(*least);
            }
        }
    }
}

/// What two looks at the clock take, at least.
fn clock_cost() -> Duration {
    (0..10_000).map(|_| Instant::now().elapsed()).min().unwrap_or_default()
}

/// The most visits in the steady state, in a range that is full, and behind walls of free blocks
/// that are too small. `None` for the allocators of others.
fn most_visits(subject: Subject, churn: &Churn) -> Result<Option<MostVisits>, Box<dyn Error>> {
    let (Some(mut range), Some(placement)) = (subject.range(churn)?, subject.placement()) else {
        return Ok(None);
    };
    let mut rng = Rng::with_seed(2);
    let mut most = MostVisits::default();
    let mut live = churn.fill(&mut range);
    for exchange in churn.exchanges.iter().take(100_000) {
        most.probe(&range, exchange.granules, &mut rng);
        let slot = &mut live[exchange.slot as usize];
        if let Some(block) = slot.take() {
            range.release(block);
        }
        *slot = range.place(u64::from(exchange.granules));
    }
    drop(range);
    let blocks = u32::try_from(churn.first.len())?;
    let mut others = Vec::new();
    let capacity = churn.capacity_granules(subject.capacity_percent()).min(MOST_SEARCHED_GRANULES);
    let mut range = ours::range(capacity, placement, 1000)?;
    others.push(visits::in_a_full_range(&mut range, 100_000, 3));
    // Lengths in one class of each octave; walls of no more blocks than the program has.
    for granules in [33, 65, 129, 520, 1040, 4100, 100_000] {
        let capacity = (u64::from(blocks) * u64::from(granules)).min(MOST_SEARCHED_GRANULES);
        let mut range = ours::range(capacity, placement, 1000)?;
        others.push(visits::behind_a_wall(&mut range, granules, 4));
    }
    for other in others {
        most.first_look = most.first_look.max(other.first_look);
        most.second_look = most.second_look.max(other.second_look);
        most.refused = most.refused.max(other.refused);
    }
    Ok(Some(most))
}

/// Prints instructions an operation.
fn count(options: &Options) -> Result<(), Box<dyn Error>> {
    let program = env!("CARGO_BIN_EXE_count");
    println!(
        "valgrind --tool=callgrind --callgrind-out-file=/dev/null {program} ALLOCATOR LIVE \
         EXCHANGES\n"
    );
    let mut table =
        table::new(&["live blocks", "allocator", "instructions an operation", "of the loop"], 2);
    for &live in &options.live {
        let of_loop = instructions_per_operation(program, Subject::None, live)?;
        for subject in Subject::ALL {
            // Some minutes at 10^7 live blocks.
            eprintln!("counting {} at {live} live blocks", subject.name());
            let all = instructions_per_operation(program, subject, live)?;
            table.add_row([
                live.to_string(),
                subject.name().to_owned(),
                table::figure(Some(all - of_loop), 1),
                table::figure(Some(of_loop), 1),
            ]);
        }
    }
    println!("{table}");
    Ok(())
}

/// The difference between a program and one twice as long that begins alike.
fn instructions_per_operation(
    program: &str,
    subject: Subject,
    live: u32,
) -> Result<f64, Box<dyn Error>> {
    const EXCHANGES: u32 = 100_000;
    let once = instructions(program, subject, live, EXCHANGES)?;
    let twice = instructions(program, subject, live, 2 * EXCHANGES)?;
    let more = twice.checked_sub(once).ok_or("a longer run took fewer instructions")?;
    Ok(exact(usize::try_from(more)?) / f64::from(2 * EXCHANGES))
}

fn instructions(
    program: &str,
    subject: Subject,
    live: u32,
    exchanges: u32,
) -> Result<u64, Box<dyn Error>> {
    let value = clap::ValueEnum::to_possible_value(&subject).ok_or("an allocator has no name")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", program, value.get_name()])
        .args([live.to_string(), exchanges.to_string()])
        .output()
        .map_err(|error| format!("valgrind does not start: {error}"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    let collected = report.lines().find_map(|line| line.split_once("Collected : "));
    match collected {
        Some((_, number)) if output.status.success() => Ok(number.trim().parse()?),
        _ => Err(format!("valgrind counted nothing:\n{report}").into()),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn exact(count: usize) -> f64 {
    count as f64
}
