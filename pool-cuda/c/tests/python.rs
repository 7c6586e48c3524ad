//! Python calls every function of the library, and PyTorch's shim calls what it needs: the tests of the package
//! `pool_cuda_torch`, over the simulated driver.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library, and the simulated driver, as they are built beside this test.
const PACKAGES: [(&str, &str); 2] = [
    ("pool-cuda-library", "libpool_cuda.so"),
    ("pool-mock-driver-library", "libsimulated_cuda.so"),
];

/// Builds the shared libraries by themselves, so that no other package decides what is in them.
fn libraries() -> [PathBuf; 2] {
    // A test lies in `TARGET/PROFILE/deps`.
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    PACKAGES.map(|(package, file)| {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", package, "--target-dir"])
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(built.success(), "{package}");
        target.join("debug").join(file)
    })
}

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
    let [library, driver] = libraries();
    let status = Command::new("python3").arg(tests).args([library, driver]).status().unwrap();
    assert!(status.success());
}
