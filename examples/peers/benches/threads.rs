//! Many threads on one allocator, beside what the machine can scale to.
//!
//! `cargo bench -p peers --bench threads -- [TRACE...]`. What the threads do, and what is fair to
//! compare it with, [`peers::crowd`] says. All contestants do the same jobs in one process. Their
//! passes alternate, so that a slow moment of the machine hits all alike, and the best pass of each
//! counts. Each pass is on an allocator of its own, and takes about as long as `--milliseconds`
//! says: passes that do not count find how many rounds that are.
//!
//! Where the machine has other work, the system may keep all threads on one processor for a while:
//! `chrt -r 1 PROGRAM` (the program is under `target/release/deps`) gives them all they can use.
//! With fewer processors than threads, a pass should be long beside the time for which the system
//! lets a thread run, some milliseconds.

use core::{error::Error, time::Duration};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use clap::{Parser, ValueEnum};
use peers::{
    crowd::{Contestant, Copies, Job, Outcome, OwnFrees, RemoteFrees, report},
    ours::GRANULE_BYTES,
};
use pool_mock::{Trace, replay::Script};

/// The traces that the repository carries and that are replayed without any named.
const BUNDLED: [&str; 3] = [
    "examples/traces/llama_generate.csv.gz",
    "examples/traces/llama_finetune.csv.gz",
    "examples/traces/etl_rmm.csv.gz",
];

/// Rounds in a pass, at most.
const MOST_ROUNDS: u32 = 1 << 20;

#[derive(Parser)]
struct Options {
    /// The logs to replay; without any, three that the repository carries
    traces: Vec<PathBuf>,

    /// How many threads
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32")]
    threads: Vec<u32>,

    /// What the threads do
    #[arg(long, value_enum, value_delimiter = ',', default_value = "loop,own,remote,traces")]
    mixes: Vec<Mix>,

    /// Who takes part
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "caches,locals,mutex,mimalloc,private"
    )]
    contestants: Vec<Contestant>,

    /// Passes of each contestant, of which the best counts
    #[arg(long, default_value_t = 5)]
    passes: u32,

    /// How long a pass is to take, about
    #[arg(long, default_value_t = 200)]
    milliseconds: u64,

    /// Print one JSON object a line instead of tables
    #[arg(long)]
    json: bool,

    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mix {
    /// One block, allocated and freed, on one thread
    Loop,
    /// 64 live blocks of 256 bytes to 16 KiB a thread, each freed by the thread that allocated it
    Own,
    /// Pairs of threads: one allocates, the other frees
    Remote,
    /// Recorded programs, a copy a thread
    Traces,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let most = options.threads.iter().copied().max().unwrap_or_default();
    let mut rows = Vec::new();
    for mix in &options.mixes {
        match mix {
            Mix::Loop => measure("one block", &OwnFrees::one_block(1), &[1], options, &mut rows)?,
            Mix::Own => {
                let threads = &options.threads;
                measure("own frees", &OwnFrees::mixed(most), threads, options, &mut rows)?;
            }
            Mix::Remote => {
                let in_pairs = |threads: &u32| threads.is_multiple_of(2);
                let threads: Vec<_> = options.threads.iter().copied().filter(in_pairs).collect();
                measure("remote frees", &RemoteFrees::new(most), &threads, options, &mut rows)?;
            }
            Mix::Traces => {
                for path in traces(options) {
                    let name = name_of(&path);
                    let trace = Trace::open(&as_the_user_meant(&path))
                        .map_err(|error| format!("{}: {error}", path.display()))?;
                    let copies = Copies::new(Script::new(&trace, GRANULE_BYTES));
                    measure(&name, &copies, &options.threads, options, &mut rows)?;
                }
            }
        }
    }
    if options.json {
        for row in &rows {
            println!("{}", serde_json::to_string(row)?);
        }
    } else {
        println!("{} processors", thread::available_parallelism()?);
        println!("{}\n", report::speeds(&rows));
        println!("{}", report::work(&rows));
    }
    Ok(())
}

/// The logs to replay.
fn traces(options: &Options) -> Vec<PathBuf> {
    if options.traces.is_empty() {
        BUNDLED.map(PathBuf::from).into()
    } else {
        options.traces.clone()
    }
}

/// What the output calls a log: its file's name up to the first point.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// Cargo runs a benchmark in its package's folder; a path that does not lead anywhere from there is
/// one from the top of the checkout, where the command was typed.
fn as_the_user_meant(path: &Path) -> PathBuf {
    let from_top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if path.exists() || !from_top.exists() { path.to_owned() } else { from_top }
}

/// Does a job with all contestants, a pass each in turn, for each number of threads.
fn measure(
    mix: &str,
    job: &impl Job,
    threads: &[u32],
    options: &Options,
    rows: &mut Vec<report::Row>,
) -> Result<(), Box<dyn Error>> {
    for &threads in threads {
        let failed = |contestant: Contestant, error: Box<dyn Error>| {
            format!("{mix}, {threads} threads, {}: {error}", contestant.name())
        };
        let mut best: Vec<(Contestant, u32, Option<Outcome>)> = Vec::new();
        for &contestant in &options.contestants {
            let rounds = rounds(contestant, job, threads, options.milliseconds)
                .map_err(|error| failed(contestant, error))?;
            best.push((contestant, rounds, None));
        }
        for _ in 0..options.passes.max(1) {
            for (contestant, rounds, best) in &mut best {
                let outcome = contestant
                    .pass(job, threads, *rounds)
                    .map_err(|error| failed(*contestant, error))?;
                let speed = |outcome: &Outcome| outcome.pass.operations_a_second();
                if best.as_ref().is_none_or(|best| speed(best) < speed(&outcome)) {
                    *best = Some(outcome);
                }
            }
        }
        for (contestant, _, best) in best {
            rows.extend(best.map(|best| report::Row::new(mix, threads, contestant, &best)));
        }
    }
    Ok(())
}

/// Finds how many rounds a pass of so many milliseconds has: more and more, until a pass takes half
/// as long. A guess from a single round would be far off if something interrupted it.
fn rounds(
    contestant: Contestant,
    job: &impl Job,
    threads: u32,
    milliseconds: u64,
) -> Result<u32, Box<dyn Error>> {
    let aim = Duration::from_millis(milliseconds);
    let mut rounds: u32 = 1;
    loop {
        let elapsed = contestant.pass(job, threads, rounds)?.pass.elapsed;
        let enough = u128::from(rounds) * aim.as_nanos() / elapsed.as_nanos().max(1);
        let most = rounds.saturating_mul(16).min(MOST_ROUNDS);
        let next = u32::try_from(enough).map_or(most, |enough| enough.clamp(rounds, most));
        if elapsed >= aim / 2 || next == rounds {
            return Ok(next);
        }
        rounds = next;
    }
}
