//! The library and the simulated driver, built beside a test, and programs in C that are linked to them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The library, and the simulated driver, as they are built beside this test.
const PACKAGES: [(&str, &str); 2] = [
    ("pool-cuda-library", "libpool_cuda.so"),
    ("pool-mock-driver-library", "libsimulated_cuda.so"),
];

/// Builds the shared libraries by themselves, so that no other package decides what is in them.
pub(crate) fn libraries() -> [PathBuf; 2] {
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

/// Compiles a program against the header, with a library; none where there is no compiler.
pub(crate) fn compile(source: &str, library: &Path, folder: &Path) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.join(library.extension().unwrap());
    let mut command = Command::new(&compiler);
    command
        .args(["-std=c11", "-Wall", "-Wextra", "-Wno-pedantic", "-Werror", "-I"])
        .arg(here.join("include"))
        .arg(here.join("tests").join(source))
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

/// A folder that has the simulated driver by the real one's name.
pub(crate) fn drivers(driver: &Path, folder: &Path) -> PathBuf {
    let drivers = folder.join("driver");
    std::fs::create_dir(&drivers).unwrap();
    std::os::unix::fs::symlink(driver, drivers.join("libcuda.so.1")).unwrap();
    drivers
}
