//! A 64-bit atomic for targets that have none: a number behind a spin lock.

use core::sync::atomic::Ordering;

use spin::mutex::SpinMutex;

/// Stands in for `core`'s `AtomicU64`, with as much of it as is used here. A lock is stronger
/// than any ordering, so the orderings are not looked at.
#[derive(Debug, Default)]
pub(crate) struct AtomicU64(SpinMutex<u64>);

impl AtomicU64 {
    pub(crate) const fn new(value: u64) -> Self {
        Self(SpinMutex::new(value))
    }

    #[inline]
    pub(crate) fn load(&self, _: Ordering) -> u64 {
        *self.0.lock()
    }

    #[inline]
    pub(crate) fn store(&self, value: u64, _: Ordering) {
        *self.0.lock() = value;
    }

    #[inline]
    pub(crate) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        let mut value = self.0.lock();
        if *value == current { Ok(core::mem::replace(&mut *value, new)) } else { Err(*value) }
    }

    #[inline]
    pub(crate) fn swap(&self, new: u64, _: Ordering) -> u64 {
        core::mem::replace(&mut *self.0.lock(), new)
    }

    #[inline]
    pub(crate) fn fetch_add(&self, more: u64, _: Ordering) -> u64 {
        let mut value = self.0.lock();
        let new = value.wrapping_add(more);
        core::mem::replace(&mut *value, new)
    }

    #[inline]
    pub(crate) fn fetch_max(&self, other: u64, _: Ordering) -> u64 {
        let mut value = self.0.lock();
        let new = other.max(*value);
        core::mem::replace(&mut *value, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::Relaxed;

    #[test]
    fn it_does_what_an_atomic_does() {
        let number = AtomicU64::new(5);
        assert_eq!(number.compare_exchange(4, 9, Relaxed, Relaxed), Err(5));
        assert_eq!(number.compare_exchange(5, 9, Relaxed, Relaxed), Ok(5));
        assert_eq!(number.fetch_add(1, Relaxed), 9);
        assert_eq!(number.fetch_max(3, Relaxed), 10);
        number.store(2, Relaxed);
        assert_eq!(number.swap(4, Relaxed), 2);
        assert_eq!(number.load(Relaxed), 4);
    }
}
