//! The driver's functions as a table of pointers, with prototypes of our own.
//!
//! cust declares the results as a Rust enum, of which a newer driver's code would be an invalid
//! value; here they are `i32`, checked in one place that knows the call's name.

use core::ffi::{CStr, c_char, c_int, c_uint, c_ushort, c_void};
use core::mem::transmute;

use crate::error::{CudaError, check};

/// The driver's number for a device. It is not the ordinal, though it looks like it.
pub(crate) type RawDevice = c_int;

/// An address of the device, as the driver writes it.
pub(crate) type RawAddress = u64;

/// The driver's number for a handle of physical memory.
pub(crate) type RawPages = u64;

/// Declares the driver's opaque pointers.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[repr(transparent)]
            pub(crate) struct $name(pub(crate) *mut c_void);

            impl $name {
                /// None, for the driver to write over.
                pub(crate) const NULL: Self = Self(core::ptr::null_mut());
            }

            // SAFETY: the pointer is opaque and only handed back to the driver, which lets any
            // thread use it.
            unsafe impl Send for $name {}
            // SAFETY: as above.
            unsafe impl Sync for $name {}
        )*
    };
}

handles! {
    /// The driver's pointer to a context.
    RawContext;
    /// The driver's pointer to a stream, or one of its special values.
    RawStream;
    /// The driver's pointer to an event.
    RawEvent;
    /// The driver's pointer to a pool of its own.
    RawPool;
}

/// Says whether the device can map and unmap pages of its memory.
pub(crate) const ATTRIBUTE_VIRTUAL_MEMORY: c_int = 102;

/// Says whether other processes can have its pages, by file descriptors.
pub(crate) const ATTRIBUTE_FILE_DESCRIPTORS: c_int = 103;

/// Says whether the device has stream-ordered pools.
pub(crate) const ATTRIBUTE_MEMORY_POOLS: c_int = 115;

/// A stream that is not ordered with the legacy default stream.
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;

/// An event without a time.
pub(crate) const EVENT_DISABLE_TIMING: c_uint = 2;

/// Host memory that every context can use.
pub(crate) const HOST_PORTABLE: c_uint = 1;

/// Lets the calling thread do anything while streams are captured.
pub(crate) const CAPTURE_MODE_RELAXED: c_int = 2;

/// No capture.
pub(crate) const CAPTURE_STATUS_NONE: c_int = 0;

/// The answer about an event that has not passed.
pub(crate) const NOT_READY: i32 = 600;

/// No access.
const ACCESS_NONE: c_int = 0;

/// Access for reads and writes.
const ACCESS_READ_WRITE: c_int = 3;

/// Pages for other processes, by file descriptors.
pub(crate) const FILE_DESCRIPTOR: c_int = 1;

/// Asks for the least size of a page, not the recommended one.
pub(crate) const GRANULARITY_MINIMUM: c_int = 0;

/// Memory that stays where it was placed.
const ALLOCATION_PINNED: c_int = 1;

/// A place that is a device, by its number.
const LOCATION_DEVICE: c_int = 1;

/// What kind of page is meant: the driver's `CUmemAllocationProp`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PageProperties {
    kind: c_int,
    handle_types: c_int,
    location_kind: c_int,
    location: c_int,
    win32_handle: *mut c_void,
    flags: [u8; 8],
}

// The driver reads exactly these 32 bytes.
const _: () = assert!(size_of::<PageProperties>() == 32);

impl PageProperties {
    /// Pages on this device, for this process alone, or for others by file descriptors.
    pub(crate) fn on(device: RawDevice, exportable: bool) -> Self {
        Self {
            kind: ALLOCATION_PINNED,
            handle_types: if exportable { FILE_DESCRIPTOR } else { 0 },
            location_kind: LOCATION_DEVICE,
            location: device,
            win32_handle: core::ptr::null_mut(),
            flags: [0; 8],
        }
    }
}

/// What a pool of the driver's is to be: the driver's `CUmemPoolProps`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PoolProperties {
    kind: c_int,
    handle_types: c_int,
    location_kind: c_int,
    location: c_int,
    security_attributes: *mut c_void,
    most_bytes: usize,
    usage: c_ushort,
    reserved: [u8; 54],
}

// The driver reads exactly these 88 bytes.
const _: () = assert!(size_of::<PoolProperties>() == 88);

impl PoolProperties {
    /// Memory of this device, shared with no other process, as much as there is.
    pub(crate) fn on(device: RawDevice) -> Self {
        Self {
            kind: ALLOCATION_PINNED,
            handle_types: 0,
            location_kind: LOCATION_DEVICE,
            location: device,
            security_attributes: core::ptr::null_mut(),
            most_bytes: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }
}

/// Who may use memory: the driver's `CUmemAccessDesc`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AccessDescription {
    location_kind: c_int,
    location: c_int,
    flags: c_int,
}

impl AccessDescription {
    /// Kernels of this device may read and write.
    pub(crate) fn for_device(device: RawDevice) -> Self {
        Self { location_kind: LOCATION_DEVICE, location: device, flags: ACCESS_READ_WRITE }
    }

    /// Kernels of this device may do nothing.
    pub(crate) fn not_for_device(device: RawDevice) -> Self {
        Self { flags: ACCESS_NONE, ..Self::for_device(device) }
    }
}

/// Declares a table, how it is filled, and a checked method for each function.
macro_rules! functions {
    (
        $(#[$doc:meta])*
        $table:ident
        required { $($method:ident = $name:literal ($($argument:ident: $kind:ty),*);)* }
        optional {
            $($may_method:ident = $may_name:literal ($($may_argument:ident: $may_kind:ty),*);)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $table {
            $($method: unsafe extern "C" fn($($kind),*) -> c_int,)*
            $($may_method: Option<unsafe extern "C" fn($($may_kind),*) -> c_int>,)*
        }

        impl $table {
            /// Fills the table; the first required name without a function ends it with an error.
            ///
            /// # Safety
            ///
            /// Each pointer that `lookup` returns is null or the driver's function of that name,
            /// and stays callable.
            pub(crate) unsafe fn find(
                mut lookup: impl FnMut(&CStr) -> *const c_void,
            ) -> Result<Self, CudaError> {
                Ok(Self {
                    $($method: {
                        let function = lookup(const { c_name(concat!($name, "\0")) });
                        if function.is_null() {
                            return Err(CudaError::MissingFunction { call: $name });
                        }
                        // SAFETY: it is not null, and by this function's contract it is the
                        // driver's function of this name, whose prototype this is.
                        unsafe {
                            transmute::<*const c_void, unsafe extern "C" fn($($kind),*) -> c_int>(
                                function,
                            )
                        }
                    },)*
                    $($may_method: {
                        let function = lookup(const { c_name(concat!($may_name, "\0")) });
                        // SAFETY: null is no function, and anything else is the driver's function
                        // of this name, whose prototype this is.
                        unsafe {
                            transmute::<
                                *const c_void,
                                Option<unsafe extern "C" fn($($may_kind),*) -> c_int>,
                            >(function)
                        }
                    },)*
                })
            }

            $(
                /// Calls the driver's function of the same name.
                ///
                /// # Safety
                ///
                /// Every pointer is valid for what the driver reads and writes through it, and
                /// every handle is the driver's.
                #[allow(clippy::too_many_arguments, reason = "the driver's prototype")]
                pub(crate) unsafe fn $method(&self, $($argument: $kind),*) -> Result<(), CudaError> {
                    // SAFETY: passed on to the caller.
                    check($name, unsafe { (self.$method)($($argument),*) })
                }
            )*

            $(
                /// Calls the driver's function of the same name, if the driver has it.
                ///
                /// # Safety
                ///
                /// Every pointer is valid for what the driver reads and writes through it, and
                /// every handle is the driver's.
                pub(crate) unsafe fn $may_method(
                    &self, $($may_argument: $may_kind),*
                ) -> Option<Result<(), CudaError>> {
                    let function = self.$may_method?;
                    // SAFETY: passed on to the caller.
                    Some(check($may_name, unsafe { function($($may_argument),*) }))
                }
            )*
        }
    };
}

impl Functions {
    /// Whether streams have numbers.
    pub(crate) fn has_stream_ids(&self) -> bool {
        self.stream_id.is_some()
    }
}

/// A function's name as the loader takes it.
const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a function's name holds no zero byte"),
    }
}

functions! {
    /// Pointers to the driver's functions.
    Functions
    required {
        init = "cuInit"(flags: c_uint);
        driver_version = "cuDriverGetVersion"(version: *mut c_int);
        device_count = "cuDeviceGetCount"(count: *mut c_int);
        device = "cuDeviceGet"(device: *mut RawDevice, ordinal: c_int);
        device_name = "cuDeviceGetName"(name: *mut c_char, length: c_int, device: RawDevice);
        device_memory = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: RawDevice);
        device_attribute = "cuDeviceGetAttribute"(
            value: *mut c_int, attribute: c_int, device: RawDevice
        );
        can_access_peer = "cuDeviceCanAccessPeer"(
            can: *mut c_int, device: RawDevice, peer: RawDevice
        );
        retain_context = "cuDevicePrimaryCtxRetain"(context: *mut RawContext, device: RawDevice);
        release_context = "cuDevicePrimaryCtxRelease_v2"(device: RawDevice);
        push_context = "cuCtxPushCurrent_v2"(context: RawContext);
        pop_context = "cuCtxPopCurrent_v2"(context: *mut RawContext);
        current_context = "cuCtxGetCurrent"(context: *mut RawContext);
        device_of_context = "cuCtxGetDevice"(device: *mut RawDevice);
        synchronize_context = "cuCtxSynchronize"();
        enable_peer = "cuCtxEnablePeerAccess"(peer: RawContext, flags: c_uint);
        create_stream = "cuStreamCreate"(stream: *mut RawStream, flags: c_uint);
        destroy_stream = "cuStreamDestroy_v2"(stream: RawStream);
        synchronize_stream = "cuStreamSynchronize"(stream: RawStream);
        stream_context = "cuStreamGetCtx"(stream: RawStream, context: *mut RawContext);
        stream_wait = "cuStreamWaitEvent"(stream: RawStream, event: RawEvent, flags: c_uint);
        capture_info = "cuStreamGetCaptureInfo_v2"(
            stream: RawStream, status: *mut c_int, id: *mut u64, graph: *mut *mut c_void,
            dependencies: *mut *const *mut c_void, count: *mut usize
        );
        exchange_capture_mode = "cuThreadExchangeStreamCaptureMode"(mode: *mut c_int);
        create_event = "cuEventCreate"(event: *mut RawEvent, flags: c_uint);
        record_event = "cuEventRecord"(event: RawEvent, stream: RawStream);
        query_event = "cuEventQuery"(event: RawEvent);
        synchronize_event = "cuEventSynchronize"(event: RawEvent);
        destroy_event = "cuEventDestroy_v2"(event: RawEvent);
        memory_info = "cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
        allocate = "cuMemAlloc_v2"(address: *mut RawAddress, bytes: usize);
        free = "cuMemFree_v2"(address: RawAddress);
        create_pool = "cuMemPoolCreate"(pool: *mut RawPool, properties: *const PoolProperties);
        destroy_pool = "cuMemPoolDestroy"(pool: RawPool);
        set_pool_access = "cuMemPoolSetAccess"(
            pool: RawPool, access: *const AccessDescription, count: usize
        );
        allocate_from_pool = "cuMemAllocFromPoolAsync"(
            address: *mut RawAddress, bytes: usize, pool: RawPool, stream: RawStream
        );
        free_in_stream = "cuMemFreeAsync"(address: RawAddress, stream: RawStream);
        allocate_host = "cuMemHostAlloc"(address: *mut *mut c_void, bytes: usize, flags: c_uint);
        free_host = "cuMemFreeHost"(address: *mut c_void);
        register_host = "cuMemHostRegister_v2"(address: *mut c_void, bytes: usize, flags: c_uint);
        unregister_host = "cuMemHostUnregister"(address: *mut c_void);
        copy = "cuMemcpyAsync"(
            to: RawAddress, from: RawAddress, bytes: usize, stream: RawStream
        );
        copy_to_device = "cuMemcpyHtoDAsync_v2"(
            to: RawAddress, from: *const c_void, bytes: usize, stream: RawStream
        );
        copy_to_host = "cuMemcpyDtoHAsync_v2"(
            to: *mut c_void, from: RawAddress, bytes: usize, stream: RawStream
        );
        fill = "cuMemsetD8Async"(address: RawAddress, value: u8, bytes: usize, stream: RawStream);
        launch_kernel = "cuLaunchKernel"(
            function: *mut c_void, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
            block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint,
            stream: RawStream, arguments: *mut *mut c_void, extra: *mut *mut c_void
        );
    }
    optional {
        record_context = "cuCtxRecordEvent"(context: RawContext, event: RawEvent);
        stream_id = "cuStreamGetId"(stream: RawStream, id: *mut u64);
    }
}

functions! {
    /// Pointers to the driver's functions for pages. A driver has all of them, or has no pages.
    PageFunctions
    required {
        granularity = "cuMemGetAllocationGranularity"(
            bytes: *mut usize, properties: *const PageProperties, option: c_int
        );
        reserve = "cuMemAddressReserve"(
            address: *mut RawAddress, bytes: usize, alignment: usize, wish: RawAddress, flags: u64
        );
        free_addresses = "cuMemAddressFree"(address: RawAddress, bytes: usize);
        create = "cuMemCreate"(
            pages: *mut RawPages, bytes: usize, properties: *const PageProperties, flags: u64
        );
        release = "cuMemRelease"(pages: RawPages);
        map = "cuMemMap"(
            address: RawAddress, bytes: usize, offset: usize, pages: RawPages, flags: u64
        );
        unmap = "cuMemUnmap"(address: RawAddress, bytes: usize);
        set_access = "cuMemSetAccess"(
            address: RawAddress, bytes: usize, access: *const AccessDescription, count: usize
        );
        export = "cuMemExportToShareableHandle"(
            descriptor: *mut c_void, pages: RawPages, kind: c_int, flags: u64
        );
        import = "cuMemImportFromShareableHandle"(
            pages: *mut RawPages, descriptor: *mut c_void, kind: c_int
        );
    }
    optional {}
}
