//! A process that forks, exits with live blocks, or is killed: it ends, and as it should.

use core::time::Duration;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use tempfile::TempDir;

use common::{compile, drivers, libraries};

#[path = "../common/mod.rs"]
mod common;

/// How often each is done.
const TIMES: usize = 100;

/// None that ends takes nearly so long.
const LONG: Duration = Duration::from_mins(1);

/// Runs it to its end; none if there is none.
fn end(program: &Path, how: &str, paths: &[&Path]) -> Option<ExitStatus> {
    let paths = std::env::join_paths(paths).unwrap();
    let mut process = Command::new(program).arg(how).env("LD_LIBRARY_PATH", paths).spawn().unwrap();
    let start = Instant::now();
    while start.elapsed() < LONG {
        if let Some(status) = process.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    None
}

#[test]
fn p125_processes_fork_exit_and_are_killed_without_a_crash_or_a_hang() {
    let [library, driver] = libraries();
    let folder = TempDir::new().unwrap();
    let drivers = drivers(&driver, folder.path());
    let beside = library.parent().unwrap();
    let Some(program) = compile("ends/ends.c", &library, folder.path()) else { return };
    for how in ["fork", "exit", "kill"] {
        for round in 0..TIMES {
            let status = end(&program, how, &[&drivers, beside]);
            let status = status.unwrap_or_else(|| panic!("{how}, {round}: it hangs"));
            if how == "kill" {
                use std::os::unix::process::ExitStatusExt;
                assert_eq!(status.signal(), Some(libc::SIGKILL), "{how}, {round}: {status}");
            } else {
                assert!(status.success(), "{how}, {round}: {status}");
            }
        }
    }
}
