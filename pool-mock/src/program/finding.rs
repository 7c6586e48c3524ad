//! What a program found.

use std::fmt;

use pool_core::VerifyError;

use crate::device::{Balance, Violation};

/// Something that a pool must not do, and did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("after step {step}: {fault}")]
pub struct Finding {
    /// How many operations had been done.
    pub step: usize,
    /// What it did.
    pub fault: Fault,
}

/// What a pool did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum Fault {
    #[error("{}", Lines(.0))]
    Device(Vec<Violation>),
    #[error("a block at {offset_bytes} of range {range} lies over one at {other_bytes}")]
    Overlap { range: u64, offset_bytes: u64, other_bytes: u64 },
    #[error("{size_bytes} bytes for a request of {asked_bytes}")]
    TooSmall { size_bytes: u64, asked_bytes: u64 },
    #[error("an address of {address:#x} for an alignment of {align_bytes}")]
    Misaligned { address: u64, align_bytes: u64 },
    #[error("{figure} is {got}, not {expected}")]
    Books { figure: &'static str, got: u64, expected: u64 },
    #[error("{size_bytes} bytes refused ({refusal}), and served at once after")]
    NotFinal { size_bytes: u64, refusal: String },
    #[error("{size_bytes} bytes refused although nothing is live: {refusal}")]
    NeedlessRefusal { size_bytes: u64, refusal: String },
    #[error("{call}: {error}")]
    Unexpected { call: &'static str, error: String },
    #[error("verify: {0}")]
    Verify(VerifyError),
    #[error("left on the device: {0}")]
    Left(Balance),
}

struct Lines<'a>(&'a [Violation]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violations", self.0.len())?;
        self.0.iter().take(3).try_for_each(|one| write!(f, "\n  {one}"))
    }
}
