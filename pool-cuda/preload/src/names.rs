//! The functions that are served, by their names.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use crate::{entry, loader, memory, others, queries, runtime, stream};

/// One of this library's functions, by the name that the driver or the runtime exports it under.
struct Served {
    name: &'static CStr,
    function: *const c_void,
}

// SAFETY: the address of a function is the same for all threads.
unsafe impl Sync for Served {}

/// Lists functions of some modules.
macro_rules! served {
    ($($module:ident: $($name:ident)*;)*) => {
        &[$($(Served {
            name: {
                const NAME: &str = concat!(stringify!($name), "\0");
                match CStr::from_bytes_with_nul(NAME.as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name holds no zero byte"),
                }
            },
            function: $module::$name as *const c_void,
        },)*)*]
    };
}

/// All of them.
static SERVED: &[Served] = served! {
    memory:
        cuMemAlloc_v2 cuMemFree_v2 cuMemAllocAsync cuMemAllocAsync_ptsz cuMemFreeAsync
        cuMemFreeAsync_ptsz cuDeviceSetMemPool;
    others:
        cuMemAllocPitch_v2 cuMemAllocManaged cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync_ptsz
        cuMemCreate cuArrayCreate_v2 cuArray3DCreate_v2 cuMipmappedArrayCreate;
    queries:
        cuMemGetInfo_v2 cuMemGetAddressRange_v2 cuPointerGetAttribute cuPointerGetAttributes
        cuIpcGetMemHandle;
    stream:
        cuStreamBeginCapture cuStreamBeginCapture_ptsz cuStreamBeginCapture_v2
        cuStreamBeginCapture_v2_ptsz cuStreamBeginCaptureToGraph cuStreamBeginCaptureToGraph_ptsz
        cuStreamEndCapture cuStreamEndCapture_ptsz cuStreamDestroy_v2 cuCtxEnablePeerAccess
        cuDevicePrimaryCtxReset_v2;
    entry:
        cuGetProcAddress cuGetProcAddress_v2 cuGetProcAddress_v2_ptsz cudaGetDriverEntryPoint
        cudaGetDriverEntryPoint_ptsz cudaGetDriverEntryPointByVersion
        cudaGetDriverEntryPointByVersion_ptsz;
    runtime:
        cudaMalloc cudaFree cudaMallocAsync cudaMallocAsync_ptsz cudaFreeAsync cudaFreeAsync_ptsz;
};

/// This library's function of a name.
pub(crate) fn served(name: &CStr) -> Option<*mut c_void> {
    // Most names that are looked up in a process begin otherwise.
    if !name.to_bytes().starts_with(b"cu") {
        return None;
    }
    let found = SERVED.iter().find(|served| served.name == name)?;
    Some(found.function.cast_mut())
}

/// Whether a name is one of the runtime's, and else of the driver's.
pub(crate) fn is_runtimes(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"cuda")
}

/// What `cuGetProcAddress` finds by a name without a version: from which version of CUDA on it means
/// which function, and which one where each thread has a default stream.
struct Entry {
    name: &'static CStr,
    since: c_int,
    legacy: &'static CStr,
    per_thread: &'static CStr,
}

const fn entry(
    name: &'static CStr,
    since: c_int,
    legacy: &'static CStr,
    per_thread: &'static CStr,
) -> Entry {
    Entry { name, since, legacy, per_thread }
}

/// The same either way.
const fn one(name: &'static CStr, since: c_int, function: &'static CStr) -> Entry {
    entry(name, since, function, function)
}

/// Later ones of a name after earlier ones.
static ENTRIES: &[Entry] = &[
    one(c"cuMemAlloc", 3020, c"cuMemAlloc_v2"),
    one(c"cuMemFree", 3020, c"cuMemFree_v2"),
    entry(c"cuMemAllocAsync", 11020, c"cuMemAllocAsync", c"cuMemAllocAsync_ptsz"),
    entry(c"cuMemFreeAsync", 11020, c"cuMemFreeAsync", c"cuMemFreeAsync_ptsz"),
    one(c"cuDeviceSetMemPool", 11020, c"cuDeviceSetMemPool"),
    one(c"cuMemAllocPitch", 3020, c"cuMemAllocPitch_v2"),
    one(c"cuMemAllocManaged", 6000, c"cuMemAllocManaged"),
    entry(
        c"cuMemAllocFromPoolAsync",
        11020,
        c"cuMemAllocFromPoolAsync",
        c"cuMemAllocFromPoolAsync_ptsz",
    ),
    one(c"cuMemCreate", 10020, c"cuMemCreate"),
    one(c"cuArrayCreate", 3020, c"cuArrayCreate_v2"),
    one(c"cuArray3DCreate", 3020, c"cuArray3DCreate_v2"),
    one(c"cuMipmappedArrayCreate", 5000, c"cuMipmappedArrayCreate"),
    one(c"cuMemGetInfo", 3020, c"cuMemGetInfo_v2"),
    one(c"cuMemGetAddressRange", 3020, c"cuMemGetAddressRange_v2"),
    one(c"cuPointerGetAttribute", 4000, c"cuPointerGetAttribute"),
    one(c"cuPointerGetAttributes", 7000, c"cuPointerGetAttributes"),
    one(c"cuIpcGetMemHandle", 4010, c"cuIpcGetMemHandle"),
    entry(c"cuStreamBeginCapture", 10000, c"cuStreamBeginCapture", c"cuStreamBeginCapture_ptsz"),
    entry(
        c"cuStreamBeginCapture",
        10010,
        c"cuStreamBeginCapture_v2",
        c"cuStreamBeginCapture_v2_ptsz",
    ),
    entry(
        c"cuStreamBeginCaptureToGraph",
        12030,
        c"cuStreamBeginCaptureToGraph",
        c"cuStreamBeginCaptureToGraph_ptsz",
    ),
    entry(c"cuStreamEndCapture", 10000, c"cuStreamEndCapture", c"cuStreamEndCapture_ptsz"),
    one(c"cuStreamDestroy", 4000, c"cuStreamDestroy_v2"),
    one(c"cuCtxEnablePeerAccess", 4000, c"cuCtxEnablePeerAccess"),
    one(c"cuDevicePrimaryCtxReset", 11000, c"cuDevicePrimaryCtxReset_v2"),
    one(c"cuGetProcAddress", 11030, c"cuGetProcAddress"),
    entry(c"cuGetProcAddress", 12000, c"cuGetProcAddress_v2", c"cuGetProcAddress_v2_ptsz"),
];

/// This library's function for what `cuGetProcAddress` has found by a name; null if it has none, or the driver
/// has none under the name by which that would be called.
pub(crate) fn entry_of(name: &CStr, version: c_int, is_per_thread: bool) -> *mut c_void {
    let fits = |entry: &&Entry| entry.name == name && entry.since <= version;
    let Some(entry) = ENTRIES.iter().rev().find(fits) else { return ptr::null_mut() };
    let function = if is_per_thread { entry.per_thread } else { entry.legacy };
    // Of those that find others all forms call one.
    let is_there = entry.is_finder() || !loader::in_driver(function).is_null();
    served(function).filter(|_| is_there).unwrap_or(ptr::null_mut())
}

impl Entry {
    fn is_finder(&self) -> bool {
        self.name == c"cuGetProcAddress"
    }
}
