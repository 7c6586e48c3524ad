//! A value on cache lines of its own.

use core::ops::Deref;

/// Keeps a value off the cache lines of others: 128 bytes, since processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<V>(pub(crate) V);

impl<V> Deref for Padded<V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        &self.0
    }
}
