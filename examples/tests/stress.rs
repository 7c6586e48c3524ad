//! The stress program as a person or a script meets it: arguments, output, exit codes.

use std::process::{Command, Output};

fn stress(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stress")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> &str {
    str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn a_small_run_holds_and_says_where_the_time_went() {
    for more in [&[][..], &["--explicit", "--owners", "3"], &["--placement", "buddy"]] {
        let few = ["--threads", "4", "--operations", "2000", "--capacity", "16MiB"];
        let output = stress(&[&few, more].concat());
        assert!(output.status.success(), "{output:?}");
        let text = text(&output);
        assert_eq!(text.matches("everything held").count(), 2, "{text}");
        // As many frees as allocations.
        assert_eq!(text.matches("operations                 16000,").count(), 2, "{text}");
        for line in ["refused", "done by a cache alone", "locks that had to wait", "recalls"] {
            assert_eq!(text.matches(line).count(), 2, "{line} in {text}");
        }
    }
}

#[test]
fn odd_numbers_are_no_trouble() {
    for arguments in [
        &["--operations", "0"][..],
        &["--threads", "1", "--operations", "100", "--live", "0"],
        &["--threads", "2", "--operations", "500", "--largest", "1"],
        &["--threads", "2", "--operations", "500", "--largest", "64MiB", "--capacity", "1MiB"],
        &[
            "--threads",
            "2",
            "--operations",
            "500",
            "--cache",
            "0",
            "--shards",
            "0",
            "--owners",
            "0",
        ],
    ] {
        let output = stress(arguments);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn what_does_not_hold_is_exit_code_one() {
    let output = stress(&["--capacity", "100"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("FAILED: the configuration was refused"), "{output:?}");
}

#[test]
fn a_wrong_command_line_is_exit_code_two() {
    for arguments in [&["--threads", "0"][..], &["--capacity", "much"], &["--placement", "worst"]] {
        assert_eq!(stress(arguments).status.code(), Some(2));
    }
}
