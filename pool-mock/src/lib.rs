//! Recorded allocation logs, their replay, and reference models.
