//! Memory in pages.

/// Of what size the handles are by which a pool takes memory in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Handles {
    /// The smallest that the device has: every page moves by itself.
    Smallest,
    /// Large ones where much is taken at once and much room is left, small ones at the edges.
    #[default]
    Graded,
}

/// Memory that comes and goes in pages, under addresses that stay, on a device that
/// [has pages](crate::device::Capabilities::PAGES): what falls free in one place serves in another,
/// and nothing is copied. On any other device a pool is as without.
///
/// A pool in pages has one range of addresses, many times as long as there is memory, and puts pages
/// only where blocks lie: as many as a request needs, so that [`Growth`](super::Growth)'s steps and
/// growth ahead of need are for the memory that several streams share alone, and are an eighth of what
/// there is at most. While it could have four times as much again, and half of what it has is in use, a
/// stream gets new pages before it waits for what others have. When it may not have more, it takes pages that hold no block away and puts them where they are needed, once the work
/// that used them is done. Movable buffers are not [migrated](super::Way::Migration), lifetimes are
/// not kept apart, and under [buddy placement](crate::Placement::Buddy), or if a page is not a
/// multiple of the granule, the pool is as without.
///
/// # Example
///
/// ```
/// use pool_core::policy::{Pages, Settings};
/// use pool_core::{Pool, PoolConfig};
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// const MIB: u64 = 1 << 20;
/// let settings =
///     Settings { pages: Some(Pages::default()), limit_bytes: Some(8 * MIB), ..Settings::default() };
/// let pool = Pool::new(SimDevice::new(SimConfig::new()), settings.into())?;
/// let stream = pool.create_stream()?;
/// let blocks = [2 * MIB; 4].map(|bytes| pool.allocate_on(stream, bytes).unwrap());
/// pool.free_on(stream, blocks[0].handle())?;
/// pool.free_on(stream, blocks[2].handle())?;
/// // There is no hole of 4 MiB, but pages for one.
/// pool.allocate_on(stream, 4 * MIB)?;
/// assert_eq!(pool.stats().reserved_bytes, 8 * MIB);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Pages {
    /// So many times the limit, or the device's memory, are the addresses; 4 by default, 2 at least,
    /// and 2^32 granules at most. [`Settings::address_bytes`](super::Settings::address_bytes) says it
    /// in bytes.
    pub address_times: u32,
    /// Of what size handles are.
    pub handles: Handles,
}

impl Pages {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { address_times: 4, handles: Handles::Graded }
    }
}

impl Default for Pages {
    fn default() -> Self {
        Self::new()
    }
}
