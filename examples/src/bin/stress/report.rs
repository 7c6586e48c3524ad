//! What a run came to, in lines for people.

use core::{fmt::Write, time::Duration};

use bytesize::ByteSize;
use pool_mock::stress::Outcome;

/// Time, operations, and where they were done.
pub(crate) fn of(outcome: &Outcome) -> String {
    let Outcome { elapsed, tally, stats, .. } = outcome;
    let work = stats.work;
    let operations = tally.operations();
    let mut lines = String::new();
    let mut line = |name: &str, value: String| {
        // A string takes whatever is written.
        let _ = writeln!(lines, "  {name:<26} {value}");
    };
    line("time", format!("{:.2} s", elapsed.as_secs_f64()));
    line(
        "operations",
        format!("{operations}, {:.2} million a second", per_second(operations, *elapsed) / 1e6),
    );
    line("freed by another thread", share_of(tally.remote_frees, tally.frees));
    line("refused", tally.refusals.to_string());
    line("second frees, all errors", tally.second_frees.to_string());
    line("served", ByteSize(tally.bytes).to_string());
    line("live and cached at most", ByteSize(stats.peak_live_bytes).to_string());
    line("done by a cache alone", share_of(work.in_cache, work.operations));
    line("done otherwise", share_of(work.operations - work.in_cache, work.operations));
    line("magazines handed over", each(work.magazines, operations));
    line("locks taken", each(work.locks, operations));
    line("locks that had to wait", share_of(work.lock_waits, work.locks));
    line("atomic steps tried again", each(work.retries, operations));
    line("recalls of all shards", work.recalls.to_string());
    line("flushes of all caches", work.flushes.to_string());
    lines.pop();
    lines
}

/// How much of the time was the map's.
pub(crate) fn share(with: Duration, without: Duration) -> String {
    let part = without.as_secs_f64() / with.as_secs_f64();
    format!(
        "of the first run's time the map took {:.0} %; the pool, the threads' own work and the\n\
         mailboxes between them the rest",
        100.0 * (1.0 - part).max(0.0)
    )
}

/// Operations a second.
fn per_second(count: u64, elapsed: Duration) -> f64 {
    float(count) / elapsed.as_secs_f64().max(f64::EPSILON)
}

/// A count and what part of another it is.
fn share_of(count: u64, whole: u64) -> String {
    format!("{count}, {:.2} %", 100.0 * float(count) / float(whole.max(1)))
}

/// A count and how many operations there were for each.
fn each(count: u64, operations: u64) -> String {
    match count {
        0 => "none".to_owned(),
        _ => format!("{count}, one in {:.1} operations", float(operations) / float(count)),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shares are read to a few digits")]
fn float(count: u64) -> f64 {
    count as f64
}
