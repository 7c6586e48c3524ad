//! References to the runtime's objects, given back when they are dropped.

use core::ffi::c_void;
use core::fmt;
use core::marker::PhantomData;

use crate::process;

/// A kind of objects.
pub(crate) trait Kind {
    /// What it is called.
    const NAME: &'static str;
    /// The call that gives one reference back.
    const RELEASE: unsafe fn(*mut c_void) -> Result<(), i32>;
}

/// One reference to an object.
pub(crate) struct Owned<K: Kind> {
    raw: *mut c_void,
    kind: PhantomData<K>,
}

// SAFETY: OpenCL's calls may be made from any thread at any time, but for those that set a kernel's
// arguments, which take `&mut` here.
unsafe impl<K: Kind> Send for Owned<K> {}
// SAFETY: as above.
unsafe impl<K: Kind> Sync for Owned<K> {}

impl<K: Kind> Owned<K> {
    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// It is one to an object of this kind, and nobody else gives it back.
    pub(crate) unsafe fn new(raw: *mut c_void) -> Self {
        Self { raw, kind: PhantomData }
    }

    pub(crate) fn raw(&self) -> *mut c_void {
        self.raw
    }
}

impl<K: Kind> Drop for Owned<K> {
    fn drop(&mut self) {
        if process::is_usable() {
            // Nobody is left to tell of a failure.
            // SAFETY: the reference is this value's own, and this is its last use.
            let _ = unsafe { (K::RELEASE)(self.raw) };
        }
    }
}

impl<K: Kind> fmt::Debug for Owned<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({:p})", K::NAME, self.raw)
    }
}

/// Makes a kind of objects, released by a function of `cl3`.
macro_rules! kind {
    ($name:ident, $release:path) => {
        #[doc = concat!("A `", stringify!($name), "`.")]
        #[derive(Debug)]
        pub(crate) enum $name {}

        impl Kind for $name {
            const NAME: &'static str = stringify!($name);
            const RELEASE: unsafe fn(*mut c_void) -> Result<(), i32> = $release;
        }
    };
}

kind!(Context, cl3::context::release_context);
kind!(Event, cl3::event::release_event);
kind!(Kernel, cl3::kernel::release_kernel);
kind!(Memory, cl3::memory::release_mem_object);
kind!(Program, cl3::program::release_program);
kind!(Queue, cl3::command_queue::release_command_queue);
