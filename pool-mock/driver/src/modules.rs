//! Modules of kernels, and their launches.

use core::ffi::{CStr, c_char, c_uint, c_void};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::call::{Call, Handle, OnStream, answer, ask, check, functions, handle, key};
use crate::code;
use crate::context::ContextId;
use crate::copies::fault;
use crate::kernels::{KernelMemory, Launch};
use crate::ptx;
use crate::space::{Fault, User};
use crate::state::{current, started};

/// A module: the sizes of its kernels' arguments, by their names.
pub(crate) struct Module {
    context: ContextId,
    kernels: HashMap<String, Vec<usize>>,
}

/// A kernel of a module.
pub(crate) struct Function {
    context: ContextId,
    module: u64,
    name: String,
    /// The sizes of its arguments in bytes.
    arguments: Vec<usize>,
}

/// Loads a module from PTX.
///
/// # Safety
///
/// The image is null or a text that ends with a zero byte.
unsafe fn load(module_out: *mut Handle, image: *const c_void) -> Result<(), i32> {
    let context = current()?.id;
    check(module_out)?;
    check(image)?;
    // SAFETY: not null, and by this function's contract it ends with a zero byte.
    let text = unsafe { CStr::from_ptr(image.cast()) };
    // Machine code is not PTX, and the simulated driver has no use for it.
    let text = text.to_str().ok().filter(|text| !text.starts_with("\u{7f}ELF"));
    let kernels = ptx::kernels(text.ok_or(code::INVALID_IMAGE)?)?;
    let mut state = started()?;
    let key = state.new_handle();
    state.modules.insert(key, Module { context, kernels });
    // SAFETY: by the contract of the function that called.
    unsafe { answer(module_out, handle(key)) }
}

/// Reads the arguments of a launch.
///
/// # Safety
///
/// The pointer is null or to as many pointers as there are sizes, each to so many bytes.
unsafe fn read_arguments(
    sizes: &[usize],
    arguments: *const *const c_void,
) -> Result<Vec<Vec<u8>>, i32> {
    let read = sizes.iter().enumerate().map(|(place, &size)| {
        // SAFETY: by this function's contract; `ask` looks for null itself.
        let argument = unsafe { ask(arguments.wrapping_add(place)) }?;
        check(argument)?;
        // SAFETY: not null, and to so many bytes by this function's contract.
        Ok(unsafe { core::slice::from_raw_parts(argument.cast::<u8>(), size) }.to_vec())
    });
    if !sizes.is_empty() {
        check(arguments)?;
    }
    read.collect()
}

/// Queues what a kernel does.
fn launch(call: Call, on: &OnStream, name: &str, launch: &Launch) -> Result<(), i32> {
    let kernel = started()?.kernels.get(name).cloned();
    let Some(kernel) = kernel else {
        call.violation(&on.device, "nobody has defined what this kernel does");
        return Err(code::NOT_SUPPORTED);
    };
    let work = kernel(launch);
    let (mut parts, mut uses) = (Vec::new(), Vec::new());
    let state = started()?;
    let context = state.live(on.context)?;
    let peers: BTreeSet<usize> = context.peers.clone();
    let kernel = User::Kernel(on.ordinal, &peers);
    for &(address, bytes, access) in &work.uses {
        match state.space.find(address, bytes, access, kernel) {
            Ok(found) => {
                uses.extend(found.uses);
                parts.push((address, bytes, found.spans));
            }
            Err(error) => {
                drop(state);
                // The launch succeeds; what follows does not.
                let words = match error {
                    Fault::Nothing => "a kernel uses an address that nothing is behind",
                    Fault::NoAccess => "a kernel uses memory that its device has no access to",
                };
                fault(call, on, words);
                return Ok(());
            }
        }
    }
    drop(state);
    let memory = KernelMemory { device: on.device.clone(), parts };
    let task = move || (work.run)(&memory);
    on.device.queue_task(on.stream, &uses, Arc::new(task)).map_err(code::of)
}

/// Most threads in a block.
const MOST_THREADS: u64 = 1024;

functions! {
    /// Loads a module from PTX.
    fn cuModuleLoadData(module_out: *mut Handle, image: *const c_void) {
        // SAFETY: by the contract of the outer function.
        unsafe { load(module_out, image) }
    }

    /// Loads a module from PTX; the options change nothing.
    fn cuModuleLoadDataEx(
        module_out: *mut Handle,
        image: *const c_void,
        _count: c_uint,
        _options: *mut c_uint,
        _values: *mut *mut c_void,
    ) {
        // SAFETY: by the contract of the outer function.
        unsafe { load(module_out, image) }
    }

    /// Ends a module and its kernels.
    fn cuModuleUnload(module: Handle) {
        let mut state = started()?;
        let known = state.modules.get(&key(module)).ok_or(code::INVALID_HANDLE)?;
        state.live(known.context)?;
        state.modules.remove(&key(module));
        state.functions.retain(|_, function| function.module != key(module));
        Ok(())
    }

    /// Finds a kernel of a module by its name.
    fn cuModuleGetFunction(
        function_out: *mut Handle, module: Handle, name: *const c_char
    ) {
        let mut state = started()?;
        check(function_out)?;
        check(name)?;
        // SAFETY: not null, and it ends with a zero byte by the contract of the outer function.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        let known = state.modules.get(&key(module)).ok_or(code::INVALID_HANDLE)?;
        state.live(known.context)?;
        let arguments = known.kernels.get(&name).ok_or(code::NOT_FOUND)?.clone();
        let context = known.context;
        let made = state.new_handle();
        let function = Function { context, module: key(module), name, arguments };
        state.functions.insert(made, function);
        // SAFETY: by the contract of the outer function.
        unsafe { answer(function_out, handle(made)) }
    }

    /// Launches a kernel in a stream of its context. Arguments are given one by one.
    fn cuLaunchKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) |call| {
        let on = call.stream(stream)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let threads = block.iter().map(|&size| u64::from(size)).product::<u64>();
        if grid.contains(&0) || block.contains(&0) || threads > MOST_THREADS || !extra.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let (name, sizes) = {
            let state = started()?;
            let known = state.functions.get(&key(function)).ok_or(code::INVALID_HANDLE)?;
            if known.context != on.context {
                return Err(code::INVALID_HANDLE);
            }
            (known.name.clone(), known.arguments.clone())
        };
        // SAFETY: by the contract of the outer function.
        let arguments = unsafe { read_arguments(&sizes, arguments.cast_const().cast()) }?;
        launch(call, &on, &name, &Launch { arguments, grid, block, shared_bytes })
    }
}
