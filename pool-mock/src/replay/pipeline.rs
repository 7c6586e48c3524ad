//! A generated program that uses blocks on streams other than their own.

use std::collections::VecDeque;

use fastrand::Rng;

use super::program::{Deed, Program};
use crate::device::Access;

/// A pipeline over four streams: batches are loaded by copies, computed on in two stages, and
/// stored. Each stage works on its own stream, waits for the one before it, and reads what that
/// one wrote in blocks that are the earlier stream's; these are freed on their own stream once
/// the batch is through.
///
/// # Example
///
/// ```
/// use pool_mock::replay::Pipeline;
///
/// let program = Pipeline::default().program();
/// assert_eq!(program.streams(), 4);
/// assert!(program.operations() > 20_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// How many batches pass.
    pub batches: u32,
    /// How many are under way at once, at most: so many of each depth from half of it.
    pub depth: u32,
    /// Chooses the sizes.
    pub seed: u64,
}

impl Default for Pipeline {
    fn default() -> Self {
        Self { batches: 2000, depth: 8, seed: 1 }
    }
}

const LOAD: u32 = 0;
const STORE: u32 = 3;

/// The smallest and the largest block, as powers of two of bytes: 4 KiB and 64 MiB.
const SIZES: core::ops::RangeInclusive<u32> = 12..=26;

impl Pipeline {
    /// The calls, all from one thread.
    #[must_use]
    pub fn program(&self) -> Program {
        let mut rng = Rng::with_seed(self.seed);
        let mut maker = Maker::default();
        let mut under_way: VecDeque<Vec<Held>> = VecDeque::new();
        for _ in 0..self.batches {
            let depth = rng.u32(self.depth.div_ceil(2)..=self.depth.max(1)) as usize;
            while under_way.len() >= depth.max(1) {
                maker.finish(under_way.pop_front().unwrap_or_default());
            }
            let batch = maker.batch(&mut rng);
            under_way.push_back(batch);
        }
        for batch in under_way {
            maker.finish(batch);
        }
        maker.program
    }
}

/// A block of a batch.
#[derive(Clone, Copy, Debug)]
struct Held {
    slot: u32,
    stream: u32,
}

#[derive(Default)]
struct Maker {
    program: Program,
    empty_slots: Vec<u32>,
}

impl Maker {
    /// All stages of a batch; gives the blocks that live until it is through.
    fn batch(&mut self, rng: &mut Rng) -> Vec<Held> {
        let mut held = Vec::new();
        let mut inputs: Vec<Held> = (0..rng.u32(1..=3)).map(|_| self.block(LOAD, rng)).collect();
        for stage in LOAD + 1..=STORE {
            self.push(Deed::Order { before: stage - 1, after: stage });
            for input in &inputs {
                self.push(Deed::Note { slot: input.slot, stream: stage });
                self.push(Deed::Use { slot: input.slot, stream: stage, access: Access::Read });
            }
            // What the stage needs for itself is its own, and freed at once.
            let scratch: Vec<Held> = (0..rng.u32(0..=2)).map(|_| self.block(stage, rng)).collect();
            held.append(&mut inputs);
            if stage != STORE {
                inputs = (0..rng.u32(1..=2)).map(|_| self.block(stage, rng)).collect();
            }
            for block in scratch {
                self.free(block);
            }
            // The first input goes on to the stage after next as well.
            if stage + 1 < STORE && rng.bool() {
                let first = held[0];
                self.push(Deed::Order { before: stage, after: stage + 1 });
                self.push(Deed::Note { slot: first.slot, stream: stage + 1 });
                self.push(Deed::Use { slot: first.slot, stream: stage + 1, access: Access::Read });
            }
        }
        held
    }

    fn finish(&mut self, batch: Vec<Held>) {
        for block in batch {
            self.free(block);
        }
    }

    fn block(&mut self, stream: u32, rng: &mut Rng) -> Held {
        let slot = self.empty_slots.pop().unwrap_or(self.program.slots());
        let power = rng.u32(SIZES);
        let most = 1_u64 << power;
        let size_bytes = if power == *SIZES.start() { most } else { rng.u64(most / 2..=most) };
        self.push(Deed::Allocate { slot, stream, size_bytes });
        Held { slot, stream }
    }

    fn free(&mut self, block: Held) {
        self.push(Deed::Free { slot: block.slot, stream: block.stream });
        self.empty_slots.push(block.slot);
    }

    fn push(&mut self, deed: Deed) {
        self.program.push(0, deed);
    }
}
