//! The replay tool on plans of the traces themselves.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn replay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_replay")).args(arguments).output().unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_plan_needs_less_than_best_fit_and_departures_cost_it() {
    let gnn = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/gnn_train.csv.gz");
    let output = replay(&["--plan", "--json", "--perturb", "0,5", gnn.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    let planned = number(&row["planned_ratio"]);
    assert!((1.0..=1.03).contains(&planned), "{planned}");
    assert!(number(&row["best_fit_ratio"]) > 1.2, "{row}");
    assert_eq!((&row["streams"], &row["crossings"]), (&1.into(), &0.into()));
    let [same, other] = row["perturbed"].as_array().unwrap().as_slice() else { panic!("{row}") };
    assert_eq!(same["planned_ratio"], row["planned_ratio"]);
    assert_eq!(same["followed_ratio"], Value::from(1.0));
    assert!(number(&other["planned_ratio"]) > 1.1, "{other}");
    let followed = number(&other["followed_ratio"]);
    assert!((0.5..0.95).contains(&followed), "{followed}");
}

#[test]
fn the_smallest_range_is_beside_it_and_the_table_has_every_figure() {
    let output = replay(&["--plan", "--find-capacity", "--perturb", "1"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["multi_stream", "1.000x", "1.054x", "crossings", "1 % depart"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    for arguments in [
        &["--plan", "--pool"][..],
        &["--plan", "--shared"],
        &["--plan", "--capacity", "1GiB"],
        &["--plan", "--perturb", "101"],
        &["--perturb", "1"],
        &["--seed", "1"],
    ] {
        assert_eq!(replay(arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(replay(&["--plan", "no such file"]).status.code(), Some(1));
}
