//! Contexts: what exists in a device's memory belongs to one, and each thread has a stack of them.

use core::cell::RefCell;
use core::ffi::{c_int, c_uint};
use std::collections::BTreeSet;

use pool_mock::device::SimDevice;

use crate::call::{Handle, answer, answer_if, functions, handle, key};
use crate::code;
use crate::driver_pools;
use crate::events::{Recorded, known_event};
use crate::state::{State, current, started};

/// A context.
pub(crate) struct Context {
    pub(crate) ordinal: usize,
    /// Its streams are this simulated device's: each context has default streams of its own.
    pub(crate) device: SimDevice,
    pub(crate) is_primary: bool,
    /// How often it is retained; one made by hand is once, until it is destroyed.
    pub(crate) references: u32,
    /// How often it came to life: what belonged to an earlier life is gone.
    pub(crate) generation: u32,
    /// How its host waits, which changes nothing here.
    pub(crate) flags: c_uint,
    /// The devices whose memory its kernels can use, too.
    pub(crate) peers: BTreeSet<usize>,
}

impl Context {
    /// A context that nobody holds yet.
    pub(crate) const fn new(ordinal: usize, device: SimDevice, is_primary: bool) -> Self {
        let peers = BTreeSet::new();
        Self { ordinal, device, is_primary, references: 0, generation: 0, flags: 0, peers }
    }
}

/// A life of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContextId {
    pub(crate) handle: u64,
    pub(crate) generation: u32,
}

/// The calling thread's context.
pub(crate) struct Current {
    pub(crate) id: ContextId,
    pub(crate) ordinal: usize,
    pub(crate) device: SimDevice,
}

thread_local! {
    /// The contexts of this thread, the current one last, and of which simulation they are.
    static STACK: RefCell<(u64, Vec<u64>)> = const { RefCell::new((0, Vec::new())) };
}

/// Does something with this thread's contexts of a simulation.
pub(crate) fn with_stack<R>(epoch: u64, work: impl FnOnce(&mut Vec<u64>) -> R) -> R {
    STACK.with_borrow_mut(|(of, stack)| {
        if *of != epoch {
            stack.clear();
            *of = epoch;
        }
        work(stack)
    })
}

/// The handle of the calling thread's context.
pub(crate) fn top(epoch: u64) -> Option<u64> {
    with_stack(epoch, |stack| stack.last().copied())
}

/// A context that a call names, which has to exist.
fn existing(state: &State, context: Handle) -> Result<u64, i32> {
    let known = state.contexts.get(&key(context)).ok_or(code::INVALID_CONTEXT)?;
    if known.references == 0 { Err(code::CONTEXT_IS_DESTROYED) } else { Ok(key(context)) }
}

/// The device that a call names by one of its contexts.
fn peer(state: &State, context: Handle) -> Result<usize, i32> {
    let context = existing(state, context)?;
    state.contexts.get(&context).map(|context| context.ordinal).ok_or(code::INVALID_CONTEXT)
}

/// Changes what the current context can use of a peer's memory.
fn change_peer(
    context: Handle,
    change: impl FnOnce(&mut BTreeSet<usize>, usize) -> Result<(), i32>,
) -> Result<(), i32> {
    let mut state = started()?;
    let current = state.current()?;
    let peer = peer(&state, context)?;
    if peer == current.ordinal {
        return Err(code::INVALID_DEVICE);
    }
    let context = state.contexts.get_mut(&current.id.handle).ok_or(code::INVALID_CONTEXT)?;
    change(&mut context.peers, peer)
}

functions! {
    /// Gives a device's primary context and counts one reference more.
    fn cuDevicePrimaryCtxRetain(context_out: *mut Handle, device: c_int) {
        let mut state = started()?;
        let ordinal = state.ordinal(device)?;
        let primary = state.devices[ordinal].primary;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(context_out, handle(primary)) }?;
        let context = state.contexts.get_mut(&primary).ok_or(code::INVALID_CONTEXT)?;
        if context.references == 0 {
            context.generation += 1;
        }
        context.references += 1;
        Ok(())
    }

    /// Takes back one reference to a device's primary context. With the last one goes all that
    /// is in it.
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        let mut state = started()?;
        let ordinal = state.ordinal(device)?;
        let primary = state.devices[ordinal].primary;
        let context = state.contexts.get_mut(&primary).ok_or(code::INVALID_CONTEXT)?;
        context.references = context.references.checked_sub(1).ok_or(code::INVALID_CONTEXT)?;
        Ok(())
    }

    /// Sets the flags of a device's primary context.
    fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: c_uint) {
        let mut state = started()?;
        let ordinal = state.ordinal(device)?;
        let primary = state.devices[ordinal].primary;
        state.contexts.get_mut(&primary).ok_or(code::INVALID_CONTEXT)?.flags = flags;
        Ok(())
    }

    /// Tells whether a device's primary context exists, and its flags.
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) {
        let state = started()?;
        let ordinal = state.ordinal(device)?;
        let context = state.contexts.get(&state.devices[ordinal].primary);
        let context = context.ok_or(code::INVALID_CONTEXT)?;
        let is_active = context.references > 0;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(flags, context.flags) }?;
        // SAFETY: as above.
        unsafe { answer(active, c_int::from(is_active)) }
    }

    /// Makes a context beside the primary one, and makes it current on this thread.
    fn cuCtxCreate_v2(context_out: *mut Handle, _flags: c_uint, device: c_int) {
        let mut state = started()?;
        let ordinal = state.ordinal(device)?;
        let made = state.new_handle();
        // SAFETY: by the contract of the outer function.
        unsafe { answer(context_out, handle(made)) }?;
        let device = state.devices[ordinal].sim.peer();
        let context = Context::new(ordinal, device, false);
        state.contexts.insert(made, Context { references: 1, ..context });
        with_stack(state.epoch, |stack| stack.push(made));
        Ok(())
    }

    /// Ends a context that was made by hand.
    fn cuCtxDestroy_v2(context: Handle) {
        let mut state = started()?;
        let ended = existing(&state, context)?;
        let known = state.contexts.get_mut(&ended).filter(|known| !known.is_primary);
        known.ok_or(code::INVALID_CONTEXT)?.references = 0;
        with_stack(state.epoch, |stack| {
            if stack.last() == Some(&ended) {
                stack.pop();
            }
        });
        Ok(())
    }

    /// Makes a context current on this thread.
    fn cuCtxPushCurrent_v2(context: Handle) {
        let state = started()?;
        let pushed = existing(&state, context)?;
        with_stack(state.epoch, |stack| stack.push(pushed));
        Ok(())
    }

    /// Makes the context before the current one current again. The pointer may be null.
    fn cuCtxPopCurrent_v2(context_out: *mut Handle) {
        let state = started()?;
        let popped = with_stack(state.epoch, Vec::pop).ok_or(code::INVALID_CONTEXT)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer_if(context_out, handle(popped)) };
        Ok(())
    }

    /// Tells the current context; null if there is none.
    fn cuCtxGetCurrent(context_out: *mut Handle) {
        let state = started()?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(context_out, top(state.epoch).map_or(core::ptr::null_mut(), handle)) }
    }

    /// Puts a context in the place of the current one; null takes that away.
    fn cuCtxSetCurrent(context: Handle) {
        let state = started()?;
        let set = if context.is_null() { None } else { Some(existing(&state, context)?) };
        with_stack(state.epoch, |stack| {
            stack.pop();
            stack.extend(set);
        });
        Ok(())
    }

    /// Tells the number of the current context's device.
    fn cuCtxGetDevice(device: *mut c_int) {
        let state = started()?;
        let ordinal = state.current()?.ordinal;
        let number = state.config.number(c_int::try_from(ordinal).unwrap_or(-1))?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(device, number) }
    }

    /// Tells the version of a context; null means the current one.
    fn cuCtxGetApiVersion(context: Handle, version: *mut c_uint) {
        let state = started()?;
        if context.is_null() {
            state.current()?;
        } else {
            existing(&state, context)?;
        }
        // SAFETY: by the contract of the outer function.
        unsafe { answer(version, 3020) }
    }

    /// Tells the least and the greatest priority of streams; both pointers may be null.
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        current()?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer_if(least, 0) };
        // SAFETY: as above.
        unsafe { answer_if(greatest, -5) };
        Ok(())
    }

    /// Waits for all work of the current context.
    fn cuCtxSynchronize() |call| {
        let Current { ordinal, device, .. } = current()?;
        let waited = device.host_wait_all().map_err(code::of)?;
        call.waited(waited);
        driver_pools::shrink(ordinal);
        Ok(())
    }

    /// Records an event behind all work of a context so far. No stream of it may be captured.
    fn cuCtxRecordEvent(context: Handle, event: Handle) |call| {
        let device = {
            let state = started()?;
            let of = existing(&state, context)?;
            if known_event(call, &state, event)?.context.handle != of {
                return Err(code::INVALID_HANDLE);
            }
            state.contexts.get(&of).ok_or(code::INVALID_CONTEXT)?.device.clone()
        };
        let recorded = Recorded::behind_all(&device)?;
        if let Some(event) = started()?.events.get_mut(&key(event)) {
            event.recorded = Some(recorded);
        }
        Ok(())
    }

    /// Lets kernels of the current context use memory of another device.
    fn cuCtxEnablePeerAccess(peer: Handle, flags: c_uint) {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        change_peer(peer, |peers, peer| {
            if peers.insert(peer) { Ok(()) } else { Err(code::PEER_ACCESS_ALREADY_ENABLED) }
        })
    }

    /// Takes that back.
    fn cuCtxDisablePeerAccess(peer: Handle) {
        change_peer(peer, |peers, peer| {
            if peers.remove(&peer) { Ok(()) } else { Err(code::PEER_ACCESS_NOT_ENABLED) }
        })
    }
}
