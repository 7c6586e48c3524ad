//! Threads that free their own blocks.

use pool_mock::replay::Placer as _;

use super::{Crowd, Job, Pass, Room, together};
use crate::{
    churn::{Churn, Exchange},
    ours::GRANULE_BYTES,
};

/// The largest block: 64 granules of 256 bytes are 16 KiB. Caches keep all of these.
pub(super) const MOST_GRANULES: u32 = 64;

/// The capacity for each thread, 1 GiB, as a device has some to spare for each. What is free on
/// its way between threads is bounded by a part of the capacity.
pub(super) const GRANULES_EACH: u64 = (1 << 30) / GRANULE_BYTES;

/// Exchanges in a round: too many for the processor to learn their order, and a list that its
/// second-level cache holds.
const EXCHANGES: u32 = 1 << 15;

/// Each thread keeps so many live blocks, and frees one of them for each that it allocates.
///
/// ```
/// use peers::crowd::{Contestant, OwnFrees};
///
/// let outcome = Contestant::Caches.pass(&OwnFrees::mixed(2), 2, 1)?;
/// assert_eq!(outcome.pass.refused, 0);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct OwnFrees {
    /// What each thread does.
    programs: Vec<Churn>,
}

impl OwnFrees {
    /// Programs for up to so many threads, each with 64 live blocks of 256 bytes to 16 KiB,
    /// log-uniform.
    #[must_use]
    pub fn mixed(threads: u32) -> Self {
        let program =
            |thread| Churn::up_to(MOST_GRANULES, 64, EXCHANGES, EXCHANGES, u64::from(thread) + 1);
        Self { programs: (0..threads).map(program).collect() }
    }

    /// Programs for up to so many threads, each with one live block of 1 KiB that is freed and
    /// allocated again.
    #[must_use]
    pub fn one_block(threads: u32) -> Self {
        let exchanges = vec![Exchange { slot: 0, granules: 4 }; EXCHANGES as usize];
        let program = Churn { first: vec![4], warm_up: exchanges.clone(), exchanges };
        Self { programs: vec![program; threads as usize] }
    }
}

impl Job for OwnFrees {
    fn room(&self, threads: u32) -> Room {
        Room { threads, granules_each: GRANULES_EACH, blocks_each: 64, owners: false }
    }

    fn pass<C: Crowd>(&self, crowd: &C, threads: u32, rounds: u32) -> Pass {
        let programs = (0..threads).zip(&self.programs);
        together(programs, |(thread, program), line| {
            let mut hand = crowd.hand(thread);
            let mut live = program.fill(&mut hand);
            let operations = 2 * program.exchanges.len() as u64 * u64::from(rounds);
            let lap = line
                .lap(operations, || (0..rounds).map(|_| program.run(&mut hand, &mut live)).sum());
            for block in live.into_iter().flatten() {
                hand.release(block);
            }
            lap
        })
    }
}
