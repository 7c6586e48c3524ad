//! A program in C, compiled against the header and linked to the library, the shared one and the static
//! one, with a driver and without.
//! The driver is the simulated one, as a shared library of the real one's name.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The library, and the simulated driver, as they are built beside this test.
const PACKAGES: [(&str, &str); 2] = [
    ("pool-cuda-library", "libpool_cuda.so"),
    ("pool-mock-driver-library", "libsimulated_cuda.so"),
];

/// Builds the shared libraries by themselves, so that no other package decides what is in them.
fn libraries() -> [PathBuf; 2] {
    // A test lies in `TARGET/PROFILE/deps`.
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(2).unwrap();
    let target = folder.parent().unwrap();
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

/// Compiles the program against the header, with a library; none where there is no compiler.
fn compile(library: &Path, folder: &Path) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(library.extension().unwrap());
    let mut command = Command::new(&compiler);
    command
        .args(["-std=c11", "-Wall", "-Wextra", "-Wno-pedantic", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join("tests/program/program.c"))
        .arg(library)
        // The library looks up by its name what the program has of the runtime.
        .args(["-ldl", "-lpthread", "-lm", "-lgcc_s", "-rdynamic", "-o"])
        .arg(&program);
    match command.status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            println!("skipped: there is no C compiler ({compiler}: {error})");
            return None;
        }
    }
    Some(program)
}

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
    let drivers = folder.path().join("driver");
    std::fs::create_dir(&drivers).unwrap();
    std::os::unix::fs::symlink(&driver, drivers.join("libcuda.so.1")).unwrap();
    let beside = library.parent().unwrap();
    for library in [library.clone(), library.with_extension("a")] {
        let Some(program) = compile(&library, folder.path()) else { return };
        for conf in ["", "", "", "free_sync:1,pages:0,step:4MiB", "limit:1GiB,initial:32MiB"] {
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
