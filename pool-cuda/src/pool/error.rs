//! What can go wrong with buffers.

use pool_core::PoolError;
use thiserror::Error;

use crate::error::CudaError;

/// A request that was refused, or a call that failed; nothing is changed by it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool refused: memory is short, for example.
    #[error(transparent)]
    Pool(Box<PoolError<CudaError>>),
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] CudaError),
    /// So many elements have more bytes than an address can name.
    #[error("{len} elements of {element_bytes} bytes are more than there can be")]
    TooLarge {
        /// The elements asked for.
        len: usize,
        /// The size of one in bytes.
        element_bytes: usize,
    },
    /// Two sides of a copy have different lengths.
    #[error("a copy from {from} elements to {to}")]
    Length {
        /// Elements of the source.
        from: usize,
        /// Elements of the destination.
        to: usize,
    },
    /// A part that is not there.
    #[error("elements {start} to {end} of a buffer of {len}")]
    Bounds {
        /// The first element asked for.
        start: usize,
        /// The first one behind the part.
        end: usize,
        /// The buffer's elements.
        len: usize,
    },
    /// The stream is of another pool: a buffer is allocated and freed on streams of its own, and not
    /// used on a thread's default stream of another context.
    #[error("the stream is of another pool")]
    OtherPool,
    /// The settings ask for granules that are too small: every buffer is aligned to 256 bytes.
    #[error("granules of {granule_bytes} bytes: on CUDA they have 256 or more")]
    Granule {
        /// The granule asked for.
        granule_bytes: u64,
    },
    /// Both sides of a copy name streams, and not the same one.
    #[error("the two sides of the copy are on different streams")]
    OtherStream,
    /// The stream is being captured: what the host gives or gets cannot become part of a graph.
    #[error("the stream is being captured, so the host cannot take part in the copy")]
    Captured,
}

impl From<PoolError<CudaError>> for Error {
    fn from(error: PoolError<CudaError>) -> Self {
        Self::Pool(Box::new(error))
    }
}

impl Error {
    /// The pool's own error, if it refused.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::PoolError;
    /// use pool_cuda::Error;
    ///
    /// let error = Error::from(PoolError::Poisoned);
    /// assert!(matches!(error.pool(), Some(PoolError::Poisoned)));
    /// ```
    #[must_use]
    pub fn pool(&self) -> Option<&PoolError<CudaError>> {
        match self {
            Self::Pool(error) => Some(error),
            _ => None,
        }
    }
}
