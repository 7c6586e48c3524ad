//! The memory of blocks, as far as the checker is concerned.

use loom::cell::UnsafeCell;

use super::std::boxed::Box;

/// The memory of one block. There is nothing in it; the checker records who uses it, and two
/// uses that nothing orders are reported as a race, in whichever order they came.
#[derive(Default)]
pub(super) struct Memory(UnsafeCell<()>);

// SAFETY: no reference to what is inside is ever made, and nothing is inside.
unsafe impl Sync for Memory {}

// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    /// Writes to the memory, as far as the checker is concerned.
    pub(super) fn write(&self) {
        self.0.with_mut(|_| ());
    }
}

/// The memory of so many blocks.
pub(super) fn memories(count: usize) -> Box<[Memory]> {
    (0..count).map(|_| Memory::default()).collect()
}
