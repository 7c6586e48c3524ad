//! Whole pools over a device: what the other cases ask one by one, all at once.

use std::collections::VecDeque;

use fastrand::Rng;
use pool_core::device::Capabilities;
use pool_core::policy::{Growth, Pages, Preallocation};
use pool_core::{Block, On, Pool, PoolConfig, PoolError, StreamId};

use super::case::listed;
use super::report::{Outcome, Stop};
use super::trial::{Pace, Trial};
use super::world::{PIECE, demand, look};

listed! { "pools", Whole:
    a_pool_serves_its_streams, [],
        "`Device`: blocks of a pool are their owners' alone, for as long as they have them";
    a_pool_in_pages_serves_its_streams, [C::PAGES, C::ADDRESSES],
        "`PAGES`: blocks of a pool in pages are their owners' alone, for as long as they have them";
    memory_goes_from_stream_to_stream, [C::FENCES],
        "`FENCES`: memory that one stream freed serves another once its work is done, and not before";
    a_pool_grows_and_shrinks, [],
        "`allocate`, `free`: a pool takes memory as it needs it, and gives it back";
    a_pool_refuses_and_goes_on, [],
        "`severity`: a pool whose device has no more memory says so, and goes on with what it has";
}

/// The memory of a pool under pressure.
const LIMIT: u64 = 4 << 20;

/// Requests of a case.
const REQUESTS: usize = 400;

/// So many blocks at most live at a time.
const MOST_BLOCKS: usize = 24;

/// Streams of a program over a pool.
struct Program<D: Trial> {
    pool: Pool<D>,
    streams: Vec<Named<D>>,
    random: Rng,
}

/// A stream by the names that the device and the pool have for it.
struct Named<D: Trial> {
    handle: D::Stream,
    id: Option<StreamId>,
}

impl<D: Trial> Clone for Named<D> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), id: self.id }
    }
}

impl<D: Trial> Named<D> {
    /// As the pool takes it.
    fn on(&self) -> On<'_, D::Stream> {
        self.id.map_or(On::Raw(&self.handle), On::Stream)
    }
}

/// A block that was marked.
struct Marked {
    block: Block,
    stream: usize,
    mark: u8,
}

/// A pool's settings: little at a time, so that it has to ask the device often.
fn config() -> PoolConfig {
    let growth =
        Growth { floor_bytes: 2 << 20, ceiling_bytes: 2 << 20, ahead: None, ..Growth::new() };
    PoolConfig::new().growth(growth).preallocation(Preallocation::Bytes(0))
}

impl<D: Trial> Program<D> {
    /// Some streams: the pool's own where it can make them.
    fn new(device: D, config: PoolConfig, streams: usize) -> Result<Self, Stop> {
        let capabilities = device.capabilities();
        let has = |capability| capabilities.contains(capability);
        let pool = Pool::new(device, config)?;
        let count = if has(Capabilities::FENCES) { streams } else { 1 };
        let made = (0..count).map(|_| {
            if has(Capabilities::STREAMS | Capabilities::FENCES) {
                let id = pool.create_stream()?;
                let handle = pool.stream(id);
                let handle = handle.ok_or_else(|| Stop::broken("a pool lost a stream"))?;
                return Ok::<_, Stop>(Named { handle, id: Some(id) });
            }
            Ok(Named { handle: pool.device().begin_stream()?, id: None })
        });
        let streams = made.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { pool, streams, random: Rng::with_seed(7) })
    }

    /// Asks for a block and has the stream mark it.
    fn allocate(
        &mut self,
        stream: usize,
        bytes: u64,
        mark: u8,
        pace: Pace,
    ) -> Result<Marked, Stop> {
        let Named { handle, .. } = &self.streams[stream];
        let block = self.pool.allocate_on(self.streams[stream].on(), bytes)?;
        let found = self.pool.location(block.handle()).map_err(PoolError::<D::Error>::Handle)?;
        let (range, offset) = (found.arena.range(), found.offset_bytes);
        self.pool.device().mark(handle, range, offset, block.size_bytes(), mark, pace)?;
        Ok(Marked { block, stream, mark })
    }

    /// Waits for all work, looks whether a block is still marked, and frees it.
    #[track_caller]
    fn free(&mut self, marked: &Marked) -> Outcome {
        self.settle()?;
        let Marked { block, stream, mark } = marked;
        let place = self.pool.location(block.handle()).map_err(PoolError::<D::Error>::Handle)?;
        let (range, offset) = (place.arena.range(), place.offset_bytes);
        if let Err(seen) = look(self.pool.device(), range, offset, block.size_bytes(), *mark)? {
            return Err(Stop::broken(format!("in a block of {} bytes {seen}", block.size_bytes())));
        }
        self.pool.free_on(self.streams[*stream].on(), block.handle())?;
        Ok(())
    }

    fn settle(&self) -> Outcome {
        let device = self.pool.device();
        if device.capabilities().contains(Capabilities::FENCES) {
            device.synchronize()?;
        }
        Ok(())
    }

    /// Random requests in random streams, each block marked, and looked at before it goes.
    fn run(&mut self) -> Outcome {
        let mut live: VecDeque<Marked> = VecDeque::new();
        for number in 0..REQUESTS {
            let stream = self.random.usize(..self.streams.len());
            let bytes = 256 << self.random.u32(..11);
            let bytes = bytes + self.random.u64(..bytes);
            let mark = u8::try_from(number % 250).unwrap_or(0) + 1;
            live.push_back(self.allocate(stream, bytes, mark, Pace::Soon)?);
            if live.len() > MOST_BLOCKS {
                let place = self.random.usize(..live.len());
                let marked = live.swap_remove_back(place);
                let marked = marked.ok_or_else(|| Stop::broken("a block was lost"))?;
                // One in three goes while its work is queued still: whoever gets it next must not
                // find that work later on.
                if number % 3 == 0 {
                    let on = self.streams[marked.stream].on();
                    self.pool.free_on(on, marked.block.handle())?;
                } else {
                    self.free(&marked)?;
                }
            }
            if number % 100 == 99 {
                self.pool.trim(0)?;
            }
        }
        live.iter().try_for_each(|marked| self.free(marked))?;
        self.end()
    }

    /// All books are right, and what the pool does not need goes back.
    fn end(&mut self) -> Outcome {
        self.pool.verify().map_err(|error| Stop::broken(format!("a pool's books: {error}")))?;
        self.pool.trim_waiting(0)?;
        let left = self.pool.stats();
        demand(left.live_blocks == 0 && left.deferred_blocks == 0, || {
            format!("{} blocks live and {} wait", left.live_blocks, left.deferred_blocks)
        })?;
        for stream in &self.streams {
            if stream.id.is_none() {
                self.pool.device().end_stream(&stream.handle).or_else(|error| match error {
                    pool_core::device::Failure::Unsupported(_) => Ok(()),
                    error => Err(error),
                })?;
            }
        }
        Ok(())
    }
}

fn a_pool_serves_its_streams<D: Trial>(device: D) -> Outcome {
    Program::new(device, config(), 3)?.run()
}

fn a_pool_in_pages_serves_its_streams<D: Trial>(device: D) -> Outcome {
    let config = config().pages(Pages::new()).limit_bytes(256 << 20);
    Program::new(device, config, 3)?.run()
}

/// One stream marks slowly and frees at once; another gets the memory, and marks it.
fn memory_goes_from_stream_to_stream<D: Trial>(device: D) -> Outcome {
    let config = config().initial_bytes(LIMIT).limit_bytes(LIMIT);
    let mut program = Program::new(device, config, 2)?;
    let bytes = LIMIT / 2;
    for mark in [1, 3, 5, 7] {
        let early = program.allocate(0, bytes, mark, Pace::Slow)?;
        program.pool.free_on(program.streams[0].on(), early.block.handle())?;
        let also = program.allocate(0, bytes, mark, Pace::Soon)?;
        program.pool.free_on(program.streams[0].on(), also.block.handle())?;
        // All there is, in the other stream, however it comes by it.
        let late = [
            program.allocate(1, bytes, mark + 1, Pace::Soon)?,
            program.allocate(1, bytes - PIECE, mark + 1, Pace::Soon)?,
        ];
        late.iter().try_for_each(|marked| program.free(marked))?;
    }
    let calls = program.pool.stats().calls;
    demand(calls.device_waits + calls.host_waits + calls.queries > 0, || {
        "the second stream got memory without a look at what the first did".into()
    })?;
    program.end()
}

fn a_pool_grows_and_shrinks<D: Trial>(device: D) -> Outcome {
    let mut program = Program::new(device, config(), 1)?;
    for _ in 0..3 {
        let mut live = Vec::new();
        for mark in 1..=6 {
            live.push(program.allocate(0, 1 << 20, mark, Pace::Soon)?);
        }
        let held = program.pool.stats().reserved_bytes;
        demand(held >= 6 << 20, || format!("6 MiB live in {held} bytes"))?;
        live.iter().try_for_each(|marked| program.free(marked))?;
        program.pool.trim_waiting(0)?;
        let left = program.pool.stats().reserved_bytes;
        demand(left < held, || format!("{held} bytes were held, and still {left} are"))?;
    }
    program.end()
}

fn a_pool_refuses_and_goes_on<D: Trial>(device: D) -> Outcome {
    let too_many = device.too_many_bytes();
    let too_many =
        too_many.ok_or_else(|| Stop::passed_over("nobody knows how much is too much"))?;
    let mut program = Program::new(device, config(), 1)?;
    let before = program.allocate(0, 1 << 20, 1, Pace::Soon)?;
    for mark in 2..5 {
        match program.pool.allocate_on(program.streams[0].on(), too_many) {
            Err(PoolError::OutOfMemory { .. } | PoolError::Request(_)) => {}
            Err(other) => {
                return Err(Stop::broken(format!("a pool that has no memory says: {other}")));
            }
            Ok(_) => return Err(Stop::broken(format!("a block of {too_many} bytes was served"))),
        }
        let after = program.allocate(0, 1 << 20, mark, Pace::Soon)?;
        program.free(&after)?;
    }
    program.free(&before)?;
    program.end()
}
