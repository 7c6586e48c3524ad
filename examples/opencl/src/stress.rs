//! Blocks of any size on several queues and threads, each checked byte by byte before it is freed.
//!
//! Every block has a number. A kernel marks its bytes by that, on the block's stream; when its time has
//! come another looks at every byte, there or on a second stream that waits for the first. Then the
//! block is freed, while all of this is still queued, and the pool gives its memory to whoever asks next.
//! If a stream used it before the others have passed, the bytes that are found are another number's.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fastrand::Rng;
use pool_core::device::{Device, Failure};
use pool_core::{Block, Pool, PoolConfig, PoolError, PoolStats, StreamId};
use thiserror::Error;

use crate::device::ClDevice;
use crate::error::ClError;
use crate::kernels::Kernels;
use crate::queue::ClStream;
use crate::range::{ClPart, ClRange};

/// How much there is to do.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Queues.
    pub streams: usize,
    /// Threads, each of which uses all of them.
    pub threads: usize,
    /// Allocations, by all threads together.
    pub blocks: u32,
    /// The most that a block has.
    pub most_bytes: u64,
    /// The pool's limit: the less there is, the more often memory changes streams.
    pub limit_bytes: u64,
    /// Whether some blocks are checked on another stream than theirs, which the program then has wait.
    pub elsewhere: bool,
    /// Rounds of the work by which streams fall behind each other.
    pub dawdle_rounds: u32,
    /// What sizes and order are drawn from.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            streams: 6,
            threads: 3,
            blocks: 6_000,
            most_bytes: 1 << 20,
            limit_bytes: 24 << 20,
            elsewhere: true,
            dawdle_rounds: 1 << 20,
            seed: 1,
        }
    }
}

/// What was done, and found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Blocks that were allocated, marked, checked and freed.
    pub blocks: u64,
    /// Their bytes: each was looked at by a kernel.
    pub checked_bytes: u64,
    /// Those of them that were not as they should be.
    pub wrong_bytes: u64,
    /// Blocks of memory that their stream had used last.
    pub same_stream_reuses: u64,
    /// Blocks of memory that another stream had used last.
    pub other_stream_reuses: u64,
    /// Blocks that were checked on another stream than their own.
    pub uses_elsewhere: u64,
    /// Requests that were refused, and made again after a block was freed.
    pub refusals: u64,
    /// The pool's own figures, at the end.
    pub pool: PoolStats,
    /// How long it took.
    pub time: Duration,
}

/// What the stress could not go on after.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StressError {
    /// The pool refused what it should not.
    #[error(transparent)]
    Pool(#[from] PoolError<ClError>),
    /// The device did.
    #[error(transparent)]
    Device(#[from] ClError),
    /// The device did, in a call of the pool's.
    #[error(transparent)]
    Call(#[from] Failure<ClError>),
    /// The pool's books are wrong.
    #[error(transparent)]
    Books(#[from] pool_core::VerifyError),
    /// A thread panicked.
    #[error("a thread ended early")]
    Thread,
}

type Result<T> = core::result::Result<T, StressError>;

/// A block that is in use.
struct Live {
    block: Block,
    part: ClPart,
    stream: usize,
    number: u32,
}

/// What all threads have.
struct Shared<D: Device> {
    pool: Pool<D>,
    plan: Plan,
    streams: Vec<(StreamId, ClStream)>,
    /// Of each stream: four bytes that count what is wrong, and four that nobody reads.
    wrong: Vec<ClPart>,
    sinks: Vec<ClPart>,
    /// Blocks that a thread left for others.
    left: Mutex<Vec<Live>>,
    /// Of each granule the stream that used it last, counted from one.
    used_by: Mutex<Vec<usize>>,
    granule_bytes: u64,
    numbers: AtomicU32,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    blocks: AtomicU64,
    checked_bytes: AtomicU64,
    same_stream_reuses: AtomicU64,
    other_stream_reuses: AtomicU64,
    uses_elsewhere: AtomicU64,
    refusals: AtomicU64,
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a plan on an open device, by a pool over that or over what stands for it.
///
/// # Errors
///
/// What the pool or the device refused other than for want of memory.
///
/// # Example
///
/// ```
/// use pool_opencl::{ClDevice, Plan, stress};
///
/// # let Ok(device) = ClDevice::open(0) else { return Ok(()) };
/// let outcome = stress(&device, device.clone(), &Plan { blocks: 60, ..Plan::default() })?;
/// assert_eq!((outcome.blocks, outcome.wrong_bytes), (60, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn stress<D>(opened: &ClDevice, device: D, plan: &Plan) -> Result<Outcome>
where
    D: Device<Range = ClRange, Stream = ClStream, Error = ClError>,
{
    let began = Instant::now();
    let config = PoolConfig::new().limit_bytes(plan.limit_bytes).arena_bytes(plan.limit_bytes / 4);
    let pool = Pool::new(device, config)?;
    let mut streams = Vec::new();
    for _ in 0..plan.streams.max(1) {
        let id = pool.create_stream()?;
        streams.extend(pool.stream(id).map(|stream| (id, stream)));
    }
    let granule_bytes = pool.device().granule_bytes().max(16);
    let counters = pool.device().allocate(2 * granule_bytes * streams.len() as u64)?;
    let part = |place: usize| counters.part(place as u64 * granule_bytes, 4);
    let mut kernels = Kernels::of(opened)?;
    let wrong: Vec<ClPart> =
        (0..streams.len()).map(part).collect::<core::result::Result<_, _>>()?;
    for (part, (_, stream)) in wrong.iter().zip(&streams) {
        kernels.fill(stream, part, 0..4, 0)?;
    }
    let sinks = (streams.len()..2 * streams.len()).map(part);
    let shared = Shared {
        sinks: sinks.collect::<core::result::Result<_, _>>()?,
        pool,
        plan: *plan,
        streams,
        wrong,
        left: Mutex::default(),
        used_by: Mutex::default(),
        granule_bytes,
        numbers: AtomicU32::new(0),
        counts: Counts::default(),
    };
    shared.run(opened)?;
    let left = core::mem::take(&mut *lock(&shared.left));
    for live in left {
        shared.finish(live, None, &mut kernels)?;
    }
    let wrong_bytes = shared.wrong_bytes()?;
    shared.pool.reclaim()?;
    shared.pool.verify()?;
    let (counts, count) = (&shared.counts, |count: &AtomicU64| count.load(Ordering::Relaxed));
    let outcome = Outcome {
        blocks: count(&counts.blocks),
        checked_bytes: count(&counts.checked_bytes),
        wrong_bytes,
        same_stream_reuses: count(&counts.same_stream_reuses),
        other_stream_reuses: count(&counts.other_stream_reuses),
        uses_elsewhere: count(&counts.uses_elsewhere),
        refusals: count(&counts.refusals),
        pool: shared.pool.stats(),
        time: began.elapsed(),
    };
    shared.pool.device().free(&counters)?;
    Ok(outcome)
}

impl<D> Shared<D>
where
    D: Device<Range = ClRange, Stream = ClStream, Error = ClError>,
{
    /// All threads' work, to its end.
    fn run(&self, device: &ClDevice) -> Result<()> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.plan.threads.max(1))
                .map(|thread| {
                    scope.spawn(move || self.work(thread as u64, &mut Kernels::of(device)?))
                })
                .collect();
            let ends =
                threads.into_iter().map(|thread| thread.join().map_err(|_| StressError::Thread));
            ends.collect::<Result<Vec<Result<()>>>>()?.into_iter().collect()
        })
    }

    /// One thread's work.
    fn work(&self, thread: u64, kernels: &mut Kernels) -> Result<()> {
        let mut rng = Rng::with_seed(self.plan.seed.wrapping_mul(1000) + thread);
        let mut own: Vec<Live> = Vec::new();
        loop {
            if own.is_empty() || (own.len() < 24 && rng.bool()) {
                let number = self.numbers.fetch_add(1, Ordering::Relaxed);
                if number >= self.plan.blocks {
                    break;
                }
                let mut live = self.begin(number, &mut own, &mut rng, kernels)?;
                if rng.u8(..) < 64 {
                    // Whoever takes it ends it.
                    let mut left = lock(&self.left);
                    left.push(live);
                    let place = rng.usize(..left.len());
                    live = left.swap_remove(place);
                }
                own.push(live);
            } else {
                let live = own.swap_remove(rng.usize(..own.len()));
                let elsewhere = (self.plan.elsewhere && rng.u8(..) < 64)
                    .then(|| rng.usize(..self.streams.len()));
                self.finish(live, elsewhere, kernels)?;
            }
        }
        own.into_iter().try_for_each(|live| self.finish(live, None, kernels))
    }

    /// Allocates a block and has it marked.
    fn begin(
        &self,
        number: u32,
        own: &mut Vec<Live>,
        rng: &mut Rng,
        kernels: &mut Kernels,
    ) -> Result<Live> {
        let stream = rng.usize(..self.streams.len());
        let (id, queue) = &self.streams[stream];
        let order = rng.u32(8..=self.plan.most_bytes.max(512).ilog2());
        let size_bytes = rng.u64(1 << (order - 1)..1 << order);
        let block = loop {
            match self.pool.allocate_on(*id, size_bytes) {
                Ok(block) => break block,
                Err(PoolError::OutOfMemory { .. }) => {
                    add(&self.counts.refusals, 1);
                    let live = own.pop().or_else(|| lock(&self.left).pop());
                    match live {
                        Some(live) => self.finish(live, None, kernels)?,
                        None => std::thread::yield_now(),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        };
        self.note_use(&block, stream);
        if rng.u8(..) < 32 {
            kernels.dawdle(queue, &self.sinks[stream], self.plan.dawdle_rounds)?;
        }
        let part = ClPart::of(&self.pool, &block)?;
        kernels.mark(queue, &part, number)?;
        Ok(Live { block, part, stream, number })
    }

    /// Has every byte of a block checked, on its stream or another, and frees it.
    fn finish(&self, live: Live, elsewhere: Option<usize>, kernels: &mut Kernels) -> Result<()> {
        let Live { block, part, stream, number } = live;
        let (id, queue) = &self.streams[stream];
        match elsewhere.filter(|&other| other != stream) {
            Some(other) => {
                let (other_id, other_queue) = &self.streams[other];
                self.pool.order(*id, *other_id)?;
                self.pool.record_use(block.handle(), *other_id)?;
                kernels.check(other_queue, &part, number, &self.wrong[other])?;
                add(&self.counts.uses_elsewhere, 1);
            }
            None => kernels.check(queue, &part, number, &self.wrong[stream])?,
        }
        add(&self.counts.blocks, 1);
        add(&self.counts.checked_bytes, block.size_bytes());
        self.pool.free_on(*id, block.handle())?;
        Ok(())
    }

    /// Notes who uses a block's memory, and counts who did before.
    fn note_use(&self, block: &Block, stream: usize) {
        let first = block.offset_bytes() / self.granule_bytes;
        let end = (block.offset_bytes() + block.size_bytes()).div_ceil(self.granule_bytes);
        let (Ok(first), Ok(end)) = (usize::try_from(first), usize::try_from(end)) else { return };
        let mut used_by = lock(&self.used_by);
        if used_by.len() < end {
            used_by.resize(end, 0);
        }
        let before = &mut used_by[first..end];
        let me = stream + 1;
        if before.iter().any(|&other| other != 0 && other != me) {
            add(&self.counts.other_stream_reuses, 1);
        } else if before.contains(&me) {
            add(&self.counts.same_stream_reuses, 1);
        }
        before.fill(me);
    }

    /// Waits for everything, and reads what all checks found.
    fn wrong_bytes(&self) -> Result<u64> {
        let mut wrong_bytes = 0;
        for (part, (_, stream)) in self.wrong.iter().zip(&self.streams) {
            let count: [u8; 4] = part.read(stream)?.try_into().unwrap_or_default();
            wrong_bytes += u64::from(u32::from_ne_bytes(count));
        }
        Ok(wrong_bytes)
    }
}
