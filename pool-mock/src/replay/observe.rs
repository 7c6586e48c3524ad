//! Replays that tell what they do, call by call: slower than the others, and never timed.

use pool_core::{Device, PoolError};

use super::{
    placer::{Extent, Locate},
    pooled::{Pooled, Stopped, Work},
    program::Deed,
    script::{Script, Step},
};

/// What a call of a replay did. Requests are numbered from 0 in the order of the program, those
/// that were refused too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    /// A block was handed out.
    Allocated {
        /// The number of its request.
        request: u32,
        /// Where it begins.
        offset_bytes: u64,
        /// Its size, with what rounding added.
        size_bytes: u64,
    },
    /// A block was given back.
    Freed {
        /// The number of its request.
        request: u32,
        /// Where it began.
        offset_bytes: u64,
    },
    /// A request was refused.
    Refused {
        /// Its number.
        request: u32,
        /// The bytes asked for.
        size_bytes: u64,
    },
    /// A call that is neither a request nor a free of a block.
    Other,
}

/// Looks on at a replay.
pub trait Observer {
    /// A call was made: the one with this number, from 0.
    fn see(&mut self, call: usize, sight: Sight);

    /// Whether it has seen enough: the replay then ends before the next call.
    fn is_done(&self) -> bool {
        false
    }
}

impl<F: FnMut(usize, Sight)> Observer for F {
    fn see(&mut self, call: usize, sight: Sight) {
        self(call, sight);
    }
}

/// Replays a script on a fresh allocator and tells of each step. How many requests were refused.
///
/// # Complexity
///
/// Linear in the steps, one [`Locate::locate`] for each block.
///
/// # Example
///
/// ```
/// use pool_core::{OffsetAllocator, RangeConfig};
/// use pool_mock::{Trace, replay::{Script, Sight, observe}};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,700,0\nfree,0xa0,700,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
/// let mut range = OffsetAllocator::new(&RangeConfig::new(4096))?;
/// let mut seen = Vec::new();
/// observe(&script, &mut range, &mut |_, sight| seen.push(sight));
/// assert_eq!(seen[0], Sight::Allocated { request: 0, offset_bytes: 0, size_bytes: 768 });
/// assert_eq!(seen[1], Sight::Freed { request: 0, offset_bytes: 0 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn observe<P: Locate>(script: &Script, placer: &mut P, observer: &mut impl Observer) -> u64 {
    let granule_bytes = script.granule_bytes();
    let mut slots: Vec<Option<(P::Block, Known)>> = Vec::new();
    slots.resize_with(script.peak_live_blocks() as usize, || None);
    let (mut requests, mut failures) = (0, 0);
    for (number, (step, size_bytes)) in script.steps_and_bytes().enumerate() {
        let sight = match step {
            Step::Allocate { slot, granules } => {
                let request = requests;
                requests += 1;
                if let Some(block) = placer.place(granules) {
                    let Extent { offset_granules, granules } = placer.locate(&block);
                    let offset_bytes = offset_granules * granule_bytes;
                    slots[slot as usize] = Some((block, Known { request, offset_bytes }));
                    Sight::Allocated { request, offset_bytes, size_bytes: granules * granule_bytes }
                } else {
                    failures += 1;
                    Sight::Refused { request, size_bytes }
                }
            }
            Step::Free { slot } => match slots[slot as usize].take() {
                Some((block, known)) => {
                    placer.release(block);
                    known.freed()
                }
                None => Sight::Other,
            },
        };
        observer.see(number, sight);
        if observer.is_done() {
            break;
        }
    }
    failures
}

impl<D: Device, W: Work<D>> Pooled<'_, D, W> {
    /// Makes all calls from the calling thread, and tells of each; what is live at the end stays so.
    /// How many requests were refused.
    ///
    /// # Errors
    ///
    /// As [`pass`](Self::pass).
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Pool, PoolConfig};
    /// use pool_mock::{Trace, device::{SimConfig, SimDevice}, replay::{Idle, Pooled, Program, Sight}};
    ///
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,700,0\nfree,0xa0,700,0\n";
    /// let program = Program::of(&Trace::read(log.as_bytes())?);
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let mut freed = 0;
    /// Pooled::new(&pool, &program)?.observe(&mut |_, sight| {
    ///     freed += u32::from(matches!(sight, Sight::Freed { .. }));
    /// })?;
    /// assert_eq!(freed, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn observe(&mut self, observer: &mut impl Observer) -> Result<u64, Stopped<D::Error>> {
        let program = self.program();
        let mut slots: Vec<Option<Known>> = vec![None; program.slots() as usize];
        let (mut requests, mut failures) = (0, 0);
        for (number, call) in program.calls().iter().enumerate() {
            let served = self.call(call.deed)?;
            let sight = match call.deed {
                Deed::Allocate { slot, size_bytes, .. } => {
                    let request = requests;
                    requests += 1;
                    failures += u64::from(!served);
                    match self.slots[slot as usize].as_ref() {
                        Some(live) => {
                            let block = self.pool.block(live.handle).map_err(PoolError::from)?;
                            let offset_bytes = block.offset_bytes();
                            slots[slot as usize] = Some(Known { request, offset_bytes });
                            let size_bytes = block.size_bytes();
                            Sight::Allocated { request, offset_bytes, size_bytes }
                        }
                        None => Sight::Refused { request, size_bytes },
                    }
                }
                Deed::Free { slot, .. } => {
                    slots[slot as usize].take().map_or(Sight::Other, Known::freed)
                }
                Deed::Use { .. } | Deed::Order { .. } | Deed::Note { .. } => Sight::Other,
            };
            observer.see(number, sight);
            if observer.is_done() {
                break;
            }
        }
        Ok(failures)
    }
}

/// A live block.
#[derive(Clone, Copy, Debug)]
struct Known {
    request: u32,
    offset_bytes: u64,
}

impl Known {
    fn freed(self) -> Sight {
        Sight::Freed { request: self.request, offset_bytes: self.offset_bytes }
    }
}
