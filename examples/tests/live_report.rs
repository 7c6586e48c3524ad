//! The program `live_report`: the page of a pool at work.

use std::process::{Command, Output};
use std::{fs, path::Path};

fn run(out: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_live_report")).arg(out).args(arguments).output().unwrap()
}

#[test]
fn a_page_is_written_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report.html");
    let run = run(&out, &["--steps", "3"]);
    assert!(run.status.success(), "{run:?}");
    let page = fs::read_to_string(&out).unwrap();
    assert!(page.contains("<title>something small is trained"), "{}", &page[..200]);
}

#[test]
fn a_page_is_written_when_a_request_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("report.html");
    let run = run(&out, &["--limit", "260"]);
    assert_eq!(run.status.code(), Some(1));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("out of memory") && said.contains("see "), "{said}");
    assert!(fs::read_to_string(&out).unwrap().contains("bytes were refused"));
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(&folder.path().join("nowhere/report.html"), &["--steps", "1"]);
    assert_eq!(run.status.code(), Some(1));
}
