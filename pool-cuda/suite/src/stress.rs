//! Many threads, and many allocations.

use core::hint::black_box;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use pool_cuda::{CudaPool, PoolBuffer};

use crate::run::Test;
use crate::world::{World, config, verify};

pub(crate) const TESTS: &[Test] = crate::tests![nothing_is_lost_by_many_threads];

/// What many threads did.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Threads.
    pub threads: u64,
    /// Allocations of each, and as many frees.
    pub allocations: u64,
    /// From the first to the last.
    pub time: Duration,
    /// What the pool had at most, in bytes.
    pub peak_reserved_bytes: u64,
}

/// Has threads allocate and free buffers, each on a stream of its own; some buffers are used on a
/// stream of another thread, and some are freed by it.
///
/// # Panics
///
/// If something is lost, or a call fails.
#[must_use]
pub fn run(pool: &CudaPool, threads: u64, allocations: u64) -> Figures {
    let streams: Vec<_> = (0..threads).map(|_| pool.create_stream().unwrap()).collect();
    let start = Instant::now();
    thread::scope(|scope| {
        let threads = (0..).zip(&streams).map(|(number, stream)| {
            let streams = &streams;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number);
                let own = stream;
                let mut live: Vec<PoolBuffer<u8>> = Vec::with_capacity(64);
                for _ in 0..allocations {
                    let bytes = match random.u8(..100) {
                        0..90 => random.usize(1..16 << 10),
                        90..99 => random.usize(16 << 10..256 << 10),
                        _ => random.usize(256 << 10..2 << 20),
                    };
                    let mut buffer = pool.alloc::<u8>(bytes, own).unwrap();
                    if random.u8(..64) == 0 {
                        let other = &streams[random.usize(..streams.len())];
                        black_box(buffer.on_mut(other).unwrap().address());
                    }
                    if live.len() == 64 {
                        live.swap_remove(random.usize(..64));
                    }
                    live.push(buffer);
                }
            })
        });
        // Joined, since the scope does not wait for what ends with a thread: its cache.
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
    let time = start.elapsed();
    let stats = pool.stats();
    assert_eq!((stats.live_blocks, stats.live_bytes), (0, 0));
    verify(pool);
    for stream in &streams {
        stream.synchronize().unwrap();
    }
    drop(streams);
    // SAFETY: nothing of a buffer's is freed.
    unsafe { pool.core() }.trim_waiting(0).unwrap();
    assert_eq!(pool.stats().reserved_bytes, 0);
    Figures { threads, allocations, time, peak_reserved_bytes: stats.peak_reserved_bytes }
}

fn nothing_is_lost_by_many_threads(world: &World) {
    let device = world.device(0);
    let before = device.memory().unwrap().free_bytes;
    let pool = CudaPool::new(device.clone(), config()).unwrap();
    let figures = run(&pool, 32, world.times(300, 100_000) as u64);
    println!("{figures:?}");
    assert!(pool.take_failure().is_none());
    drop(pool);
    // The driver keeps a little for itself.
    let after = device.memory().unwrap().free_bytes;
    assert!(after + (64 << 20) >= before, "{after} of {before} bytes");
}
