//! Memory of the program's own that a device only looks after: ranges that take none of its memory,
//! and memory that is in no range.
//!
//! A layer that has addresses, mappings and pools of its own declares with these what is used, and
//! how much there is.

use super::device::SimDevice;
use super::error::SimError;
use super::memory::{RangeState, SimRange};
use super::program::Result;
use super::violation::{Action, Violation};

/// Memory of the program's own. None of this runs queued work, counts as a call, or fails on demand.
impl SimDevice {
    /// A range that takes none of the device's memory: whatever memory it stands for, uses of it
    /// are looked after as of any other.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let range = device.lend_range(1 << 50);
    /// assert_eq!(device.memory()?.free_bytes, device.memory()?.total_bytes);
    /// assert!(!device.take_range_back(&range, "unmap")?);
    /// assert!(device.take_range_back(&range, "unmap").is_err());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn lend_range(&self, size_bytes: u64) -> SimRange {
        let mut state = self.lock();
        let (id, device) = (state.new_id(), self.inner.number);
        let range = RangeState { backed_bytes: 0, ..RangeState::new(device, size_bytes) };
        state.ranges.insert(id, range);
        SimRange { id, device, address: 0 }
    }

    /// Ends a range that was lent, at once: whether queued work uses it that the host has not
    /// seen done. That is a violation by the call of this name.
    ///
    /// # Errors
    ///
    /// No such range.
    pub fn take_range_back(&self, range: &SimRange, name: &'static str) -> Result<bool> {
        let mut state = self.lock();
        let known = state.ranges.get(&range.id).ok_or(SimError::Unknown("range"))?;
        let bytes = 0..known.size_bytes;
        let is_used = state.check_taken(Action::Program(name), range.id, bytes);
        state.ranges.remove(&range.id);
        Ok(is_used)
    }

    /// Ends a range that was lent, by work that the stream has run: whatever is queued behind
    /// that and uses it is a violation.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use pool_mock::device::{Access, SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let stream = device.open_stream(StreamKind::NonBlocking);
    /// let range = device.lend_range(4096);
    /// let inside = device.clone();
    /// let free = move || inside.end_range(&range);
    /// device.queue_task(stream, &[(range, 0, 4096, Access::Write)], Arc::new(free))?;
    /// device.assert_clean();
    /// device.queue_task(stream, &[(range, 0, 1, Access::Read)], Arc::new(|| ()))?;
    /// assert_eq!(device.take_violations().len(), 1);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn end_range(&self, range: &SimRange) {
        self.lock().ranges.remove(&range.id);
    }

    /// Takes memory of the device that is in no range.
    ///
    /// # Errors
    ///
    /// There is not so much.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new().memory_bytes(4096));
    /// device.take_bytes(4096)?;
    /// assert!(device.take_bytes(1).is_err());
    /// device.give_bytes(4096);
    /// assert_eq!(device.memory()?.free_bytes, 4096);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn take_bytes(&self, bytes: u64) -> Result<()> {
        self.lock().take_memory(self.inner.number, bytes)
    }

    /// Gives memory back that was taken so.
    pub fn give_bytes(&self, bytes: u64) {
        let mut state = self.lock();
        let device = state.device(self.inner.number);
        device.used_bytes = device.used_bytes.saturating_sub(bytes);
    }

    /// Adds what a layer above has found to the violations.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::{SimConfig, SimDevice, Violation};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// device.report(Violation::Other("a pointer that nobody gave out".into()));
    /// assert_eq!(device.take_violations().len(), 1);
    /// ```
    pub fn report(&self, violation: Violation) {
        self.lock().violate(violation);
    }
}
