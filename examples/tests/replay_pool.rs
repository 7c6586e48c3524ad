//! The replay tool on pools over the simulated device.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn trace(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("traces").join(name)
}

fn replay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_replay")).args(arguments).output().unwrap()
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = replay(&[&["--pool", "--json"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn row(arguments: &[&str]) -> Value {
    let mut rows = rows(arguments);
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// No pass was refused anything, and no two uses could race.
fn assert_clean(row: &Value) {
    assert_eq!(row["failures"], 0, "{row}");
    for spent in row["device"].as_array().unwrap() {
        assert_eq!(spent["violations"].as_array().unwrap().len(), 0, "{row}");
    }
}

#[test]
fn a_trace_of_several_streams_is_clean_and_needs_few_waits() {
    let row = row(&[]);
    assert_clean(&row);
    assert_eq!((&row["streams"], &row["threads"]), (&4.into(), &1.into()));
    let spent = row["device"].as_array().unwrap();
    let passes: Vec<_> = spent.iter().map(|spent| (&spent["pacing"], &spent["pass"])).collect();
    assert_eq!(passes.len(), 4);
    assert_eq!((passes[0].0.as_str(), passes[0].1.as_str()), (Some("idle"), Some("cold")));
    assert_eq!((passes[3].0.as_str(), passes[3].1.as_str()), (Some("lag:64"), Some("warm")));
    for warm in [&spent[1], &spent[3]] {
        let waits = number(&warm["device_waits"]) + number(&warm["host_waits"]);
        assert!(waits <= 0.05 * number(&row["operations"]), "{warm}");
    }
    assert!(number(&row["ns_per_operation"]) > 0.0);
    assert!(number(&row["shared_ns_per_operation"]) > 0.0);
}

#[test]
fn a_trace_of_one_stream_asks_the_device_for_nothing() {
    let path = trace("maskrcnn_train.csv.gz");
    let row = row(&[path.to_str().unwrap(), "--pacing", "idle", "--limit", "40GiB"]);
    assert_clean(&row);
    for spent in row["device"].as_array().unwrap() {
        for call in ["records", "device_waits", "host_waits", "queries", "allocations", "frees"] {
            assert_eq!(spent[call], 0, "{call} in {spent}");
        }
    }
    assert_eq!(row["timed_calls"], 1, "the arena of its start");
}

#[test]
fn a_generated_pipeline_is_clean_under_any_pacing() {
    let row = row(&["--pipeline", "--pacing", "idle,lag:64,random:7"]);
    assert_clean(&row);
    assert_eq!(row["trace"], "pipeline");
    assert_eq!(row["device"].as_array().unwrap().len(), 6);
    assert!(number(&row["operations"]) > 20_000.0);
    // A shared allocator has no streams.
    assert!(row.get("ns_per_operation").is_none_or(Value::is_null));
}

#[test]
fn the_recorded_threads_take_turns() {
    let path = trace("etl_rmm.csv.gz");
    let arguments = [path.to_str().unwrap(), "--threads", "recorded"];
    let first = row(&arguments);
    assert_clean(&first);
    assert_eq!(first["threads"], 4);
    assert!(first.get("ns_per_operation").is_none_or(Value::is_null));
    // The same in every run.
    assert_eq!(row(&arguments), first);
}

#[test]
fn copies_have_their_own_streams() {
    let row = row(&["--threads", "2"]);
    assert_clean(&row);
    assert_eq!((&row["streams"], &row["threads"]), (&8.into(), &2.into()));
    assert_eq!(row["operations"], 2 * 1930);
}

/// A log of two streams that take turns with a few megabytes: the search replays it often.
fn short_log() -> tempfile::NamedTempFile {
    use std::io::Write as _;

    let mut log = tempfile::NamedTempFile::new().unwrap();
    writeln!(log, "Thread,Time,Action,Pointer,Size,Stream").unwrap();
    let mut line = |action: &str, number: u64, size_bytes: u64| {
        let (address, stream) = (0x1000_0000 * (number + 1), number % 2 + 1);
        writeln!(log, "1,10:00:00.000000,{action},{address:#x},{size_bytes},{stream:#x}").unwrap();
    };
    let size_of = |number: u64| 100_000 * (1 + number * 7 % 13);
    for number in 0..60 {
        line("allocate", number, size_of(number));
        if let Some(old) = number.checked_sub(9) {
            line("free", old, size_of(old));
        }
    }
    log
}

#[test]
fn the_smallest_limit_serves_and_one_below_the_peak_does_not() {
    let log = short_log();
    let path = log.path().to_str().unwrap();
    let found = row(&[path, "--find-capacity"]);
    let (peak, limit, unmoved) = (
        number(&found["peak_live_bytes"]),
        number(&found["min_limit_bytes"]),
        number(&found["unmoved_limit_bytes"]),
    );
    assert!(peak <= limit && limit <= unmoved, "{found}");
    let limit = found["min_limit_bytes"].to_string();
    let output = replay(&["--pool", "--json", "--limit", &limit, "--pacing", "eager", path]);
    let at_limit: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(at_limit["peak_reserved_bytes"], found["min_limit_bytes"]);
    // It is found for a fresh pool.
    assert_eq!(at_limit["device"][0]["failures"], 0);

    let below = replay(&["--pool", "--limit", "1MiB", path]);
    assert_eq!(below.status.code(), Some(1));
    let text = String::from_utf8(below.stdout).unwrap();
    assert!(text.contains("of its requests were refused"), "{text}");
}

/// Memory in pages: the bundled trace with its own streams needs at most a twentieth more than is
/// live, in whole pages, and no two uses of the same bytes can race.
#[test]
fn in_pages_little_more_is_needed_than_is_live() {
    let output = replay(&["--pages", "--find-capacity", "--json", "--pacing", "idle,lag:64"]);
    assert!(output.status.success());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (peak, limit) = (number(&found["peak_live_bytes"]), number(&found["min_limit_bytes"]));
    assert_eq!(found["min_limit_bytes"].as_u64().map(|bytes| bytes % (2 << 20)), Some(0));
    assert!(peak <= limit && limit <= 1.05 * peak, "{found}");
    assert!(number(&found["at_smallest"]["moved_pages"]) > 0.0, "{found}");
    let output = replay(&["--pages"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["rows", "unmapped", "moved"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn the_tables_have_every_figure() {
    let output = replay(&["--pool", "--pipeline", "--pacing", "eager"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["pipeline", "warm", "never", "one on", "violations", "steals"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    for arguments in [
        &["--pool", "--shared"][..],
        &["--pool", "--capacity", "1GiB"],
        &["--pool", "--placement", "buddy"],
        &["--shared", "--threads", "recorded"],
        &["--threads", "2"],
        &["--limit", "1GiB"],
        &["--pipeline"],
        &["--pool", "--pacing", "slow"],
        &["--pool", "--pacing", "lag:x"],
        &["--pool", "--threads", "0"],
    ] {
        assert_eq!(replay(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_damaged_trace_does_not_keep_others_from_replay() {
    let output = replay(&["--pool", "--json", "--pacing", "eager", "--pipeline", "no such file"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 1);
}
