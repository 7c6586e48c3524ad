//! How a simulated device is made.

use pool_core::device::Capabilities;

use super::error::SimError;

/// When queued work runs.
///
/// What may run is decided by streams, fences and graphs alone; this chooses among it. A wait of
/// the host runs what it waits for, whatever is chosen here and whatever is
/// [held](super::SimDevice::hold).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pacing {
    /// As soon as it is queued.
    #[default]
    Eager,
    /// Not before the host waits for it.
    Idle,
    /// When so many more items were queued on the same stream; and what it waits for then, too.
    Lag(u64),
    /// At random: at each call some of what may run does.
    Random(u64),
}

/// What a [`SimDevice`](super::SimDevice) is like.
///
/// # Example
///
/// ```
/// use pool_core::device::Capabilities;
/// use pool_mock::device::{Pacing, SimConfig, SimDevice};
///
/// let config = SimConfig::new()
///     .memory_bytes(1 << 30)
///     .misalign_bytes(64)
///     .page_sizes(vec![64 << 10, 2 << 20])
///     .without(Capabilities::STREAM_IDS | Capabilities::EXTEND)
///     .pacing(Pacing::Lag(64))
///     .marks(true);
/// let device = SimDevice::new(config);
/// ```
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct SimConfig {
    pub(super) memory_bytes: u64,
    pub(super) misalign_bytes: u64,
    pub(super) page_sizes: Vec<u64>,
    pub(super) capabilities: Capabilities,
    pub(super) pacing: Pacing,
    pub(super) detector: bool,
    pub(super) same_owner: bool,
    pub(super) marks: bool,
    pub(super) lists_streams: bool,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl SimConfig {
    /// 80 GiB; pages of 2 MiB; every capability but
    /// [`GROWS_IN_CAPTURE`](Capabilities::GROWS_IN_CAPTURE) and
    /// [`FREE_WAITS`](Capabilities::FREE_WAITS); work runs at once; detector and marks on.
    #[must_use]
    pub fn new() -> Self {
        Self {
            memory_bytes: 80 << 30,
            misalign_bytes: 0,
            page_sizes: vec![2 << 20],
            capabilities: Capabilities::all()
                .difference(Capabilities::GROWS_IN_CAPTURE)
                .difference(Capabilities::FREE_WAITS),
            pacing: Pacing::Eager,
            detector: true,
            same_owner: false,
            marks: true,
            lists_streams: true,
        }
    }

    /// How much memory there is.
    #[must_use]
    pub const fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// By how much each range's address is off a multiple of 2 MiB.
    #[must_use]
    pub const fn misalign_bytes(mut self, bytes: u64) -> Self {
        self.misalign_bytes = bytes;
        self
    }

    /// The sizes of page handles, smallest first. Every multiple of the smallest will do.
    #[must_use]
    pub fn page_sizes(mut self, sizes: Vec<u64>) -> Self {
        self.page_sizes = sizes;
        self
    }

    /// What it can do, too.
    #[must_use]
    pub const fn with(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = self.capabilities.union(capabilities);
        self
    }

    /// What it cannot do.
    #[must_use]
    pub const fn without(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = self.capabilities.difference(capabilities);
        self
    }

    /// When queued work runs.
    #[must_use]
    pub const fn pacing(mut self, pacing: Pacing) -> Self {
        self.pacing = pacing;
        self
    }

    /// Whether uses that nothing orders are looked for. (What else is wrong always is.)
    #[must_use]
    pub const fn detector(mut self, on: bool) -> Self {
        self.detector = on;
        self
    }

    /// Whether uses of one owner that nothing orders count, too: then the program has to order
    /// its own uses.
    #[must_use]
    pub const fn same_owner(mut self, on: bool) -> Self {
        self.same_owner = on;
        self
    }

    /// Whether writes leave marks and reads look for them.
    #[must_use]
    pub const fn marks(mut self, on: bool) -> Self {
        self.marks = on;
        self
    }

    /// Whether the device can say which streams it has. If not, a fence behind all its work is a
    /// wait for the whole device.
    #[must_use]
    pub const fn lists_streams(mut self, on: bool) -> Self {
        self.lists_streams = on;
        self
    }

    /// The size of which everything about pages is a multiple.
    pub(super) fn page_bytes(&self) -> u64 {
        self.page_sizes.first().copied().unwrap_or(1).max(1)
    }

    /// Whether so many bytes are whole pages.
    pub(super) fn check_pages(&self, size_bytes: u64) -> Result<(), SimError> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(self.page_bytes()) {
            return Err(SimError::Invalid("these are no whole pages"));
        }
        Ok(())
    }
}
