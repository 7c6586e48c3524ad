//! Buffers of a pool that cudarc takes as its own slices.

use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{
    CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, LaunchArgs, PushKernelArg, SyncOnDrop, sys,
};
use pool_cuda::{CudaPool, Error, PoolBuffer, PoolStream};

/// Gives out slices on one stream of cudarc's.
#[derive(Debug)]
pub(crate) struct SliceSource {
    pool: CudaPool,
    stream: Arc<CudaStream>,
    /// The same stream as the pool knows it.
    adopted: PoolStream,
}

/// Elements of a pool, on a stream of cudarc's. They go back when this is dropped, behind what is
/// queued on the stream, without a wait.
#[derive(Debug)]
pub(crate) struct PoolSlice<T> {
    buffer: PoolBuffer<T>,
    address: u64,
    stream: Arc<CudaStream>,
}

impl SliceSource {
    /// The pool adopts the stream, and keeps it alive as long as it has to do with it.
    pub(crate) fn new(pool: &CudaPool, stream: &Arc<CudaStream>) -> Result<Self, Error> {
        // SAFETY: the stream is of the device's primary context, as is the pool, and lasts as long
        // as its owner.
        let adopted = unsafe { pool.adopt_raw(stream.cu_stream().cast(), Arc::clone(stream)) }?;
        Ok(Self { pool: pool.clone(), stream: Arc::clone(stream), adopted })
    }

    /// A slice with whatever was there before.
    pub(crate) fn alloc<T: Pod>(&self, len: usize) -> Result<PoolSlice<T>, Error> {
        let buffer = self.pool.alloc(len, &self.adopted)?;
        let address = buffer.on(&self.adopted)?.address();
        Ok(PoolSlice { buffer, address, stream: Arc::clone(&self.stream) })
    }
}

impl<T> PoolSlice<T> {
    /// The address for work on a stream. The slice's own stream is in order by itself. Another
    /// one waits for it, and the host for the other one once the work is queued: what the slice's
    /// stream does next, and the free, come after it. (Where that is too slow, the pool adopts both
    /// streams, and the buffer is used [on](PoolBuffer::on) either.)
    fn on<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        if *stream == *self.stream {
            return (self.address, SyncOnDrop::record_event(&None, stream));
        }
        // cudarc tells of it in its next call.
        stream.context().record_err(stream.join(&self.stream));
        (self.address, SyncOnDrop::sync_stream(stream))
    }
}

impl<T> DeviceSlice<T> for PoolSlice<T> {
    fn len(&self) -> usize {
        self.buffer.len()
    }

    fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }
}

impl<T> DevicePtr<T> for PoolSlice<T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        self.on(stream)
    }
}

impl<T> DevicePtrMut<T> for PoolSlice<T> {
    fn device_ptr_mut<'a>(
        &'a mut self,
        stream: &'a CudaStream,
    ) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        self.on(stream)
    }
}

// SAFETY: what the kernel is given is the address, which lives as long as the borrow. That the launch
// is on the slice's own stream is for whoever launches, which is unsafe.
unsafe impl<'a, 'b: 'a, T> PushKernelArg<&'b PoolSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, slice: &'b PoolSlice<T>) -> &mut Self {
        self.arg(&slice.address)
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, T> PushKernelArg<&'b mut PoolSlice<T>> for LaunchArgs<'a> {
    fn arg(&mut self, slice: &'b mut PoolSlice<T>) -> &mut Self {
        self.arg(&slice.address)
    }
}
