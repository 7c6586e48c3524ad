//! The replay tool on the shared allocator: options, output, and faults that other replays had.

mod support;

use core::{fmt::Write as _, time::Duration};
use std::{
    io::Read,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Instant,
};

use serde_json::Value;
use support::Folder;

/// Thread 2 frees what thread 1 allocated; 3 granules at most live.
const SMALL: &str = "Thread,Time,Action,Pointer,Size,Stream\n\
                     1,10:00:00.000001,allocate,0x100,200,0\n\
                     1,10:00:00.000002,allocate,0x200,256,0\n\
                     2,10:00:00.000003,free,0x100,200,0\n\
                     1,10:00:00.000004,allocate,0x300,300,0\n\
                     2,10:00:00.000005,free,0x200,256,0\n\
                     2,10:00:00.000006,free,0x300,300,0\n";

/// What real threads decide, and what a clock says.
const VARYING: [&str; 9] = [
    "ns_per_operation",
    "operations_per_second",
    "in_cache",
    "magazines",
    "locks",
    "lock_waits",
    "retries",
    "recalls",
    "flushes",
];

/// What a run ended with: exit code, output, errors.
struct Run {
    code: Option<i32>,
    output: String,
    errors: String,
}

impl Run {
    /// The lines of JSON.
    fn rows(&self) -> Vec<Value> {
        self.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The only line of JSON of a run that went well.
    fn row(&self) -> Value {
        assert_eq!((self.code, self.errors.as_str()), (Some(0), ""), "{}", self.output);
        let rows = self.rows();
        assert_eq!(rows.len(), 1, "{}", self.output);
        rows.into_iter().next().unwrap()
    }
}

/// Runs the tool, which has a minute: a replay that hangs fails the test in place of hanging it.
fn replay(arguments: &[&str], traces: &[&Path]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_replay"))
        .args(arguments)
        .args(traces)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_mins(1) {
            child.kill().unwrap();
            panic!("the replay hangs: {arguments:?}");
        }
        thread::sleep(Duration::from_millis(10));
    };
    let (mut output, mut errors) = (String::new(), String::new());
    child.stdout.unwrap().read_to_string(&mut output).unwrap();
    child.stderr.unwrap().read_to_string(&mut errors).unwrap();
    Run { code: status.code(), output, errors }
}

/// A row without its figures that vary, and without the path.
fn steady(mut row: Value) -> Value {
    for field in VARYING.iter().chain(&["trace"]) {
        assert!(row.as_object_mut().unwrap().remove(*field).is_some(), "{field} in {row}");
    }
    row
}

/// So many blocks, a few at a time, of sizes that a cache keeps and does not; thread 2 frees what
/// thread 1 allocated.
fn many() -> String {
    let mut log = String::from("Thread,Time,Action,Pointer,Size,Stream\n");
    for number in 0..200_u64 {
        let size_bytes = 1 + number * number % 40_000;
        writeln!(log, "1,10:00:00.000000,allocate,{number:#x}00,{size_bytes},0").unwrap();
        if number >= 20 {
            writeln!(log, "2,10:00:00.000000,free,{:#x}00,0,0", number - 20).unwrap();
        }
    }
    log
}

#[test]
fn one_copy_gives_the_figures_of_the_program() {
    let folder = Folder::new();
    let path = folder.file("small.csv", SMALL);
    let row = replay(&["--json", "--shared", "--find-capacity"], &[&path]).row();
    assert_eq!(row["operations"], 6);
    assert_eq!(row["peak_live_bytes"], 3 * 256);
    assert!(row["min_capacity_bytes"].as_u64().unwrap() >= 3 * 256);
    assert!(row["ns_per_operation"].as_f64().unwrap() > 0.0);
    assert!(row["operations_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!((&row["threads"], &row["shards"]), (&1.into(), &16.into()));
    assert_eq!(row["cache_bytes"], 1 << 20);
    steady(row);
}

#[test]
fn copies_are_summed() {
    let folder = Folder::new();
    let path = folder.file("small.csv", SMALL);
    let options = ["--shared", "--threads", "5", "--shards", "2", "--cache-bytes", "256KiB"];
    let row = replay(&[&["--json"][..], &options].concat(), &[&path]).row();
    assert_eq!((&row["operations"], &row["peak_live_bytes"]), (&30.into(), &(15 * 256).into()));
    assert_eq!((&row["threads"], &row["shards"]), (&5.into(), &2.into()));
    assert_eq!(row["cache_bytes"], 256 << 10);

    // Each of the copies is refused what does not fit.
    let refused = replay(&[&["--json", "--capacity", "256"][..], &options].concat(), &[&path]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.rows()[0]["failures"].as_u64().unwrap() > 5, "{}", refused.output);

    let table = replay(&options, &[&path]);
    assert_eq!(table.code, Some(0), "{}", table.errors);
    for part in ["copies 5, shards 2, caches of 256.0 KiB", "in lockstep", "all copies together"] {
        assert!(table.output.contains(part), "{part} in {}", table.output);
    }
}

#[test]
fn without_caches_the_output_says_so() {
    let folder = Folder::new();
    let path = folder.file("small.csv", SMALL);
    let row = replay(&["--json", "--shared", "--cache-bytes", "0"], &[&path]).row();
    assert_eq!((&row["cache_bytes"], &row["in_cache"]), (&0.into(), &0.into()));
    let table = replay(&["--shared", "--cache-bytes", "0"], &[&path]);
    assert!(table.output.contains("no caches"), "{}", table.output);
    assert!(!table.output.contains("lockstep"), "of one copy: {}", table.output);
}

#[test]
fn what_needs_a_shared_allocator_is_refused_without() {
    for (option, values) in [
        ("--threads", ["2", "0", "1025", "-1", "many"]),
        ("--shards", ["2", "0", "33", "-1", ""]),
        ("--cache-bytes", ["1MiB", "-1", "", "1 parsec", "lots"]),
    ] {
        for (index, value) in values.into_iter().enumerate() {
            let argument = format!("{option}={value}");
            // The first value of each is good, but not without a shared allocator.
            let arguments = if index == 0 { vec![] } else { vec!["--shared"] };
            let run = replay(&[&arguments[..], &[&argument]].concat(), &[]);
            assert_eq!(run.code, Some(2), "{argument}: {}", run.output);
        }
    }
    let bare = replay(&["--json"], &[]).row();
    for field in ["threads", "shards", "cache_bytes", "in_cache"] {
        assert!(bare.get(field).is_none(), "{field} in {bare}");
    }
}

#[test]
fn copies_that_no_range_holds_are_an_error() {
    let folder = Folder::new();
    let log = "Action,Pointer,Size,Stream\nallocate,0x100,18446744073709551615,0\n";
    let path = folder.file("huge.csv", log);
    let run = replay(&["--json", "--shared", "--threads", "1024"], &[&path]);
    assert_eq!(run.code, Some(1));
    assert!(run.errors.contains("a capacity of"), "{}", run.errors);
    let options = ["--json", "--shared", "--threads", "3", "--capacity", "1MiB"];
    let run = replay(&options, &[&path]);
    assert_eq!(run.code, Some(1), "{}", run.errors);
    assert_eq!(run.rows()[0]["failures"], 3);
}

#[test]
fn p119_repetitions_on_threads_neither_hang_nor_change_a_figure() {
    let folder = Folder::new();
    let small = folder.file("small.csv", SMALL);
    let many = folder.file("many.csv", many());
    let options = ["--json", "--shared", "--threads", "4", "--shards", "3", "--find-capacity"];
    for path in [small.as_path(), &many] {
        // Each trace is replayed at least five times for its time alone.
        let runs = [replay(&options, &[path; 3]), replay(&options, &[path])];
        let rows: Vec<_> = runs.iter().flat_map(Run::rows).map(steady).collect();
        assert_eq!(rows.len(), 4, "{}", runs[0].errors);
        assert_eq!(rows[0]["failures"], 0, "{}", rows[0]);
        assert!(rows.iter().all(|row| *row == rows[0]), "{rows:#?}");
    }
}

#[test]
fn p120_what_several_threads_logged_is_replayed_in_the_order_of_events() {
    let folder = Folder::new();
    let lines = [
        "1,10:00:00.000001,allocate,0x100,200,0",
        "1,10:00:00.000002,allocate,0x200,256,0",
        "2,10:00:00.000003,free,0x100,200,0",
        "1,10:00:00.000004,allocate,0x100,300,0",
        "1,10:00:00.000005,allocate,0x300,64,0",
        "2,10:00:00.000006,free,0x300,64,0",
        "2,10:00:00.000007,free,0x100,300,0",
    ];
    let log = |order: [usize; 7]| {
        let lines = order.map(|index| lines[index]).join("\n");
        format!("Thread,Time,Action,Pointer,Size,Stream\n{lines}\n")
    };
    let ordered = folder.file("ordered.csv", log([0, 1, 2, 3, 4, 5, 6]));
    // Thread 2 was late to write its first free and early to write its second.
    let swapped = folder.file("swapped.csv", log([0, 1, 3, 2, 5, 4, 6]));
    for threads in ["1", "3"] {
        let options = ["--json", "--shared", "--threads", threads, "--find-capacity"];
        let expected = steady(replay(&options, &[&ordered]).row());
        let found = steady(replay(&options, &[&swapped]).row());
        assert_eq!(found, expected);
        assert_eq!((&found["failures"], &found["unknown_frees"]), (&0.into(), &0.into()));
    }
    let table = replay(&["--shared", "--threads", "3"], &[&swapped]);
    assert!(table.output.contains("In the log swapped.csv"), "{}", table.output);
}
