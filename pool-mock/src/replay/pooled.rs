//! A program on a pool.

use core::error::Error;
use std::sync::Arc;

use pool_core::{
    Block, Device, Handle, Pool, PoolError, StreamId,
    device::Failure,
    pool::{Arena, Location},
};

use super::{
    program::{Deed, Program},
    turns,
};
use crate::device::{Access, Owner, SimDevice, SimError, SimStream};

/// A [`Program`] with streams of its own on a [`Pool`]: over the [`SimDevice`], with work whose
/// races it finds, or over any device, with none or with [`Work`] of one's own.
///
/// # Example
///
/// ```
/// use pool_core::{Pool, PoolConfig};
/// use pool_mock::{Trace, device::{SimConfig, SimDevice}, replay::{Pooled, Program}};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,100,0\nfree,0xa0,100,1\n";
/// let program = Program::of(&Trace::read(log.as_bytes())?);
/// let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
/// let mut pooled = Pooled::with_work(&pool, &program)?;
/// assert_eq!(pooled.pass()?, 0);
/// pool.device().assert_clean();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Pooled<'a, D: Device = SimDevice, W: Work<D> = Queued> {
    pub(super) pool: &'a Pool<D>,
    program: &'a Program,
    streams: Vec<(StreamId, D::Stream)>,
    pub(super) slots: Vec<Option<Live<W>>>,
}

/// A live block.
#[derive(Debug)]
pub(super) struct Live<W> {
    pub(super) handle: Handle,
    /// The stream it was allocated on.
    home: u32,
    work: W,
}

/// What is done with a live block.
pub trait Work<D: Device>: Sized {
    /// A block was handed out.
    ///
    /// # Errors
    ///
    /// As [`Pooled::pass`].
    fn begin(pool: &Pool<D>, block: &Block) -> Result<Self, Stopped<D::Error>>;

    /// Queues work that uses all of it, or a part.
    ///
    /// # Errors
    ///
    /// As [`Pooled::pass`].
    fn queue(
        &self,
        device: &D,
        stream: &D::Stream,
        access: Access,
    ) -> Result<(), Stopped<D::Error>>;

    /// Has what is queued on one stream from now on wait for what is queued on another.
    ///
    /// # Errors
    ///
    /// As [`Pooled::pass`].
    fn order(device: &D, before: &D::Stream, after: &D::Stream) -> Result<(), Stopped<D::Error>>;
}

/// Nothing is done: the time of a pass is the pool's own.
#[derive(Debug)]
pub struct Idle;

impl<D: Device> Work<D> for Idle {
    #[inline]
    fn begin(_: &Pool<D>, _: &Block) -> Result<Self, Stopped<D::Error>> {
        Ok(Self)
    }

    #[inline]
    fn queue(&self, _: &D, _: &D::Stream, _: Access) -> Result<(), Stopped<D::Error>> {
        Ok(())
    }

    #[inline]
    fn order(_: &D, _: &D::Stream, _: &D::Stream) -> Result<(), Stopped<D::Error>> {
        Ok(())
    }
}

/// Work is queued, for an owner that the block alone has.
#[derive(Debug)]
pub struct Queued {
    arena: Arc<Arena<SimDevice>>,
    offset_bytes: u64,
    size_bytes: u64,
    owner: Owner,
}

impl Work<SimDevice> for Queued {
    fn begin(pool: &Pool<SimDevice>, block: &Block) -> Result<Self, Stopped> {
        let Location { arena, offset_bytes, .. } =
            pool.location(block.handle()).map_err(PoolError::from)?;
        let owner = pool.device().new_owner();
        Ok(Self { arena, offset_bytes, size_bytes: block.size_bytes(), owner })
    }

    fn queue(&self, device: &SimDevice, stream: &SimStream, access: Access) -> Result<(), Stopped> {
        let range = self.arena.range();
        device
            .queue_use(*stream, range, self.offset_bytes, self.size_bytes, self.owner, access)
            .map_err(Failure::from)?;
        Ok(())
    }

    fn order(device: &SimDevice, before: &SimStream, after: &SimStream) -> Result<(), Stopped> {
        let fence = device.queue_record(*before).map_err(Failure::from)?;
        let waited = device.queue_wait(*after, &fence);
        device.discard_fence(fence);
        Ok(waited.map_err(Failure::from)?)
    }
}

/// Why a replay stopped. A refusal for want of memory is no reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Stopped<E: Error + 'static = SimError> {
    /// The pool refused a call.
    #[error(transparent)]
    Pool(#[from] PoolError<E>),
    /// The system has no more threads.
    #[error("cannot start a thread for each of the program's: {0}")]
    Threads(#[from] std::io::Error),
    /// The device refused work.
    #[error("the device refuses work: {0}")]
    Device(#[from] Failure<E>),
}

impl<'a> Pooled<'a, SimDevice, Queued> {
    /// The program, with streams that the pool makes for it, and with work: what the program
    /// itself queues, a write of all of a block behind its allocation, and a read of it before its
    /// free, on the stream that it was allocated on.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_work(pool: &'a Pool<SimDevice>, program: &'a Program) -> Result<Self, Stopped> {
        Self::working(pool, program)
    }
}

impl<'a, D: Device> Pooled<'a, D, Idle> {
    /// The program, with streams that the pool makes for it. No work is queued on them.
    ///
    /// # Errors
    ///
    /// The device has no more streams.
    pub fn new(pool: &'a Pool<D>, program: &'a Program) -> Result<Self, Stopped<D::Error>> {
        Self::working(pool, program)
    }
}

impl<'a, D: Device, W: Work<D>> Pooled<'a, D, W> {
    /// The program, with streams that the pool makes for it, and with work of any kind.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Pool, PoolConfig};
    /// use pool_mock::{device::{SimConfig, SimDevice}, replay::{Idle, Pipeline, Pooled}};
    ///
    /// let program = Pipeline::default().program();
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let mut pooled = Pooled::<_, Idle>::working(&pool, &program)?;
    /// assert_eq!(pooled.pass()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn working(pool: &'a Pool<D>, program: &'a Program) -> Result<Self, Stopped<D::Error>> {
        let mut streams = Vec::new();
        for _ in 0..program.streams() {
            let id = pool.create_stream()?;
            let handle = pool.stream(id).ok_or(PoolError::UnknownStream(id))?;
            streams.push((id, handle));
        }
        let mut slots = Vec::new();
        slots.resize_with(program.slots() as usize, || None);
        Ok(Self { pool, program, streams, slots })
    }

    /// Makes all calls of the program, then frees what is live; how many requests were refused.
    ///
    /// # Errors
    ///
    /// Whatever the pool refuses for another reason than a want of memory, a device that takes no
    /// work, and a system that has no thread for each of the program's.
    pub fn pass(&mut self) -> Result<u64, Stopped<D::Error>>
    where
        W: Send,
    {
        let mut failures = 0;
        self.passes(1, |of_pass| failures = of_pass)?;
        Ok(failures)
    }

    /// Several passes, one behind the other, from the same threads; `ended` is told how many
    /// requests each refused.
    ///
    /// # Errors
    ///
    /// As [`pass`](Self::pass).
    pub fn passes(
        &mut self,
        passes: u32,
        mut ended: impl FnMut(u64) + Send,
    ) -> Result<(), Stopped<D::Error>>
    where
        W: Send,
    {
        if self.program.threads() > 1 {
            return turns::passes(self, passes, &mut ended);
        }
        for _ in 0..passes {
            let failures = self.play()?;
            self.clear()?;
            ended(failures);
        }
        Ok(())
    }

    /// Makes all calls up to the first refusal; false if there was one.
    ///
    /// # Errors
    ///
    /// As [`pass`](Self::pass).
    pub fn serves(&mut self) -> Result<bool, Stopped<D::Error>>
    where
        W: Send,
    {
        if self.program.threads() > 1 {
            return turns::serves(self);
        }
        for call in self.program.calls() {
            if !self.call(call.deed)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes all calls from the calling thread, and nothing else; how many requests were refused.
    ///
    /// # Errors
    ///
    /// As [`pass`](Self::pass).
    #[inline]
    pub fn play(&mut self) -> Result<u64, Stopped<D::Error>> {
        let mut failures = 0;
        for call in self.program.calls() {
            failures += u64::from(!self.call(call.deed)?);
        }
        Ok(failures)
    }

    /// Allocates and frees a block, so that the calling thread has a cache.
    ///
    /// # Errors
    ///
    /// As [`pass`](Self::pass).
    pub fn warm_up(&self) -> Result<(), Stopped<D::Error>> {
        if let Some((stream, _)) = self.streams.first() {
            let block = self.pool.allocate_on(*stream, 1)?;
            self.pool.free_on(*stream, block.handle())?;
        }
        Ok(())
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &'a Program {
        self.program
    }

    /// Frees what is live, each block on its own stream.
    ///
    /// # Errors
    ///
    /// As [`pass`](Self::pass).
    pub fn clear(&mut self) -> Result<(), Stopped<D::Error>> {
        for slot in 0..self.program.slots() {
            let home = self.slots[slot as usize].as_ref().map(|live| live.home);
            if let Some(stream) = home {
                self.call(Deed::Free { slot, stream })?;
            }
        }
        Ok(())
    }

    /// Makes one call; false if the pool has no memory for it.
    ///
    /// # Errors
    ///
    /// As [`pass`](Self::pass).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the time of a pass is to be the pool's own")]
    pub fn call(&mut self, deed: Deed) -> Result<bool, Stopped<D::Error>> {
        match deed {
            Deed::Allocate { slot, stream, size_bytes } => {
                let (id, queue) = &self.streams[stream as usize];
                let block = match self.pool.allocate_on(*id, size_bytes) {
                    Ok(block) => block,
                    Err(PoolError::OutOfMemory { .. }) => return Ok(false),
                    Err(error) => return Err(error.into()),
                };
                let work = W::begin(self.pool, &block)?;
                work.queue(self.pool.device(), queue, Access::Write)?;
                let live = Live { handle: block.handle(), home: stream, work };
                self.slots[slot as usize] = Some(live);
            }
            Deed::Free { slot, stream } => {
                let Some(live) = self.slots[slot as usize].take() else { return Ok(true) };
                let home = &self.streams[live.home as usize].1;
                live.work.queue(self.pool.device(), home, Access::Read)?;
                self.pool.free_on(self.streams[stream as usize].0, live.handle)?;
            }
            Deed::Use { slot, stream, access } => {
                if let Some(live) = &self.slots[slot as usize] {
                    let queue = &self.streams[stream as usize].1;
                    live.work.queue(self.pool.device(), queue, access)?;
                }
            }
            Deed::Order { before, after } => {
                let (before, after) =
                    (&self.streams[before as usize].1, &self.streams[after as usize].1);
                W::order(self.pool.device(), before, after)?;
            }
            Deed::Note { slot, stream } => {
                if let Some(live) = &self.slots[slot as usize] {
                    self.pool.record_use(live.handle, self.streams[stream as usize].0)?;
                }
            }
        }
        Ok(true)
    }
}
