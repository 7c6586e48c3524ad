//! The blocks that are not free at the moment: none overlaps another.

use std::collections::BTreeMap;

/// A block that the program has, or that work may still use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// Its number: so many were handed out before it.
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    pub(crate) is_deferred: bool,
}

/// By address.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenBlocks(BTreeMap<u64, Open>);

impl OpenBlocks {
    /// The block that begins at an address.
    #[cfg(feature = "live")]
    pub(crate) fn get(&self, address: u64) -> Option<&Open> {
        self.0.get(&address)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, address: u64) -> Option<&mut Open> {
        self.0.get_mut(&address)
    }

    pub(crate) fn insert(&mut self, address: u64, open: Open) {
        self.0.insert(address, open);
    }

    pub(crate) fn remove(&mut self, address: u64) {
        self.0.remove(&address);
    }

    /// Where a block begins that has one of these addresses, or begins at one, and the block: the last
    /// such.
    pub(crate) fn within(&self, address: u64, bytes: u64) -> Option<(u64, Open)> {
        let end = address.saturating_add(bytes.max(1));
        let (start, open) = self.0.range(..end).next_back()?;
        (*start >= address || start.saturating_add(open.bytes) > address).then_some((*start, *open))
    }
}
