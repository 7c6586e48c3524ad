use crate::run::Test; pub(crate) const TESTS: &[Test] = crate::tests![];
