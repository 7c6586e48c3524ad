//! The header is what the code says. `UPDATE_HEADER=1` writes it anew. A test of each library for
//! programs in C, `pool-cuda/c` too.

use std::path::Path;

/// As cbindgen makes it, without what Rust is promised of pointers: in C that goes without saying.
fn header(root: &Path) -> String {
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings =
        cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let mut lines: Vec<&str> = Vec::new();
    let mut is_promise = false;
    for line in made.lines() {
        is_promise |= line == " * # Safety";
        is_promise &= line != " */";
        if is_promise {
            continue;
        }
        if line == " */" && lines.last() == Some(&" *") {
            lines.pop();
        }
        lines.push(line);
    }
    lines.join("\n").trim_start().to_owned() + "\n"
}

#[test]
fn the_header_is_what_the_code_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = std::fs::read_dir(root.join("include")).unwrap();
    let file = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "a library has one header");
    let made = header(root);
    if std::env::var_os("UPDATE_HEADER").is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap();
    let package = env!("CARGO_PKG_NAME");
    assert!(there == made, "run `UPDATE_HEADER=1 cargo test -p {package} --test header`");
}
