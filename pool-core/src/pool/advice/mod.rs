//! What a run tells the next one: a configuration, and why each value differs.

pub(in crate::pool) mod bytes;
mod evidence;
mod kept;
mod reason;
mod rules;

use alloc::vec::Vec;
use core::fmt;

use super::Pool;
use super::config::PoolConfig;
use super::policy::Settings;
use crate::device::Device;
use crate::threads::Threads;

pub use evidence::{Evidence, TagPeak};
pub(super) use kept::Kept;
pub use reason::Reason;

/// The configuration that a run recommends for the next one, and why.
///
/// Advice from a run that used it already changes nothing, as long as the program needs the same.
///
/// # Example
///
/// ```
/// use pool_core::{Pool, PoolConfig};
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// let program = |pool: &Pool<SimDevice>| -> Result<(), Box<dyn core::error::Error>> {
///     let stream = pool.create_stream()?;
///     let blocks: Result<Vec<_>, _> = (0..10).map(|_| pool.allocate_on(stream, 100 << 20)).collect();
///     for block in blocks? {
///         pool.free_on(stream, block.handle())?;
///     }
///     Ok(())
/// };
///
/// let first = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
/// program(&first)?;
/// let advice = first.advice();
/// assert!(advice.reasons.iter().any(|why| why.to_string().contains("grew")));
///
/// let second = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::from(&advice))?;
/// program(&second)?;
/// assert_eq!(second.stats().growths, 0);
/// assert_eq!(second.advice().reasons, []);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Advice {
    /// What is recommended.
    pub settings: Settings,
    /// Why, for each value that differs from what the run had.
    pub reasons: Vec<Reason>,
    /// What it rests on.
    pub evidence: Evidence,
}

impl Advice {
    /// What a run under these settings recommends that left this evidence.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Advice, Evidence, policy::{Preallocation, Settings}};
    ///
    /// let evidence = Evidence { peak_bytes: 1000 << 20, peak_reserved_bytes: 1600 << 20, ..Evidence::default() };
    /// let advice = Advice::of(Settings::default(), evidence);
    /// // What was needed, and a third for what lies between blocks.
    /// assert_eq!(advice.settings.preallocation, Preallocation::Bytes(1330 << 20));
    /// ```
    #[must_use]
    pub fn of(settings: Settings, evidence: Evidence) -> Self {
        let mut advised = settings;
        let reasons = if evidence.peak_bytes == 0 {
            // Nothing was ever asked for.
            Vec::new()
        } else {
            rules::ALL.iter().filter_map(|rule| rule(&settings, &mut advised, &evidence)).collect()
        };
        Self { settings: advised, reasons, evidence }
    }
}

impl fmt::Display for Advice {
    /// The reasons, a line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reasons.is_empty() {
            return f.write_str("nothing: the configuration fits the run");
        }
        for (place, reason) in self.reasons.iter().enumerate() {
            let line_end = if place == 0 { "" } else { "\n" };
            write!(f, "{line_end}{reason}")?;
        }
        Ok(())
    }
}

impl From<&Advice> for PoolConfig {
    fn from(advice: &Advice) -> Self {
        Self::from(advice.settings)
    }
}

impl From<Advice> for PoolConfig {
    fn from(advice: Advice) -> Self {
        Self::from(advice.settings)
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// What this run recommends for the next one of the same program. Best asked for at the end,
    /// while the pool's streams still are there; it changes nothing.
    ///
    /// # Complexity
    ///
    /// As [`stats`](Self::stats).
    ///
    /// # Example
    ///
    /// See [`Advice`].
    #[must_use]
    pub fn advice(&self) -> Advice {
        Advice::of(self.inner().current_settings(), self.evidence())
    }

    /// What this run has shown so far, and advice rests on.
    ///
    /// # Complexity
    ///
    /// As [`stats`](Self::stats).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new().initial_bytes(1 << 30))?;
    /// let stream = pool.create_stream()?;
    /// let _block = pool.allocate_on(stream, 256 << 20)?;
    /// assert_eq!(pool.evidence().start_in_use_percent(), Some(25));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        self.inner().evidence()
    }
}
