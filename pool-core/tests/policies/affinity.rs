//! Blocks that go to those they were used by last.
