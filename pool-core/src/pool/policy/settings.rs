//! All of a pool's configuration that is plain data.

use super::{Growth, Pages, Preallocation, Reclaim, Reuse};

/// All of a pool's configuration that is plain data: what one run can hand to the next.
///
/// # Example
///
/// ```
/// use pool_core::{PoolConfig, policy::{Preallocation, Settings}};
///
/// let settings = Settings { preallocation: Preallocation::Bytes(1 << 30), ..Settings::default() };
/// let config = PoolConfig::from(settings);
/// assert_eq!(*config.settings(), settings);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Settings {
    /// What the pool takes before anyone asks: nothing by default.
    pub preallocation: Preallocation,
    /// Whether that is left to [`warm`](crate::Pool::warm), a part at a time: not by default.
    pub warms_later: bool,
    /// The most bytes that the pool holds of the device: any number by default.
    pub limit_bytes: Option<u64>,
    /// From so many bytes on that the pool has of the device, memory is short, as it is where the
    /// limit leaves no room: streams keep nothing free to themselves as long as they need more
    /// than half of it, which takes less memory and more waits. By default only the limit makes
    /// memory short.
    pub short_from_bytes: Option<u64>,
    /// The space of offsets; by default twice the limit, or twice the device's memory.
    pub address_bytes: Option<u64>,
    /// The unit of offsets and sizes: 256 bytes by default.
    pub granule_bytes: u64,
    /// The most bytes of free blocks that one thread's cache keeps: 1 MiB by default.
    pub cache_bytes: u64,
    /// Which free memory serves a request.
    pub reuse: Reuse,
    /// When freed memory is free, and when it goes back.
    pub reclaim: Reclaim,
    /// How the pool grows.
    pub growth: Growth,
    /// Whether memory comes and goes in pages, where the device has them: not by default.
    pub pages: Option<Pages>,
}

impl Settings {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            preallocation: Preallocation::Nothing,
            warms_later: false,
            limit_bytes: None,
            short_from_bytes: None,
            address_bytes: None,
            granule_bytes: 256,
            cache_bytes: 1 << 20,
            reuse: Reuse::new(),
            reclaim: Reclaim::new(),
            growth: Growth::new(),
            pages: None,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}
