//! Two fences that make one, of which one costs nothing.

use super::Ordering;

/// Two fences that order as two sequentially consistent ones do, of a platform that can have all
/// threads of the process pass a fence at once (Linux: `membarrier`; Windows:
/// `FlushProcessWriteBuffers`). So the light one, which is made at each hit, is one for the compiler
/// alone, and the heavy one, which is made rarely, does the work of both.
///
/// # Example
///
/// ```
/// use pool_core::sync::UnevenFences;
///
/// fn all_threads_pass_a_fence() {
///     // … the platform's call
/// }
///
/// let fences = UnevenFences::new(all_threads_pass_a_fence);
/// fences.light();
/// fences.heavy();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UnevenFences {
    heavy: fn(),
}

impl UnevenFences {
    /// By the call that has every thread of the process that runs pass a fence before it returns, and
    /// the calling one. One that does less has two threads get one block.
    ///
    /// # Example
    ///
    /// See [`UnevenFences`].
    #[must_use]
    pub const fn new(heavy: fn()) -> Self {
        Self { heavy }
    }

    /// The fence that is made all the time.
    ///
    /// # Example
    ///
    /// See [`UnevenFences`].
    #[inline]
    pub fn light(self) {
        // A checker knows no such call of the system: its fences are even.
        #[cfg(loom)]
        loom::sync::atomic::fence(Ordering::SeqCst);
        // The compiler must keep the order that the heavy one has the processors keep.
        #[cfg(not(loom))]
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }

    /// The fence that is made rarely.
    ///
    /// # Example
    ///
    /// See [`UnevenFences`].
    pub fn heavy(self) {
        (self.heavy)();
        #[cfg(loom)]
        loom::sync::atomic::fence(Ordering::SeqCst);
        #[cfg(not(loom))]
        core::sync::atomic::fence(Ordering::SeqCst);
    }
}
