//! Programs in C, compiled against the header, linked to the library as firmware takes it, and run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// As the tests are to compile.
const STRICT: [&str; 6] = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"];

/// The library, built by itself in its own profile: no other package decides what is in it.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // A test lies in `TARGET/PROFILE/deps`.
        let test = std::env::current_exe().unwrap();
        let target = test.ancestors().nth(3).unwrap();
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--profile", "embedded", "--package", "pool-core-library"])
            .arg("--target-dir")
            .arg(target)
            .current_dir(HERE)
            .status()
            .unwrap();
        assert!(built.success());
        target.join("embedded/libpool_core.a")
    })
}

/// A compiler with the header at hand, and whether it took what it was given; none where there is no
/// compiler.
fn compile(compiler: &str, arguments: &[&str], files: &[&Path]) -> Option<bool> {
    let mut command = Command::new(compiler);
    command.args(arguments).arg("-I").arg(Path::new(HERE).join("include")).args(files);
    match command.status() {
        Ok(status) => Some(status.success()),
        Err(error) => {
            println!("skipped: there is no {compiler} ({error})");
            None
        }
    }
}

/// C's compiler.
fn cc() -> String {
    std::env::var("CC").unwrap_or_else(|_| "cc".into())
}

/// A file of the programs.
fn source(name: &str) -> PathBuf {
    Path::new(HERE).join("tests/program").join(name)
}

/// Compiles a program, links it to the library and runs it: what it says; none without a compiler.
fn run(sources: &[&str], arguments: &[&str]) -> Option<String> {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("program");
    let sources: Vec<PathBuf> = sources.iter().map(|name| source(name)).collect();
    let mut files: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    files.extend([library(), Path::new("-o"), &program]);
    let arguments: Vec<&str> = STRICT.iter().chain(arguments).copied().collect();
    assert!(compile(&cc(), &arguments, &files)?);
    let output = Command::new(&program).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}{failed}", output.status);
    println!("{said}");
    assert!(said.ends_with("all is well\n"), "{said}");
    Some(said)
}

#[test]
fn the_tests_pass_with_an_operating_system() {
    run(&["tests.c", "hosted.c"], &[]);
}

/// Where nothing is but what the program brings along.
const FREESTANDING: [&str; 6] = [
    "-ffreestanding",
    "-nostdlib",
    "-static",
    "-fno-stack-protector",
    // The program's memcpy would call memcpy.
    "-fno-tree-loop-distribute-patterns",
    "-Wl,--gc-sections",
];

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn the_tests_pass_without_one_and_on_a_small_stack() {
    let Some(said) = run(&["tests.c", "freestanding.c"], &FREESTANDING) else { return };
    let figures = said.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    let most: u32 = figures.max().unwrap();
    assert!((500..4096).contains(&most), "{most} bytes of stack");
}

#[test]
fn the_readmes_example_runs_and_is_this_one() {
    run(&["example.c", "example_main.c"], &[]);
    let readme = std::fs::read_to_string(Path::new(HERE).join("README.md")).unwrap();
    let example = std::fs::read_to_string(source("example.c")).unwrap();
    assert!(readme.contains(&format!("```c\n{example}```\n")));
}

#[test]
#[cfg(unix)]
fn damage_is_found_and_stops_at_worst() {
    run(&["damage.c"], &[]);
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn an_interrupt_may_come_after_any_instruction() {
    run(&["interrupts.c"], &[]);
}

/// C's types have the layout of Rust's on this machine, and on machines of 32 bits what has no
/// pointers in it has the same. `-malign-double` aligns 64 bits as Arm and RISC-V do.
#[test]
fn the_layout_is_the_same_in_c_and_on_machines_of_32_bits() {
    use pool_core_c::{Block, Config, Cursor, Damage, Lock, Request, Stats};

    macro_rules! layout {
        ($($type:ident as $name:literal { $($field:ident),+ })+) => {
            [$(
                format!("SAME(sizeof({}), {});\n", $name, size_of::<$type>()),
                $(format!(
                    "SAME(offsetof({}, {}), {});\n",
                    $name, stringify!($field), core::mem::offset_of!($type, $field),
                ),)+
            )+].concat()
        };
    }
    let everywhere = layout! {
        Block as "pool_range_block" { handle, offset_bytes, size_bytes }
        Request as "pool_range_request" {
            size_bytes, align_bytes, split_limit_bytes, options, reserved
        }
        Cursor as "pool_range_cursor" { offset_bytes, hint }
        Stats as "pool_range_stats" {
            capacity_bytes, live_bytes, peak_live_bytes, free_bytes, largest_free_bytes,
            live_blocks, entries, all_entries, spans
        }
    };
    let here = layout! {
        Config as "pool_range_config" {
            capacity_bytes, granule_bytes, span_bytes, small_bytes, placement, spans, handle_seed,
            tolerance_percent, lock
        }
        Lock as "pool_range_lock" { take, give, context }
        Damage as "pool_range_damage" { what, what_bytes, at }
    };
    let text = format!(
        "#include \"pool_core.h\"\n\
         #define SAME(a, b) _Static_assert((a) == (b), #a)\n\
         {everywhere}\
         SAME(sizeof(pool_range_error), 4);\n\
         SAME(sizeof(pool_range_placement), 4);\n\
         SAME(offsetof(pool_range_config, lock), 48);\n\
         SAME(sizeof(pool_range_lock), 3 * sizeof(void *));\n\
         #ifdef __LP64__\n\
         {here}\
         #endif\n"
    );
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("layout.c");
    std::fs::write(&file, text).unwrap();
    let mut arguments = STRICT.to_vec();
    arguments.extend(["-fsyntax-only", "-ffreestanding"]);
    let Some(same) = compile(&cc(), &arguments, &[&file]) else { return };
    assert!(same);
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    for narrow in [&["-m32"][..], &["-m32", "-malign-double"], &["-m32", "-fshort-enums"]] {
        let arguments = [&arguments[..], narrow].concat();
        assert_eq!(compile(&cc(), &arguments, &[&file]), Some(true), "{narrow:?}");
        for name in ["tests.c", "example.c"] {
            let taken = compile(&cc(), &arguments, &[&source(name)]);
            // Addresses of 32 bits are not converted from numbers of 64.
            assert_eq!(taken, Some(true), "{name} {narrow:?}");
        }
    }
}

#[test]
fn the_header_is_cplusplus_too() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("header.cpp");
    std::fs::write(&file, "#include \"pool_core.h\"\npool_range_error none = {};\n").unwrap();
    let arguments = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"];
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    assert_ne!(compile(&compiler, &arguments, &[&file]), Some(false));
}
