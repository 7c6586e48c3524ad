//! What only another process can show: its end, and a fork.
use std::process::ExitCode;
use crate::bed::Bed;
use crate::run::Test;
pub(crate) const TESTS: &[Test] = crate::tests![];
pub(crate) fn run(_bed: &'static dyn Bed) -> Option<ExitCode> { None }
