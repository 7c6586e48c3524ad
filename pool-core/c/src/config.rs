//! What a range is to be, in C's types.

use core::ffi::c_void;

use pool_core::{RangeConfig, Spans};

use crate::error::{Error, Result};

/// Which free block serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Placement {
    /// The smallest that fits. The default, and the least memory lost.
    BestFit = 0,
    /// The lowest that fits: long-lived blocks lie low, and the end of the range stays free.
    FirstFit = 1,
    /// Powers of two of granules that merge with their buddies: regular, at the cost of the
    /// rounding.
    Buddy = 2,
}

/// The caller's lock, taken before each call on the range looks at it and given back at its end:
/// a mutex, a spin lock, or interrupts that are off meanwhile. Null functions: no lock.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Lock {
    /// Takes the lock. It makes no call on this range.
    pub take: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Gives it back.
    pub give: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// What both are told.
    pub context: *mut c_void,
}

impl Lock {
    /// It locks or is none.
    pub(crate) fn check(&self) -> Result<()> {
        if self.take.is_some() == self.give.is_some() { Ok(()) } else { Err(Error::Lock) }
    }
}

/// What a range is to be. All but the capacity may be zero.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Config {
    /// Bytes of the memory that is managed, rounded down to a whole number of granules.
    pub capacity_bytes: u64,
    /// The unit of sizes and offsets, a power of two from 16 bytes. 0: 256.
    pub granule_bytes: u64,
    /// With spans, the size of one: a power of two from 64 to 4096 granules. 0: by the capacity,
    /// where ranges below 2^14 granules have none.
    pub span_bytes: u64,
    /// With a `span_bytes` that is not 0, the largest size that comes from spans, at most half a
    /// span. 0: a 16th of it.
    pub small_bytes: u64,
    /// A `pool_range_placement`. 0: best fit.
    pub placement: u32,
    /// Under best fit, how many spans can be open at a time: small blocks are cut from them, which
    /// is faster and keeps them together, for some five bytes of storage for each of their
    /// granules. 0: no spans.
    pub spans: u32,
    /// Set apart the handles of several ranges by giving each a number of its own.
    pub handle_seed: u32,
    /// How much longer than asked for a block may be, in hundredths, so that no crumbs are left
    /// beside it. At most 100.
    pub tolerance_percent: u32,
    /// The caller's lock.
    pub lock: Lock,
}

impl Config {
    /// As pool-core has it.
    pub(crate) fn range(&self) -> Result<RangeConfig> {
        self.lock.check()?;
        let placement = match self.placement {
            0 => pool_core::Placement::BestFit,
            1 => pool_core::Placement::FirstFit,
            2 => pool_core::Placement::Buddy,
            _ => return Err(Error::Placement),
        };
        let spans = match (self.spans, self.span_bytes, self.small_bytes) {
            (0, ..) => Spans::Off,
            (_, 0, _) => Spans::Automatic,
            (_, span_bytes, 0) => Spans::Sized { span_bytes, small_bytes: span_bytes / 16 },
            (_, span_bytes, small_bytes) => Spans::Sized { span_bytes, small_bytes },
        };
        let percent = u8::try_from(self.tolerance_percent).ok().filter(|&percent| percent <= 100);
        let percent = percent.ok_or(Error::Tolerance)?;
        let config = RangeConfig::new(self.capacity_bytes)
            .placement(placement)
            .spans(spans)
            .handle_seed(self.handle_seed)
            .tolerance_percent(percent);
        Ok(match self.granule_bytes {
            0 => config,
            granule_bytes => config.granule_bytes(granule_bytes),
        })
    }
}
