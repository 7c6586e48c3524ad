//! The driver's functions that are measured beside the pool, or that a program with kernels of its
//! own needs: declared here, since the pool gives its own calls to nobody.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

use libloading::Library;
use pool_cuda::PoolStream;

use crate::Result;

/// The driver's opaque pointers.
type Handle = *mut c_void;

/// Keeps what a pool of the driver's has when nothing is allocated from it.
const RELEASE_THRESHOLD: c_int = 4;

/// An event without a time.
const DISABLE_TIMING: c_uint = 2;

/// The driver's answer about an event that has not passed.
const NOT_READY: c_int = 600;

/// Declares the table and how it is filled.
macro_rules! functions {
    ($($method:ident = $name:literal ($($kind:ty),*);)*) => {
        struct Functions {
            $($method: unsafe extern "C" fn($($kind),*) -> c_int,)*
            record_context: Option<unsafe extern "C" fn(Handle, Handle) -> c_int>,
        }

        impl Functions {
            /// Fills the table from the driver's library.
            fn find(library: &Library) -> Result<Self> {
                // SAFETY: the prototypes are those of the driver's functions of these names.
                unsafe {
                    Ok(Self {
                        $($method: *library.get(concat!($name, "\0").as_bytes())?,)*
                        // Drivers before CUDA 12.5 have no such function.
                        record_context: library.get(c"cuCtxRecordEvent").ok().map(|found| *found),
                    })
                }
            }
        }
    };
}

functions! {
    load_module = "cuModuleLoadData"(*mut Handle, *const c_void);
    get_function = "cuModuleGetFunction"(*mut Handle, Handle, *const c_char);
    allocate = "cuMemAlloc_v2"(*mut u64, usize);
    free = "cuMemFree_v2"(u64);
    allocate_async = "cuMemAllocAsync"(*mut u64, usize, Handle);
    free_async = "cuMemFreeAsync"(u64, Handle);
    current_context = "cuCtxGetCurrent"(*mut Handle);
    device_of_context = "cuCtxGetDevice"(*mut c_int);
    default_pool = "cuDeviceGetDefaultMemPool"(*mut Handle, c_int);
    set_pool_attribute = "cuMemPoolSetAttribute"(Handle, c_int, *mut c_void);
    trim_pool = "cuMemPoolTrimTo"(Handle, usize);
    create_event = "cuEventCreate"(*mut Handle, c_uint);
    record_event = "cuEventRecord"(Handle, Handle);
    query_event = "cuEventQuery"(Handle);
    synchronize_event = "cuEventSynchronize"(Handle);
    destroy_event = "cuEventDestroy_v2"(Handle);
    stream_wait = "cuStreamWaitEvent"(Handle, Handle, c_uint);
}

/// The driver, for a thread on which a context is current.
pub(crate) struct Calls {
    functions: Functions,
    /// Where the functions are.
    _library: Library,
}

/// Memory of the driver's, from `cuMemAlloc`.
#[derive(Debug)]
pub(crate) struct Plain(u64);

/// Memory of the driver's, from `cuMemAllocAsync`.
#[derive(Debug)]
pub(crate) struct Ordered(u64);

impl Plain {
    /// Where it is on the device.
    pub(crate) fn address(&self) -> u64 {
        self.0
    }
}

impl Ordered {
    /// Where it is on the device.
    pub(crate) fn address(&self) -> u64 {
        self.0
    }
}

/// The driver's result, named.
fn check(call: &str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(format!("{call} failed with CUDA error {code}").into()) }
}

/// Bytes as the driver takes them.
fn host_size(bytes: u64) -> Result<usize> {
    Ok(usize::try_from(bytes)?)
}

impl Calls {
    /// Finds the functions.
    pub(crate) fn load() -> Result<Self> {
        // SAFETY: the pool has loaded the driver already; its initializers do not run again.
        let library = unsafe { Library::new("libcuda.so.1") }?;
        Ok(Self { functions: Functions::find(&library)?, _library: library })
    }

    /// A kernel of a PTX text, compiled by the driver. It stays loaded until the program ends.
    pub(crate) fn kernels<const N: usize>(
        &self,
        ptx: &CStr,
        names: [&CStr; N],
    ) -> Result<[*mut c_void; N]> {
        let mut module = core::ptr::null_mut();
        // SAFETY: one pointer is to a local, the other to a text with a zero at its end.
        let code = unsafe { (self.functions.load_module)(&raw mut module, ptx.as_ptr().cast()) };
        check("cuModuleLoadData", code)?;
        let mut functions = [core::ptr::null_mut(); N];
        for (function, name) in functions.iter_mut().zip(names) {
            // SAFETY: as above.
            let code = unsafe { (self.functions.get_function)(function, module, name.as_ptr()) };
            check("cuModuleGetFunction", code)?;
        }
        Ok(functions)
    }

    /// `cuMemAlloc`.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<Plain> {
        let mut address = 0;
        // SAFETY: the pointer is to a local.
        let code = unsafe { (self.functions.allocate)(&raw mut address, host_size(bytes)?) };
        check("cuMemAlloc", code)?;
        Ok(Plain(address))
    }

    /// `cuMemFree`, which waits for all work of the device.
    #[expect(clippy::needless_pass_by_value, reason = "nobody has it after")]
    pub(crate) fn free(&self, memory: Plain) -> Result<()> {
        // SAFETY: it was allocated so, and nobody has it any more.
        check("cuMemFree", unsafe { (self.functions.free)(memory.0) })
    }

    /// `cuMemAllocAsync`, from the driver's default pool.
    pub(crate) fn allocate_async(&self, bytes: u64, stream: &PoolStream) -> Result<Ordered> {
        let mut address = 0;
        let bytes = host_size(bytes)?;
        // SAFETY: the pointer is to a local, and the stream lives.
        let code =
            unsafe { (self.functions.allocate_async)(&raw mut address, bytes, stream.as_raw()) };
        check("cuMemAllocAsync", code)?;
        Ok(Ordered(address))
    }

    /// `cuMemFreeAsync`.
    #[expect(clippy::needless_pass_by_value, reason = "nobody has it after")]
    pub(crate) fn free_async(&self, memory: Ordered, stream: &PoolStream) -> Result<()> {
        // SAFETY: it was allocated so, nobody has it any more, and the stream lives.
        let code = unsafe { (self.functions.free_async)(memory.0, stream.as_raw()) };
        check("cuMemFreeAsync", code)
    }

    /// The driver's default pool of the current context's device.
    fn default_pool(&self) -> Result<Handle> {
        let (mut device, mut pool) = (0, core::ptr::null_mut());
        // SAFETY: the pointer is to a local.
        check("cuCtxGetDevice", unsafe { (self.functions.device_of_context)(&raw mut device) })?;
        // SAFETY: as above.
        let code = unsafe { (self.functions.default_pool)(&raw mut pool, device) };
        check("cuDeviceGetDefaultMemPool", code)?;
        Ok(pool)
    }

    /// Has the driver's default pool keep all that is freed, as programs set it that want speed.
    pub(crate) fn keep_in_default_pool(&self) -> Result<()> {
        let (pool, mut most) = (self.default_pool()?, u64::MAX);
        let value = (&raw mut most).cast();
        // SAFETY: the attribute's value is a number of 64 bits.
        let code = unsafe { (self.functions.set_pool_attribute)(pool, RELEASE_THRESHOLD, value) };
        check("cuMemPoolSetAttribute", code)
    }

    /// Has the driver's default pool give back all that nobody has.
    pub(crate) fn empty_default_pool(&self) -> Result<()> {
        let pool = self.default_pool()?;
        // SAFETY: the pool is the driver's.
        check("cuMemPoolTrimTo", unsafe { (self.functions.trim_pool)(pool, 0) })
    }

    /// `cuCtxGetCurrent`.
    pub(crate) fn current_context(&self) -> Result<*mut c_void> {
        let mut context = core::ptr::null_mut();
        // SAFETY: the pointer is to a local.
        check("cuCtxGetCurrent", unsafe { (self.functions.current_context)(&raw mut context) })?;
        Ok(context)
    }

    /// `cuEventCreate`.
    pub(crate) fn create_event(&self) -> Result<Event<'_>> {
        let mut raw = core::ptr::null_mut();
        // SAFETY: the pointer is to a local.
        let code = unsafe { (self.functions.create_event)(&raw mut raw, DISABLE_TIMING) };
        check("cuEventCreate", code)?;
        Ok(Event { calls: self, raw })
    }
}

/// An event of the driver's, destroyed when it is dropped.
pub(crate) struct Event<'c> {
    calls: &'c Calls,
    raw: Handle,
}

impl Event<'_> {
    /// `cuEventRecord`.
    pub(crate) fn record(&self, stream: &PoolStream) -> Result<()> {
        // SAFETY: event and stream live.
        let code = unsafe { (self.calls.functions.record_event)(self.raw, stream.as_raw()) };
        check("cuEventRecord", code)
    }

    /// `cuCtxRecordEvent` in the current context; false where the driver has no such function.
    pub(crate) fn record_all(&self) -> Result<bool> {
        let Some(record) = self.calls.functions.record_context else { return Ok(false) };
        let context = self.calls.current_context()?;
        // SAFETY: event and context live.
        check("cuCtxRecordEvent", unsafe { record(context, self.raw) })?;
        Ok(true)
    }

    /// `cuEventQuery`: whether what was recorded is done.
    pub(crate) fn is_done(&self) -> Result<bool> {
        // SAFETY: the event lives.
        match unsafe { (self.calls.functions.query_event)(self.raw) } {
            NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    /// `cuEventSynchronize`.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the event lives.
        check("cuEventSynchronize", unsafe { (self.calls.functions.synchronize_event)(self.raw) })
    }

    /// `cuStreamWaitEvent`.
    pub(crate) fn wait_on(&self, stream: &PoolStream) -> Result<()> {
        // SAFETY: event and stream live.
        let code = unsafe { (self.calls.functions.stream_wait)(stream.as_raw(), self.raw, 0) };
        check("cuStreamWaitEvent", code)
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        // SAFETY: nobody else knows the event. Nobody is left to tell of a failure.
        let _ = unsafe { (self.calls.functions.destroy_event)(self.raw) };
    }
}
