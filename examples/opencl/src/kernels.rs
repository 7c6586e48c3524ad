//! Work to queue: kernels that mark a block's bytes and look at them later.

use core::ffi::{CStr, c_void};
use core::ops::Range;

use cl3::command_queue;
use cl3::program::{self, CL_PROGRAM_BUILD_LOG};
use cl3::types::{cl_context, cl_device_id};

use crate::device::ClDevice;
use crate::error::ClError;
use crate::handle::{Event, Kernel, Owned, Program};
use crate::queue::ClStream;
use crate::range::ClPart;

/// The kernels, with their arguments: one thread's.
#[derive(Debug)]
pub struct Kernels {
    mark: Owned<Kernel>,
    check: Owned<Kernel>,
    dawdle: Owned<Kernel>,
    fill: Owned<Kernel>,
}

impl Kernels {
    /// Those of a device, for a thread. They are built the first time.
    ///
    /// # Errors
    ///
    /// [`ClError::Build`] with the compiler's words, [`ClError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_opencl::{ClDevice, Kernels};
    ///
    /// # let Ok(device) = ClDevice::open(0) else { return Ok(()) };
    /// let mut kernels = Kernels::of(&device)?;
    /// let (stream, range) = (device.create_stream()?, device.allocate(1 << 20)?);
    /// let (block, wrong) = (range.part(0, 4096)?, range.part(8192, 4)?);
    /// kernels.fill(&stream, &wrong, 0..4, 0)?;
    /// kernels.dawdle(&stream, &range.part(16384, 4)?, 1000)?;
    /// kernels.mark(&stream, &block, 7)?;
    /// kernels.check(&stream, &block, 7, &wrong)?;
    /// assert_eq!(wrong.read(&stream)?, [0; 4]);
    /// kernels.check(&stream, &block, 8, &wrong)?;
    /// assert_ne!(wrong.read(&stream)?, [0; 4]);
    /// # Ok::<(), pool_core::device::Failure<pool_opencl::ClError>>(())
    /// ```
    pub fn of(device: &ClDevice) -> Result<Self, ClError> {
        device.check()?;
        let program = device.program()?;
        let kernel = |name: &CStr| {
            let kernel = cl3::kernel::create_kernel(program.raw(), name)
                .map_err(ClError::of("clCreateKernel"))?;
            // SAFETY: the reference was made just now.
            Ok::<_, ClError>(unsafe { Owned::<Kernel>::new(kernel) })
        };
        Ok(Self {
            mark: kernel(c"mark")?,
            check: kernel(c"check")?,
            dawdle: kernel(c"dawdle")?,
            fill: kernel(c"fill")?,
        })
    }

    /// Queues that a block is marked as that of a number, in sixteens of bytes.
    ///
    /// # Errors
    ///
    /// [`ClError::Call`]; nothing is queued.
    ///
    /// # Example
    ///
    /// See [`of`](Self::of).
    pub fn mark(&mut self, stream: &ClStream, block: &ClPart, number: u32) -> Result<(), ClError> {
        let arguments = [Argument::Part(block), Argument::Number(number)];
        queue(&mut self.mark, stream, &arguments, block.size_bytes() / 16)
    }

    /// Queues that the bytes of a block that are not that number's are added to the four bytes of
    /// `wrong`.
    ///
    /// # Errors
    ///
    /// [`ClError::Call`]; nothing is queued.
    ///
    /// # Example
    ///
    /// See [`of`](Self::of).
    pub fn check(
        &mut self,
        stream: &ClStream,
        block: &ClPart,
        number: u32,
        wrong: &ClPart,
    ) -> Result<(), ClError> {
        let arguments = [Argument::Part(block), Argument::Number(number), Argument::Part(wrong)];
        queue(&mut self.check, stream, &arguments, block.size_bytes() / 16)
    }

    /// Queues work that takes a nanosecond or so a round, and writes to four bytes.
    ///
    /// # Errors
    ///
    /// [`ClError::Call`]; nothing is queued.
    ///
    /// # Example
    ///
    /// See [`of`](Self::of).
    pub fn dawdle(&mut self, stream: &ClStream, sink: &ClPart, rounds: u32) -> Result<(), ClError> {
        let arguments = [Argument::Part(sink), Argument::Number(rounds)];
        queue(&mut self.dawdle, stream, &arguments, 1)
    }

    /// Queues that bytes of a part get a value.
    ///
    /// # Errors
    ///
    /// [`ClError::NoPart`] if they are none of the part, [`ClError::Call`]; nothing is queued.
    ///
    /// # Example
    ///
    /// See [`of`](Self::of).
    pub fn fill(
        &mut self,
        stream: &ClStream,
        part: &ClPart,
        bytes: Range<usize>,
        value: u8,
    ) -> Result<(), ClError> {
        let first = u32::try_from(bytes.start).ok().filter(|_| bytes.end <= part.size_bytes());
        let Some(first) = first.filter(|_| !bytes.is_empty()) else {
            return Err(ClError::NoPart {
                offset_bytes: bytes.start as u64,
                size_bytes: bytes.len() as u64,
                range_bytes: part.size_bytes() as u64,
                granule_bytes: 1,
            });
        };
        let arguments = [Argument::Part(part), Argument::Number(first), Argument::Byte(value)];
        queue(&mut self.fill, stream, &arguments, bytes.len())
    }
}

/// The kernels of a device, built.
pub(crate) fn build(context: cl_context, device: cl_device_id) -> Result<Owned<Program>, ClError> {
    let program = program::create_program_with_source(context, &[include_str!("kernels.cl")])
        .map_err(ClError::of("clCreateProgramWithSource"))?;
    // SAFETY: the reference was made just now.
    let program: Owned<Program> = unsafe { Owned::new(program) };
    let raw = program.raw();
    if let Err(code) = program::build_program(raw, &[device], c"", None, core::ptr::null_mut()) {
        let log = program::get_program_build_info(raw, device, CL_PROGRAM_BUILD_LOG);
        return Err(match log {
            Ok(log) => ClError::Build { log: String::from(log) },
            Err(_) => ClError::Call { call: "clBuildProgram", code },
        });
    }
    Ok(program)
}

/// Items that run together, where as many divide all: fewer than any device's most.
const GROUP: usize = 16;

/// What a kernel is called with.
enum Argument<'a> {
    Part(&'a ClPart),
    Number(u32),
    Byte(u8),
}

/// Queues one kernel, of so many items. Whoever writes the arguments has them be the kernel's.
fn queue(
    kernel: &mut Owned<Kernel>,
    stream: &ClStream,
    arguments: &[Argument<'_>],
    items: usize,
) -> Result<(), ClError> {
    for (index, argument) in (0..).zip(arguments) {
        let set = |bytes: usize, value: *const c_void| {
            // SAFETY: the value has so many bytes, which are copied, and `&mut` keeps others out.
            unsafe { cl3::kernel::set_kernel_arg(kernel.raw(), index, bytes, value) }
                .map_err(ClError::of("clSetKernelArg"))
        };
        match argument {
            Argument::Part(part) => {
                let memory = part.memory();
                set(size_of_val(&memory), (&raw const memory).cast())?;
            }
            Argument::Number(number) => set(4, core::ptr::from_ref(number).cast())?,
            Argument::Byte(byte) => set(1, core::ptr::from_ref(byte).cast())?,
        }
    }
    // Left to the runtime, PoCL would compile the kernel anew for each size.
    let group: usize = if items.is_multiple_of(GROUP) { GROUP } else { 1 };
    // SAFETY: queue and kernel live, all arguments are set, and there is one dimension. The runtime
    // keeps the parts until the kernel has run.
    let queued = unsafe {
        let (none, list) = (core::ptr::null(), core::ptr::null());
        let (queue, kernel) = (stream.queue(), kernel.raw());
        let (items, group) = (&raw const items, &raw const group);
        command_queue::enqueue_nd_range_kernel(queue, kernel, 1, none, items, group, 0, list)
    }
    .map_err(ClError::of("clEnqueueNDRangeKernel"))?;
    // SAFETY: the reference was made just now.
    drop(unsafe { Owned::<Event>::new(queued) });
    Ok(())
}
