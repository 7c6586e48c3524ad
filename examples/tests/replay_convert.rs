//! `replay --convert`: from one kind of log to the other, by the name of the file.

mod support;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use pool_mock::Trace;
use serde_json::Value;
use support::Folder;

const LOG: &str = "Thread,Time,Action,Pointer,Size,Stream\n\
                   7,10:00:00.000001,allocate,0x7f0000000000,1000,0x5\n\
                   7,10:00:00.000002,free,0x7f0000000000,1000,0x5\n";

fn convert(trace: &Path, out: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_replay"));
    command.arg(trace).arg("--convert").arg(out).args(more).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

#[test]
fn a_log_goes_there_and_back_by_the_names_of_the_files() {
    let folder = Folder::new();
    let path = |name: &str| folder.0.path().join(name);
    let first = folder.file("log.csv", LOG);
    let mut trace = first;
    let expected = Trace::read(LOG.as_bytes()).unwrap().operations;
    for (name, start) in [
        ("a.pickle", &b"\x80\x04"[..]),
        ("b.pickle.gz", b"\x1f\x8b"),
        ("c.CSV.GZ", b"\x1f\x8b"),
        ("d.csv", b"Thread,"),
        ("e.pkl", b"\x80\x04"),
    ] {
        let out = path(name);
        let output = convert(&trace, &out, &[]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(text(&output.stdout).contains(": 2 entries, written to "), "{output:?}");
        assert!(fs::read(&out).unwrap().starts_with(start), "{name}");
        assert_eq!(Trace::open(&out).unwrap().operations, expected);
        trace = out;
    }
    assert_eq!(fs::read_to_string(path("d.csv")).unwrap(), LOG.replace("\n7,", "\n0,"));
}

#[test]
fn it_says_what_is_lost() {
    let folder = Folder::new();
    let log = folder.file("log.csv", LOG);
    let out = folder.0.path().join("out");
    let output = convert(&log, &out, &["--to", "snapshot"]);
    assert!(text(&output.stdout).contains("\n  lost: which of 1 threads called\n"), "{output:?}");
    let back = folder.0.path().join("back.csv");
    let output = convert(&out, &back, &["--json"]);
    let json: Value = serde_json::from_str(text(&output.stdout)).unwrap();
    assert_eq!((&json["entries"], &json["bytes"]), (&2.into(), &LOG.len().into()));
    let lost: Vec<_> = json["lost"].as_array().unwrap().iter().collect();
    assert_eq!(lost.len(), 3, "{json}");
}

#[test]
fn what_cannot_be_converted_is_left_alone() {
    let folder = Folder::new();
    let log = folder.file("log.csv", LOG);
    let out = folder.0.path().join("out.pickle");
    // No name that says as what, two logs, the log itself.
    for (trace, out, more, message) in [
        (&log, Path::new("out"), &[][..], "a name that ends in"),
        (&log, &*out, &["other.csv"], "one trace at a time"),
        (&log, &*log, &[], "it is the file to be written"),
        (&log, &out.join("nowhere.csv"), &[], "cannot be written"),
    ] {
        let output = convert(trace, out, more);
        assert_ne!(output.status.code(), Some(0));
        assert!(text(&output.stderr).contains(message), "{output:?}");
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), LOG);
    // Half a log is not left behind.
    let damaged = folder.file("damaged.csv", format!("{LOG}7,10:00:00.000003,allo"));
    for name in ["half.pickle", "half.csv.gz"] {
        let out = folder.0.path().join(name);
        let output = convert(&damaged, &out, &[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("line 4"), "{output:?}");
        assert!(!out.exists());
    }
}
