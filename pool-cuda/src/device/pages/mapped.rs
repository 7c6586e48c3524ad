//! What is mapped where, and which devices may use it.
//!
//! A device that is given access later gets it to all that is mapped. What is mapped, unmapped and
//! opened at the same time by several threads is kept apart by notes, not by a lock: no call of the
//! driver is made under one.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::{CudaPages, Paging};
use crate::device::memory::CudaRange;
use crate::error::{CudaError, host_size};
use crate::sabotage::Switch;
use crate::sync::{Mutex, MutexGuard};
use crate::sys::{AccessDescription, RawAddress, RawDevice, RawPages};

/// What the driver says of addresses that are not what a call wants.
const INVALID_VALUE: i32 = 1;

/// What it says of one of two calls that open the same to one device at once.
const ALREADY_MAPPED: i32 = 208;

/// How often such a call is made again.
const MOST_TURNS: u32 = 1000;

/// All that is mapped.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    mappings: BTreeMap<RawAddress, Mapping>,
    bytes: u64,
    /// Other devices with access, to all that is noted.
    peers: Vec<RawDevice>,
    /// How many mappings there have been.
    made: u64,
}

/// A handle that is mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    pub(super) address: RawAddress,
    pub(super) pages: RawPages,
    pub(super) size_bytes: u64,
    pub(super) id: super::PagesId,
    /// No other mapping has or had it.
    number: u64,
    /// A thread is about to unmap it.
    is_leaving: bool,
}

impl Mapped {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.notes().bytes
    }

    /// The mappings that a stretch of addresses is in, in a row.
    pub(super) fn of(&self, address: RawAddress, len_bytes: u64) -> Option<Vec<Mapping>> {
        let end = address.checked_add(len_bytes)?;
        let notes = self.notes();
        let (&start, _) = notes.mappings.range(..=address).next_back()?;
        let (mut at, mut found) = (start, Vec::new());
        while at < end {
            let mapping = notes.mappings.get(&at).filter(|mapping| !mapping.is_leaving)?;
            found.push(*mapping);
            at += mapping.size_bytes;
        }
        // The first may end before the stretch begins.
        (found.first()?.address + found.first()?.size_bytes > address).then_some(found)
    }
}

impl Notes {
    fn add(&mut self, address: RawAddress, pages: &CudaPages) {
        self.made += 1;
        self.bytes += pages.size_bytes;
        let mapping = Mapping {
            address,
            pages: pages.raw,
            size_bytes: pages.size_bytes,
            id: pages.id,
            number: self.made,
            is_leaving: false,
        };
        self.mappings.insert(address, mapping);
    }

    fn remove(&mut self, address: RawAddress) {
        if let Some(mapping) = self.mappings.remove(&address) {
            self.bytes -= mapping.size_bytes;
        }
    }
}

/// Where handles lie that are put in a row.
fn row<'p>(
    start: RawAddress,
    pages: &[&'p CudaPages],
) -> impl Iterator<Item = (RawAddress, &'p CudaPages)> {
    pages.iter().scan(start, |at, pages| {
        let address = *at;
        *at += pages.size_bytes;
        Some((address, *pages))
    })
}

impl Paging {
    /// Maps handles in a row, and opens them to the device and its peers by one call; all or none.
    pub(crate) fn commit(
        &self,
        range: &CudaRange,
        offset_bytes: u64,
        pages: &[&CudaPages],
    ) -> Result<(), CudaError> {
        if pages.is_empty() {
            return Ok(());
        }
        let bytes = pages.iter().try_fold(0_u64, |sum, pages| sum.checked_add(pages.size_bytes));
        let end = bytes.and_then(|bytes| bytes.checked_add(offset_bytes));
        // The driver would see only that nobody, or somebody else, has the addresses.
        let outside = CudaError::Call { call: "cuMemMap", code: INVALID_VALUE };
        let bytes = bytes.filter(|_| end.is_some_and(|end| end <= range.reserved_bytes));
        let bytes = host_size("cuMemMap", bytes.ok_or(outside)?)?;
        let start = range.address + offset_bytes;
        for (place, (address, of)) in row(start, pages).enumerate() {
            if let Err(error) = self.map(address, of) {
                self.unmap_all(start, &pages[..place]);
                return Err(error);
            }
        }
        let access = self.note(start, pages);
        if let Err(error) = self.set_access(start, bytes, &access) {
            let mut notes = self.mapped.notes();
            row(start, pages).for_each(|(address, _)| notes.remove(address));
            drop(notes);
            self.unmap_all(start, pages);
            return Err(error);
        }
        Ok(())
    }

    /// Notes what is mapped now; gives who is to have access. Whoever comes later finds the notes.
    fn note(&self, start: RawAddress, pages: &[&CudaPages]) -> Vec<AccessDescription> {
        let mut notes = self.mapped.notes();
        row(start, pages).for_each(|(address, pages)| notes.add(address, pages));
        let all = core::iter::once(self.device).chain(notes.peers.iter().copied());
        all.map(AccessDescription::for_device).collect()
    }

    /// Takes a handle from under a range.
    pub(crate) fn decommit(
        &self,
        range: &CudaRange,
        offset_bytes: u64,
        pages: &CudaPages,
    ) -> Result<(), CudaError> {
        let nothing = CudaError::Call { call: "cuMemUnmap", code: INVALID_VALUE };
        let address = range.address.checked_add(offset_bytes).ok_or_else(|| nothing.clone())?;
        let peers = {
            let mut notes = self.mapped.notes();
            let peers = notes.peers.len();
            let mapping = notes.mappings.get_mut(&address);
            let mapping = mapping.filter(|known| known.pages == pages.raw && !known.is_leaving);
            mapping.ok_or(nothing)?.is_leaving = !Switch::Leaving.is_out();
            peers
        };
        let unmapped = self.unmap(address, pages.size_bytes);
        let mut notes = self.mapped.notes();
        if unmapped.is_ok() {
            notes.remove(address);
            return Ok(());
        }
        if let Some(mapping) = notes.mappings.get_mut(&address) {
            mapping.is_leaving = false;
        }
        // Those that were given access meanwhile passed it by.
        let late = notes.peers.get(peers..).unwrap_or_default();
        let late: Vec<_> = late.iter().copied().map(AccessDescription::for_device).collect();
        drop(notes);
        if !late.is_empty() && !Switch::Late.is_out() {
            let bytes = host_size("cuMemSetAccess", pages.size_bytes)?;
            self.set_access(address, bytes, &late)?;
        }
        unmapped
    }

    /// Lets kernels of another device use all that is mapped, and will be; all or nothing.
    pub(in crate::device) fn open_to(&self, peer: RawDevice) -> Result<(), CudaError> {
        let (is_new, mapped) = {
            let mut notes = self.mapped.notes();
            let is_new = !notes.peers.contains(&peer);
            if is_new {
                notes.peers.push(peer);
            }
            let staying = notes.mappings.values().filter(|mapping| !mapping.is_leaving);
            (is_new, staying.copied().collect::<Vec<_>>())
        };
        let access = [AccessDescription::for_device(peer)];
        for (place, mapping) in mapped.iter().enumerate() {
            let opened = host_size("cuMemSetAccess", mapping.size_bytes)
                .and_then(|bytes| self.set_access(mapping.address, bytes, &access));
            let Err(error) = opened else { continue };
            // If it was unmapped meanwhile there is nothing to open.
            let mut notes = self.mapped.notes();
            let known = notes.mappings.get(&mapping.address);
            if known.is_none_or(|known| known.number != mapping.number || known.is_leaving) {
                continue;
            }
            if is_new {
                notes.peers.retain(|&known| known != peer);
                drop(notes);
                self.close_to(peer, &mapped[..place]);
            }
            return Err(error);
        }
        Ok(())
    }

    /// Takes access back. Nobody is there to tell of a failure.
    fn close_to(&self, peer: RawDevice, mappings: &[Mapping]) {
        let access = [AccessDescription::not_for_device(peer)];
        for mapping in mappings {
            let _ = host_size("cuMemSetAccess", mapping.size_bytes)
                .and_then(|bytes| self.set_access(mapping.address, bytes, &access));
        }
    }

    fn map(&self, address: RawAddress, pages: &CudaPages) -> Result<(), CudaError> {
        let bytes = host_size("cuMemMap", pages.size_bytes)?;
        // SAFETY: the handle is the driver's, and the addresses are looked at by the driver.
        unsafe { self.functions.map(address, bytes, 0, pages.raw, 0) }
    }

    fn unmap(&self, address: RawAddress, size_bytes: u64) -> Result<(), CudaError> {
        let bytes = host_size("cuMemUnmap", size_bytes)?;
        // SAFETY: what uses the memory is the caller's to know; the driver looks at the addresses.
        unsafe { self.functions.unmap(address, bytes) }
    }

    /// Unmaps what was mapped just now, each by itself. Nobody is there to tell of a failure: the
    /// driver has failed already.
    fn unmap_all(&self, start: RawAddress, pages: &[&CudaPages]) {
        for (address, pages) in row(start, pages) {
            let _ = self.unmap(address, pages.size_bytes);
        }
    }

    fn set_access(
        &self,
        address: RawAddress,
        bytes: usize,
        access: &[AccessDescription],
    ) -> Result<(), CudaError> {
        let mut turns = 0;
        loop {
            // SAFETY: the pointer is to so many descriptions of the driver's layout.
            let opened =
                unsafe { self.functions.set_access(address, bytes, access.as_ptr(), access.len()) };
            match &opened {
                // Another thread is at it: seen on an H200 while a peer was let in.
                Err(error) if error.code() == Some(ALREADY_MAPPED) && turns < MOST_TURNS => {
                    turns += 1;
                    std::thread::yield_now();
                }
                _ => return opened,
            }
        }
    }
}
