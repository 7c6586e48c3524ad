//! Uses of one buffer on several streams come in order, and its memory serves others only behind
//! them.

use std::thread;

use pool_cuda::{CudaPool, PoolBuffer, PoolStream};

use crate::kernels::Kernels;
use crate::run::Test;
use crate::world::{KIB, MIB, World, assert_marked, contents, counter, mark_of};

pub(crate) const TESTS: &[Test] = crate::tests![
    writes_and_reads_follow_each_other,
    a_write_comes_after_every_read,
    a_second_read_comes_after_a_write_at_home,
    the_stream_of_another_pool_keeps_the_order,
    readers_on_many_threads,
    memory_serves_others_behind_all_uses,
    memory_of_small_buffers_serves_others_behind_all_uses,
    uses_that_were_ordered_by_the_program,
    a_use_on_a_stream_that_is_gone_counts,
    a_use_on_a_foreign_stream_that_is_gone_counts,
];

fn streams<const N: usize>(pool: &CudaPool) -> [PoolStream; N] {
    core::array::from_fn(|_| pool.create_stream().unwrap())
}

/// Counts differences in the order of streams.
struct Check {
    kernels: Kernels,
    count: PoolBuffer<u64>,
    home: PoolStream,
}

impl Check {
    fn new(pool: &CudaPool) -> Self {
        let kernels = Kernels::load(pool.device());
        let stream = pool.create_stream().unwrap();
        let count = counter(pool, &stream);
        stream.synchronize().unwrap();
        Self { kernels, count, home: stream }
    }

    /// Has the stream look at every byte, without waiting.
    fn look(&self, buffer: &PoolBuffer<u8>, stream: &PoolStream, mark: u8) {
        // SAFETY: the kernel adds to the number atomically.
        let count = unsafe { self.count.on_unordered(stream) }.unwrap();
        self.kernels.verify(buffer.on(stream).unwrap(), mark, count);
    }

    /// Checks that all looks found what they were to find.
    #[track_caller]
    fn end(self, streams: &[PoolStream]) {
        for stream in streams {
            stream.synchronize().unwrap();
        }
        assert_eq!(self.count.on(&self.home).unwrap().to_vec().unwrap(), [0]);
    }
}

fn writes_and_reads_follow_each_other(world: &World) {
    let pool = world.pool();
    let check = Check::new(&pool);
    let all = streams::<4>(&pool);
    let mut buffer = pool.alloc::<u8>(MIB, &all[0]).unwrap();
    let mut mark = 0;
    for (writer, reader) in [(0, 1), (1, 0), (2, 3), (0, 0), (3, 0), (0, 2), (2, 2), (1, 3)] {
        mark += 1;
        world.slow(&check.kernels, &all[writer]);
        check.kernels.mark(buffer.on_mut(&all[writer]).unwrap(), mark, 0);
        check.look(&buffer, &all[reader], mark);
    }
    assert_marked(&contents(&buffer, &all[0]), mark);
    check.end(&all);
}

fn a_write_comes_after_every_read(world: &World) {
    let pool = world.pool();
    let check = Check::new(&pool);
    let all = streams::<5>(&pool);
    let mut buffer = pool.alloc::<u8>(MIB, &all[0]).unwrap();
    for (writer, mark) in [(0, 1), (4, 2), (0, 3), (2, 4)] {
        check.kernels.mark(buffer.on_mut(&all[writer]).unwrap(), mark, 0);
        for reader in &all[1..4] {
            // The reads are late: the next write must wait for each.
            buffer.on(reader).unwrap();
            world.slow(&check.kernels, reader);
            check.look(&buffer, reader, mark);
            check.look(&buffer, reader, mark);
        }
    }
    check.end(&all);
}

fn a_second_read_comes_after_a_write_at_home(world: &World) {
    let pool = world.pool();
    let check = Check::new(&pool);
    let all = streams::<2>(&pool);
    let [home, other] = &all;
    let mut buffer = pool.alloc::<u8>(MIB, home).unwrap();
    for mark in 1..6 {
        world.slow(&check.kernels, home);
        check.kernels.mark(buffer.on_mut(home).unwrap(), mark, 0);
        check.look(&buffer, other, mark);
        check.look(&buffer, home, mark);
    }
    check.end(&all);
}

fn the_stream_of_another_pool_keeps_the_order(world: &World) {
    let (pool, others) = (world.pool(), world.pool());
    let check = Check::new(&pool);
    let (home, foreign) = (pool.create_stream().unwrap(), others.create_stream().unwrap());
    let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
    for mark in 1..5 {
        world.slow(&check.kernels, &foreign);
        check.kernels.mark(buffer.on_mut(&foreign).unwrap(), mark, 0);
        check.look(&buffer, &home, mark);
        world.slow(&check.kernels, &home);
        check.kernels.mark(buffer.on_mut(&home).unwrap(), mark + 100, 0);
        check.look(&buffer, &foreign, mark + 100);
    }
    drop(buffer);
    check.end(&[home, foreign]);
}

fn readers_on_many_threads(world: &World) {
    let pool = world.pool();
    let check = Check::new(&pool);
    let all = streams::<4>(&pool);
    let mut buffer = pool.alloc::<u8>(MIB, &all[0]).unwrap();
    for mark in 1..10 {
        world.slow(&check.kernels, &all[usize::from(mark) % 4]);
        check.kernels.mark(buffer.on_mut(&all[usize::from(mark) % 4]).unwrap(), mark, 0);
        thread::scope(|scope| {
            for stream in &all {
                let (check, buffer) = (&check, &buffer);
                scope.spawn(move || {
                    check.look(buffer, stream, mark);
                    check.look(buffer, stream, mark);
                });
            }
        });
    }
    check.end(&all);
}

/// Buffers are used on several streams, and dropped at once; what comes next gets their memory.
fn reuse(world: &World, pool: &CudaPool, bytes: usize, live: usize) {
    let check = Check::new(pool);
    let all = streams::<4>(pool);
    let mut random = fastrand::Rng::with_seed(3);
    let mut kept = Vec::new();
    for round in 0..world.times(60, 300) {
        let [home, writer, reader] = [(); 3].map(|()| random.choice(&all).unwrap());
        let mark = mark_of(round) + 1;
        if kept.len() == live {
            kept.swap_remove(random.usize(..live));
        }
        let mut buffer = pool.alloc::<u8>(bytes, home).unwrap();
        if round % 8 == 0 {
            world.slow(&check.kernels, random.choice(&all).unwrap());
        }
        check.kernels.mark(buffer.on_mut(writer).unwrap(), mark, random.u64(..100_000));
        check.look(&buffer, reader, mark);
        if random.bool() {
            check.look(&buffer, home, mark);
        }
        kept.push(buffer);
        if round % 16 == 0 {
            world.go();
        }
    }
    drop(kept);
    check.end(&all);
}

fn memory_serves_others_behind_all_uses(world: &World) {
    reuse(world, &world.fixed_pool(4 * MIB), MIB, 3);
}

fn memory_of_small_buffers_serves_others_behind_all_uses(world: &World) {
    reuse(world, &world.fixed_pool(2 * MIB), KIB, 2);
}

fn uses_that_were_ordered_by_the_program(world: &World) {
    let pool = world.fixed_pool(MIB + 4096);
    let check = Check::new(&pool);
    let all = streams::<2>(&pool);
    let [home, other] = &all;
    let mut buffer = pool.alloc::<u8>(MIB, home).unwrap();
    check.kernels.mark(buffer.on_mut(home).unwrap(), 1, 0);
    home.synchronize().unwrap();
    world.slow(&check.kernels, other);
    // SAFETY: the host has waited for what was before, and nothing comes after.
    check.kernels.mark(unsafe { buffer.on_unordered(other) }.unwrap(), 2, 0);
    // The free waits for it all the same.
    drop(buffer);
    let mut next = pool.alloc::<u8>(MIB, home).unwrap();
    check.kernels.mark(next.on_mut(home).unwrap(), 3, 0);
    check.look(&next, home, 3);
    world.go();
    other.synchronize().unwrap();
    assert_marked(&contents(&next, home), 3);
    drop(next);
    check.end(&all);
}

fn a_use_on_a_stream_that_is_gone_counts(world: &World) {
    let pool = world.fixed_pool(MIB + 4096);
    let check = Check::new(&pool);
    let home = pool.create_stream().unwrap();
    for mark in 1..6 {
        let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
        let other = pool.create_stream().unwrap();
        world.slow(&check.kernels, &other);
        check.kernels.mark(buffer.on_mut(&other).unwrap(), mark, 0);
        drop(other);
        check.look(&buffer, &home, mark);
        assert_marked(&contents(&buffer, &home), mark);
    }
    check.end(&[home]);
}

/// A stream that the buffer's pool does not know is written by, and forgotten at the next write
/// elsewhere; when the buffer is freed, it is gone.
fn a_use_on_a_foreign_stream_that_is_gone_counts(world: &World) {
    let (pool, others) = (world.fixed_pool(MIB + 4096), world.pool());
    let check = Check::new(&pool);
    let home = pool.create_stream().unwrap();
    for mark in 1..6 {
        let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
        let foreign = others.create_stream().unwrap();
        world.slow(&check.kernels, &foreign);
        check.kernels.mark(buffer.on_mut(&foreign).unwrap(), mark, 0);
        check.look(&buffer, &foreign, mark);
        check.kernels.mark(buffer.on_mut(&home).unwrap(), mark + 100, 0);
        drop(foreign);
        // Somebody else has its handle now.
        let successor = others.create_stream().unwrap();
        check.look(&buffer, &home, mark + 100);
        drop(buffer);
        drop(successor);
    }
    check.end(&[home]);
}
