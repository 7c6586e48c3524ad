//! Programs in C that were not built for the pool, with the library preloaded and without. The driver is
//! the simulated one, as a shared library of the real one's name.
//!
//! | kind of known fault | tests |
//! | --- | --- |
//! | invalid-free | `p009`, `p043`, `p101` |
//! | ipc | `p089` |

#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The library, and the simulated driver, as they are built beside this test.
const PACKAGES: [(&str, &str); 2] = [
    ("pool-cuda-preload", "libpool_cuda_preload.so"),
    ("pool-mock-driver-library", "libsimulated_cuda.so"),
];

/// What the programs need.
struct Bed {
    folder: TempDir,
    library: PathBuf,
    compiler: String,
}

impl Bed {
    /// One for all tests; none where there is no C compiler.
    fn get() -> Option<&'static Self> {
        static BED: OnceLock<Option<Bed>> = OnceLock::new();
        BED.get_or_init(Self::new).as_ref()
    }

    fn new() -> Option<Self> {
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        if let Err(error) = Command::new(&compiler).arg("--version").output() {
            println!("skipped: there is no C compiler ({compiler}: {error})");
            return None;
        }
        // A test lies in `TARGET/PROFILE/deps`.
        let test = std::env::current_exe().unwrap();
        let target = test.ancestors().nth(3).unwrap();
        let [library, driver] = PACKAGES.map(|(package, file)| {
            // By themselves, so that no other package decides what is in them.
            let built = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--package", package, "--target-dir"])
                .arg(target)
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status()
                .unwrap();
            assert!(built.success(), "{package}");
            target.join("debug").join(file)
        });
        let folder = TempDir::new().unwrap();
        std::os::unix::fs::symlink(driver, folder.path().join("libcuda.so.1")).unwrap();
        let bed = Self { folder, library, compiler };
        bed.compile("runtime.c", "libcudart.so.12", &["-shared", "-fPIC"]);
        bed.compile("wrapper.c", "libwrapper.so", &["-shared", "-fPIC"]);
        let wraps = ["-shared", "-fPIC", "-O2", "-DWRAPS_DLSYM"];
        bed.compile("wrapper.c", "liblookups.so", &wraps);
        Some(bed)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Compiles a file.
    fn compile(&self, source: &str, out: &str, arguments: &[&str]) -> PathBuf {
        let out = self.path(out);
        let compiled = Command::new(&self.compiler)
            .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-g", "-o"])
            .arg(&out)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source))
            .arg(format!("-L{}", self.folder.path().display()))
            .args(arguments)
            .args(["-ldl", "-lpthread"])
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        out
    }

    /// A program, with libraries preloaded.
    fn run_with(&self, program: &Path, arguments: &[&str], preloaded: &[&Path]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).env("LD_LIBRARY_PATH", self.folder.path());
        command.env_remove("PRELOADED").env_remove("LD_PRELOAD");
        if !preloaded.is_empty() {
            let paths: Vec<OsString> = preloaded.iter().map(|path| (*path).into()).collect();
            command.env("LD_PRELOAD", paths.join(std::ffi::OsStr::new(":")));
        }
        if preloaded.contains(&self.library.as_path()) {
            command.env("PRELOADED", "1").env("POOL_PRELOAD_REPORT", "1");
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {} {said}", output.status);
        assert_eq!(output.stdout, b"all is well\n", "{said}");
        output
    }

    /// A program without the library and with it; gives what that said at the end.
    fn run_both(&self, program: &Path, arguments: &[&str]) -> String {
        let output = self.run_with(program, arguments, &[]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let output = self.run_with(program, arguments, &[&self.library]);
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn every_way_to_look_a_function_up_leads_to_the_pool() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("lookups.c", "lookups", &[]);
    let ways =
        ["dlsym", "ptsz", "default", "dlvsym", "proc", "proc_ptsz", "proc_twice", "proc_old"];
    for way in ways {
        let said = bed.run_both(&program, &[way]);
        assert!(said.contains("512 allocations, 512 frees"), "{way}: {said}");
    }
}

#[test]
fn a_program_that_is_linked_to_the_driver_is_served_too() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("lookups.c", "direct", &["-DDIRECT", "-l:libcuda.so.1"]);
    for way in ["direct", "dlsym", "default", "proc"] {
        let said = bed.run_both(&program, &[way]);
        assert!(said.contains("512 allocations, 512 frees"), "{way}: {said}");
    }
}

#[test]
fn the_runtime_is_served_and_keeps_its_ways() {
    let Some(bed) = Bed::get() else { return };
    let linked = ["-DDIRECT", "-Wl,--no-as-needed", "-l:libcudart.so.12"];
    let programs = [
        bed.compile("runtime_user.c", "runtime-linked", &linked),
        bed.compile("runtime_user.c", "runtime-loaded", &[]),
    ];
    for program in programs {
        let said = bed.run_both(&program, &[]);
        assert!(said.contains("device 0: ") && said.contains("device 1: "), "{said}");
    }
}

#[test]
fn what_is_captured_is_the_drivers_and_what_a_graph_may_know_stays() {
    let Some(bed) = Bed::get() else { return };
    bed.run_both(&bed.compile("captures.c", "captures", &[]), &[]);
}

#[test]
fn p089_addresses_answer_for_their_blocks_and_have_no_handles_for_other_processes() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("queries.c", "queries", &[]);
    for device in ["0", "1"] {
        bed.run_both(&program, &[device]);
    }
}

#[test]
fn p009_p043_p101_wrong_frees_are_errors_and_either_free_takes_either_kind() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("faults.c", "faults", &[]);
    for device in ["0", "1"] {
        bed.run_both(&program, &[device]);
    }
}

#[test]
fn processes_fork_and_end_as_they_like() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("processes.c", "processes", &[]);
    for part in ["first", "fork", "kill", "reset"] {
        bed.run_with(&program, &[part], &[]);
    }
    // (What ends late is not the simulated driver's to serve, so there is no exit without the library.)
    for part in ["first", "fork", "exit", "kill", "reset"] {
        for _ in 0..10 {
            bed.run_with(&program, &[part], &[&bed.library]);
        }
    }
}

#[test]
fn another_preloaded_library_keeps_its_place() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("wrapped.c", "wrapped", &["-l:libcuda.so.1"]);
    let (wrapper, lookups) = (bed.path("libwrapper.so"), bed.path("liblookups.so"));
    for (place, preloaded) in [
        ("before", vec![wrapper.as_path()]),
        ("before", vec![&wrapper, &bed.library]),
        ("after", vec![&bed.library, &wrapper]),
        ("lookups", vec![&bed.library, &lookups]),
    ] {
        bed.run_with(&program, &[place], &preloaded);
    }
}

#[test]
fn streams_that_end_are_not_named_again() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("streams.c", "streams", &[]);
    // (The simulated driver's own pool does not wait for memory.)
    bed.run_with(&program, &[], &[&bed.library]);
}

#[test]
fn what_kernels_write_is_there_still() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("work.c", "work", &[]);
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../suite/src/kernels.ptx");
    for way in ["driver", "libcudart.so.12"] {
        for kind in ["plain", "async"] {
            bed.run_both(&program, &[kernels.to_str().unwrap(), "2000", kind, way]);
        }
    }
}

#[test]
fn a_mistake_in_the_environment_is_said_and_the_driver_serves() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("faults.c", "mistaken", &[]);
    let output = Command::new(program)
        .arg("0")
        .env("LD_LIBRARY_PATH", bed.folder.path())
        .env("LD_PRELOAD", &bed.library)
        .env("POOL_CONF", "limits:1GiB")
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"all is well\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("no pool").count(), 1, "{said}");
    assert!(said.contains("no key \"limits\"") && said.contains("free_sync"), "{said}");
}

#[test]
fn devices_use_each_others_memory_as_contexts_allow() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("peers.c", "peers", &[]);
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../suite/src/kernels.ptx");
    bed.run_both(&program, &[kernels.to_str().unwrap()]);
}

#[test]
fn the_script_runs_a_program_and_says_what_was_saved() {
    let Some(bed) = Bed::get() else { return };
    let program = bed.compile("faults.c", "run", &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("run");
    let output = Command::new(script)
        .arg(program)
        .arg("0")
        .env("LD_LIBRARY_PATH", bed.folder.path())
        .env("POOL_PRELOAD_LIBRARY", &bed.library)
        .env("PRELOADED", "1")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"all is well\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("pool-cuda-preload: device 0: "), "{said}");
}
