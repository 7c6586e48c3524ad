//! How much a pool takes, where, and when.
