//! Tables of figures for people.

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};

/// A table with a header, whose first `words` columns are words and the others figures.
///
/// ```
/// let mut table = peers::table::new(&["allocator", "ns"], 1);
/// table.add_row(["mimalloc", "5.0"]);
/// assert!(table.to_string().contains("mimalloc"));
/// ```
#[must_use]
pub fn new(header: &[&str], words: usize) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A figure with so many digits behind the point, or a dash.
///
/// ```
/// assert_eq!(peers::table::figure(Some(1.25), 1), "1.2");
/// assert_eq!(peers::table::figure(None, 1), "-");
/// ```
#[must_use]
pub fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}
