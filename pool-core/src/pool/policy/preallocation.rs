//! What a pool takes from the device before anyone asks.

/// What a pool takes from the device before anyone asks, as one arena. Never more than the limit.
///
/// # Example
///
/// ```
/// use pool_core::{Pool, PoolConfig, policy::Preallocation};
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// let device = SimDevice::new(SimConfig::new().memory_bytes(8 << 30));
/// let all = Preallocation::AllBut { margin_bytes: 1 << 30 };
/// let pool = Pool::new(device, PoolConfig::new().preallocation(all))?;
/// assert_eq!(pool.stats().reserved_bytes, 7 << 30);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
#[non_exhaustive]
pub enum Preallocation {
    /// Nothing: the pool grows from the first request on.
    #[default]
    Nothing,
    /// So many bytes.
    Bytes(u64),
    /// All that the device has free when the pool is made, less a margin for others: for a
    /// program that has the device to itself. On a device that does not know its free memory:
    /// nothing.
    AllBut {
        /// What is left for others.
        margin_bytes: u64,
    },
    /// Nothing before the first request; then an arena of at least so many bytes, which is never
    /// given back by itself, and growth from there.
    OnDemand {
        /// The size of the first arena.
        base_bytes: u64,
    },
}
