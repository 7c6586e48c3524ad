//! Planned replays as a table for people, with a legend.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

use crate::{
    plan::PlanRow,
    row::human,
    table::{short, thousands},
};

const HEADER: [&str; 9] = [
    "trace",
    "operations",
    "peak\nlive",
    "planned",
    "best fit",
    "planning",
    "crossings",
    "time an\noperation",
    "best fit",
];

const LEGEND: &str = "\
planned, best fit: what is needed, over peak live; best fit with --find-capacity in the smallest
      range, else in a roomy one.
crossings: blocks that the plan puts on memory that another stream used last: each a wait.
n % depart: of the requests. What the plan and a range of their own for departures need, over the
      peak live of that program; what best fit needs for it; the part of the requests that the
      plan served; and the time an operation.";

/// The table and the legend.
pub(crate) fn of(rows: &[PlanRow]) -> String {
    let percents = rows.first().map(|row| &row.perturbed).into_iter().flatten();
    let departures = percents.map(|perturbed| format!("{} % depart", perturbed.percent));
    let header: Vec<String> = HEADER.map(str::to_owned).into_iter().chain(departures).collect();
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for row in rows {
        table.add_row(cells(row));
    }
    format!("{table}\n\n{LEGEND}")
}

fn cells(row: &PlanRow) -> Vec<String> {
    let ns = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.1} ns"));
    let mut cells = vec![
        short(&row.trace).to_owned(),
        thousands(row.operations),
        human(row.peak_live_bytes),
        format!("{:.3}x", row.planned_ratio),
        format!("{:.3}x", row.best_fit_ratio),
        format!("{:.0} ms", row.planning_ms),
        row.crossings.to_string(),
        ns(row.ns_per_operation),
        ns(row.best_fit_ns_per_operation),
    ];
    cells.extend(row.perturbed.iter().map(|perturbed| {
        format!(
            "{:.3}x  {:.3}x\n{:.1} %  {}",
            perturbed.planned_ratio,
            perturbed.best_fit_ratio,
            perturbed.followed_ratio * 100.0,
            ns(perturbed.ns_per_operation),
        )
    }));
    cells
}
