//! Runs cases, and none for ever.

use core::any::Any;
use core::time::Duration;
use std::sync::{Arc, mpsc};
use std::thread;

use pool_core::device::Capabilities;

use super::case::{Case, Run, cases};
use super::report::{Breach, Nonconforming, Outcome, Report, Stop, Verdict};
use super::trial::Trial;
use super::world::World;

/// How a device is put through the cases.
///
/// # Example
///
/// ```
/// use core::time::Duration;
/// use pool_mock::conformance::Suite;
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// let suite = Suite::new().patience(Duration::from_secs(120)); // a machine that is very busy
/// let report = suite.run(|| SimDevice::new(SimConfig::new().memory_bytes(1 << 30)));
/// assert!(report.passed() > 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    patience: Duration,
}

impl Default for Suite {
    fn default() -> Self {
        Self::new()
    }
}

impl Suite {
    /// With a minute's patience.
    #[must_use]
    pub const fn new() -> Self {
        Self { patience: Duration::from_mins(1) }
    }

    /// How long a case may take before it is given up and its rule counts as broken. Its thread is
    /// left behind then, with the device.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Puts devices through all cases that concern them, one after the other. Each case begins with a
    /// device that `make` makes, be it a new one or one more handle of the same; and it gives back
    /// what it took there.
    pub fn run<D: Trial>(&self, make: impl Fn() -> D + Send + Sync + 'static) -> Report {
        let make = Arc::new(make);
        let verdicts = cases().into_iter().map(|case| {
            let make = Arc::clone(&make);
            (case.name, self.run_case(case, move || make()))
        });
        Report { verdicts: verdicts.collect() }
    }

    /// Puts a device through one case.
    ///
    /// # Example
    ///
    /// See the [module](super).
    pub fn run_case<D: Trial>(
        &self,
        case: Case<D>,
        make: impl FnOnce() -> D + Send + 'static,
    ) -> Verdict {
        let (tell, told) = mpsc::channel();
        let patience = self.patience;
        let worker = thread::spawn(move || {
            // Nobody listens any more if it took too long.
            let _ = tell.send(attempt(case, make(), patience));
        });
        let seen = match told.recv_timeout(self.patience) {
            Ok(Ok(())) => return Verdict::Passed,
            Ok(Err(Stop::PassedOver(why))) => return Verdict::PassedOver(why),
            Ok(Err(Stop::Broken { seen, place })) => {
                let place = Some(format!("{}:{}", place.file(), place.line()));
                return Verdict::Broken(Breach { rule: case.rule, seen, place });
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                format!("a call did not return within {:?}", self.patience)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let panic = worker.join().err();
                format!("it panicked: {}", panic.as_deref().map_or("", said))
            }
        };
        Verdict::Broken(Breach { rule: case.rule, seen, place: None })
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}

fn attempt<D: Trial>(case: Case<D>, device: D, patience: Duration) -> Outcome {
    let missing = case.needs.difference(device.capabilities());
    if !missing.is_empty() {
        return Err(Stop::passed_over(format!("the device has no {}", names(missing))));
    }
    match case.run {
        Run::Parts(run) => run(&World::new(device, patience)),
        Run::Whole(run) => run(device),
    }
}

/// Capabilities by their names.
fn names(capabilities: Capabilities) -> String {
    let names: Vec<_> = capabilities.iter_names().map(|(name, _)| name).collect();
    names.join(", ")
}

/// Puts devices through all cases, as [`Suite::run`] does.
///
/// # Errors
///
/// [`Nonconforming`], if any rule is broken.
///
/// # Example
///
/// ```
/// use pool_mock::conformance::check;
/// use pool_mock::device::{Pacing, SimConfig, SimDevice};
///
/// let late = || SimDevice::new(SimConfig::new().memory_bytes(1 << 30).pacing(Pacing::Lag(3)));
/// check(late).unwrap();
/// ```
pub fn check<D: Trial>(
    make: impl Fn() -> D + Send + Sync + 'static,
) -> Result<Report, Nonconforming> {
    let report = Suite::new().run(make);
    if report.broken().next().is_some() { Err(Nonconforming(report)) } else { Ok(report) }
}
