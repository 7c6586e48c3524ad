//! mimalloc: objects of the host, as a limit of speed.
//!
//! It keeps its lists inside the objects, which no allocator of offsets can do, and the objects
//! are small, so this is how fast an allocation can be rather than a rival.

use core::{ffi::c_void, ptr::NonNull};

use libmimalloc_sys::{mi_free, mi_malloc};
use pool_mock::replay::Placer;

use crate::ours::GRANULE_BYTES;

/// The largest object that is asked for; larger requests ask for this.
const MOST_BYTES: u64 = 8 << 10;

/// Replays on mimalloc. Its granule is a byte, and it has no capacity.
///
/// ```
/// use peers::foreign::MiMalloc;
/// use pool_mock::replay::Placer;
///
/// let object = MiMalloc.place(1 << 40).unwrap();
/// MiMalloc.release(object);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MiMalloc;

/// An object that mimalloc handed out and that is live.
#[derive(Debug)]
pub struct Object(NonNull<c_void>);

// SAFETY: mimalloc lets any thread free what any thread allocated, and an `Object` does nothing
// else with its pointer.
unsafe impl Send for Object {}

impl Object {
    #[inline]
    fn new(bytes: u64) -> Option<Self> {
        let bytes = usize::try_from(bytes).ok()?;
        // SAFETY: `mi_malloc` may be called with any size; it answers null if it has no memory.
        NonNull::new(unsafe { mi_malloc(bytes) }).map(Self)
    }

    #[inline]
    fn free(self) {
        // SAFETY: the pointer came from `mi_malloc`, as only `new` makes an `Object`, and is
        // freed once, as an `Object` cannot be copied and is consumed here. Nothing refers to
        // the memory: it is never touched.
        unsafe { mi_free(self.0.as_ptr()) }
    }
}

impl Placer for MiMalloc {
    type Block = Object;

    #[inline]
    fn place(&mut self, bytes: u64) -> Option<Object> {
        Object::new(bytes.min(MOST_BYTES))
    }

    #[inline]
    fn release(&mut self, block: Object) {
        block.free();
    }
}

/// [`MiMalloc`] in granules of [`GRANULE_BYTES`], with objects of up to 16 KiB; larger requests
/// ask for this. What is no larger is asked for at its full size.
///
/// ```
/// use peers::foreign::MiMallocInGranules;
/// use pool_mock::replay::Placer;
///
/// let object = MiMallocInGranules.place(64).unwrap();
/// MiMallocInGranules.release(object);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MiMallocInGranules;

/// The largest object of [`MiMallocInGranules`].
const MOST_GRANULES: u64 = (16 << 10) / GRANULE_BYTES;

impl Placer for MiMallocInGranules {
    type Block = Object;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Object> {
        Object::new(granules.min(MOST_GRANULES) * GRANULE_BYTES)
    }

    #[inline]
    fn release(&mut self, block: Object) {
        block.free();
    }
}
