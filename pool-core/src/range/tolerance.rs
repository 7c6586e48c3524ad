//! How much longer than asked for a block may be.

use super::error::ConfigError;

/// The most that a tolerance can be: a block of twice the length.
const MOST_PERCENT: u8 = 100;

/// How much longer than asked for a block may be, in hundredths of what was asked for. What would
/// be left of a free run behind a block is given with it if that is no more: a crumb that hardly
/// any request fits would only be in the way. Zero: every run is cut to the granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tolerance {
    percent: u64,
}

impl Tolerance {
    pub(crate) const NONE: Self = Self { percent: 0 };

    pub(crate) fn new(percent: u8) -> Result<Self, ConfigError> {
        if percent > MOST_PERCENT {
            return Err(ConfigError::Tolerance { percent });
        }
        Ok(Self { percent: percent.into() })
    }

    /// Whether a block of a length may have so many granules over.
    #[inline(always)]
    pub(crate) fn covers(self, len: u64, over: u64) -> bool {
        // Both are at most 2^32.
        over == 0 || (self.percent != 0 && over * 100 <= len * self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_is_one_in_a_hundred_and_none_is_none() {
        let none = Tolerance::new(0).unwrap();
        for len in [1, 99, 100, 1 << 32] {
            assert!(none.covers(len, 0) && !none.covers(len, 1));
        }
        let one = Tolerance::new(1).unwrap();
        assert!(!one.covers(99, 1) && one.covers(100, 1) && !one.covers(199, 2));
        let most = Tolerance::new(MOST_PERCENT).unwrap();
        assert!(most.covers(7, 7) && !most.covers(7, 8) && most.covers(1 << 32, 1 << 32));
        assert_eq!(Tolerance::new(101), Err(ConfigError::Tolerance { percent: 101 }));
    }
}
