//! Two fences that make one: the light one is made at every hit, the heavy one when something ends or
//! changes hands. What is written before the one is seen behind the other, in one direction or both,
//! as between two sequentially consistent fences.
//!
//! Linux makes the light one free: the heavy one has all threads of the process pass a fence
//! (`membarrier`, since 4.14). Where that is refused, both are fences of the processor.

#[cfg(not(loom))]
use std::sync::OnceLock;

#[cfg(not(loom))]
use core::sync::atomic::{Ordering, compiler_fence, fence};

#[cfg(loom)]
use loom::sync::atomic::{Ordering, fence};

use pool_core::sync::UnevenFences;

use crate::sabotage::Switch;

/// `MEMBARRIER_CMD_GLOBAL`, which takes milliseconds.
#[cfg(not(loom))]
const GLOBAL: libc::c_int = 1;
/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and the registration for it.
#[cfg(not(loom))]
const EXPEDITED: libc::c_int = 1 << 3;
#[cfg(not(loom))]
const REGISTER_EXPEDITED: libc::c_int = 1 << 4;

/// Makes a call of `membarrier`; whether it did what it says.
#[cfg(not(loom))]
fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes plain numbers, and touches no memory of the program's.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Has all threads of the process pass a fence.
#[cfg(not(loom))]
fn fence_everywhere() {
    // It is refused to nobody who has registered, unless the system was told otherwise since, or has
    // no memory; then there is the slow one. There is no way on without.
    if !membarrier(EXPEDITED) && !membarrier(GLOBAL) {
        std::process::abort();
    }
}

/// Which of the two ways it is, for the whole process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fences {
    /// The heavy one does it all.
    #[cfg_attr(loom, expect(dead_code, reason = "a checker knows no such call of the system"))]
    Uneven,
    /// Both are fences.
    Even,
}

impl Fences {
    /// The way of this process.
    pub(crate) fn of_process() -> Self {
        #[cfg(loom)]
        return Self::Even;
        #[cfg(not(loom))]
        {
            static WAY: OnceLock<Fences> = OnceLock::new();
            let choose = || if membarrier(REGISTER_EXPEDITED) { Self::Uneven } else { Self::Even };
            *WAY.get_or_init(choose)
        }
    }

    /// The one that is made all the time.
    #[inline]
    pub(crate) fn light(self) {
        if Switch::Light.is_out() {
            return;
        }
        #[cfg(not(loom))]
        if self == Self::Uneven {
            // The compiler must keep the order that the heavy one has the processor keep.
            return compiler_fence(Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
    }

    /// The one that is made rarely.
    pub(crate) fn heavy(self) {
        if Switch::Heavy.is_out() {
            return;
        }
        #[cfg(not(loom))]
        if self == Self::Uneven {
            fence_everywhere();
        }
        fence(Ordering::SeqCst);
    }

    /// The same for the caches of the layers below, unless they are even.
    pub(crate) fn uneven(self) -> Option<UnevenFences> {
        match self {
            #[cfg(not(loom))]
            Self::Uneven => Some(UnevenFences::new(fence_everywhere)),
            _ => None,
        }
    }
}
