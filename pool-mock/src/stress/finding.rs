//! What a stress run finds wrong.

use pool_core::{ConfigError, HandleError, VerifyError};

/// The first thing that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum Finding {
    #[error("the configuration was refused: {0}")]
    Config(#[from] ConfigError),
    #[error("the granule at {offset_bytes} was given to {mark} while {other} holds it")]
    Overlap { offset_bytes: u64, mark: u64, other: u64 },
    #[error("the granule at {offset_bytes} belongs to {mark}, which frees it, and carries {other}")]
    Lost { offset_bytes: u64, mark: u64, other: u64 },
    #[error("a block at {offset_bytes} of {size_bytes} bytes is not in the range")]
    Outside { offset_bytes: u64, size_bytes: u64 },
    #[error("a block at {offset_bytes} is not aligned to {align_bytes}")]
    Misaligned { offset_bytes: u64, align_bytes: u64 },
    #[error("a block of {got} bytes for a request of {asked}")]
    Short { got: u64, asked: u64 },
    #[error("a live block was answered {0:?}")]
    Live(HandleError),
    #[error("a live block was answered as another one")]
    WrongBlock,
    #[error("the block at {offset_bytes} is not found by its offset")]
    NotFound { offset_bytes: u64 },
    #[error("a second free of a block was accepted")]
    SecondFree,
    #[error("a thread that holds nothing was refused {refusals} times in a row")]
    Starved { refusals: u64 },
    #[error("at the end {figure} is {got}, not {expected}")]
    Books { figure: &'static str, got: u64, expected: u64 },
    #[error("at the end the whole range is refused: {0}")]
    WholeRange(pool_core::AllocError),
    #[error("verify(): {0}")]
    Verify(#[from] VerifyError),
}
