//! mimalloc: objects of the host, as a limit of speed.
//!
//! It keeps its lists inside the objects, which no allocator of offsets can do, and the objects
//! are small, so this is how fast an allocation can be rather than a rival.

use core::{ffi::c_void, ptr::NonNull};

use libmimalloc_sys::{mi_free, mi_malloc};
use pool_mock::replay::Placer;

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

impl Placer for MiMalloc {
    type Block = Object;

    #[inline]
    fn place(&mut self, bytes: u64) -> Option<Object> {
        // At most 8 KiB: it fits any `usize`.
        let bytes = usize::try_from(bytes.min(MOST_BYTES)).ok()?;
        // SAFETY: `mi_malloc` may be called with any size; it answers null if it has no memory.
        NonNull::new(unsafe { mi_malloc(bytes) }).map(Object)
    }

    #[inline]
    fn release(&mut self, block: Object) {
        // SAFETY: the pointer came from `mi_malloc`, as only `place` makes an `Object`, and is
        // freed once, as an `Object` cannot be copied and is consumed here. Nothing refers to
        // the memory: it is never touched.
        unsafe { mi_free(block.0.as_ptr()) }
    }
}
