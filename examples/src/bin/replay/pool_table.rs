//! The rows of pools as tables for people, with a legend.

use core::fmt::Write;

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use pool_mock::replay::Cost;

use crate::{
    pool_row::{PoolRow, Spent},
    row::{human, ratio},
    table::{short, thousands},
};

const MEMORY: [&str; 11] = [
    "trace",
    "streams",
    "threads",
    "operations",
    "peak\nlive",
    "peak\nreserved",
    "smallest\nlimit",
    "never\nmoving",
    "time an\noperation",
    "--shared",
    "failures",
];

const DEVICE: [&str; 13] = [
    "trace",
    "pacing",
    "pass",
    "hits",
    "one on\neach free",
    "fences\nrecorded",
    "device-side\nwaits",
    "host\nwaits",
    "waits an\noperation",
    "queries",
    "steals",
    "growths",
    "violations",
];

const PAGES: [&str; 10] = [
    "trace",
    "pacing",
    "pass",
    "handles\nmade",
    "given\nback",
    "rows\nmapped",
    "handles\nunmapped",
    "pages\nmoved",
    "time an\noperation",
    "of which\nfor pages",
];

const PAGES_LEGEND: &str = "\
rows mapped: calls that put memory behind addresses, whatever the number of handles.
pages moved: taken from where they held no block, and put where they were needed.
smallest: a pass at the smallest limit, with no work queued.
for pages: the time of calls that move memory in pages, with what decides on them; on the simulated
      device that is its own. In the other passes it is over all operations, too.";

const LEGEND: &str = "\
peak reserved: by a pool that grows by arenas, or has a --limit, and its ratio to peak live.
smallest limit: the smallest one that serves every request, also with 1, 2 and 5 % more.
never moving: the same for a pool that moves no memory from stream to stream: one for each
      stream, summed up.
time an operation: with no work queued; a thread for each copy, over the operations of one copy.
--shared: the same on a shared allocator, and how many times as long the pool takes.
hits: requests served by free memory, with no growth, no wait, and nothing from another stream: at
      least so many.
one on each free: the fences that a pool would record that records one on each free.
Each cell of the second table: calls in a pass, and for each allocation and free of the program.
cold and warm: the first and the second pass on one pool.";

/// The tables, the legend, and a note for each thing that a reader should know.
pub(crate) fn of(rows: &[PoolRow]) -> String {
    let mut memory = table(&MEMORY, 1);
    let mut device = table(&DEVICE, 3);
    for row in rows {
        memory.add_row(memory_cells(row));
        for spent in &row.device {
            device.add_row(device_cells(row, spent));
        }
    }
    let mut text = format!("{memory}\n\n{device}");
    if rows.iter().any(PoolRow::is_paged) {
        let mut pages = table(&PAGES, 3);
        rows.iter().flat_map(pages_cells).for_each(|cells| {
            pages.add_row(cells);
        });
        // A string takes whatever is written.
        let _ = write!(text, "\n\n{pages}\n\n{LEGEND}\n{PAGES_LEGEND}");
    } else {
        let _ = write!(text, "\n\n{LEGEND}");
    }
    for note in notes(rows) {
        // A string takes whatever is written.
        let _ = write!(text, "\n\n{note}");
    }
    text
}

/// An empty table, whose columns of figures are aligned to the right.
fn table(header: &[&str], words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn memory_cells(row: &PoolRow) -> Vec<String> {
    let over_peak = |bytes: Option<u64>| {
        bytes.map_or_else(dash, |bytes| match ratio(bytes, row.peak_live_bytes) {
            Some(ratio) => format!("{}  {ratio:.3}x", human(bytes)),
            None => human(bytes),
        })
    };
    let memory = &row.memory;
    vec![
        short(&row.trace).to_owned(),
        row.streams.to_string(),
        row.threads.to_string(),
        thousands(row.operations),
        human(row.peak_live_bytes),
        over_peak(Some(memory.peak_reserved_bytes)),
        over_peak(memory.min_limit_bytes),
        over_peak(memory.unmoved_limit_bytes),
        row.time.map_or_else(dash, |time| format!("{:.1} ns", time.ns_per_operation)),
        row.time.map_or_else(dash, |time| {
            format!("{:.1} ns  {:.2}x", time.shared_ns_per_operation, time.ratio())
        }),
        row.failures.to_string(),
    ]
}

fn device_cells(row: &PoolRow, spent: &Spent) -> Vec<String> {
    let operations = row.operations as u64;
    let requests = operations - row.frees as u64;
    let each = |count: u64| ratio(count, operations).unwrap_or_default();
    let both = |count: u64| format!("{count}  {:.4}", each(count));
    let calls = &spent.cost.calls;
    vec![
        short(&row.trace).to_owned(),
        spent.pacing.clone(),
        spent.pass.to_owned(),
        format!("{:.2} %", 100.0 * ratio(spent.hits, requests).unwrap_or_default()),
        both(row.frees as u64),
        both(calls.records),
        both(calls.device_waits),
        both(calls.host_waits),
        format!("{:.4}", each(spent.cost.waits())),
        both(calls.queries),
        spent.cost.steals.to_string(),
        spent.cost.growths.to_string(),
        spent.violations.len().to_string(),
    ]
}

/// What was done with pages in each pass, and in one at the smallest limit.
fn pages_cells(row: &PoolRow) -> Vec<Vec<String>> {
    let operations = row.operations;
    let cells = |pacing: &str, pass: &str, cost: &Cost, time: String| {
        let calls = &cost.calls;
        let counts = [calls.creations, calls.destructions, calls.commits, calls.decommits];
        let words = [short(&row.trace), pacing, pass].map(str::to_owned);
        let counts = counts.iter().chain([&cost.moved_pages]).map(ToString::to_string);
        let paging = format!("{:.1} ns", cost.paging_ns(operations));
        words.into_iter().chain(counts).chain([time, paging]).collect::<Vec<_>>()
    };
    let passes =
        row.device.iter().map(|spent| cells(&spent.pacing, spent.pass, &spent.cost, dash()));
    let smallest = row.at_smallest.map(|smallest| {
        cells("-", "smallest", &smallest.cost, format!("{:.1} ns", smallest.ns_per_operation))
    });
    passes.chain(smallest).collect()
}

fn dash() -> String {
    "-".to_owned()
}

/// What goes beyond the figures.
fn notes(rows: &[PoolRow]) -> Vec<String> {
    let mut notes = Vec::new();
    let single = rows.iter().filter(|row| row.streams == row.threads);
    let ratios: Vec<f64> = single.filter_map(|row| row.time.map(|time| time.ratio())).collect();
    if ratios.len() > 1 {
        let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        notes.push(format!(
            "Over --shared, the {} programs of one stream a thread: geometric mean {:.2}x.",
            ratios.len(),
            (sum / f64::from(u32::try_from(ratios.len()).unwrap_or(u32::MAX))).exp(),
        ));
    }
    for row in rows.iter().filter(|row| row.failures > 0) {
        notes.push(format!(
            "{}: {} of its requests were refused. --find-capacity finds a limit that is large \
             enough.",
            short(&row.trace),
            row.failures,
        ));
    }
    for row in rows {
        for spent in row.device.iter().filter(|spent| !spent.violations.is_empty()) {
            let mut note = format!(
                "{}, {}: {} uses that must not be, which is a fault of the pool:",
                short(&row.trace),
                spent.pacing,
                spent.violations.len(),
            );
            for violation in spent.violations.iter().take(MOST_VIOLATIONS) {
                let _ = write!(note, "\n  {violation}");
            }
            notes.push(note);
        }
        if !row.oddities.is_empty() {
            let mut note = format!("In the log {}:", short(&row.trace));
            for oddity in row.oddities.lines() {
                let _ = write!(note, "\n  {oddity}");
            }
            notes.push(note);
        }
    }
    notes
}

/// So many violations are printed of each.
const MOST_VIOLATIONS: usize = 3;
