//! What the replay tool recommends for a second run, and the configurations that it reads.

use std::process::{Command, Output};

use serde_json::Value;

mod support;

use support::Folder;

fn replay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_replay")).args(arguments).output().unwrap()
}

fn row(arguments: &[&str]) -> Value {
    let output = replay(&[&["--pool", "--json"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Over all passes of a run.
fn sum(run: &Value, figure: &str) -> u64 {
    let passes = run["passes"].as_array().unwrap();
    passes.iter().map(|pass| pass[figure].as_u64().unwrap()).sum()
}

#[test]
fn the_second_run_has_no_growth_and_recommends_what_it_had() {
    let row = row(&["--advise", "--find-capacity", "--pacing", "idle,lag:64,eager,random:7"]);
    let smallest = number(&row["min_limit_bytes"]);
    let runs = row["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for runs in runs {
        let (first, second) = (&runs["first"], &runs["second"]);
        assert!(sum(first, "growths") >= 4, "{runs}");
        assert_eq!(sum(second, "growths"), 0, "{runs}");
        assert_eq!(sum(second, "arena_calls"), 0, "{runs}");
        assert_eq!(second["start_calls"], 1, "{runs}");
        for pass in second["passes"].as_array().unwrap() {
            let reserved = number(&pass["peak_reserved_bytes"]);
            assert!(reserved <= 1.35 * smallest, "{reserved} over {smallest}");
            assert_eq!(pass["failures"], 0);
        }
        assert_eq!(runs["stable"], true, "{runs}");
        assert_eq!(second["violations"].as_array().unwrap().len(), 0);
        let start = &runs["settings"]["preallocation"]["Bytes"];
        assert_eq!(start, &second["passes"][0]["peak_reserved_bytes"]);
        let why = runs["why"].as_array().unwrap();
        assert_eq!(why.len(), runs["reasons"].as_array().unwrap().len());
        assert!(why[0].as_str().unwrap().starts_with("preallocation: "), "{}", why[0]);
    }
}

#[test]
fn what_it_prints_is_what_it_reads() {
    let folder = Folder::new();
    let advised = row(&["--advise", "--pacing", "idle"]);
    let runs = &advised["runs"][0];
    let config = folder.file("config.json", runs["settings"].to_string());
    let config = config.to_str().unwrap();
    let replayed = row(&["--config", config, "--pacing", "idle"]);
    assert_eq!(replayed["peak_reserved_bytes"], runs["settings"]["preallocation"]["Bytes"]);
    for spent in replayed["device"].as_array().unwrap() {
        assert_eq!((&spent["growths"], &spent["allocations"]), (&0.into(), &0.into()));
    }
    // A first run under it has nothing to say.
    let again = row(&["--advise", "--config", config, "--pacing", "idle"]);
    assert_eq!(again["runs"][0]["reasons"].as_array().unwrap().len(), 0);
    assert_eq!(again["runs"][0]["settings"], runs["settings"]);
}

#[test]
fn people_get_the_configuration_the_reasons_and_a_table() {
    let output = replay(&["--pool", "--advise", "--pacing", "eager"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["\"preallocation\": {", "instead of nothing, since the pool grew", "again"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let json: String = text.lines().skip(1).take_while(|line| !line.starts_with("prea")).collect();
    let settings: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(settings["granule_bytes"], 256);
}

#[test]
fn a_configuration_may_name_some_values_and_none_that_there_is_not() {
    let folder = Folder::new();
    let read = |name: &str, content: &str| {
        let path = folder.file(name, content);
        let path = path.to_str().unwrap();
        let output = replay(&["--pool", "--json", "--pacing", "eager", "--config", path]);
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), errors, output.stdout)
    };
    let some =
        "{ \"preallocation\": { \"Bytes\": 600000000 }, \"growth\": { \"steps\": \"Doubling\" } }";
    let (code, _, out) = read("some.json", some);
    let row: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((code, &row["peak_reserved_bytes"]), (Some(0), &600_000_000.into()));
    for (content, says) in [
        ("{\n\n  \"cache_byte\": 1\n}", "unknown field `cache_byte`"),
        ("{\n\"growth\": {\n\"floor\": 1 } }", "unknown field `floor`"),
        ("{\n\n\"preallocation\": { \"AllBut\": { \"margin\": 1 } } }", "unknown field `margin`"),
        ("{\n\n\"cache_bytes\": -1 }", "invalid value"),
        ("{\n\n\"granule_bytes\" 1 }", "expected `:`"),
    ] {
        let (code, errors, _) = read("wrong.json", content);
        assert_eq!(code, Some(2), "{content}");
        assert!(errors.contains(says) && errors.contains("at line 3 column"), "{errors}");
    }
    let (code, errors, _) = read("granule.json", "{ \"granule_bytes\": 100 }");
    assert_eq!(code, Some(2));
    assert!(errors.contains("power of two"), "{errors}");
    let missing = replay(&["--pool", "--config", "no such file"]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn options_that_a_configuration_has_are_refused_beside_it() {
    let folder = Folder::new();
    let path = folder.file("empty.json", "{}");
    let path = path.to_str().unwrap();
    for more in [
        &["--pool", "--limit", "1GiB"][..],
        &["--pool", "--cache-bytes", "1MiB"],
        &["--pool", "--granule", "256"],
        &["--shared"],
        &[],
    ] {
        let output = replay(&[&["--config", path], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
    }
    assert_eq!(replay(&["--advise"]).status.code(), Some(2));
}
