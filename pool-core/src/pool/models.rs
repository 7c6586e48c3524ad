//! Models of what threads do to each other in the tables of this layer, for the checker loom.

use alloc::sync::Arc;

use super::arenas::WINDOW_BYTES;
use super::whereabouts::Whereabouts;
use crate::sync::{AtomicU64, Ordering};
use crate::threads::models::explore::{Bound, Seen, explore};

/// Three windows of four buckets, and their addresses.
struct Table {
    starts: [AtomicU64; 3],
    whereabouts: Whereabouts,
}

impl Table {
    fn put(&self, window: usize, address: u64) {
        let start = &self.starts[window];
        let old = start.load(Ordering::Relaxed);
        let store = || start.store(address, Ordering::Release);
        self.whereabouts.change(window, old, address, store);
    }

    fn find(&self, address: u64) -> Option<usize> {
        self.whereabouts.find(address, |window| {
            (self.starts[window].load(Ordering::Acquire) == address).then_some(window)
        })
    }
}

/// A look passes a window that is moved to another chain meanwhile: it finds what lies behind.
#[test]
fn a_look_by_address_against_a_window_that_moves() {
    static FOUND: Seen = Seen::new("found");
    explore(
        "a_look_by_address_against_a_window_that_moves",
        Bound::Preemptions(3),
        &[&FOUND],
        |order| {
            let starts = [(); 3].map(|()| AtomicU64::new(0));
            let table = Table { starts, whereabouts: Whereabouts::new(3).unwrap() };
            // Two in one chain, the one that moves before the one that stays.
            let (stays, moves) = (WINDOW_BYTES, WINDOW_BYTES * 17);
            table.put(0, stays);
            table.put(1, moves);
            table.put(2, WINDOW_BYTES * 2);
            let table = Arc::new(table);
            let go = |table: &Arc<Table>| table.put(1, WINDOW_BYTES * 2);
            let look = move |table: &Arc<Table>| table.find(stays);
            let ((), found) = order.race(&table, go, look);
            assert_eq!(found, Some(0));
            assert_eq!(table.find(moves), None);
            FOUND.note();
        },
    );
}
