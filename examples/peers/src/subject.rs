//! The allocators that run the synthetic program.

use core::error::Error;

use clap::ValueEnum;
use pool_core::{Chunked, OffsetAllocator, Placement};
use pool_mock::replay::Placer;

use crate::{churn::Churn, foreign::Offset, ours};

/// An allocator that runs a [`Churn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// pool-core, best fit.
    BestFit,
    /// pool-core, first fit.
    FirstFit,
    /// pool-core, buddy.
    Buddy,
    /// The crate offset-allocator.
    OffsetAllocator,
    /// Nothing: the program around an allocator.
    None,
}

impl Subject {
    /// Those that are measured, the default first.
    pub const ALL: [Self; 4] = [Self::BestFit, Self::FirstFit, Self::Buddy, Self::OffsetAllocator];

    /// What the output calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BestFit => ours::PLACEMENTS[0].1,
            Self::FirstFit => ours::PLACEMENTS[1].1,
            Self::Buddy => ours::PLACEMENTS[2].1,
            Self::OffsetAllocator => "offset-allocator",
            Self::None => "none",
        }
    }

    /// The placement, if it is one of ours.
    #[must_use]
    pub fn placement(self) -> Option<Placement> {
        match self {
            Self::BestFit => Some(Placement::BestFit),
            Self::FirstFit => Some(Placement::FirstFit),
            Self::Buddy => Some(Placement::Buddy),
            Self::OffsetAllocator | Self::None => None,
        }
    }

    /// The capacity over what is live, in hundredths: 1.25 times, and for buddy, which rounds to
    /// powers of two, twice.
    #[must_use]
    pub fn capacity_percent(self) -> u64 {
        if self == Self::Buddy { 200 } else { 125 }
    }

    /// An empty range of ours for a program; none for the allocators of others.
    ///
    /// # Errors
    ///
    /// The capacity is past 2^32 granules.
    pub fn range(self, churn: &Churn) -> Result<Option<OffsetAllocator<Chunked>>, Box<dyn Error>> {
        let Some(placement) = self.placement() else { return Ok(None) };
        let blocks = u32::try_from(churn.first.len())?;
        // The most nodes that so many buddies may need is 33 times as many, which at 10^7 blocks
        // is more than this program ever uses; the rest follows in chunks.
        let expected = if placement == Placement::Buddy { blocks / 16 } else { blocks };
        let capacity = churn.capacity_granules(self.capacity_percent());
        Ok(Some(ours::range(capacity, placement, expected)?))
    }

    /// Runs a program; returns how many requests were refused.
    ///
    /// # Errors
    ///
    /// The capacity is past 2^32 granules.
    ///
    /// # Example
    ///
    /// ```
    /// use peers::{churn::Churn, subject::Subject};
    ///
    /// let churn = Churn::new(1000, 0, 1000, 7);
    /// for subject in Subject::ALL {
    ///     subject.run(&churn)?;
    /// }
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn run(self, churn: &Churn) -> Result<u64, Box<dyn Error>> {
        self.with(churn, &mut Whole)
    }

    /// Hands a driver the allocator, empty, with room for the program.
    ///
    /// # Errors
    ///
    /// The capacity is past 2^32 granules.
    pub fn with<D: Driver>(
        self,
        churn: &Churn,
        driver: &mut D,
    ) -> Result<D::Output, Box<dyn Error>> {
        if let Some(mut range) = self.range(churn)? {
            return Ok(driver.drive(churn, &mut range));
        }
        if self == Self::None {
            return Ok(driver.drive(churn, &mut Nothing));
        }
        let capacity = churn.capacity_granules(self.capacity_percent());
        let blocks = u32::try_from(churn.first.len())?.saturating_mul(2);
        Ok(driver.drive(churn, &mut Offset::new(capacity, blocks)?))
    }
}

/// Something that is done with any allocator.
pub trait Driver {
    /// What it finds.
    type Output;

    /// Does it.
    fn drive<P: Placer>(&mut self, churn: &Churn, placer: &mut P) -> Self::Output;
}

/// The whole program, once.
struct Whole;

impl Driver for Whole {
    type Output = u64;

    fn drive<P: Placer>(&mut self, churn: &Churn, placer: &mut P) -> u64 {
        let mut live = churn.fill(placer);
        churn.run(placer, &mut live)
    }
}

/// An allocator that does nothing.
struct Nothing;

impl Placer for Nothing {
    type Block = u64;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<u64> {
        Some(granules)
    }

    #[inline]
    fn release(&mut self, _block: u64) {}
}
