//! What a pool's buffers and streams share.

use std::sync::{Mutex, OnceLock, PoisonError};

use pool_core::device::Failure;
use pool_core::{Handle, Pool, PoolError, Request, StreamId};

use super::error::Error;
use super::stream::{Name, PoolStream};
use crate::device::{CudaDevice, CudaStream};
use crate::error::CudaError;
use crate::process;

/// The pool below, and what came back from drops.
pub(crate) struct Parts {
    pub(crate) core: Pool<CudaDevice>,
    /// The legacy default stream, once somebody asked for it.
    pub(super) legacy: OnceLock<StreamId>,
    failure: Mutex<Option<Error>>,
}

impl Parts {
    pub(super) fn new(core: Pool<CudaDevice>) -> Self {
        Self { core, legacy: OnceLock::new(), failure: Mutex::new(None) }
    }

    /// Keeps what failed first where nobody could be told.
    #[cold]
    pub(super) fn note(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
    }

    pub(super) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Memory that is there at the first look for a buffer on a stream of this pool: its handle and
    /// its address, in registers.
    #[inline(never)]
    pub(super) fn hit(&self, stream: &PoolStream, request: &Request) -> (Option<Handle>, u64) {
        if let Name::Known(id) | Name::Lasting(id) = stream.name()
            && process::is_usable()
            && let Some(block) = self.core.hit_on(id, request)
        {
            // The device has addresses.
            return (Some(block.handle()), self.core.address(&block).unwrap_or_default());
        }
        (None, 0)
    }

    /// Memory for a buffer on a stream of this pool, after more than one look.
    #[inline(never)]
    pub(super) fn take(
        &self,
        stream: &PoolStream,
        request: Request,
    ) -> Result<(Handle, u64), Error> {
        process::check()?;
        let block = match stream.name() {
            Name::Known(id) | Name::Lasting(id) => self.core.allocate_on(id, request),
            Name::PerThread => self.core.allocate_on(&CudaStream::PER_THREAD, request),
        };
        let block = block?;
        Ok((block.handle(), self.core.address(&block).unwrap_or_default()))
    }

    /// Takes a buffer's memory back, behind what is queued on a stream of this pool. It serves
    /// again whatever fails.
    #[inline(never)]
    pub(super) fn give_back(&self, stream: &PoolStream, handle: Handle) {
        let freed = match stream.name() {
            Name::Known(id) | Name::Lasting(id) => self.core.free_on(id, handle),
            Name::PerThread => self.core.free_on(&CudaStream::PER_THREAD, handle),
        };
        if let Err(error) = freed {
            self.give_back_unordered(handle, error);
        }
    }

    /// Takes memory back when no fence could be recorded on its stream: it serves again behind all
    /// work of the device.
    #[cold]
    pub(super) fn give_back_unordered(&self, handle: Handle, error: PoolError<CudaError>) {
        if !matches!(error, PoolError::Handle(_)) {
            let _ = self.core.free(handle);
        }
        self.note(error.into());
    }
}

/// The error of a call of the device that was made without the pool.
pub(super) fn driver_error(failure: Failure<CudaError>) -> Error {
    match failure {
        Failure::Device(error) => Error::Driver(error),
        // The device has the calls that are made.
        _ => PoolError::Poisoned.into(),
    }
}
