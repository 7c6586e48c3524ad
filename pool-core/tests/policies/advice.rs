//! What a run tells the next one.
