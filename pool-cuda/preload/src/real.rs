//! The driver's own functions, called by addresses from its library's handle.

use core::ffi::{c_char, c_int, c_uint, c_void};

use crate::{foreign, loader};

/// A `CUstream`, `CUcontext`, `CUgraph` or `CUmemoryPool`.
pub(crate) type Handle = *mut c_void;

foreign::functions! { loader::in_driver;
    cuMemAlloc_v2(address: *mut u64, bytes: usize);
    cuMemFree_v2(address: u64);
    cuMemAllocAsync(address: *mut u64, bytes: usize, stream: Handle);
    cuMemAllocAsync_ptsz(address: *mut u64, bytes: usize, stream: Handle);
    cuMemFreeAsync(address: u64, stream: Handle);
    cuMemFreeAsync_ptsz(address: u64, stream: Handle);
    cuMemAllocPitch_v2(
        address: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint
    );
    cuMemAllocManaged(address: *mut u64, bytes: usize, flags: c_uint);
    cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: Handle, stream: Handle);
    cuMemAllocFromPoolAsync_ptsz(address: *mut u64, bytes: usize, pool: Handle, stream: Handle);
    cuMemCreate(pages: *mut u64, bytes: usize, properties: *const c_void, flags: u64);
    cuArrayCreate_v2(array: *mut Handle, description: *const c_void);
    cuArray3DCreate_v2(array: *mut Handle, description: *const c_void);
    cuMipmappedArrayCreate(array: *mut Handle, description: *const c_void, levels: c_uint);
    cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    cuMemGetAddressRange_v2(start: *mut u64, bytes: *mut usize, address: u64);
    cuPointerGetAttribute(data: *mut c_void, attribute: c_int, address: u64);
    cuPointerGetAttributes(
        count: c_uint, attributes: *const c_int, data: *const *mut c_void, address: u64
    );
    cuIpcGetMemHandle(handle: *mut c_void, address: u64);
    cuStreamBeginCapture(stream: Handle);
    cuStreamBeginCapture_ptsz(stream: Handle);
    cuStreamBeginCapture_v2(stream: Handle, mode: c_int);
    cuStreamBeginCapture_v2_ptsz(stream: Handle, mode: c_int);
    cuStreamBeginCaptureToGraph(
        stream: Handle, graph: Handle, dependencies: *const Handle, edges: *const c_void,
        count: usize, mode: c_int
    );
    cuStreamBeginCaptureToGraph_ptsz(
        stream: Handle, graph: Handle, dependencies: *const Handle, edges: *const c_void,
        count: usize, mode: c_int
    );
    cuStreamEndCapture(stream: Handle, graph: *mut Handle);
    cuStreamEndCapture_ptsz(stream: Handle, graph: *mut Handle);
    cuStreamIsCapturing(stream: Handle, status: *mut c_int);
    cuStreamDestroy_v2(stream: Handle);
    cuCtxEnablePeerAccess(peer: Handle, flags: c_uint);
    cuDevicePrimaryCtxReset_v2(device: c_int);
    cuDeviceGetDefaultMemPool(pool: *mut Handle, device: c_int);
    cuDeviceSetMemPool(device: c_int, pool: Handle);
    cuGetProcAddress(
        name: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64
    );
    cuGetProcAddress_v2(
        name: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64,
        status: *mut c_int
    );
}
