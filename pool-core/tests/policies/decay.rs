//! Idle memory that goes back by itself.
