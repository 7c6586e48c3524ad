//! Python calls every function of the library, and PyTorch's shim calls what it needs: the tests of the package
//! `pool_cuda_torch`, over the simulated driver.

#[expect(dead_code, reason = "no program in C is compiled")]
mod common;

use std::path::Path;
use std::process::Command;

/// Whether a program is there.
fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: there is no {program}");
    }
    found
}

#[test]
fn python_and_the_shim_call_the_library() {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    if !is_there("python3") || !is_there(&compiler) {
        return;
    }
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../torch/tests/run.py");
    let [library, driver] = common::libraries();
    let status = Command::new("python3").arg(tests).args([library, driver]).status().unwrap();
    assert!(status.success());
}
