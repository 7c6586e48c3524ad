//! Freed memory that rests.
