//! What came of it.

use core::error::Error;
use core::fmt::{self, Display};
use core::panic::Location;

use pool_core::PoolError;
use pool_core::device::Failure;

/// What a case says.
pub(super) type Outcome = Result<(), Stop>;

/// Why a case ended before its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// The device did not do as it should; where the case saw it.
    Broken { seen: String, place: &'static Location<'static> },
    /// It cannot be tried on this device.
    PassedOver(String),
}

impl Stop {
    /// Something that must not be.
    #[track_caller]
    pub(super) fn broken(seen: impl Into<String>) -> Self {
        Self::Broken { seen: seen.into(), place: Location::caller() }
    }

    /// The case has no way to try this device.
    pub(super) fn passed_over(why: impl Into<String>) -> Self {
        Self::PassedOver(why.into())
    }
}

impl<E: Error> From<Failure<E>> for Stop {
    #[track_caller]
    fn from(failure: Failure<E>) -> Self {
        Self::broken(format!("a call was refused: {failure}"))
    }
}

impl<E: Error> From<PoolError<E>> for Stop {
    #[track_caller]
    fn from(error: PoolError<E>) -> Self {
        Self::broken(format!("a pool over the device could not go on: {error}"))
    }
}

/// A rule that a device broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The rule.
    pub rule: &'static str,
    /// What was seen instead.
    pub seen: String,
    /// Where in the suite's source it was seen, if the case came so far.
    pub place: Option<String>,
}

impl Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    but {}", self.rule, self.seen)?;
        self.place.iter().try_for_each(|place| write!(f, "\n    ({place})"))
    }
}

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The device does as it should.
    Passed,
    /// The case does not concern this device: why.
    PassedOver(String),
    /// The device does not do as it should.
    Broken(Breach),
}

impl Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::PassedOver(why) => write!(f, "passed over: {why}"),
            Self::Broken(breach) => write!(f, "broken: {breach}"),
        }
    }
}

/// What came of all cases.
///
/// # Example
///
/// ```
/// use pool_core::device::Capabilities;
/// use pool_mock::conformance::Suite;
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// let config = SimConfig::new().memory_bytes(1 << 30).without(Capabilities::PAGES);
/// let report = Suite::new().run(move || SimDevice::new(config.clone()));
/// assert_eq!(report.broken().count(), 0);
/// println!("{report}"); // a line for each case
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each case's name and what came of it, in the order in which they ran.
    pub verdicts: Vec<(&'static str, Verdict)>,
}

impl Report {
    /// The cases of rules that were broken.
    pub fn broken(&self) -> impl Iterator<Item = (&'static str, &Breach)> {
        self.verdicts.iter().filter_map(|(name, verdict)| match verdict {
            Verdict::Broken(breach) => Some((*name, breach)),
            _ => None,
        })
    }

    /// How many cases passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Passed).count()
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, verdict) in &self.verdicts {
            writeln!(f, "{name}: {verdict}")?;
        }
        let (all, passed, broken) = (self.verdicts.len(), self.passed(), self.broken().count());
        let over = all - passed - broken;
        write!(f, "{passed} cases passed, {broken} broken, {over} passed over")
    }
}

/// A device that does not do what [`Device`](pool_core::device::Device) says, with what was found.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the device does not conform\n{0}")]
pub struct Nonconforming(pub Report);

/// As it is shown, so that an `unwrap` of [`check`](super::check) can be read.
impl fmt::Debug for Nonconforming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}
