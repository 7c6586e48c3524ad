//! How much of what is free is in pieces that are too small, for requests of several sizes.

use super::{
    stretches::{Change, Stretches},
    thin::Thinned,
};

/// The sizes of requests: from 4 KiB, each four times the one before, to 1 GiB.
pub(crate) const SIZES: usize = 10;

/// A share is in thousandths.
const WHOLE: u128 = 1000;

/// The size with an index.
pub(crate) const fn size_bytes(index: usize) -> u64 {
    4096 << (2 * index)
}

/// The free stretches of all memory, and what their sizes were over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments {
    free: Stretches,
    free_bytes: u64,
    /// Bytes in stretches that serve so many of the sizes.
    serving: [u64; SIZES + 1],
    /// The shares now.
    shares: [u16; SIZES],
    is_stale: bool,
    /// The shares after each event.
    history: Thinned<SIZES>,
}

impl Fragments {
    /// Memory is free from now on.
    pub(crate) fn add(&mut self, address: u64, bytes: u64) {
        let Self { free, free_bytes, serving, .. } = self;
        *free_bytes += free.add(address, bytes, |change| tell(serving, change));
        self.is_stale = true;
    }

    /// Memory is not free any more.
    pub(crate) fn remove(&mut self, address: u64, bytes: u64) {
        let Self { free, free_bytes, serving, .. } = self;
        *free_bytes -= free.remove(address, bytes, |change| tell(serving, change));
        self.is_stale = true;
    }

    /// An event is over.
    pub(crate) fn note(&mut self) {
        if core::mem::take(&mut self.is_stale) {
            let mut too_small = 0_u64;
            for (share, bytes) in self.shares.iter_mut().zip(self.serving) {
                too_small = too_small.saturating_add(bytes);
                let thousandths =
                    u128::from(too_small) * WHOLE / u128::from(self.free_bytes.max(1));
                *share = u16::try_from(thousandths).unwrap_or(u16::MAX);
            }
        }
        self.history.push(self.shares);
    }

    /// The shares after each event, thinned.
    pub(crate) fn history(&self) -> &Thinned<SIZES> {
        &self.history
    }
}

/// A free stretch came or left.
fn tell(serving: &mut [u64; SIZES + 1], change: Change) {
    let index = |bytes: u64| {
        // The sizes are every second power of two from 2^12.
        let size = (bytes.max(1).ilog2() as usize).saturating_sub(10) / 2;
        size.min(SIZES)
    };
    match change {
        Change::Came(bytes) => serving[index(bytes)] += bytes,
        Change::Left(bytes) => serving[index(bytes)] -= bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_serves_what_is_no_longer_than_it() {
        for size in 0..SIZES {
            for bytes in [size_bytes(size) - 1, size_bytes(size), size_bytes(size) + 1] {
                let mut serving = [0; SIZES + 1];
                tell(&mut serving, Change::Came(bytes));
                let expected = (0..SIZES).filter(|size| size_bytes(*size) <= bytes).count();
                assert_eq!(
                    serving.iter().position(|found| *found == bytes),
                    Some(expected),
                    "{bytes}"
                );
            }
        }
    }

    #[test]
    fn the_share_is_of_bytes_in_stretches_that_are_too_short() {
        let mut fragments = Fragments::default();
        fragments.add(0, 4096);
        fragments.add(10_000, 3 * 4096);
        fragments.note();
        // Both serve 4 KiB; neither serves 16 KiB.
        assert_eq!(fragments.shares[..2], [0, 1000]);
        fragments.add(100_000, 16 << 10);
        fragments.note();
        assert_eq!(fragments.shares[..3], [0, 500, 1000]);
        fragments.remove(100_000, 1);
        fragments.note();
        assert_eq!(fragments.shares[..3], [0, 1000, 1000]);
        let most: Vec<_> = fragments.history().places().iter().map(|place| place[1].most).collect();
        assert_eq!(most, [1000, 500, 1000]);
    }
}
