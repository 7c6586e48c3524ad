//! Addresses: what memory is behind each, and who may use it.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pool_mock::device::{Access, SimDevice, SimRange, TaskUse};

use crate::bytes::Storage;
use crate::driver_pools::DriverPool;

/// Addresses of devices begin here, above all of the host's.
pub(crate) const FIRST_ADDRESS: u64 = 1 << 48;
/// Addresses that are reserved begin here.
const FIRST_RESERVED: u64 = 1 << 56;
/// So many addresses can be reserved, as on a device with 47 bits of them.
const MOST_RESERVED: u64 = 1 << 47;
/// Between two reservations that nobody places is at least so much, for one that goes on.
const RESERVED_STRIDE: u64 = 1 << 40;

/// All addresses.
#[derive(Default)]
pub(crate) struct Space {
    pub(crate) blocks: BTreeMap<u64, Block>,
    /// The sizes of what is reserved, by address.
    pub(crate) reserved: BTreeMap<u64, u64>,
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    /// How much of the addresses for blocks was given out. None is given out twice, so that a
    /// use of memory that is gone is noticed.
    used: u64,
}

/// Memory with an address of its own.
pub(crate) struct Block {
    pub(crate) size: u64,
    pub(crate) range: SimRange,
    pub(crate) storage: Arc<Storage>,
    pub(crate) kind: Kind,
}

/// What a block is.
#[derive(Clone)]
pub(crate) enum Kind {
    /// Memory of a device.
    Plain { ordinal: usize, device: SimDevice },
    /// Memory of a pool of the driver's.
    Pooled(Arc<DriverPool>),
    /// The host's, allocated by the driver.
    Pinned,
    /// The host's, made known to the driver.
    Registered,
}

/// Pages under reserved addresses.
pub(crate) struct Mapping {
    pub(crate) size: u64,
    /// Which pages.
    pub(crate) pages: u64,
    /// What stands for their memory, wherever it is mapped.
    pub(crate) memory: SimRange,
    /// What stands for this mapping.
    pub(crate) window: SimRange,
    pub(crate) storage: Arc<Storage>,
    /// The devices that may write it, and those that may only read.
    pub(crate) writers: BTreeSet<usize>,
    pub(crate) readers: BTreeSet<usize>,
}

/// A part of a stretch of addresses, and the memory behind it.
#[derive(Clone)]
pub(crate) struct Span {
    pub(crate) storage: Arc<Storage>,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// The memory behind a stretch of addresses: its parts in order, and how the detector knows them.
#[derive(Clone, Default)]
pub(crate) struct Found {
    pub(crate) spans: Vec<Span>,
    pub(crate) uses: Vec<TaskUse>,
}

/// Who uses memory.
#[derive(Clone, Copy)]
pub(crate) enum User<'a> {
    /// The driver, by a copy or a fill: it reaches whatever any device may use.
    Driver,
    /// A kernel on a device, which has peers.
    Kernel(usize, &'a BTreeSet<usize>),
}

/// Why addresses cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no memory behind some.
    Nothing,
    /// The device has no access to some.
    NoAccess,
}

impl Space {
    /// An address for a new block, with some that nothing is behind before the next.
    pub(crate) const fn place(&mut self, size: u64) -> u64 {
        const ALIGN: u64 = 512;
        let address = FIRST_ADDRESS + self.used;
        self.used += size.next_multiple_of(ALIGN) + ALIGN;
        address
    }

    /// Reserves addresses: those that are wished for, if nobody has them.
    pub(crate) fn reserve(&mut self, size: u64, align: u64, wish: u64) -> Option<u64> {
        let all: u64 = self.reserved.values().sum();
        if size > MOST_RESERVED.checked_sub(all)? {
            return None;
        }
        let wish_end = wish.checked_add(size)?;
        let is_free = |start: u64, end: u64| {
            let before = self.reserved.range(..end).next_back();
            before.is_none_or(|(&other, &other_size)| other + other_size <= start)
        };
        let fits = wish >= FIRST_RESERVED && wish.is_multiple_of(align);
        let address = if fits && is_free(wish, wish_end) {
            wish
        } else {
            let last = self.reserved.last_key_value();
            let end = last.map_or(FIRST_RESERVED, |(&start, &size)| start + size);
            end.next_multiple_of(RESERVED_STRIDE).checked_next_multiple_of(align)?
        };
        self.reserved.insert(address, size);
        Some(address)
    }

    /// Whether a stretch lies in what is reserved, by one reservation or several.
    pub(crate) fn is_reserved(&self, bytes: Range<u64>) -> bool {
        let mut at = bytes.start;
        while at < bytes.end {
            let Some((&start, &size)) = self.reserved.range(..=at).next_back() else {
                return false;
            };
            if start + size <= at {
                return false;
            }
            at = start + size;
        }
        true
    }

    /// The addresses of the mappings that a stretch consists of, if it does.
    pub(crate) fn whole_mappings(&self, bytes: Range<u64>) -> Option<Vec<u64>> {
        let mut at = bytes.start;
        let mut found = Vec::new();
        while at < bytes.end {
            found.push(at);
            at += self.mappings.get(&at)?.size;
        }
        (at == bytes.end && !found.is_empty()).then_some(found)
    }

    /// Whether any part of a stretch is mapped.
    pub(crate) fn is_mapped(&self, bytes: &Range<u64>) -> bool {
        let before = self.mappings.range(..bytes.end).next_back();
        before.is_some_and(|(&start, mapping)| start + mapping.size > bytes.start)
    }

    /// The memory behind a stretch of addresses.
    pub(crate) fn find(
        &self,
        address: u64,
        size: u64,
        access: Access,
        user: User<'_>,
    ) -> Result<Found, Fault> {
        let end = address.checked_add(size).ok_or(Fault::Nothing)?;
        let mut found = Found::default();
        let mut at = address;
        while at < end {
            at += self.find_part(at, end, access, user, &mut found)?;
        }
        Ok(found)
    }

    /// Adds the memory behind the first addresses of a stretch; gives how many.
    fn find_part(
        &self,
        at: u64,
        end: u64,
        access: Access,
        user: User<'_>,
        found: &mut Found,
    ) -> Result<u64, Fault> {
        let block = self.blocks.range(..=at).next_back();
        if let Some((&start, block)) = block.filter(|&(&start, block)| at - start < block.size) {
            if !block.kind.serves(user) {
                return Err(Fault::NoAccess);
            }
            let (offset, size) = (at - start, end.min(start + block.size) - at);
            found.uses.push((block.range, offset, size, access));
            found.spans.push(Span { storage: Arc::clone(&block.storage), offset, size });
            return Ok(size);
        }
        let mapping = self.mappings.range(..=at).next_back();
        let mapping = mapping.filter(|&(&start, mapping)| at - start < mapping.size);
        let (&start, mapping) = mapping.ok_or(Fault::Nothing)?;
        if !mapping.serves(user, access) {
            return Err(Fault::NoAccess);
        }
        let (offset, size) = (at - start, end.min(start + mapping.size) - at);
        found.uses.push((mapping.memory, offset, size, access));
        // Whatever is done to the memory, the mapping is only looked at, and has to stay.
        found.uses.push((mapping.window, offset, size, Access::Read));
        found.spans.push(Span { storage: Arc::clone(&mapping.storage), offset, size });
        Ok(size)
    }
}

impl Kind {
    fn serves(&self, user: User<'_>) -> bool {
        match (self, user) {
            (_, User::Driver) | (Self::Pinned | Self::Registered, _) => true,
            (Self::Plain { ordinal, .. }, User::Kernel(by, peers)) => {
                *ordinal == by || peers.contains(ordinal)
            }
            (Self::Pooled(pool), User::Kernel(by, _)) => pool.serves(by),
        }
    }
}

impl Mapping {
    fn serves(&self, user: User<'_>, access: Access) -> bool {
        let may = |set: &BTreeSet<usize>| match user {
            User::Driver => !set.is_empty(),
            User::Kernel(by, _) => set.contains(&by),
        };
        may(&self.writers) || (access == Access::Read && may(&self.readers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_met_if_the_addresses_are_free() {
        let mut space = Space::default();
        let first = space.reserve(4 << 20, 2 << 20, 0).unwrap();
        let next = space.reserve(2 << 20, 2 << 20, first + (4 << 20)).unwrap();
        assert_eq!(next, first + (4 << 20));
        let other = space.reserve(2 << 20, 2 << 20, first + (2 << 20)).unwrap();
        assert!(other >= next + (2 << 20));
        assert!(space.is_reserved(first..next + (2 << 20)));
        assert!(!space.is_reserved(first..next + (2 << 20) + 1));
        assert_eq!(space.reserve(MOST_RESERVED, 2 << 20, 0), None);
    }
}
