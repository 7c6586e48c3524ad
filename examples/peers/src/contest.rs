//! Allocators of different types in one contest.

use core::error::Error;

use pool_mock::replay::{Pass, Placer, Script, Stage, roomy_capacity, smallest_capacity};

/// An allocator that replays a script over and over, each time afresh.
pub trait Contestant {
    /// What the output calls it.
    fn name(&self) -> &'static str;

    /// Builds an allocator of 1.25 times the peak, then replays on it, timed.
    ///
    /// # Errors
    ///
    /// Those of building it.
    fn pass(&mut self) -> Result<Pass, Box<dyn Error>>;

    /// The smallest capacity that serves the script, over the peak; none if the allocator has
    /// no capacity or none is found.
    ///
    /// # Errors
    ///
    /// Those of building it.
    fn smallest_ratio(&mut self) -> Result<Option<f64>, Box<dyn Error>>;
}

/// A [`Contestant`] from a function that makes an allocator of so many granules.
///
/// ```
/// use core::convert::Infallible;
/// use peers::contest::{Contestant, Entry};
/// use pool_mock::{Trace, reference::BestFit, replay::Script};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,64,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 64);
/// let make = |granules| Ok::<_, Infallible>(BestFit::new(granules));
/// let mut entry = Entry::new("reference", &script, make);
/// assert_eq!(entry.pass()?.failures, 0);
/// assert_eq!(entry.smallest_ratio()?, Some(1.0));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Entry<'a, B, F> {
    name: &'static str,
    script: &'a Script,
    stage: Stage<'a, B>,
    make: F,
    has_capacity: bool,
}

impl<'a, B, F> Entry<'a, B, F> {
    /// Enters a contest under a name.
    pub fn new<P, E>(name: &'static str, script: &'a Script, make: F) -> Self
    where
        P: Placer<Block = B>,
        F: FnMut(u64) -> Result<P, E>,
    {
        Self { name, script, stage: Stage::new(script), make, has_capacity: true }
    }

    /// Says that the allocator takes its memory from elsewhere, so that no capacity is searched.
    #[must_use]
    pub fn without_capacity(mut self) -> Self {
        self.has_capacity = false;
        self
    }
}

impl<P, B, E, F> Contestant for Entry<'_, B, F>
where
    P: Placer<Block = B>,
    E: Error + 'static,
    F: FnMut(u64) -> Result<P, E>,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn pass(&mut self) -> Result<Pass, Box<dyn Error>> {
        let mut placer = (self.make)(roomy_capacity(self.script))?;
        Ok(self.stage.pass(&mut placer))
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio is read to a few digits")]
    fn smallest_ratio(&mut self) -> Result<Option<f64>, Box<dyn Error>> {
        let peak = self.script.peak_live_granules();
        if !self.has_capacity || peak == 0 {
            return Ok(None);
        }
        let smallest = smallest_capacity(self.script, &mut self.make)?;
        Ok(smallest.map(|granules| granules as f64 / peak as f64))
    }
}
