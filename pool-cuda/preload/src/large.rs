//! The block that has an address, which need not be where it begins. Where a block begins the pool knows.
//! Long ones are noted here; short ones are found by looking at each place before.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pool_cuda_c::whose::{LiveBlock, block_at};

/// Blocks of so many bytes or more are noted.
const LONG: usize = 256 << 10;

/// Where the pool's blocks begin: at multiples of it.
const STEP: u64 = 256;

/// The long ones.
static LARGE: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

fn large() -> MutexGuard<'static, BTreeMap<u64, usize>> {
    LARGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a block that was given out for a request of so many bytes.
pub(crate) fn note(address: u64, requested: usize) {
    // What it was rounded up by is not much.
    if requested >= LONG / 2
        && let Some(block) = block_at(address)
    {
        put(address, block);
    }
}

/// The same, of a block that is known.
pub(crate) fn put(address: u64, block: LiveBlock) {
    if block.bytes >= LONG {
        large().insert(address, block.bytes);
    }
}

/// Strikes a block out, before it is freed.
pub(crate) fn strike(address: u64, block: LiveBlock) {
    if block.bytes >= LONG {
        large().remove(&address);
    }
}

/// The live block that has an address, and where it begins.
pub(crate) fn around(address: u64) -> Option<(u64, LiveBlock)> {
    let has = |start: u64, block: LiveBlock| address - start < block.bytes as u64;
    if let Some(block) = block_at(address) {
        return Some((address, block));
    }
    let noted = large().range(..=address).next_back().map(|(&start, _)| start);
    if let Some(start) = noted
        && let Some(block) = block_at(start)
        && has(start, block)
    {
        return Some((start, block));
    }
    let first = address / STEP;
    let last = first.saturating_sub(LONG as u64 / STEP);
    let start = (last..=first).rev().map(|place| place * STEP);
    let (start, block) = start.into_iter().find_map(|start| Some((start, block_at(start)?)))?;
    has(start, block).then_some((start, block))
}
