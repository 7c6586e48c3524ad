//! The rows as a table for people, with a legend.

use core::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

use crate::row::{Row, human, ratio};

const HEADER: [&str; 10] = [
    "trace",
    "placement",
    "operations",
    "peak\nlive",
    "peak\nreserved",
    "smallest\ncapacity",
    "time an\noperation",
    "failures",
    "lost to\nrounding",
    "lost to\nholes",
];

/// The columns of words; those of figures are aligned to the right.
const WORDS: usize = 2;

const LEGEND: &str = "\
peak live: the most that the program held at once. No range can be smaller.
peak reserved: how far up the range was used, and its ratio to peak live.
smallest capacity: the smallest range that serves every request, also with 1, 2 and 5 % more.
lost: the part of peak reserved that was waste when it was reached, inside blocks (rounding of
      sizes) and between blocks (holes).";

/// What the figures of several copies are.
const LEGEND_OF_COPIES: &str = "\
All figures are of all copies together. Memory and what is lost: with the copies in lockstep, a
step of each in turn from one thread, so the same in every run. Time an operation: a thread each,
from the first one's start to the last one's end, over the operations of one copy.";

/// The table, the legend, and a note for each thing that a reader should know.
pub(crate) fn of(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(HEADER);
    for (index, column) in table.column_iter_mut().enumerate() {
        if index >= WORDS {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        table.add_row(cells(row));
    }
    let mut text = format!("{table}\n\n{LEGEND}");
    if rows.iter().filter_map(|row| row.sharing.as_ref()).any(|sharing| sharing.threads > 1) {
        // A string takes whatever is written.
        let _ = write!(text, "\n{LEGEND_OF_COPIES}");
    }
    for note in notes(rows) {
        // A string takes whatever is written.
        let _ = write!(text, "\n\n{note}");
    }
    text
}

fn cells(row: &Row) -> Vec<Cell> {
    let over_peak = |bytes| match ratio(bytes, row.peak_live_bytes) {
        Some(ratio) => format!("{}  {ratio:.3}x", human(bytes)),
        None => human(bytes),
    };
    let lost = |bytes| match ratio(bytes, row.peak_reserved_bytes) {
        Some(ratio) => format!("{:.1} %", ratio * 100.0),
        None => "-".to_owned(),
    };
    let cells = [
        short(&row.trace).to_owned(),
        row.placement.to_owned(),
        thousands(row.operations),
        human(row.peak_live_bytes),
        over_peak(row.peak_reserved_bytes),
        row.min_capacity_bytes.map_or_else(|| "-".to_owned(), over_peak),
        row.ns_per_operation.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1} ns")),
        row.failures.to_string(),
        lost(row.rounding_bytes),
        lost(row.holes_bytes),
    ];
    cells.into_iter().map(Cell::new).collect()
}

/// The last part of a path.
pub(crate) fn short(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What goes beyond the figures: refusals, and what is odd in each log.
fn notes(rows: &[Row]) -> Vec<String> {
    let mut notes: Vec<_> = rows.iter().filter_map(sharing_note).collect();
    for row in rows.iter().filter(|row| row.failures > 0) {
        notes.push(format!(
            "{}, {}: {} of its requests did not fit a range of {}. --find-capacity finds one that \
             is large enough.",
            short(&row.trace),
            row.placement,
            row.failures,
            human(row.capacity_bytes),
        ));
    }
    let mut last = None;
    for row in rows.iter().filter(|row| row.recorded_failures > 0 || !row.oddities.is_empty()) {
        if last.replace(&row.trace) == Some(&row.trace) {
            continue;
        }
        let mut note = format!("In the log {}:", short(&row.trace));
        if row.recorded_failures > 0 {
            let _ = write!(note, "\n  {} recorded failures, not replayed", row.recorded_failures);
        }
        for oddity in row.oddities.lines() {
            let _ = write!(note, "\n  {oddity}");
        }
        notes.push(note);
    }
    notes
}

/// How a shared allocator was used, and by which layer.
fn sharing_note(row: &Row) -> Option<String> {
    let sharing = row.sharing.as_ref()?;
    let caches = match sharing.cache_bytes {
        0 => "no caches".to_owned(),
        bytes => format!("caches of {}", human(bytes)),
    };
    let rate = sharing.operations_per_second.unwrap_or_default() / 1e6;
    let in_cache = ratio(sharing.in_cache, row.operations as u64).unwrap_or_default() * 100.0;
    Some(format!(
        "{}, {}: copies {}, shards {}, {caches}; {rate:.1} million operations a second.\n  \
         In the last timed replay: {in_cache:.1} % of the operations within a cache; magazines \
         passed on {}; locks {}, held by another thread {}; steps tried again {}; recalls of all \
         shards {}; flushes of all caches {}.",
        short(&row.trace),
        row.placement,
        sharing.threads,
        sharing.shards,
        sharing.magazines,
        sharing.locks,
        sharing.lock_waits,
        sharing.retries,
        sharing.recalls,
        sharing.flushes,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_the_right() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (123_456, "123,456"),
            (1_000_000, "1,000,000"),
        ] {
            assert_eq!(thousands(number), text);
        }
    }

    #[test]
    fn a_path_is_shortened_to_its_last_part() {
        assert_eq!(short("a/b/c.csv"), "c.csv");
        assert_eq!(short("c.csv"), "c.csv");
        assert_eq!(short(""), "");
    }
}
