//! Several copies of a program, driven step by step from one thread.

use super::placer::{Extent, Locate, Placer};

/// One allocator for each copy of a program that [`Script::copies`](super::Script::copies) made.
///
/// Requests go to them in turn, as the copies' steps do, and a block goes back to the one that
/// served it. One thread drives them all, so every run gives the same, which threads of their
/// own would not.
///
/// # Example
///
/// ```
/// use pool_core::{RangeConfig, SharedAllocator};
/// use pool_mock::{Trace, replay::{Cached, Lockstep, Script, smallest_capacity}};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,100000,0\nfree,0xa0,100000,0\n";
/// let one = Script::new(&Trace::read(log.as_bytes())?, 256);
/// let four = one.copies(4).unwrap();
/// // Four caches on two shards of one allocator.
/// let make = |granules| {
///     let shared = SharedAllocator::new(RangeConfig::new(granules * 256))?;
///     Ok::<_, pool_core::ConfigError>(Lockstep::new(Cached::copies(&shared, 4, 2)))
/// };
/// let found = smallest_capacity(&four, make)?;
/// assert!(found.is_some_and(|granules| granules >= 4 * one.peak_live_granules()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Lockstep<P> {
    copies: Vec<P>,
    /// Whose request is next.
    next: usize,
}

impl<P> Lockstep<P> {
    /// The allocator of each copy, in the copies' order. Without any, every request is refused.
    #[must_use]
    pub fn new(copies: Vec<P>) -> Self {
        Self { copies, next: 0 }
    }
}

impl<P: Placer> Placer for Lockstep<P> {
    /// The copy, and its block.
    type Block = (usize, P::Block);

    fn place(&mut self, granules: u64) -> Option<Self::Block> {
        let copy = self.next;
        self.next = (copy + 1) % self.copies.len().max(1);
        Some((copy, self.copies.get_mut(copy)?.place(granules)?))
    }

    fn release(&mut self, (copy, block): Self::Block) {
        self.copies[copy].release(block);
    }
}

impl<P: Locate> Locate for Lockstep<P> {
    fn locate(&self, (copy, block): &Self::Block) -> Extent {
        self.copies[*copy].locate(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Trace,
        reference::BestFit,
        replay::{Script, survey},
    };

    #[test]
    fn each_copy_has_its_own_allocator_also_after_a_refusal() {
        let log = "Action,Pointer,Size,Stream\n\
                   allocate,0xa0,2,0\n\
                   allocate,0xb0,2,0\n\
                   free,0xb0,2,0\n\
                   free,0xa0,2,0\n\
                   allocate,0xc0,3,0\n";
        let script = Script::new(&Trace::read(log.as_bytes()).unwrap(), 1).copies(2).unwrap();
        // The first refuses its second and third block, the second none.
        let mut lockstep = Lockstep::new(vec![BestFit::new(2), BestFit::new(4)]);
        assert_eq!(survey(&script, &mut lockstep).failures, 2);
    }

    #[test]
    fn without_an_allocator_everything_is_refused() {
        assert_eq!(Lockstep::<BestFit>::new(Vec::new()).place(1), None);
    }
}
