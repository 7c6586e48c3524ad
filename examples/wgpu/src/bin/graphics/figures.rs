//! What a scene took, for people.

use core::fmt::Write;
use core::time::Duration;

use bytesize::ByteSize;
use comfy_table::{CellAlignment, Table, presets};
use graphics::{Draws, Pooled, Scene, Usage};

/// The pools, one in a row.
pub(crate) fn table(store: &Pooled) -> String {
    let mut table = new_table(&["pool", "slices", "buffers", "live", "reserved"]);
    for usage in Usage::ALL {
        let stats = store.pool(usage).stats();
        table.add_row([
            format!("{usage:?}").to_lowercase(),
            stats.live_blocks.to_string(),
            stats.arenas.to_string(),
            ByteSize(stats.live_bytes).to_string(),
            ByteSize(stats.reserved_bytes).to_string(),
        ]);
    }
    table.to_string()
}

/// An empty table whose columns are numbers, but for the first.
pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.iter().copied());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What was given out, uploaded and drawn.
pub(crate) fn lines(store: &Pooled, scene: &Scene, draws: Draws, elapsed: Duration) -> String {
    let (uploads, staging) = store.uploads();
    let (slices, bytes) = store.asked();
    let buffers: u64 = Usage::ALL.iter().map(|&usage| store.pool(usage).stats().arenas).sum();
    let mut lines = String::new();
    let mut line = |name: &str, value: String| {
        // A string takes whatever is written.
        let _ = writeln!(lines, "{name:<26} {value}");
    };
    line("frames", format!("{} in {:.1} s", draws.frames, elapsed.as_secs_f64()));
    line("objects made", scene.made().to_string());
    line("slices given out", format!("{slices} of {buffers} buffers, {}", ByteSize(bytes)));
    line("draws", format!("{}, for which {} buffers were bound", draws.draws, draws.buffers_bound));
    line("bind groups made", draws.groups_made.to_string());
    line("uploads", format!("{} writes, {}", uploads.writes, ByteSize(uploads.bytes)));
    line(
        "upload buffers",
        format!(
            "{} used {} times, {} of them again behind a fence",
            uploads.chunks - uploads.reuses,
            uploads.chunks,
            uploads.reuses
        ),
    );
    line("waits of the host", staging.calls.host_waits.to_string());
    line("longest rest", format!("{:.0} ms", staging.latency.longest.as_secs_f64() * 1e3));
    lines.pop();
    lines
}
