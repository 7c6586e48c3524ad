//! Buffers that the pool may move.

use core::fmt;
use core::marker::PhantomData;

use bytemuck::Pod;
use pool_core::{Movable, MovableGuard, On};

use super::access::{DeviceMut, DeviceRef};
use super::buffer::request_of;
use super::error::Error;
use super::stream::{Named, PoolStream};
use super::travels::{Travels, Use};
use crate::device::{CudaDevice, CudaStream};
use crate::process;
use crate::threads::CudaThreads;

/// A typed buffer that the pool may move while nobody has its address, to make room for a request
/// that fits nowhere: see [`Pool::allocate_movable`](pool_core::Pool::allocate_movable). It goes
/// back to the pool when this is dropped.
///
/// # Example
///
/// ```
/// # use pool_cuda::{CudaDevice, Driver};
/// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
/// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
/// # let device = CudaDevice::open_on(driver, 0)?;
/// let pool = pool_cuda::CudaPool::new(device, Default::default())?;
/// let stream = pool.create_stream()?;
/// let mut weights = pool.alloc_movable::<f32>(3, &stream)?;
/// weights.on_mut(&stream)?.get().copy_from(&[1.0, 2.0, 3.0])?;
/// // Here it may be moved.
/// assert_eq!(weights.on(&stream)?.get().to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), pool_cuda::Error>(())
/// ```
pub struct MovableBuffer<T> {
    stream: PoolStream,
    movable: Movable,
    len: usize,
    travels: Travels,
    elements: PhantomData<T>,
}

/// Holds a [`MovableBuffer`] where it is, for a use on a stream: until the work is queued.
#[must_use = "the buffer may be moved as soon as this is dropped"]
pub struct MovableUse<'b, G> {
    use_of: G,
    held: MovableGuard<'b, CudaDevice, CudaThreads>,
}

impl<T: Pod> MovableBuffer<T> {
    pub(super) fn new(len: usize, stream: &PoolStream) -> Result<Self, Error> {
        process::check()?;
        let request = request_of::<T>(len)?;
        let travels = Travels::from(stream)?;
        let parts = stream.parts();
        let movable = parts.core.allocate_movable(stream.named_to(parts)?.on(), request)?;
        Ok(Self { stream: stream.clone(), movable, len, travels, elements: PhantomData })
    }
}

impl<T> MovableBuffer<T> {
    /// How many elements it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn hold(
        &self,
        stream: &PoolStream,
        what: Use,
    ) -> Result<MovableGuard<'_, CudaDevice, CudaThreads>, Error> {
        process::check()?;
        let parts = self.stream.parts();
        // The pool notes the use by itself.
        let guard = |on: On<'_, CudaStream>| Ok(parts.core.guard(self.movable, on)?);
        let held = self.travels.note(parts, self.stream.name(), stream, guard)?;
        if !self.travels.is_empty() || !self.stream.is(stream) {
            self.travels.join(parts, self.stream.name(), stream, what, |_| Ok(()))?;
        }
        Ok(held)
    }

    /// To read it on a stream, as [`PoolBuffer::on`](super::PoolBuffer::on). It stays where it is
    /// as long as what is returned is held.
    ///
    /// # Errors
    ///
    /// As [`Pool::guard`](pool_core::Pool::guard), and [`PoolBuffer::on`](super::PoolBuffer::on).
    ///
    /// # Example
    ///
    /// See [`MovableBuffer`].
    pub fn on<'b>(
        &'b self,
        stream: &'b PoolStream,
    ) -> Result<MovableUse<'b, DeviceRef<'b, T>>, Error> {
        let held = self.hold(stream, Use::Read)?;
        let address = held.address().unwrap_or_default();
        // SAFETY: it is the buffer's memory, which stays there as long as it is held, and the use
        // is ordered and noted.
        let use_of = unsafe { DeviceRef::new(address, self.len, stream) };
        Ok(MovableUse { use_of, held })
    }

    /// To write it on a stream, or both; as [`on`](Self::on) and
    /// [`PoolBuffer::on_mut`](super::PoolBuffer::on_mut).
    ///
    /// # Errors
    ///
    /// As [`on`](Self::on).
    ///
    /// # Example
    ///
    /// See [`MovableBuffer`].
    pub fn on_mut<'b>(
        &'b mut self,
        stream: &'b PoolStream,
    ) -> Result<MovableUse<'b, DeviceMut<'b, T>>, Error> {
        let held = self.hold(stream, Use::Write)?;
        let address = held.address().unwrap_or_default();
        // SAFETY: as in `on`, and nobody else has it.
        let use_of = unsafe { DeviceMut::new(address, self.len, stream) };
        Ok(MovableUse { use_of, held })
    }
}

impl<'b, T> MovableUse<'b, DeviceRef<'b, T>> {
    /// The elements, as long as this is held.
    #[must_use]
    pub fn get(&self) -> DeviceRef<'_, T> {
        self.use_of
    }
}

impl<'b, T> MovableUse<'b, DeviceMut<'b, T>> {
    /// The elements, as long as this is held.
    #[must_use]
    pub fn get(&self) -> DeviceMut<'_, T> {
        self.use_of
    }
}

impl<G: fmt::Debug> fmt::Debug for MovableUse<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MovableUse").field(&self.use_of).field(&self.held.movable()).finish()
    }
}

impl<T> fmt::Debug for MovableBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovableBuffer")
            .field("len", &self.len)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for MovableBuffer<T> {
    fn drop(&mut self) {
        if !process::is_usable() {
            return;
        }
        let parts = self.stream.parts();
        // Its own pool knows its stream.
        let on = self.stream.named_to(parts).unwrap_or(Named::All);
        if let Err(error) = parts.core.free_movable(self.movable, on.on()) {
            // A guard that was leaked holds it for good; else another fence is behind it.
            let _ = parts.core.free_movable(self.movable, pool_core::On::Nothing);
            parts.note(error.into());
        }
    }
}
