//! The program `prometheus`: a pool's figures in Prometheus' text format.

use std::process::Command;

/// The value of a metric with these labels.
fn value(text: &str, metric: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(&format!("{metric} ")));
    let line = line.unwrap_or_else(|| panic!("no {metric} in\n{text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn figures_of_a_replay_are_there_with_units_and_descriptions() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/multi_stream.csv.gz");
    let run = Command::new(env!("CARGO_BIN_EXE_prometheus")).arg(trace).output().unwrap();
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stdout).unwrap();
    let reserved = value(&text, r#"device_pool_reserved_bytes{pool="replay"}"#);
    let live = value(&text, r#"device_pool_live_bytes{pool="replay"}"#);
    let peak = value(&text, r#"device_pool_label_peak_bytes{pool="replay",label="replay"}"#);
    // All that was allocated is freed, and was under one label.
    assert!(live == 0.0 && peak > 0.0 && peak <= reserved, "{text}");
    let requests = text.lines().filter(|line| line.starts_with("device_pool_requests_total{"));
    let sum: f64 =
        requests.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
    assert!((sum - 966.0).abs() < 0.5, "{sum} requests");
    for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(text.contains(&format!("# HELP {name} ")), "{name} is not described");
        let has_unit = ["_bytes", "_seconds", "_total"].iter().any(|unit| name.ends_with(unit));
        assert!(has_unit, "{name} has no unit");
    }
}

#[test]
fn without_a_trace_it_says_what_is_missing() {
    let run = Command::new(env!("CARGO_BIN_EXE_prometheus")).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&run.stderr).contains("name a trace"));
}
