//! What the oracle finds wrong.

use pool_core::{AllocError, ConfigError, EndError, HandleError, ResizeError, VerifyError};

use super::model::{Demand, Stretch};

/// The first place where a range and the model part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operation {operation} ({call}): {finding}")]
pub struct Discrepancy {
    /// Which operation, from 0; the number of operations for the final clean-up.
    pub operation: usize,
    /// The operation in words, sizes resolved.
    pub call: String,
    /// What is wrong.
    pub finding: Box<Finding>,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum Finding {
    #[error("construction was refused: {0}")]
    Construction(ConfigError),
    #[error("refused ({error}) though a free block serves it: {demand:?}, free {free:?}")]
    FalseRefusal { demand: Demand, error: AllocError, free: Vec<Stretch> },
    #[error("served at {block:?} though no free block holds it: {demand:?}, free {free:?}")]
    FalseSuccess { demand: Demand, block: Stretch, free: Vec<Stretch> },
    #[error("fits() said {answer} for {demand:?}, free {free:?}")]
    Fits { demand: Demand, answer: bool, free: Vec<Stretch> },
    #[error("fits() said {fits} but the request was answered {served}")]
    FitsAndAllocate { fits: bool, served: bool },
    #[error("visits() said {what}")]
    Visits { what: String },
    #[error("the block {block:?} overlaps a live block")]
    Overlap { block: Stretch },
    #[error(
        "the block at {offset_bytes} of {size_bytes} bytes is not on whole granules of the range"
    )]
    OffGranule { offset_bytes: u64, size_bytes: u64 },
    #[error("the block at {offset_bytes} is not aligned to {align_bytes}")]
    Misaligned { offset_bytes: u64, align_bytes: u64 },
    #[error("the block has {granules} granules, not {expected}")]
    WrongSize { granules: u64, expected: u64 },
    #[error("the block lies at {block:?}: {why}")]
    WrongPlace { block: Stretch, why: &'static str },
    #[error("the handle is one that is live already or was given out before")]
    HandleReused,
    #[error("answered {got:?}, expected {expected}")]
    WrongAllocError { got: AllocError, expected: &'static str },
    #[error("a live block was answered {0:?}")]
    LiveHandle(HandleError),
    #[error("a handle of no live block was accepted by {0}")]
    DeadHandle(&'static str),
    #[error("the block under a handle is {got}, not {expected}")]
    WrongBlock { got: String, expected: String },
    #[error("a resize was answered {got}, expected {expected}")]
    Resize { got: String, expected: String },
    #[error("an error about the handle came from {0:?}")]
    ResizeError(ResizeError),
    #[error("the end: answered {got}, expected {expected}")]
    End { got: String, expected: String },
    #[error("the end was refused: {0}")]
    EndError(EndError),
    #[error("the call failed or only looked, but the range is not as before: {what}")]
    StateChanged { what: String },
    #[error("spans: {what} ({extent:?})")]
    Spans { what: &'static str, extent: Stretch },
    #[error("{figure} is {got}, not {expected}")]
    Books { figure: &'static str, got: u64, expected: u64 },
    #[error("blocks() differs at piece {piece}: {got}, expected {expected}")]
    Blocks { piece: usize, got: String, expected: String },
    #[error("verify(): {0}")]
    Verify(VerifyError),
    #[error("the twin answered {twin}, the range {range}")]
    Twin { range: String, twin: String },
    #[error("metadata ran out ({error}) with {spare} nodes to spare")]
    FalseExhaustion { error: AllocError, spare: u64 },
    #[error("metadata ran out ({error}) at {live} live blocks, nodes_for({promised}) were given")]
    BrokenNodePromise { error: AllocError, live: u64, promised: u64 },
}
