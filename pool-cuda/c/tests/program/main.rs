//! A program in C, compiled against the header and linked to the library, the shared one and the static
//! one, with a driver and without.
//! The driver is the simulated one, as a shared library of the real one's name.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use common::{compile, drivers, libraries};

#[path = "../common/mod.rs"]
mod common;

fn run(program: &Path, paths: &[&Path], conf: &str) -> String {
    let paths = std::env::join_paths(paths).unwrap();
    let mut command = Command::new(program);
    let output = command.env("LD_LIBRARY_PATH", paths).env("POOL_CONF", conf).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_program_in_c_runs_with_a_driver_and_without() {
    let [library, driver] = libraries();
    let folder = TempDir::new().unwrap();
    let drivers = drivers(&driver, folder.path());
    let beside = library.parent().unwrap();
    for library in [library.clone(), library.with_extension("a")] {
        let Some(program) = compile("program/program.c", &library, folder.path()) else { return };
        for conf in ["", "", "", "free_sync:1,pages:0,step:4MiB", "limit:1GiB,initial:2MiB"] {
            assert_eq!(run(&program, &[&drivers, beside], conf), "all is well\n", "{conf}");
        }
        let said = run(&program, &[&drivers, beside], "limit:1GiB,no_such_key:3");
        assert!(
            said.contains("no key \"no_such_key\"") && said.contains("\n  free_sync:"),
            "{said}"
        );
        if pool_cuda::Driver::system().is_ok() {
            println!("there is a driver here, so nothing is run without one");
            continue;
        }
        assert_eq!(run(&program, &[beside], ""), "no driver\n");
    }
}
