//! Who takes part.

use core::{error::Error, slice};

use clap::ValueEnum;
use pool_core::Work;

use super::{Caches, Hosted, Job, Locals, Locked, Pass, Private, books};

/// An allocator, and the way in which threads use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub enum Contestant {
    /// pool-core's shared allocator, an explicit cache for each thread.
    Caches,
    /// pool-core's shared allocator; each thread gets its cache by itself.
    Locals,
    /// The crate offset-allocator behind a mutex.
    Mutex,
    /// mimalloc.
    #[value(name = "mimalloc")]
    MiMalloc,
    /// An allocator of ours for each thread: what the machine can scale to.
    Private,
}

/// What a [`Contestant`] did.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Its time and operations.
    pub pass: Pass,
    /// Of pool-core's, which layer did the work.
    pub work: Option<Work>,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Caches, Self::Locals, Self::Mutex, Self::MiMalloc, Self::Private];

    /// What the output calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Caches => "pool-core, a cache each",
            Self::Locals => "pool-core, thread-locals",
            Self::Mutex => "mutex, offset-allocator",
            Self::MiMalloc => "mimalloc",
            Self::Private => "private work",
        }
    }

    /// Does a job on an allocator that is made for it.
    ///
    /// # Errors
    ///
    /// The job needs a larger capacity than the allocator can have; the books of pool-core's are
    /// wrong after it.
    pub fn pass<J: Job>(
        self,
        job: &J,
        threads: u32,
        rounds: u32,
    ) -> Result<Outcome, Box<dyn Error>> {
        let room = job.room(threads);
        let (pass, work) = match self {
            Self::Caches => {
                let crowd = Caches::new(&room)?;
                let pass = job.pass(&crowd, threads, rounds);
                books::check(&pass, slice::from_ref(crowd.shared()))?;
                (pass, Some(crowd.shared().stats().work))
            }
            Self::Locals => {
                let crowd = Locals::new(&room)?;
                let pass = job.pass(&crowd, threads, rounds);
                books::check(&pass, slice::from_ref(crowd.shared()))?;
                (pass, Some(crowd.shared().stats().work))
            }
            Self::Mutex => (job.pass(&Locked::new(&room)?, threads, rounds), None),
            Self::MiMalloc => (job.pass(&Hosted, threads, rounds), None),
            Self::Private => {
                let crowd = Private::new(&room)?;
                let pass = job.pass_in_private(&crowd, threads, rounds);
                books::check(&pass, crowd.each())?;
                (pass, None)
            }
        };
        Ok(Outcome { pass, work })
    }
}
