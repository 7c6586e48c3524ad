//! Where addresses lie in the space of offsets: the way back from a program's pointer to a block.
//!
//! Each window of offsets that has memory is in a chain of those whose addresses fall into one bucket.
//! The nodes of the chains are the windows themselves, so that nothing is allocated, and a window is in
//! one chain at most: what has become of an arena that is gone is struck out when the window has
//! another, and until then names no live block. Two arenas that share 2 MiB of addresses are two windows
//! of one chain.
//!
//! A look takes no lock. One that meets a change may lose its way from one chain into another, so
//! changes are counted, and who found nothing while one was made looks again.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::arenas::WINDOW_BITS;
use crate::range::ConfigError;
use crate::sync::{AtomicU32, Ordering, is_left, pause};

/// The end of a chain, and an empty one. Else a link is a window's number plus one.
const NONE: u32 = 0;

/// The link of a window that is in no chain.
const OUT: u32 = u32::MAX;

/// The chains.
pub(crate) struct Whereabouts {
    /// The first window of each bucket: as many as a power of two.
    heads: Box<[AtomicU32]>,
    /// The next one of each window.
    links: Box<[AtomicU32]>,
    /// Odd while a change is made.
    changes: AtomicU32,
}

impl Whereabouts {
    /// Of so many windows, none of which has memory.
    pub(crate) fn new(windows: usize) -> Result<Self, ConfigError> {
        let buckets = windows.next_power_of_two();
        let (heads, links) = (filled(buckets, NONE)?, filled(windows, OUT)?);
        Ok(Self { heads, links, changes: AtomicU32::new(0) })
    }

    /// The bucket of an address. Neighbours are in neighbouring ones, so that a program that works in
    /// few arenas looks at few lines.
    #[inline(always)]
    fn head(&self, address: u64) -> Option<&AtomicU32> {
        let window = address >> WINDOW_BITS;
        let bits = self.heads.len().trailing_zeros();
        let folded = window ^ window >> bits.min(63);
        self.heads.get(folded as usize & (self.heads.len() - 1))
    }

    fn link(&self, window: usize) -> Option<&AtomicU32> {
        self.links.get(window)
    }

    /// Moves a window from the chain of the address that it had, if it is in one, to that of another,
    /// which a store makes known. One thread at a time may.
    pub(crate) fn change(&self, window: usize, old: u64, new: u64, store: impl FnOnce()) {
        let is_in = |link: &AtomicU32| link.load(Ordering::Relaxed) != OUT;
        if old == new && self.link(window).is_some_and(is_in) {
            return;
        }
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes.store(changes.wrapping_add(1), Ordering::Relaxed);
        // Each store below is a release: who sees one sees that a change is made.
        self.take_out(window, old);
        store();
        self.put_in(window, new);
        self.changes.store(changes.wrapping_add(2), Ordering::Release);
    }

    fn take_out(&self, window: usize, address: u64) {
        let Some(own) = self.link(window) else { return };
        let behind = own.load(Ordering::Relaxed);
        if behind == OUT {
            return;
        }
        let mut before = self.head(address);
        while let Some(link) = before {
            let next = link.load(Ordering::Relaxed);
            if next as usize == window + 1 {
                link.store(behind, Ordering::Release);
                break;
            }
            before = (next as usize).checked_sub(1).and_then(|next| self.link(next));
        }
        own.store(OUT, Ordering::Release);
    }

    fn put_in(&self, window: usize, address: u64) {
        if let (Some(own), Some(head)) = (self.link(window), self.head(address)) {
            own.store(head.load(Ordering::Relaxed), Ordering::Release);
            head.store(window as u32 + 1, Ordering::Release);
        }
    }

    /// The first that is found of the windows that may have an address.
    ///
    /// # Complexity
    ///
    /// Linear in the windows whose addresses fall into one bucket: in practice one.
    #[inline]
    pub(crate) fn find<R>(
        &self,
        address: u64,
        mut look: impl FnMut(usize) -> Option<R>,
    ) -> Option<R> {
        let head = self.head(address)?;
        loop {
            let changes = self.changes.load(Ordering::Acquire);
            let mut link = head.load(Ordering::Acquire);
            // A look that lost its way may go in circles.
            for _ in 0..self.links.len() {
                let Some(window) = (link as usize).checked_sub(1) else { break };
                if let Some(found) = look(window) {
                    return Some(found);
                }
                // Of one that has just left, the link leads nowhere.
                link = self.link(window).map_or(NONE, |link| link.load(Ordering::Acquire));
                if link == OUT {
                    break;
                }
            }
            let same = changes.is_multiple_of(2) && self.changes.load(Ordering::Relaxed) == changes;
            // In a forked child no change ends that another thread had begun.
            if same || is_left() {
                return None;
            }
            pause();
        }
    }
}

fn filled(count: usize, value: u32) -> Result<Box<[AtomicU32]>, ConfigError> {
    let refused = ConfigError::OutOfHostMemory { bytes: count.saturating_mul(4) };
    let mut table = Vec::new();
    table.try_reserve_exact(count).map_err(|_| refused)?;
    table.resize_with(count, || AtomicU32::new(value));
    Ok(table.into_boxed_slice())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;

    use core::sync::atomic::{AtomicBool, AtomicU64};

    use super::*;
    use crate::pool::arenas::WINDOW_BYTES;

    const WINDOWS: usize = 12;

    /// The address of each window, as the pool keeps them beside.
    struct Table {
        starts: [AtomicU64; WINDOWS],
        whereabouts: Whereabouts,
    }

    impl Table {
        fn new() -> Self {
            let starts = [(); WINDOWS].map(|()| AtomicU64::new(0));
            Self { starts, whereabouts: Whereabouts::new(WINDOWS).unwrap() }
        }

        fn put(&self, window: usize, address: u64) {
            let start = &self.starts[window];
            let old = start.load(Ordering::Relaxed);
            let store = || start.store(address, Ordering::Release);
            self.whereabouts.change(window, old, address, store);
        }

        fn all_at(&self, address: u64) -> Vec<usize> {
            let mut found = Vec::new();
            let all = self.whereabouts.find(address, |window| {
                if self.starts[window].load(Ordering::Acquire) == address {
                    found.push(window);
                }
                None::<()>
            });
            assert!(all.is_none());
            found.sort_unstable();
            found
        }
    }

    /// Addresses that share buckets in every way: neighbours, folded ones, and far ones.
    fn addresses() -> Vec<u64> {
        let windows = [0, 1, 2, 15, 16, 17, 32, 255, 256, 1 << 20, (1 << 20) + 16, (1 << 43) - 1];
        windows.into_iter().map(|window: u64| window * WINDOW_BYTES).collect()
    }

    #[test]
    fn windows_are_found_by_the_address_that_they_have_now_and_by_no_other() {
        let (table, addresses) = (Table::new(), addresses());
        let mut model = [None; WINDOWS];
        let mut draw = 1_u64;
        for _ in 0..2000 {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            let window = (draw >> 33) as usize % WINDOWS;
            // Several windows have one address now and then, as two arenas may.
            let address = addresses[(draw >> 40) as usize % addresses.len()];
            table.put(window, address);
            model[window] = Some(address);
            for &address in &addresses {
                let expected: Vec<usize> =
                    (0..WINDOWS).filter(|&window| model[window] == Some(address)).collect();
                assert_eq!(table.all_at(address), expected);
            }
        }
    }

    #[test]
    fn a_pool_without_windows_finds_nothing() {
        let whereabouts = Whereabouts::new(0).unwrap();
        assert_eq!(whereabouts.find(4096, |_| Some(())), None);
        whereabouts.change(0, 0, 4096, || ());
        assert_eq!(whereabouts.find(4096, |_| Some(())), None);
    }

    #[test]
    fn what_stays_is_found_whatever_moves_meanwhile() {
        let (table, addresses) = (Table::new(), addresses());
        let (stays, stop) = (addresses[1], AtomicBool::new(false));
        let looks = [AtomicU64::new(0), AtomicU64::new(0)];
        let have_looked = || looks.iter().all(|looks| looks.load(Ordering::Relaxed) > 0);
        table.put(3, stays);
        std::thread::scope(|scope| {
            for looks in &looks {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let is_it = |window: usize| {
                            let start = table.starts[window].load(Ordering::Acquire);
                            (start == stays).then_some(window)
                        };
                        assert_eq!(table.whereabouts.find(stays, is_it), Some(3));
                        looks.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // The readers may come late.
            let goes_on = |&round: &usize| round < 100_000 || !have_looked();
            for round in (0..100_000_000).take_while(goes_on) {
                let window = 4 + round % (WINDOWS - 4);
                // In and out of the bucket of the one that stays.
                let address = addresses[2 + round * 7 % (addresses.len() - 2)];
                table.put(window, address);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(have_looked());
    }
}
