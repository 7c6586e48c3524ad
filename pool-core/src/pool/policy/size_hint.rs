//! How much memory a model needs, from what is known before it runs.

/// How much memory a program that trains a model will need: what lives all the time, and what the
/// largest batch adds, with a margin.
///
/// # Example
///
/// ```
/// use pool_core::{PoolConfig, policy::{Preallocation, SizeHint}};
///
/// // 1.5 billion parameters of 2 bytes; two moments of 4 bytes each and a copy of 4.
/// let hint = SizeHint {
///     parameters_bytes: 3 << 30,
///     optimizer_bytes: 18 << 30,
///     gradients_bytes: 3 << 30,
///     activations_bytes: 6 << 30,
///     ..SizeHint::default()
/// };
/// assert_eq!(hint.bytes(), 36 << 30); // 30 GiB and 20 %
/// let config = PoolConfig::new().preallocation(hint.into());
/// # let _ = config;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SizeHint {
    /// The model's parameters.
    pub parameters_bytes: u64,
    /// What the optimizer keeps of each of them.
    pub optimizer_bytes: u64,
    /// Gradients, at their most: of the largest batch.
    pub gradients_bytes: u64,
    /// What the largest batch's forward pass keeps for its backward pass.
    pub activations_bytes: u64,
    /// What is added for all else, in hundredths of the sum: 20 by default.
    pub margin_percent: u32,
}

impl SizeHint {
    /// The sum with its margin; a sum past `u64::MAX` is `u64::MAX`.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        let sum = self
            .parameters_bytes
            .saturating_add(self.optimizer_bytes)
            .saturating_add(self.gradients_bytes)
            .saturating_add(self.activations_bytes);
        let percent = self.margin_percent as u64;
        // In two parts, so that no product is larger than what it is of, times 2^32 / 100.
        let margin = (sum / 100).saturating_mul(percent).saturating_add(sum % 100 * percent / 100);
        sum.saturating_add(margin)
    }
}

impl Default for SizeHint {
    fn default() -> Self {
        Self {
            parameters_bytes: 0,
            optimizer_bytes: 0,
            gradients_bytes: 0,
            activations_bytes: 0,
            margin_percent: 20,
        }
    }
}

impl From<SizeHint> for super::Preallocation {
    fn from(hint: SizeHint) -> Self {
        Self::Bytes(hint.bytes())
    }
}
