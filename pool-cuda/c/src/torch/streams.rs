//! Streams that are never destroyed, and how a stream is named to a pool.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use pool_core::{On, StreamId};
use pool_cuda::CudaStream;

use crate::calls::guarded;
use crate::code::{Code, Result};
use crate::device::DevicePool;
use crate::handle::StreamHandle;
use crate::library::{Library, Route, library};
use crate::thread;

/// The streams that were listed, and the ordinals of their devices.
#[derive(Debug, Default)]
pub(super) struct Listed(RwLock<BTreeMap<usize, usize>>);

impl Listed {
    fn ordinal(&self, handle: StreamHandle) -> Option<usize> {
        let listed = self.0.read().unwrap_or_else(PoisonError::into_inner);
        listed.get(&handle.raw().addr()).copied()
    }
}

/// Says which streams of a device are never destroyed, as those of PyTorch's own pool: the library may keep
/// them. The default streams need not be listed. What was listed before stays so.
///
/// 1 (invalid value): `streams` is null and `count` is not 0. 101 (invalid device).
///
/// # Safety
///
/// `streams` has so many. They are never destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_list_streams(
    device: c_int,
    streams: *const *mut c_void,
    count: usize,
) -> c_int {
    guarded(|| {
        let library = library()?;
        let ordinal = library.ordinal(device)?;
        if count == 0 {
            return Ok(());
        }
        if streams.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        let streams = unsafe { core::slice::from_raw_parts(streams, count) };
        let mut listed = library.torch().streams.0.write().unwrap_or_else(PoisonError::into_inner);
        for &stream in streams {
            let handle = StreamHandle::of(stream);
            if !handle.is_default() {
                listed.insert(handle.raw().addr(), ordinal);
            }
        }
        Ok(())
    })
}

/// A stream, as the pool of a device takes it.
#[derive(Clone, Debug)]
pub(super) enum Named {
    Known(StreamId),
    Raw(CudaStream),
    /// One that may be gone when something would have to be recorded in it.
    Nobody,
}

impl Named {
    pub(super) fn on(&self) -> On<'_, CudaStream> {
        match self {
            Self::Known(stream) => On::Stream(*stream),
            Self::Raw(stream) => On::Raw(stream),
            Self::Nobody => On::Nothing,
        }
    }
}

impl Named {
    /// A stream of the pool's own device.
    pub(super) fn own(
        library: &'static Library,
        pool: &'static DevicePool,
        handle: StreamHandle,
    ) -> Result<Self> {
        let stays = handle == StreamHandle::LEGACY
            || library.torch().streams.ordinal(handle) == Some(pool.device().ordinal() as usize);
        if !stays {
            return Ok(Self::Raw(handle.stream()));
        }
        let key = library.key(handle, pool);
        if let Some(seen) = thread::seen(key).filter(|seen| ptr::eq(seen.pool, pool))
            && pool.core.stream(seen.stream).is_some()
        {
            return Ok(Self::Known(seen.stream));
        }
        let known = pool.adopt(handle)?;
        thread::remember(key, pool, known);
        Ok(Self::Known(known.stream))
    }

    /// A stream of any device that has used memory of the pool's, and may be gone when that is freed. A
    /// default stream is the current context's.
    pub(super) fn any(
        library: &'static Library,
        pool: &'static DevicePool,
        handle: StreamHandle,
    ) -> Result<Self> {
        let of = if let Some(ordinal) = library.torch().streams.ordinal(handle) {
            library.pool(ordinal)?
        } else if handle.is_default() {
            match library.route(handle)? {
                Route::Known(of, _) | Route::PerThread(of) => of,
            }
        } else {
            return Self::passing(pool, handle);
        };
        if ptr::eq(of, pool) {
            Self::own(library, pool, handle)
        } else {
            Ok(Self::Raw(handle.stream_of(of.device())))
        }
    }

    /// One that nobody listed. A graph that it is captured into has to be told by it; else it may be
    /// destroyed before the memory is freed, and all work of the device stands for its.
    fn passing(pool: &DevicePool, handle: StreamHandle) -> Result<Self> {
        if pool.core.is_capturing() && pool.is_captured(handle)? {
            Ok(Self::Raw(handle.stream()))
        } else {
            Ok(Self::Nobody)
        }
    }
}
