//! Recorded programs on our placements and on other allocators: time and smallest capacity.
//!
//! `cargo bench -p peers --bench replay -- [TRACE...]`. All allocators replay the same list of
//! operations in one process, in ranges of 1.25 times the peak that are built before the clock
//! starts, with room for twice the most live blocks. Their passes alternate, so that a slow
//! moment of the machine hits all alike, and the best pass of each counts.
//!
//! With `--copies` it only searches: the smallest capacity of 16 copies of each program on the
//! shared allocator with 16 shards and with one. The copies run in lockstep, a step of each in
//! turn from one thread, so that every run gives the same.

use core::{convert::Infallible, error::Error, fmt::Display};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use peers::{
    contest::{Contestant, Entry},
    foreign::{MiMalloc, Offset, Range},
    ours, table,
};
use pool_core::SharedAllocator;
use pool_mock::{
    Trace,
    reference::BestFit,
    replay::{Best, Script},
};
use serde::Serialize;

/// The trace that the repository carries.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../traces/multi_stream.csv.gz");

/// Whom the last lines compare the default placement with.
const OURS: &str = ours::PLACEMENTS[0].1;
const RIVALS: [&str; 2] = ["offset-allocator", "mimalloc"];

/// The shared allocator on one thread: through a cache, through the thread's own, through none.
const CACHED: &str = "shared, cached";
const THREAD_LOCAL: &str = "shared, thread-local";
const NO_CACHES: &str = "shared, no caches";

/// What caches may cost: time over the bare range, the larger of both; and on one program, which
/// is mostly small blocks, none.
const MOST_TIMES: f64 = 1.4;
const MOST_NS_MORE: f64 = 8.0;
const NOT_SLOWER: &str = "llama_generate";

/// What caches and shards may cost in capacity; of caches, on programs of this size and above.
const MOST_FOR_CACHES: f64 = 1.005;
const LARGE_BYTES: u64 = 1 << 30;
const MOST_FOR_SHARDS: f64 = 1.01;

/// The most shards that a shared allocator has.
const MOST_SHARDS: u32 = 32;

#[derive(Parser)]
struct Options {
    /// The logs to replay; without any, one that the repository carries
    traces: Vec<PathBuf>,

    /// Print one JSON object a line instead of tables
    #[arg(long)]
    json: bool,

    /// Leave the search for the smallest capacity out
    #[arg(long)]
    no_capacity: bool,

    /// Passes of each allocator over each trace; without it, as many as the trace is short
    #[arg(long)]
    passes: Option<u32>,

    /// Only search the smallest capacity of so many copies in lockstep, with a shard each and with
    /// one; without a number, of 16
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "16", value_parser = clap::value_parser!(u32).range(1..))]
    copies: Option<u32>,

    /// What cargo passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// One allocator on one trace.
#[derive(Serialize)]
struct Row<'a> {
    trace: &'a str,
    allocator: &'static str,
    ns_per_operation: Option<f64>,
    min_capacity_ratio: Option<f64>,
    /// Requests refused at 1.25 times the peak: a refusal is work that is not done.
    failures: u64,
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
    let traces = if options.traces.is_empty() {
        vec![std::fs::canonicalize(BUNDLED).unwrap_or_else(|_| BUNDLED.into())]
    } else {
        options.traces.clone()
    };
    let mut out = std::io::stdout();
    // Of each trace, the times of ours over the rivals'.
    let mut ratios: Vec<[Option<f64>; RIVALS.len()]> = Vec::new();
    let mut shared_lines = Vec::new();
    for path in &traces {
        let name = path.display().to_string();
        let trace =
            Trace::open(&as_the_user_meant(path)).map_err(|error| format!("{name}: {error}"))?;
        if let Some(copies) = options.copies {
            let line = copies_line(&name, &trace, copies, options.json)
                .map_err(|error| format!("{name}: {error}"))?;
            writeln!(out, "{line}")?;
            continue;
        }
        let rows = measure(&name, &trace, options).map_err(|error| format!("{name}: {error}"))?;
        if options.json {
            for row in &rows {
                writeln!(out, "{}", serde_json::to_string(row)?)?;
            }
        } else {
            writeln!(out, "{name}: {} operations", Script::new(&trace, 1).operations())?;
            writeln!(out, "{}\n", table_of(&rows))?;
        }
        let peak_live_bytes = trace.peak_live_bytes(ours::GRANULE_BYTES);
        shared_lines.extend(shared_summary(&name, &rows, peak_live_bytes));
        ratios.push(RIVALS.map(|rival| quotient(time_of(&rows, OURS), time_of(&rows, rival))));
    }
    if !options.json && options.copies.is_none() {
        for (index, rival) in RIVALS.into_iter().enumerate() {
            let ratios: Vec<f64> = ratios.iter().filter_map(|ratios| ratios[index]).collect();
            let mean = table::figure(geometric_mean(&ratios), 3);
            let worst = table::figure(ratios.iter().copied().reduce(f64::max), 3);
            writeln!(
                out,
                "{OURS} / {rival}: time an operation {mean} as geometric mean, at most {worst}"
            )?;
        }
        for line in &shared_lines {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Cargo runs a benchmark in its package's folder; a path that does not lead anywhere from there is
/// one from the top of the checkout, where the command was typed.
fn as_the_user_meant(path: &Path) -> PathBuf {
    let from_top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if path.exists() || !from_top.exists() { path.to_owned() } else { from_top }
}

/// Replays one trace on all allocators, a pass each in turn.
fn measure<'a>(
    name: &'a str,
    trace: &Trace,
    options: &Options,
) -> Result<Vec<Row<'a>>, Box<dyn Error>> {
    let script = Script::new(trace, ours::GRANULE_BYTES);
    let bytes = Script::new(trace, 1);
    let mut contest = contest(&script, &bytes);
    let mut best = vec![(Best::default(), 0); contest.len()];
    let passes = options.passes.unwrap_or_else(|| passes_for(script.operations()));
    for _ in 0..passes.max(1) {
        for (contestant, (best, failures)) in contest.iter_mut().zip(&mut best) {
            let pass = contestant.pass()?;
            best.add(pass);
            *failures = pass.failures;
        }
    }
    let mut rows = Vec::new();
    for (contestant, (best, failures)) in contest.iter_mut().zip(best) {
        rows.push(Row {
            trace: name,
            allocator: contestant.name(),
            ns_per_operation: best.ns_per_operation(script.operations()),
            min_capacity_ratio: if options.no_capacity {
                None
            } else {
                contestant.smallest_ratio()?
            },
            failures,
        });
    }
    Ok(rows)
}

/// Some two million operations for each allocator, in 25 passes to 500.
fn passes_for(operations: usize) -> u32 {
    let passes = (2_000_000 / operations.max(1)).clamp(25, 500);
    u32::try_from(passes).unwrap_or(500)
}

/// All allocators, on a script in granules and, for host objects, the same in bytes.
fn contest<'a>(script: &'a Script, bytes: &'a Script) -> Vec<Box<dyn Contestant + 'a>> {
    let blocks = script.peak_live_blocks().saturating_mul(2);
    let mut contest: Vec<Box<dyn Contestant>> = Vec::new();
    for (placement, name) in ours::PLACEMENTS {
        let make = move |granules| ours::range(granules, placement, blocks).map(ours::InBytes);
        contest.push(Box::new(Entry::new(name, script, make)));
    }
    let offset = move |granules| Offset::new(granules, blocks);
    contest.push(Box::new(Entry::new("offset-allocator", script, offset)));
    let range = |granules| Ok::<_, Infallible>(Range::new(granules));
    contest.push(Box::new(Entry::new("range-alloc", script, range)));
    let mimalloc = |_| Ok::<_, Infallible>(MiMalloc);
    contest.push(Box::new(Entry::new("mimalloc", bytes, mimalloc).without_capacity()));
    let reference = |granules| Ok::<_, Infallible>(BestFit::new(granules));
    contest.push(Box::new(Entry::new("reference best-fit", script, reference)));
    let cached = move |granules| {
        SharedAllocator::new(ours::shared(granules, blocks))
            .map(|shared| ours::CacheInBytes(shared.cache()))
    };
    contest.push(Box::new(Entry::new(CACHED, script, cached)));
    let thread_local = move |granules| {
        SharedAllocator::new(ours::shared(granules, blocks)).map(ours::SharedInBytes)
    };
    contest.push(Box::new(Entry::new(THREAD_LOCAL, script, thread_local)));
    let no_caches = move |granules| {
        SharedAllocator::new(ours::shared(granules, blocks).cache_bytes(0))
            .map(|shared| ours::CacheInBytes(shared.cache()))
    };
    contest.push(Box::new(Entry::new(NO_CACHES, script, no_caches)));
    contest
}

/// What caches cost on one program, in time and in capacity, and whether that is within limits.
fn shared_summary(name: &str, rows: &[Row<'_>], peak_live_bytes: u64) -> Vec<String> {
    let mut lines = Vec::new();
    let short = short(name);
    if let (Some(cached), Some(bare)) = (time_of(rows, CACHED), time_of(rows, OURS)) {
        let limit = if short.starts_with(NOT_SLOWER) {
            bare
        } else {
            (bare * MOST_TIMES).max(bare + MOST_NS_MORE)
        };
        lines.push(format!(
            "{short}: {CACHED} / {OURS}: time an operation {:.3} ({cached:.1} ns, {bare:.1} ns), \
             limit {:.3} ({limit:.1} ns): {}",
            cached / bare,
            limit / bare,
            verdict(cached, limit),
        ));
    }
    let capacities = capacity_of(rows, CACHED).zip(capacity_of(rows, NO_CACHES));
    if let Some((cached, without)) = capacities {
        let ratio = cached / without;
        let judged = if peak_live_bytes >= LARGE_BYTES {
            format!("limit {MOST_FOR_CACHES}: {}", verdict(ratio, MOST_FOR_CACHES))
        } else {
            "no limit below 1 GiB".to_owned()
        };
        lines.push(format!(
            "{short}: {CACHED} / {NO_CACHES}: smallest capacity {ratio:.4}, {judged}"
        ));
    }
    lines
}

/// The smallest capacity of several copies of a program.
#[derive(Serialize)]
struct InLockstep<'a> {
    trace: &'a str,
    copies: u32,
    shards: u32,
    /// Over so many times the program's peak.
    min_capacity_ratio: Option<f64>,
    /// The same with one shard.
    one_shard_min_capacity_ratio: Option<f64>,
}

/// Searches the smallest capacity of copies in lockstep with a shard each and with one.
#[expect(clippy::cast_precision_loss, reason = "a ratio is read to a few digits")]
fn copies_line(
    name: &str,
    trace: &Trace,
    copies: u32,
    json: bool,
) -> Result<String, Box<dyn Error>> {
    let script = Script::new(trace, ours::GRANULE_BYTES);
    let script = script.copies(copies).ok_or("more blocks than a replay counts")?;
    let shards = copies.min(MOST_SHARDS);
    let over_peak = |shards| {
        let smallest = ours::smallest_of_copies(&script, copies, shards)?;
        let peak = script.peak_live_granules().max(1) as f64;
        Ok::<_, Box<dyn Error>>(smallest.map(|granules| granules as f64 / peak))
    };
    let found = InLockstep {
        trace: name,
        copies,
        shards,
        min_capacity_ratio: over_peak(shards)?,
        one_shard_min_capacity_ratio: over_peak(1)?,
    };
    if json {
        return Ok(serde_json::to_string(&found)?);
    }
    let ratio = quotient(found.min_capacity_ratio, found.one_shard_min_capacity_ratio);
    Ok(format!(
        "{}: {copies} copies in lockstep: smallest capacity on {shards} shards {} of the peak, on \
         one {}: {}, limit {MOST_FOR_SHARDS}: {}",
        short(name),
        table::figure(found.min_capacity_ratio, 4),
        table::figure(found.one_shard_min_capacity_ratio, 4),
        table::figure(ratio, 4),
        ratio.map_or("not found", |ratio| verdict(ratio, MOST_FOR_SHARDS)),
    ))
}

fn verdict(value: f64, limit: f64) -> &'static str {
    if value <= limit { "within" } else { "MISSED" }
}

/// The last part of a path, without what says how it is stored.
fn short(path: &str) -> &str {
    let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
    file.split('.').next().unwrap_or(file)
}

fn table_of(rows: &[Row<'_>]) -> impl Display {
    let header = ["allocator", "ns an operation", "smallest capacity", "refused at 1.25"];
    let over = [format!("time over\n{OURS}"), format!("capacity over\n{OURS}")];
    let header: Vec<_> = header.into_iter().chain(over.iter().map(String::as_str)).collect();
    let mut table = table::new(&header, 1);
    let ours = rows.iter().find(|row| row.allocator == OURS);
    let ours = ours.map_or((None, None), |row| (row.ns_per_operation, row.min_capacity_ratio));
    for row in rows {
        table.add_row([
            row.allocator.to_owned(),
            table::figure(row.ns_per_operation, 1),
            table::figure(row.min_capacity_ratio, 4),
            row.failures.to_string(),
            table::figure(quotient(row.ns_per_operation, ours.0), 2),
            table::figure(quotient(row.min_capacity_ratio, ours.1), 3),
        ]);
    }
    table
}

fn time_of(rows: &[Row<'_>], allocator: &str) -> Option<f64> {
    rows.iter().find(|row| row.allocator == allocator)?.ns_per_operation
}

fn capacity_of(rows: &[Row<'_>], allocator: &str) -> Option<f64> {
    rows.iter().find(|row| row.allocator == allocator)?.min_capacity_ratio
}

fn quotient(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some(part? / whole?)
}

/// The geometric mean; none of nothing.
fn geometric_mean(values: &[f64]) -> Option<f64> {
    let count = u32::try_from(values.len()).ok().filter(|count| *count > 0)?;
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    Some((logs / f64::from(count)).exp())
}
