//! Why a log cannot be read.

use std::io;

/// Why a log cannot be read: what is wrong, and the line or byte where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file or reader failed.
    #[error("the log cannot be read")]
    Io {
        /// The failure.
        source: io::Error,
    },
    /// There are no bytes at all (after any gzip is undone).
    #[error("the log is empty")]
    Empty,
    /// The log has no events of the device asked for.
    #[error("the log has no events of device {device}")]
    NoSuchDevice {
        /// The device asked for.
        device: u32,
    },
}

impl LogError {
    pub(super) fn io(source: io::Error) -> Self {
        Self::Io { source }
    }
}
