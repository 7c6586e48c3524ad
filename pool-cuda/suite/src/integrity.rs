//! Every byte of many buffers, under work on many streams from many threads.
//!
//! Each buffer is marked on the device, late, looked at on other streams, and dropped while that
//! is queued. A byte that anything else wrote meanwhile is a difference.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use pool_core::PoolError;
use pool_cuda::{ArenaSource, CudaDevice, CudaPool, Driver, PoolBuffer, PoolStream};

use crate::kernels::Kernels;
use crate::run::Test;
use crate::world::{MIB, World, config, counter, verify};

pub(crate) const TESTS: &[Test] = crate::tests![
    no_byte_of_any_buffer_is_touched_by_others,
    no_byte_is_touched_while_pages_move,
    no_byte_is_touched_while_idle_pages_move,
    without_fences_bytes_are_touched,
];

/// How much is done, and of what.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Buffers, all threads together.
    pub allocations: u64,
    /// Streams, which all threads use.
    pub streams: usize,
    /// Threads.
    pub threads: u64,
    /// The smallest buffer in bytes.
    pub smallest_bytes: u64,
    /// The largest buffer in bytes.
    pub largest_bytes: u64,
    /// What the pool may have in bytes, or is trimmed to at most if it may have more.
    pub limit_bytes: u64,
    /// Whether it may have no more.
    pub is_limited: bool,
    /// The longest that a kernel spins, in cycles.
    pub longest_spins: u64,
    /// Where the random numbers begin.
    pub seed: u64,
    /// Whether the pool grows and gives memory back meanwhile. If not, it has all from the start, so
    /// that work which comes too late finds memory of others, and not none.
    pub gives_back: bool,
    /// Where memory comes from: in pages, unless this says otherwise.
    pub source: ArenaSource,
}

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Buffers that were allocated.
    pub allocations: u64,
    /// Times that a request was refused since memory was short.
    pub refusals: u64,
    /// Bytes that were looked at.
    pub bytes_checked: u64,
    /// Bytes that were not what they should have been.
    pub differences: u64,
    /// Pages that were taken from where they were, and put elsewhere.
    pub moved_pages: u64,
}

impl Parameters {
    /// Small ones for a simulated driver, large ones for a GPU, where `POOL_CUDA_SCALE` multiplies
    /// the allocations.
    #[must_use]
    pub fn usual(is_simulated: bool) -> Self {
        if is_simulated {
            return Self {
                allocations: 3_000,
                streams: 4,
                threads: 3,
                smallest_bytes: 64,
                largest_bytes: 128 << 10,
                limit_bytes: 4 << 20,
                is_limited: true,
                longest_spins: 1_000,
                seed: 1,
                gives_back: true,
                source: ArenaSource::Automatic,
            };
        }
        let scale = std::env::var("POOL_CUDA_SCALE").ok().and_then(|scale| scale.parse().ok());
        Self {
            allocations: 300_000 * scale.unwrap_or(1),
            streams: 16,
            threads: 8,
            smallest_bytes: 64,
            largest_bytes: 8 << 20,
            limit_bytes: 1 << 30,
            is_limited: true,
            longest_spins: 100_000,
            seed: 1,
            gives_back: true,
            source: ArenaSource::Automatic,
        }
    }

    /// The same in pages, of which there are few for as large buffers as there are.
    #[must_use]
    pub fn moving(is_simulated: bool) -> Self {
        let usual = Self::usual(is_simulated);
        let (smallest_bytes, largest_bytes) = (512 << 10, 16 << 20);
        let gives_back = false;
        let (allocations, streams, limit_bytes) = if is_simulated {
            (usual.allocations / 5, usual.streams, 60 << 20)
        } else {
            (usual.allocations / 10, 8, 128 << 20)
        };
        Self {
            allocations,
            streams,
            smallest_bytes,
            largest_bytes,
            limit_bytes,
            gives_back,
            ..usual
        }
    }

    /// One stream, which is idle at times, and no limit: pages that hold no block move, and others are made.
    #[must_use]
    pub fn idle(is_simulated: bool) -> Self {
        let moving = Self::moving(is_simulated);
        Self { streams: 1, threads: 1, is_limited: false, gives_back: true, ..moving }
    }
}

/// The most buffers that a thread keeps where there is no limit.
const MOST_KEPT: usize = 24;

/// A buffer that is kept for a while, and what is in it.
struct Kept {
    buffer: PoolBuffer<u8>,
    mark: u8,
}

/// What the threads of a run share.
struct Run<'r> {
    parameters: &'r Parameters,
    pool: &'r CudaPool,
    kernels: &'r Kernels,
    streams: &'r [PoolStream],
    differences: &'r PoolBuffer<u64>,
    refusals: AtomicU64,
    bytes_checked: AtomicU64,
}

/// Does it, on a driver.
///
/// # Panics
///
/// If a call fails for another reason than that memory is short.
#[must_use]
pub fn run(driver: &'static Driver, parameters: &Parameters) -> Figures {
    let device = CudaDevice::open_on(driver, 0).unwrap().with_source(parameters.source).unwrap();
    let settings = config().arena_bytes(MIB as u64);
    let settings =
        if parameters.is_limited { settings.limit_bytes(parameters.limit_bytes) } else { settings };
    let at_start = if parameters.gives_back { 0 } else { parameters.limit_bytes };
    let settings = settings.initial_bytes(at_start);
    let pool = CudaPool::new(device, settings).unwrap();
    let kernels = Kernels::load(pool.device());
    let streams: Vec<_> = (0..parameters.streams).map(|_| pool.create_stream().unwrap()).collect();
    let differences = counter(&pool, &streams[0]);
    streams[0].synchronize().unwrap();
    let run = Run {
        parameters,
        pool: &pool,
        kernels: &kernels,
        streams: &streams,
        differences: &differences,
        refusals: AtomicU64::new(0),
        bytes_checked: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let run = &run;
        let threads = (0..parameters.threads).map(|number| scope.spawn(move || run.thread(number)));
        // Joined, since the scope does not wait for what ends with a thread: its cache.
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
    for stream in &streams {
        stream.synchronize().unwrap();
    }
    verify(&pool);
    let (refusals, bytes_checked) = (run.refusals.into_inner(), run.bytes_checked.into_inner());
    let found = differences.on(&streams[0]).unwrap().to_vec().unwrap();
    Figures {
        allocations: parameters.allocations / parameters.threads * parameters.threads,
        refusals,
        bytes_checked,
        differences: found[0],
        moved_pages: pool.stats().moved_pages,
    }
}

impl Run<'_> {
    fn thread(&self, number: u64) {
        let mut random = fastrand::Rng::with_seed(self.parameters.seed << 16 | number);
        let mut kept: Vec<Kept> = Vec::new();
        for _ in 0..self.parameters.allocations / self.parameters.threads {
            let buffer = self.allocate(&mut random, &mut kept);
            let mut new = Kept { buffer, mark: 0 };
            self.write(&mut new, &mut random);
            for _ in 0..random.u8(..3) {
                self.look(&new, &mut random);
            }
            // Most go at once, with all of that in flight.
            match random.u8(..8) {
                0..5 => drop(new),
                5 => new.buffer.free_on(self.stream(&mut random)).unwrap(),
                _ => kept.push(new),
            }
            if !kept.is_empty() && random.u8(..4) == 0 {
                let place = random.usize(..kept.len());
                if random.bool() {
                    self.look(&kept[place], &mut random);
                    self.write(&mut kept[place], &mut random);
                } else {
                    self.look(&kept.swap_remove(place), &mut random);
                }
            }
            if !self.parameters.is_limited {
                if random.u8(..4) == 0 {
                    self.stream(&mut random).synchronize().unwrap();
                }
                if kept.len() > MOST_KEPT {
                    self.look(&kept.swap_remove(random.usize(..kept.len())), &mut random);
                }
            }
            if random.u16(..1000) == 0 && self.parameters.gives_back {
                self.pool.trim(random.u64(..self.parameters.limit_bytes)).unwrap();
            }
        }
        for one in &kept {
            self.look(one, &mut random);
        }
    }

    fn stream(&self, random: &mut fastrand::Rng) -> &PoolStream {
        &self.streams[random.usize(..self.streams.len())]
    }

    /// A new buffer; if memory is short, older ones go.
    fn allocate(&self, random: &mut fastrand::Rng, kept: &mut Vec<Kept>) -> PoolBuffer<u8> {
        // As many of each power of two.
        let powers = self.parameters.smallest_bytes.ilog2()..self.parameters.largest_bytes.ilog2();
        let power = random.u32(powers);
        let bytes = random.usize(1 << power..2 << power);
        loop {
            match self.pool.alloc(bytes, self.stream(random)) {
                Ok(buffer) => return buffer,
                Err(error) => {
                    let is_short = matches!(error.pool(), Some(PoolError::OutOfMemory { .. }));
                    assert!(is_short, "{error}");
                    self.refusals.fetch_add(1, Ordering::Relaxed);
                    if kept.is_empty() {
                        // Others have it all, and go on.
                        thread::yield_now();
                    } else {
                        kept.swap_remove(random.usize(..kept.len()));
                    }
                }
            }
        }
    }

    fn write(&self, one: &mut Kept, random: &mut fastrand::Rng) {
        one.mark = random.u8(..);
        let spins = random.u64(..self.parameters.longest_spins);
        let all = one.buffer.on_mut(self.stream(random)).unwrap();
        self.kernels.mark(all, one.mark, spins);
    }

    fn look(&self, one: &Kept, random: &mut fastrand::Rng) {
        let stream = self.stream(random);
        // SAFETY: the kernel adds atomically, and the number outlives the run.
        let differences = unsafe { self.differences.on_unordered(stream) }.unwrap();
        self.kernels.verify(one.buffer.on(stream).unwrap(), one.mark, differences);
        self.bytes_checked.fetch_add(one.buffer.len() as u64, Ordering::Relaxed);
    }
}

fn no_byte_of_any_buffer_is_touched_by_others(world: &World) {
    let parameters = Parameters::usual(world.simulated().is_some());
    let figures = run(world.driver(), &parameters);
    println!("{figures:?}");
    assert_eq!(figures.differences, 0);
    assert!(figures.bytes_checked > parameters.allocations * 64);
}

fn no_byte_is_touched_while_pages_move(world: &World) {
    let parameters = Parameters::moving(world.simulated().is_some());
    let figures = run(world.driver(), &parameters);
    println!("{figures:?}");
    assert_eq!(figures.differences, 0);
    assert!(figures.moved_pages > parameters.allocations / 30);
}

fn no_byte_is_touched_while_idle_pages_move(world: &World) {
    let parameters = Parameters::idle(world.simulated().is_some());
    let figures = run(world.driver(), &parameters);
    println!("{figures:?}");
    assert_eq!((figures.differences, figures.refusals), (0, 0));
    // A fence in an idle stream is done at once, but for some ways of the simulated driver.
    assert!(world.simulated().is_some() || figures.moved_pages > 20);
}

extern "C" fn waits_for_nothing(
    _: *mut core::ffi::c_void,
    _: *mut core::ffi::c_void,
    _: u32,
) -> c_int {
    0
}

extern "C" fn is_done(_: *mut core::ffi::c_void) -> c_int {
    0
}

/// The same on a driver whose events order nothing: it is the fences that the test above rests on.
fn without_fences_bytes_are_touched(world: &World) {
    let event = is_done as extern "C" fn(_) -> _ as *const core::ffi::c_void;
    let wait = waits_for_nothing as extern "C" fn(_, _, _) -> _ as *const core::ffi::c_void;
    let driver = world.driver_with(&[
        (c"cuStreamWaitEvent", wait),
        (c"cuEventQuery", event),
        (c"cuEventSynchronize", event),
    ]);
    let is_simulated = world.simulated().is_some();
    // A real device does not survive uses of what is not mapped any more.
    let source = ArenaSource::DriverPool;
    let usual = Parameters { gives_back: false, source, ..Parameters::usual(is_simulated) };
    let moving = is_simulated.then(|| Parameters::moving(is_simulated));
    for parameters in [usual].into_iter().chain(moving) {
        let allocations = parameters.allocations / 10;
        let figures = run(driver, &Parameters { allocations, ..parameters });
        let violations = world.take_violations();
        print!("{figures:?} ");
        assert!(figures.differences > 0 || !violations.is_empty());
    }
}
