//! The replay tool as a person or a script meets it: arguments, output, exit codes.

mod support;

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use support::Folder;

/// 3 granules at most live; the third block fits the first one's hole only with 4.
const SMALL: &str = "Thread,Time,Action,Pointer,Size,Stream\n\
                     1,10:00:00.000001,allocate,0x100,200,0\n\
                     1,10:00:00.000002,allocate,0x200,256,0\n\
                     1,10:00:00.000003,free,0x100,200,0\n\
                     1,10:00:00.000004,allocate,0x300,300,0\n";

/// The fields that every line of JSON has.
const FIELDS: [&str; 11] = [
    "trace",
    "placement",
    "operations",
    "peak_live_bytes",
    "peak_reserved_bytes",
    "min_capacity_bytes",
    "min_capacity_ratio",
    "ns_per_operation",
    "failures",
    "unknown_frees",
    "recorded_failures",
];

fn replay(arguments: &[&str], traces: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_replay")).args(arguments).args(traces).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

/// The lines of JSON that a successful or failed run printed.
fn rows(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn json_has_every_field_and_null_for_what_was_not_asked() {
    let folder = Folder::new();
    let path = folder.file("small.csv", SMALL.as_bytes());
    let output = replay(&["--json", "--capacity", "1KiB"], &[&path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(text(&output.stderr), "", "no progress bar where there is no terminal");
    let [row] = &rows(&output)[..] else { panic!("{output:?}") };
    for field in FIELDS {
        assert!(row.get(field).is_some(), "{field} in {row}");
    }
    assert_eq!(row["trace"], path.to_str().unwrap());
    assert_eq!(row["placement"], "best-fit");
    assert_eq!(row["operations"], 4);
    assert_eq!(row["peak_live_bytes"], 3 * 256);
    assert_eq!(row["peak_reserved_bytes"], 4 * 256);
    assert_eq!(row["min_capacity_bytes"], Value::Null);
    assert_eq!(row["min_capacity_ratio"], Value::Null);
    assert!(row["ns_per_operation"].as_f64().unwrap() > 0.0);
    for count in ["failures", "unknown_frees", "recorded_failures"] {
        assert_eq!(row[count], 0, "{count}");
    }
    let parts = ["requested_bytes", "rounding_bytes", "holes_bytes"];
    assert_eq!(parts.map(|part| row[part].as_u64().unwrap()), [556, 212, 256]);
}

#[test]
fn the_smallest_capacity_is_found_for_each_placement() {
    let folder = Folder::new();
    let path = folder.file("small.csv", SMALL.as_bytes());
    let output = replay(
        &["--json", "--find-capacity", "--placement", "all", "--capacity", "4096"],
        &[&path],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let found: Vec<_> = rows(&output)
        .iter()
        .map(|row| {
            let bytes = row["min_capacity_bytes"].as_u64().unwrap();
            let ratio = row["min_capacity_ratio"].as_f64().unwrap();
            assert!((ratio * 768.0 - 1024.0).abs() < 1e-6);
            (row["placement"].as_str().unwrap().to_owned(), bytes)
        })
        .collect();
    let expected = [("best-fit", 1024), ("first-fit", 1024), ("buddy", 1024)];
    assert_eq!(found, expected.map(|(name, bytes)| (name.to_owned(), bytes)));
}

#[test]
fn a_refusal_gives_exit_code_1_and_its_free_is_skipped() {
    let folder = Folder::new();
    let log = format!("{SMALL}1,10:00:00.000005,free,0x300,300,0\n");
    let path = folder.file("refused.csv", log.as_bytes());
    // At 1.25 times the peak, 4 granules, it works; at 3 the last request finds two holes.
    assert_eq!(replay(&["--json"], &[&path]).status.code(), Some(0));
    let output = replay(&["--json", "--capacity", "768B"], &[&path]);
    assert_eq!(output.status.code(), Some(1));
    let row = &rows(&output)[0];
    assert_eq!((&row["failures"], &row["unknown_frees"]), (&1.into(), &0.into()));

    let table = replay(&["--capacity", "768"], &[&path]);
    assert_eq!(table.status.code(), Some(1));
    assert!(text(&table.stdout).contains("1 of its requests did not fit"), "{table:?}");
}

#[test]
fn unknown_frees_and_recorded_failures_are_shown_and_are_no_error() {
    let folder = Folder::new();
    let log = format!(
        "{SMALL}1,10:00:00.000005,free,0x999,8,0\n\
         1,10:00:00.000006,allocate failure,0x0,99999999,0\n"
    );
    let path = folder.file("odd.csv", log.as_bytes());
    let output = replay(&["--json"], &[&path]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let row = &rows(&output)[0];
    assert_eq!(row["operations"], 4);
    assert_eq!((&row["failures"], &row["unknown_frees"]), (&0.into(), &1.into()));
    assert_eq!(row["recorded_failures"], 1);

    let table = replay(&[], &[&path]);
    assert!(text(&table.stdout).contains("1 recorded failures"), "{table:?}");
    assert!(text(&table.stdout).contains("1 free of a pointer"), "{table:?}");
}

#[test]
fn damaged_traces_are_named_and_the_others_still_replayed() {
    let folder = Folder::new();
    let good = folder.file("good.csv", SMALL.as_bytes());
    let cut = SMALL.replace("0x300,300,0", "0x300");
    for (name, content, cause) in [
        ("damaged.csv", cut.as_bytes(), "line 5"),
        ("empty.csv", b"", "empty"),
        ("foreign.bin", b"\x7fELF", "neither"),
        ("cut.gz", b"\x1f\x8b\x08\x00", "gzip"),
    ] {
        let bad = folder.file(name, content);
        let output = replay(&["--json"], &[&bad, &good]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert_eq!(rows(&output).len(), 1, "{name}: the good one");
        let errors = text(&output.stderr);
        assert!(errors.contains(bad.to_str().unwrap()) && errors.contains(cause), "{errors}");
    }
    let missing = folder.0.path().join("missing.csv");
    let output = replay(&[], &[&missing]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("missing.csv"), "{output:?}");
}

#[test]
fn sizes_carry_units_and_nonsense_is_refused() {
    let folder = Folder::new();
    let path = folder.file("small.csv", SMALL.as_bytes());
    for (size, bytes) in [
        ("24GiB", 24_u64 << 30),
        ("1.5 MiB", 3 << 19),
        ("10kB", 9984), // whole granules of 10,000 bytes
        ("4096", 4096),
        ("1TiB", 1 << 40),
    ] {
        let output = replay(&["--json", "--capacity", size], &[&path]);
        assert_eq!(output.status.code(), Some(0), "{size}: {output:?}");
        assert_eq!(rows(&output)[0]["capacity_bytes"], bytes, "{size}");
    }
    for size in ["", "GiB", "-1", "12 parsecs", "1e400"] {
        let output = replay(&[&format!("--capacity={size}")], &[&path]);
        assert_eq!(output.status.code(), Some(2), "{size}: {output:?}");
    }
    // Well formed, but no range: an error that says so, not a panic.
    for size in ["0", "255", "2TiB", "99999999999EiB"] {
        let output = replay(&["--json", "--capacity", size], &[&path]);
        assert_eq!(output.status.code(), Some(1), "{size}: {output:?}");
        assert!(text(&output.stderr).contains("a capacity of"), "{size}: {output:?}");
    }
}

#[test]
fn the_granule_rounds_sizes() {
    let folder = Folder::new();
    let path = folder.file("small.csv", SMALL.as_bytes());
    let output = replay(&["--json", "--granule", "4KiB"], &[&path]);
    assert_eq!(rows(&output)[0]["peak_live_bytes"], 2 * 4096);
    for granule in ["0", "8", "100"] {
        assert_eq!(replay(&["--granule", granule], &[&path]).status.code(), Some(2), "{granule}");
    }
}

#[test]
fn sizes_past_everything_are_refused_without_a_panic() {
    let folder = Folder::new();
    let log = "Action,Pointer,Size,Stream\nallocate,0x100,18446744073709551615,0\n";
    let path = folder.file("huge.csv", log.as_bytes());
    let output = replay(&["--json"], &[&path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("a capacity of"), "{output:?}");
    let output = replay(&["--json", "--capacity", "1MiB"], &[&path]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(rows(&output)[0]["failures"], 1);
}

#[test]
fn without_a_trace_the_bundled_one_is_replayed_from_any_folder() {
    let folder = Folder::new();
    let output = Command::new(env!("CARGO_BIN_EXE_replay"))
        .args(["--json", "--placement", "all"])
        .current_dir(folder.0.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let rows = rows(&output);
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert!(row["trace"].as_str().unwrap().ends_with("multi_stream.csv.gz"));
        assert!(row["operations"].as_u64().unwrap() > 1000);
    }
}

/// Where the packed data of a page begins.
const DATA: &str = "<script type=\"text/plain\" id=\"history\">";

#[test]
fn a_report_is_written_for_each_trace_and_placement() {
    let folder = Folder::new();
    let small = folder.file("small.csv", SMALL);
    let html = folder.0.path().join("out.html");
    let html = html.to_str().unwrap();
    let page = |name: &str| std::fs::read_to_string(folder.0.path().join(name)).unwrap();

    let output = replay(&["--html", html], &[&small]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(page("out.html").contains("<title>small, best-fit</title>"));
    assert!(page("out.html").contains(DATA));

    let other = folder.file("other.csv.gz", SMALL);
    let output = replay(&["--html", html, "--placement", "all", "--json"], &[&small, &other]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(rows(&output).len(), 6);
    for name in ["small", "other"] {
        for placement in ["best-fit", "first-fit", "buddy"] {
            let title = format!("<title>{name}, {placement}</title>");
            assert!(page(&format!("out-{name}-{placement}.html")).contains(&title));
        }
    }

    let output = replay(&["--pool", "--html", html], &[&small]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(page("out.html").contains("<title>small, on a pool</title>"));
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    let small = folder.file("small.csv", SMALL);
    let html = folder.0.path().join("no such folder").join("out.html");
    for pool in [&["--pool"][..], &[]] {
        let arguments: Vec<_> =
            ["--html", html.to_str().unwrap()].iter().chain(pool).copied().collect();
        let output = replay(&arguments, &[&small]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(text(&output.stderr).contains("cannot write the report"), "{output:?}");
    }
}
