//! The driver's functions that tests call by themselves, as any library does.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

use pool_cuda::{CudaDevice, PoolStream};

/// A handle of the driver's.
pub(crate) type Raw = *mut c_void;

/// What a call answers about work that runs still.
const NOT_READY: c_int = 600;

/// How strictly a capture takes what others do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CaptureMode {
    Global = 0,
    ThreadLocal = 1,
    Relaxed = 2,
}

/// All of them.
pub(crate) const CAPTURE_MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

unsafe extern "C" {
    fn cuCtxGetCurrent(context: *mut Raw) -> c_int;
    fn cuCtxSetCurrent(context: Raw) -> c_int;
    fn cuCtxSynchronize() -> c_int;
    fn cuCtxCreate_v2(context: *mut Raw, flags: c_uint, device: c_int) -> c_int;
    fn cuCtxDestroy_v2(context: Raw) -> c_int;
    fn cuCtxPopCurrent_v2(context: *mut Raw) -> c_int;
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int;
    fn cuDevicePrimaryCtxRetain(context: *mut Raw, device: c_int) -> c_int;
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int;
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) -> c_int;
    fn cuStreamCreate(stream: *mut Raw, flags: c_uint) -> c_int;
    fn cuStreamDestroy_v2(stream: Raw) -> c_int;
    fn cuStreamQuery(stream: Raw) -> c_int;
    fn cuStreamWaitEvent(stream: Raw, event: Raw, flags: c_uint) -> c_int;
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) -> c_int;
    fn cuLaunchKernel(
        function: Raw,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Raw,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> c_int;
    fn cuEventCreate(event: *mut Raw, flags: c_uint) -> c_int;
    fn cuEventRecord(event: Raw, stream: Raw) -> c_int;
    fn cuEventDestroy_v2(event: Raw) -> c_int;
    fn cuStreamBeginCapture_v2(stream: Raw, mode: c_int) -> c_int;
    fn cuStreamEndCapture(stream: Raw, graph: *mut Raw) -> c_int;
    fn cuGraphInstantiateWithFlags(executable: *mut Raw, graph: Raw, flags: u64) -> c_int;
    fn cuGraphLaunch(executable: Raw, stream: Raw) -> c_int;
    fn cuGraphExecDestroy(executable: Raw) -> c_int;
    fn cuGraphDestroy(graph: Raw) -> c_int;
}

/// Panics unless a call went well.
#[track_caller]
fn ok(call: &str, code: c_int) {
    assert_eq!(code, 0, "{call}");
}

/// The thread's current context; null for none.
pub(crate) fn current_context() -> Raw {
    let mut context = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    ok("cuCtxGetCurrent", unsafe { cuCtxGetCurrent(&raw mut context) });
    context
}

/// Makes a context the thread's current one; null for none.
pub(crate) fn set_current_context(context: Raw) {
    // SAFETY: it is a context that exists, or none.
    ok("cuCtxSetCurrent", unsafe { cuCtxSetCurrent(context) });
}

/// Waits for all work of a device.
pub(crate) fn synchronize(device: &CudaDevice) {
    let _current = device.enter().unwrap();
    // SAFETY: no pointers.
    ok("cuCtxSynchronize", unsafe { cuCtxSynchronize() });
}

/// The bytes at an address of a device, when all its work is done.
pub(crate) fn read(device: &CudaDevice, address: u64, bytes: usize) -> Vec<u8> {
    synchronize(device);
    let _current = device.enter().unwrap();
    let mut read = vec![0; bytes];
    // SAFETY: the vector has so many bytes; the driver looks at the address.
    let copied = unsafe { cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), address, bytes) };
    ok("cuMemcpyDtoH_v2", copied);
    read
}

/// The bytes at an address of a device, as they are now: work on streams that are not ordered with the
/// default stream is not waited for. Gives the driver's code.
pub(crate) fn peek(device: &CudaDevice, address: u64, into: &mut [u8]) -> c_int {
    let _current = device.enter().unwrap();
    // SAFETY: the slice has so many bytes; the driver looks at the address.
    unsafe { cuMemcpyDtoH_v2(into.as_mut_ptr().cast(), address, into.len()) }
}

/// Queues a kernel on a stream, in so many blocks and threads of a block. Gives the driver's code.
///
/// # Safety
///
/// The function and the stream are of the device's context, and the arguments point to what the
/// kernel takes.
pub(crate) unsafe fn launch_kernel(
    device: &CudaDevice,
    function: Raw,
    stream: Raw,
    (grid, block): (u32, u32),
    arguments: &mut [*mut c_void],
) -> c_int {
    let _current = device.enter().unwrap();
    let (arguments, extra) = (arguments.as_mut_ptr(), ptr::null_mut());
    // SAFETY: passed on to the caller.
    unsafe { cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, arguments, extra) }
}

fn device_number(ordinal: u32) -> c_int {
    let mut device = 0;
    // SAFETY: the pointer is to a local.
    ok("cuDeviceGet", unsafe { cuDeviceGet(&raw mut device, ordinal.try_into().unwrap()) });
    device
}

/// Whether a device's primary context exists.
pub(crate) fn has_primary_context(ordinal: u32) -> bool {
    let (mut flags, mut active) = (0, 0);
    let device = device_number(ordinal);
    let asked =
        // SAFETY: both pointers are to locals.
        unsafe { cuDevicePrimaryCtxGetState(device, &raw mut flags, &raw mut active) };
    ok("cuDevicePrimaryCtxGetState", asked);
    active != 0
}

/// A reference to a device's primary context, as a library of the runtime's holds it.
pub(crate) struct Primary {
    pub(crate) context: Raw,
    device: c_int,
}

impl Primary {
    pub(crate) fn retain(ordinal: u32) -> Self {
        let device = device_number(ordinal);
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        let retained = unsafe { cuDevicePrimaryCtxRetain(&raw mut context, device) };
        ok("cuDevicePrimaryCtxRetain", retained);
        Self { context, device }
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: one reference was taken.
        ok("cuDevicePrimaryCtxRelease_v2", unsafe { cuDevicePrimaryCtxRelease_v2(self.device) });
    }
}

/// A context beside the primary one, current nowhere.
pub(crate) struct OwnContext {
    pub(crate) context: Raw,
}

impl OwnContext {
    pub(crate) fn create(ordinal: u32) -> Self {
        let (mut context, mut popped) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the pointer is to a local.
        let made = unsafe { cuCtxCreate_v2(&raw mut context, 0, device_number(ordinal)) };
        ok("cuCtxCreate_v2", made);
        // SAFETY: as above; it was made current.
        ok("cuCtxPopCurrent_v2", unsafe { cuCtxPopCurrent_v2(&raw mut popped) });
        assert_eq!(context, popped);
        Self { context }
    }
}

impl Drop for OwnContext {
    fn drop(&mut self) {
        // SAFETY: it was made here, and what used it is gone.
        ok("cuCtxDestroy_v2", unsafe { cuCtxDestroy_v2(self.context) });
    }
}

/// What a stream of a program is to the legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ordered with it.
    Blocking = 0,
    /// Not.
    NonBlocking = 1,
}

/// A stream of the program's.
pub(crate) struct OwnStream {
    pub(crate) raw: Raw,
    device: CudaDevice,
}

// SAFETY: the driver lets any thread use a stream.
unsafe impl Send for OwnStream {}
// SAFETY: as above.
unsafe impl Sync for OwnStream {}

impl OwnStream {
    pub(crate) fn create(device: &CudaDevice, kind: Kind) -> Self {
        let _current = device.enter().unwrap();
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer is to a local.
        ok("cuStreamCreate", unsafe { cuStreamCreate(&raw mut raw, kind as c_uint) });
        Self { raw, device: device.clone() }
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        let _current = self.device.enter().unwrap();
        // SAFETY: it was made here, and nothing names it any more.
        ok("cuStreamDestroy_v2", unsafe { cuStreamDestroy_v2(self.raw) });
    }
}

/// Whether work that was queued on a stream runs still.
pub(crate) fn is_busy(device: &CudaDevice, stream: Raw) -> bool {
    let _current = device.enter().unwrap();
    // SAFETY: the caller's stream is alive.
    let code = unsafe { cuStreamQuery(stream) };
    assert!(code == 0 || code == NOT_READY, "cuStreamQuery: {code}");
    code == NOT_READY
}

/// Has a stream wait for another, by an event of the program's.
pub(crate) fn follow(device: &CudaDevice, after: &PoolStream, on: &PoolStream) {
    let _current = device.enter().unwrap();
    let mut event = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    ok("cuEventCreate", unsafe { cuEventCreate(&raw mut event, 2) });
    // SAFETY: event and streams exist.
    ok("cuEventRecord", unsafe { cuEventRecord(event, after.as_raw()) });
    // SAFETY: as above.
    ok("cuStreamWaitEvent", unsafe { cuStreamWaitEvent(on.as_raw(), event, 0) });
    // SAFETY: as above; it is not used any more.
    ok("cuEventDestroy_v2", unsafe { cuEventDestroy_v2(event) });
}

/// Begins a capture, of which the pool was told.
pub(crate) fn begin_capture(device: &CudaDevice, stream: &PoolStream, mode: CaptureMode) {
    let _current = device.enter().unwrap();
    // SAFETY: the stream is alive.
    let begun = unsafe { cuStreamBeginCapture_v2(stream.as_raw(), mode as c_int) };
    ok("cuStreamBeginCapture_v2", begun);
}

/// Ends a capture: its graph, or the code that says why there is none.
pub(crate) fn end_capture(device: &CudaDevice, stream: &PoolStream) -> Result<Raw, c_int> {
    let _current = device.enter().unwrap();
    let mut graph = ptr::null_mut();
    // SAFETY: the stream is alive, and the pointer is to a local.
    let code = unsafe { cuStreamEndCapture(stream.as_raw(), &raw mut graph) };
    if code == 0 { Ok(graph) } else { Err(code) }
}

/// Makes a graph ready to be launched.
pub(crate) fn instantiate(device: &CudaDevice, graph: Raw) -> Raw {
    let _current = device.enter().unwrap();
    let mut executable = ptr::null_mut();
    // SAFETY: the graph exists, and the pointer is to a local.
    let made = unsafe { cuGraphInstantiateWithFlags(&raw mut executable, graph, 0) };
    ok("cuGraphInstantiateWithFlags", made);
    executable
}

/// Queues a graph on a stream.
pub(crate) fn launch(device: &CudaDevice, executable: Raw, stream: &PoolStream) {
    let _current = device.enter().unwrap();
    // SAFETY: both exist.
    ok("cuGraphLaunch", unsafe { cuGraphLaunch(executable, stream.as_raw()) });
}

/// Ends a graph and what is launched of it.
pub(crate) fn destroy(device: &CudaDevice, graph: Raw, executable: Raw) {
    let _current = device.enter().unwrap();
    // SAFETY: both exist, and are used here for the last time.
    ok("cuGraphExecDestroy", unsafe { cuGraphExecDestroy(executable) });
    // SAFETY: as above.
    ok("cuGraphDestroy", unsafe { cuGraphDestroy(graph) });
}
