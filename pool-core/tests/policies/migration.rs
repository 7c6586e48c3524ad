//! Blocks that are moved together.
