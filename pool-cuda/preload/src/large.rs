//! The block that has an address, which need not be where it begins. Where a block begins the pool knows.
//! Long ones are noted here; short ones are found by looking at each place before.

use core::sync::atomic::{AtomicU32, Ordering};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pool_cuda_c::whose::{LiveBlock, block_at, is_pools};

use crate::pool::ALIGN;

/// Blocks for so many bytes or more are noted.
const LONG: usize = 256 << 10;

/// So far before an address a block that is not noted may begin: it was asked for with less than `LONG`, and
/// requests are rounded up to less than twice as much.
const NEAR: u64 = 2 * LONG as u64;

/// Where the long ones begin.
static LARGE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// How many are noted, by some bits of their addresses: most frees are of short blocks, and find zero here.
static COUNTS: [AtomicU32; 1024] = [const { AtomicU32::new(0) }; 1024];

fn large() -> MutexGuard<'static, BTreeSet<u64>> {
    LARGE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(address: u64) -> &'static AtomicU32 {
    let scattered = (address / ALIGN).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
    &COUNTS[scattered as usize % COUNTS.len()]
}

/// Notes a block that was given out for a request of so many bytes.
pub(crate) fn note(address: u64, requested: usize) {
    if requested >= LONG {
        count(address).fetch_add(1, Ordering::AcqRel);
        large().insert(address);
    }
}

/// Strikes a block out before it is freed; true if it was noted.
pub(crate) fn strike(address: u64) -> bool {
    let count = count(address);
    let was_noted = count.load(Ordering::Acquire) > 0 && large().remove(&address);
    if was_noted {
        count.fetch_sub(1, Ordering::AcqRel);
    }
    was_noted
}

/// Notes a block again that could not be freed.
pub(crate) fn keep(address: u64) {
    note(address, LONG);
}

/// The live block that has an address, and where it begins.
pub(crate) fn around(address: u64) -> Option<(u64, LiveBlock)> {
    let has = |start: u64, block: LiveBlock| address - start < block.bytes as u64;
    if let Some(block) = block_at(address) {
        return Some((address, block));
    }
    let noted = large().range(..=address).next_back().copied();
    if let Some(start) = noted
        && let Some(block) = block_at(start)
        && has(start, block)
    {
        return Some((start, block));
    }
    let (first, last) = (address / ALIGN, address.saturating_sub(NEAR) / ALIGN);
    let start = (last..=first).rev().map(|place| place * ALIGN).find(|&start| is_pools(start))?;
    let block = block_at(start)?;
    has(start, block).then_some((start, block))
}
