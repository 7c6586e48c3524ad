//! Pages: physical memory that is mapped under addresses, and moves with what is in it.

use core::ops::Range;

use pool_core::device::Call;

use super::error::SimError;
use super::intervals::Intervals;
use super::state::State;
use super::violation::{Action, Owner, Violation};

/// A handle of physical memory. It is mapped whole, and in one place at a time.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SimPages {
    pub(super) id: u64,
}

/// What the device knows of a handle.
#[derive(Debug)]
pub(super) struct PagesState {
    pub(super) device: u32,
    pub(super) size_bytes: u64,
    /// Whether it is mapped.
    mapped: bool,
    /// Who wrote what is in it, while it is mapped nowhere: by bytes of the handle.
    marks: Intervals<Owner>,
}

impl State {
    /// Takes memory of a device into a handle.
    pub(super) fn create_pages(
        &mut self,
        device: u32,
        size_bytes: u64,
    ) -> Result<SimPages, SimError> {
        self.take_memory(device, size_bytes)?;
        let id = self.new_id();
        let pages = PagesState { device, size_bytes, mapped: false, marks: Intervals::default() };
        self.pages.insert(id, pages);
        Ok(SimPages { id })
    }

    /// Gives a handle's memory back, which is mapped nowhere.
    pub(super) fn destroy_pages(&mut self, device: u32, pages: &SimPages) -> Result<(), SimError> {
        let known = self.pages_of(device, pages, Call::DestroyPages)?;
        if known.mapped {
            return Err(SimError::Invalid("these pages are mapped"));
        }
        let size_bytes = known.size_bytes;
        self.pages.remove(&pages.id);
        self.device(device).used_bytes -= size_bytes;
        Ok(())
    }

    /// Maps handles in a row under addresses: all of them, or none.
    pub(super) fn commit(
        &mut self,
        range: u64,
        offset_bytes: u64,
        pages: &[&SimPages],
    ) -> Result<(), SimError> {
        let places = self.places(range, offset_bytes, pages)?;
        for (bytes, pages) in places.into_iter().zip(pages) {
            let (Some(known), Some(pages_known)) =
                (self.ranges.get_mut(&range), self.pages.get_mut(&pages.id))
            else {
                continue;
            };
            pages_known.mapped = true;
            known.pages.insert(bytes.start, pages.id);
            for (inside, owner) in pages_known.marks.take(0..u64::MAX) {
                known.marks.set(moved(&inside, 0, bytes.start), owner);
            }
            known.committed.set(bytes, ());
        }
        Ok(())
    }

    /// Where handles would lie in a row, if they may.
    fn places(
        &mut self,
        range: u64,
        offset_bytes: u64,
        pages: &[&SimPages],
    ) -> Result<Vec<Range<u64>>, SimError> {
        let known = self.ranges.get(&range).ok_or(SimError::Unknown("range"))?;
        let (device, reserved, end_bytes) = (known.device, known.reserved, known.size_bytes);
        if !reserved {
            return Err(SimError::Invalid("there is memory already"));
        }
        let mut places = Vec::new();
        let mut at = offset_bytes;
        for (number, &one) in pages.iter().enumerate() {
            let known = self.pages_of(device, one, Call::Commit)?;
            if known.mapped || pages[..number].contains(&one) {
                return Err(SimError::Invalid("these pages are mapped"));
            }
            let end = at.checked_add(known.size_bytes).filter(|&end| end <= end_bytes);
            let end = end.ok_or(SimError::Invalid("beyond the range's end"))?;
            places.push(at..end);
            at = end;
        }
        let known = self.ranges.get(&range).ok_or(SimError::Unknown("range"))?;
        if known.committed.overlapping(offset_bytes..at).next().is_some() {
            return Err(SimError::Invalid("there is memory already"));
        }
        Ok(places)
    }

    /// Takes a handle from under addresses, with what is in it.
    pub(super) fn decommit(
        &mut self,
        range: u64,
        offset_bytes: u64,
        pages: &SimPages,
    ) -> Result<(), SimError> {
        let known = self.ranges.get(&range).ok_or(SimError::Unknown("range"))?;
        let device = known.device;
        if known.pages.get(&offset_bytes) != Some(&pages.id) {
            return Err(SimError::Invalid("these pages do not begin there"));
        }
        let size_bytes = self.pages_of(device, pages, Call::Decommit)?.size_bytes;
        let bytes = offset_bytes..offset_bytes + size_bytes;
        self.check_taken(Action::Call(Call::Decommit), range, bytes.clone());
        let (Some(known), Some(pages)) =
            (self.ranges.get_mut(&range), self.pages.get_mut(&pages.id))
        else {
            return Err(SimError::Unknown("pages"));
        };
        pages.mapped = false;
        known.pages.remove(&offset_bytes);
        known.committed.take(bytes.clone());
        for (inside, owner) in known.marks.take(bytes.clone()) {
            pages.marks.put(moved(&inside, bytes.start, 0), owner);
        }
        Ok(())
    }

    /// A handle of a device.
    fn pages_of(
        &mut self,
        device: u32,
        pages: &SimPages,
        call: Call,
    ) -> Result<&PagesState, SimError> {
        if self.pages.get(&pages.id).is_none_or(|known| known.device != device) {
            self.violate(Violation::Unknown { action: Action::Call(call), what: "pages" });
            return Err(SimError::Unknown("pages"));
        }
        self.pages.get(&pages.id).ok_or(SimError::Unknown("pages"))
    }
}

/// Bytes as they are seen from another place.
const fn moved(bytes: &Range<u64>, from: u64, to: u64) -> Range<u64> {
    bytes.start - from + to..bytes.end - from + to
}
