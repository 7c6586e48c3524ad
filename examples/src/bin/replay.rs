//! Replays recorded allocation logs.
fn main() {}
