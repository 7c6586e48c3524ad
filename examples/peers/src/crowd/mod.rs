//! Many threads on one allocator: who takes part, and what the threads do.
//!
//! An allocator that threads share is a [`Crowd`]; what one thread holds of it, its hand, is a
//! [`Placer`], so that the same programs run on all. A [`Job`] is what the threads do:
//!
//! | job | each thread |
//! | --- | --- |
//! | [`OwnFrees`] | keeps a number of live blocks and frees one of its own for each that it allocates |
//! | [`RemoteFrees`] | allocates what another frees, or frees what another allocated |
//! | [`Copies`] | replays a recorded program under an owner number of its own |
//!
//! A job is done in rounds, each the same list of operations drawn before the clock starts; a
//! faster allocator does more rounds of it in the same time. The clock runs from the moment at
//! which all threads are ready to the end of the last one.
//!
//! # What sharing costs
//!
//! How far work scales is the machine's affair too: its clock, its caches, its other load. So one
//! of the contestants is *private work*: allocators and caches of ours, one of each for each
//! thread, which does as many allocations and frees as a thread does on the shared allocator, in
//! the same order, and shares nothing. For [`RemoteFrees`] a thread cannot do the same calls
//! alone, since no thread there both allocates and frees. Private work there passes as many
//! handles through the same queue in the same batches; for each two handles a thread allocates a
//! block of its own and frees it. So each thread does one operation for each handle that it
//! passes, as on the shared allocator, and each pair of threads as many of each kind.

mod books;
mod contestant;
mod copies;
mod foreign;
mod ours;
mod own;
mod remote;
pub mod report;
mod start;

pub use books::Wrong;
pub use contestant::{Contestant, Outcome};
pub use copies::Copies;
pub use foreign::{Hosted, Locked, LockedHand};
pub use ours::{CacheHand, Caches, LocalHand, Locals, Private};
pub use own::OwnFrees;
use pool_mock::replay::Placer;
pub use remote::RemoteFrees;
pub use start::{Lap, Line, Pass, together};

/// An allocator that threads share.
pub trait Crowd: Sync {
    /// What names a live block. Any thread may free it.
    type Block: Send;

    /// What one thread works with.
    type Hand<'a>: Placer<Block = Self::Block>
    where
        Self: 'a;

    /// The hand of a thread, to be called on it. Threads count from 0.
    fn hand(&self, thread: u32) -> Self::Hand<'_>;
}

/// What threads do with an allocator.
pub trait Job: Sync {
    /// What an allocator needs for so many threads.
    fn room(&self, threads: u32) -> Room;

    /// Does so many rounds on each thread.
    fn pass<C: Crowd>(&self, crowd: &C, threads: u32, rounds: u32) -> Pass;

    /// Does so many rounds on each thread, with nothing shared that the program itself does not
    /// share.
    fn pass_in_private(&self, private: &Private, threads: u32, rounds: u32) -> Pass {
        self.pass(private, threads, rounds)
    }
}

/// What an allocator needs for a [`Job`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How many threads there are.
    pub threads: u32,
    /// The capacity for each.
    pub granules_each: u64,
    /// The most blocks that each has live at once.
    pub blocks_each: u32,
    /// Whether each thread allocates and frees for an owner of its own; else blocks are clean.
    pub owners: bool,
}

impl Room {
    /// The capacity for all.
    #[must_use]
    pub fn granules(&self) -> u64 {
        self.granules_each.saturating_mul(u64::from(self.threads))
    }

    /// The most blocks live at once.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks_each.saturating_mul(self.threads)
    }
}

#[cfg(test)]
mod tests {
    use core::{
        error::Error,
        sync::atomic::{AtomicU64, Ordering},
    };

    use pool_mock::{Trace, replay::Script};

    use super::*;

    /// Counts what it does; refuses every seventh request.
    #[derive(Default)]
    struct Counting {
        requests: AtomicU64,
        refused: AtomicU64,
        released: AtomicU64,
    }

    struct CountingHand<'a>(&'a Counting);

    impl Placer for CountingHand<'_> {
        type Block = ();

        fn place(&mut self, _granules: u64) -> Option<()> {
            let is_refused = self.0.requests.fetch_add(1, Ordering::Relaxed) % 7 == 6;
            self.0.refused.fetch_add(is_refused.into(), Ordering::Relaxed);
            (!is_refused).then_some(())
        }

        fn release(&mut self, (): ()) {
            self.0.released.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Crowd for Counting {
        type Block = ();
        type Hand<'a> = CountingHand<'a>;

        fn hand(&self, _thread: u32) -> CountingHand<'_> {
            CountingHand(self)
        }
    }

    fn copies() -> Copies {
        let log = "Action,Pointer,Size,Stream\n\
                   allocate,0xa0,1000,0\n\
                   allocate,0xb0,70000,0\n\
                   free,0xa0,1000,0\n";
        Copies::new(Script::new(&Trace::read(log.as_bytes()).unwrap(), 256))
    }

    /// Operations and refusals that a pass claims, and those that were done.
    fn claimed_and_done(job: &impl Job) -> ((u64, u64), (u64, u64)) {
        let counting = Counting::default();
        let pass = job.pass(&counting, 4, 3);
        let [requests, refused, released] =
            [&counting.requests, &counting.refused, &counting.released]
                .map(|count| count.load(Ordering::Relaxed));
        assert!(refused > 0);
        ((pass.operations, pass.refused), (requests - refused + released, refused))
    }

    #[test]
    fn no_operation_is_claimed_that_was_refused() {
        for (claimed, done) in [claimed_and_done(&copies()), claimed_and_done(&RemoteFrees::new(4))]
        {
            assert_eq!(claimed, done);
        }
        // What is done before and after the lap does not count, and a request that is refused
        // before it has its free in it.
        let (claimed, done) = claimed_and_done(&OwnFrees::mixed(4));
        assert!(claimed.0 + 4 * 2 * 64 < done.0 && 0 < claimed.1 && claimed.1 < done.1);
    }

    #[test]
    fn all_contestants_do_the_same() -> Result<(), Box<dyn Error>> {
        let rounds = 2;
        for contestant in Contestant::ALL {
            let own = contestant.pass(&OwnFrees::mixed(4), 4, rounds)?.pass;
            let remote = contestant.pass(&RemoteFrees::new(4), 4, rounds)?.pass;
            let copies = contestant.pass(&copies(), 4, rounds)?.pass;
            let operations = [own, remote, copies].map(|pass| pass.operations);
            assert_eq!(operations, [4 * 2 * (2 << 15), 4 * 2 * (1 << 15), 4 * 2 * 4]);
            assert_eq!([own, remote, copies].map(|pass| pass.refused), [0; 3], "{contestant:?}");
        }
        Ok(())
    }
}
