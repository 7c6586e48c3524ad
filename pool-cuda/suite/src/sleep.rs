//! Pools that sleep: their memory is the device's for a while.

use pool_core::PoolError;
use pool_core::policy::Pages;
use pool_cuda::{ArenaSource, Contents, CudaError, CudaPool, Error, PoolBuffer, PoolStream};

use crate::kernels::Kernels;
use crate::run::Test;
use crate::sweep::FOREIGN_CODE;
use crate::world::{MIB, World, assert_marked, config, contents, mark_of, verify};

pub(crate) const TESTS: &[Test] = crate::tests![
    contents_are_kept_while_the_memory_is_anothers,
    contents_that_are_not_kept_are_gone_and_the_memory_works,
    a_pool_that_sleeps_gives_out_nothing,
    a_pool_of_whole_arenas_does_not_sleep,
    a_pool_ends_in_its_sleep;
    simulated:
    whatever_fails_what_sleeps_wakes,
];

/// A pool in pages.
fn pool(world: &World) -> CudaPool {
    CudaPool::new(world.device(0), config().pages(Pages::default())).unwrap()
}

/// Whether the pool refused for a reason.
fn is<R>(refused: Result<R, Error>, reason: fn(&PoolError<CudaError>) -> bool) -> bool {
    matches!(refused, Err(Error::Pool(error)) if reason(&error))
}

/// Buffers of several sizes on two streams, each marked in every byte, behind slow work.
fn marked(
    world: &World,
    kernels: &Kernels,
    pool: &CudaPool,
    streams: &[PoolStream; 2],
) -> Vec<PoolBuffer<u8>> {
    let sizes = [100, 2 * MIB + 12_345, 70_000, 4096, MIB, 300];
    let mut buffers = Vec::new();
    for (number, &bytes) in sizes.iter().cycle().take(world.times(6, 140)).enumerate() {
        let stream = &streams[number % 2];
        let mut buffer = pool.alloc::<u8>(bytes, stream).unwrap();
        kernels.mark(buffer.on_mut(stream).unwrap(), mark_of(number), 100);
        buffers.push(buffer);
    }
    // Holes that need no keeping.
    let mut number = 0;
    buffers.retain(|_| {
        number += 1;
        number % 3 != 0
    });
    buffers
}

fn assert_all_marked(buffers: &[PoolBuffer<u8>], stream: &PoolStream) {
    let kept = (0..).filter(|number| number % 3 != 2);
    for (buffer, number) in buffers.iter().zip(kept) {
        assert_marked(&contents(buffer, stream), mark_of(number));
    }
}

fn contents_are_kept_while_the_memory_is_anothers(world: &World) {
    let pool = pool(world);
    let kernels = Kernels::load(pool.device());
    let streams = [(); 2].map(|()| pool.create_stream().unwrap());
    let buffers = marked(world, &kernels, &pool, &streams);
    let addresses: Vec<u64> =
        buffers.iter().map(|buffer| buffer.on(&streams[0]).unwrap().address()).collect();
    for _ in 0..3 {
        let reserved = pool.stats().reserved_bytes;
        let before = pool.device().memory().unwrap().free_bytes;
        // SAFETY: nothing uses the buffers before the pool wakes.
        assert_eq!(unsafe { pool.sleep(Contents::Kept) }.unwrap(), reserved);
        assert_eq!(pool.stats().reserved_bytes, 0);
        assert!(pool.device().memory().unwrap().free_bytes >= before + reserved);
        verify(&pool);
        {
            // Somebody else writes all of it.
            let other = CudaPool::new(world.device(0), config()).unwrap();
            let stream = other.create_stream().unwrap();
            let len = usize::try_from(reserved).unwrap();
            let mut all = other.alloc::<u8>(len, &stream).unwrap();
            all.on_mut(&stream).unwrap().fill_bytes(0xEE).unwrap();
        }
        assert_eq!(pool.wake().unwrap(), reserved);
        verify(&pool);
        let again = buffers.iter().map(|buffer| buffer.on(&streams[0]).unwrap().address());
        assert!(again.eq(addresses.iter().copied()), "an address has changed");
        assert_all_marked(&buffers, &streams[1]);
    }
    assert_eq!(pool.wake().unwrap(), 0);
    assert!(pool.take_failure().is_none());
}

fn contents_that_are_not_kept_are_gone_and_the_memory_works(world: &World) {
    let pool = pool(world);
    let kernels = Kernels::load(pool.device());
    let streams = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut buffers = marked(world, &kernels, &pool, &streams);
    // SAFETY: nothing uses the buffers before the pool wakes.
    unsafe { pool.sleep(Contents::Discarded) }.unwrap();
    // What is dropped meanwhile is free once the pool wakes.
    drop(buffers.drain(2..));
    pool.wake().unwrap();
    for buffer in &mut buffers {
        kernels.mark(buffer.on_mut(&streams[0]).unwrap(), 9, 0);
    }
    let mut more = pool.alloc::<u8>(3 * MIB, &streams[1]).unwrap();
    kernels.mark(more.on_mut(&streams[1]).unwrap(), 10, 0);
    for buffer in &buffers {
        assert_marked(&contents(buffer, &streams[0]), 9);
    }
    assert_marked(&contents(&more, &streams[1]), 10);
    verify(&pool);
}

fn a_pool_that_sleeps_gives_out_nothing(world: &World) {
    let pool = pool(world);
    let stream = pool.create_stream().unwrap();
    let buffer = pool.alloc::<u8>(100, &stream).unwrap();
    drop(pool.alloc::<u8>(100, &stream).unwrap());
    // SAFETY: nothing uses the buffer before the pool wakes.
    unsafe { pool.sleep(Contents::Discarded) }.unwrap();
    assert!(pool.is_asleep());
    for stream in [stream.clone(), pool.per_thread_stream(), pool.legacy_stream().unwrap()] {
        for bytes in [100, 100_000, 50 * MIB] {
            let refused = pool.alloc::<u8>(bytes, &stream);
            assert!(is(refused, |error| matches!(error, PoolError::Asleep)));
        }
    }
    pool.wake().unwrap();
    assert!(!pool.is_asleep());
    drop(pool.alloc::<u8>(100, &stream).unwrap());
    drop(buffer);
}

fn a_pool_of_whole_arenas_does_not_sleep(world: &World) {
    let device = world.device(0).with_source(ArenaSource::Plain).unwrap();
    let pool = CudaPool::new(device, config()).unwrap();
    // SAFETY: nothing uses the pool.
    let refused = unsafe { pool.sleep(Contents::Kept) };
    assert!(is(refused, |error| matches!(error, PoolError::Unsupported(_))));
}

fn a_pool_ends_in_its_sleep(world: &World) {
    let pool = pool(world);
    let kernels = Kernels::load(pool.device());
    let streams = [(); 2].map(|()| pool.create_stream().unwrap());
    let buffers = marked(world, &kernels, &pool, &streams);
    // SAFETY: nothing uses the buffers any more.
    unsafe { pool.sleep(Contents::Kept) }.unwrap();
    drop((pool, streams));
    drop(buffers);
}

/// One call of the driver after another fails, in falling asleep or in waking.
fn whatever_fails_what_sleeps_wakes(world: &World) {
    let (mut asleep, mut failed) = (0, 0);
    for while_waking in [false, true] {
        for later in 0.. {
            let simulation = world.simulation();
            simulation.restart();
            let pool = pool(world);
            let kernels = Kernels::load(pool.device());
            let streams = [(); 2].map(|()| pool.create_stream().unwrap());
            let buffers = marked(world, &kernels, &pool, &streams);
            // SAFETY: nothing uses the buffers before the pool wakes.
            let sleep = || unsafe { pool.sleep(Contents::Kept) };
            if while_waking {
                sleep().unwrap();
            }
            let index = simulation.calls().len() + later;
            simulation.fail_call(index, FOREIGN_CODE);
            let outcome = if while_waking { pool.wake() } else { sleep() };
            if simulation.calls().len() <= index {
                break;
            }
            failed += usize::from(outcome.is_err());
            asleep += usize::from(outcome.is_err() && pool.is_asleep());
            verify(&pool);
            pool.wake().unwrap();
            assert!(!pool.is_asleep());
            assert_all_marked(&buffers, &streams[0]);
        }
    }
    assert!(asleep > 20 && failed > 40, "{asleep} of {failed}");
    world.simulation().restart();
}
