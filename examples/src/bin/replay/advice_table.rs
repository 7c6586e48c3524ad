//! First and second runs as a table for people, with a legend.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

use crate::{
    advice_row::{AdviceRow, Run, Runs},
    row::{human, ratio},
    table::short,
};

const HEADER: [&str; 13] = [
    "trace",
    "pacing",
    "peak\nlive",
    "smallest\nlimit",
    "growths\nfirst",
    "growths\nsecond",
    "arena calls\nfirst",
    "arena calls\nsecond",
    "reserved\nfirst",
    "reserved\nsecond",
    "waits\nfirst",
    "waits\nsecond",
    "again",
];

/// The columns of words.
const WORDS: usize = 2;

const LEGEND: &str = "\
first, second: runs of three passes, the second one under what the first one recommends.
Each pair of figures: in the cold pass / in the two warm ones together.
arena calls: calls of the device for memory, the one at the start included.
reserved: the most in all passes, and its ratio to the smallest limit, or without one to peak
      live.
again: whether the second run recommends what it had.";

/// The table and the legend.
pub(crate) fn of(rows: &[AdviceRow]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(HEADER);
    for column in table.column_iter_mut().skip(WORDS) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in rows {
        for runs in &row.runs {
            table.add_row(cells(row, runs));
        }
    }
    format!("{table}\n\n{LEGEND}")
}

fn cells(row: &AdviceRow, runs: &Runs) -> Vec<String> {
    let pair = |(cold, warm): (u64, u64)| format!("{cold} / {warm}");
    let reserved = |run: &Run| {
        let bytes = run.peak_reserved_bytes();
        let over = ratio(bytes, row.least_bytes()).unwrap_or_default();
        format!("{}  {over:.3}x", human(bytes))
    };
    let (first, second) = (&runs.first, &runs.second);
    vec![
        short(&row.trace).to_owned(),
        runs.pacing.clone(),
        human(row.peak_live_bytes),
        row.min_limit_bytes.map_or_else(|| "-".to_owned(), human),
        pair(first.growths()),
        pair(second.growths()),
        pair(first.arena_calls()),
        pair(second.arena_calls()),
        reserved(first),
        reserved(second),
        pair(first.waits()),
        pair(second.waits()),
        if runs.is_stable { "yes" } else { "no" }.to_owned(),
    ]
}
