//! Buffers that the pool may move.

use pool_core::policy::Growth;
use pool_cuda::{CudaPool, MovableBuffer};

use crate::kernels::Kernels;
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, config, mark_of, verify};

pub(crate) const TESTS: &[Test] = crate::tests![
    what_is_moved_keeps_its_contents,
    what_is_held_stays,
    a_leaked_hold_is_safe,
    moves_follow_uses_on_other_streams,
];

/// A pool of so many blocks of 1 MiB that moves what is in the way.
fn moving_pool(world: &World, blocks: usize) -> CudaPool {
    let growth = Growth { ahead: None, migrate_from_percent: 0, ..Growth::new() };
    let bytes = (blocks * MIB) as u64;
    let config = config().growth(growth).initial_bytes(bytes).limit_bytes(bytes);
    CudaPool::new(world.whole_device(), config).unwrap()
}

fn address(buffer: &MovableBuffer<u8>, stream: &pool_cuda::PoolStream) -> u64 {
    buffer.on(stream).unwrap().get().address()
}

fn what_is_moved_keeps_its_contents(world: &World) {
    let pool = moving_pool(world, 8);
    let kernels = Kernels::load(pool.device());
    let stream = pool.create_stream().unwrap();
    let mut all: Vec<_> = (0..8_u8)
        .map(|mark| {
            let mut buffer = pool.alloc_movable::<u8>(MIB, &stream).unwrap();
            assert_eq!((buffer.len(), buffer.is_empty()), (MIB, false));
            world.slow(&kernels, &stream);
            kernels.mark(buffer.on_mut(&stream).unwrap().get(), mark, 0);
            (buffer, mark)
        })
        .collect();
    // Every other one goes: half is free, and nothing of 4 MiB in one piece.
    let mut place = 0;
    all.retain(|_| {
        place += 1;
        place % 2 == 0
    });
    let before: Vec<u64> = all.iter().map(|(buffer, _)| address(buffer, &stream)).collect();
    let mut large = pool.alloc::<u8>(4 * MIB, &stream).unwrap();
    assert!(pool.stats().migrations > 0);
    kernels.mark(large.on_mut(&stream).unwrap(), 200, 0);
    let after: Vec<u64> = all.iter().map(|(buffer, _)| address(buffer, &stream)).collect();
    assert_ne!(before, after);
    for (buffer, mark) in &mut all {
        assert_marked(&buffer.on(&stream).unwrap().get().to_vec().unwrap(), *mark);
        buffer.on_mut(&stream).unwrap().get().fill_bytes(*mark + 10).unwrap();
        assert_marked(&buffer.on(&stream).unwrap().get().to_vec().unwrap(), *mark + 10);
    }
    assert_marked(&large.on(&stream).unwrap().to_vec().unwrap(), 200);
    drop((all, large));
    assert_eq!(pool.stats().live_blocks, 0);
    verify(&pool);
}

fn what_is_held_stays(world: &World) {
    let pool = moving_pool(world, 4);
    let stream = pool.create_stream().unwrap();
    let [first, middle, last] = [(); 3].map(|()| pool.alloc_movable::<u8>(MIB, &stream).unwrap());
    let fourth = pool.alloc_movable::<u8>(MIB, &stream).unwrap();
    drop((first, last));
    {
        let held = middle.on(&stream).unwrap();
        let also = fourth.on(&stream).unwrap();
        let (here, there) = (held.get().address(), also.get().address());
        pool.alloc::<u8>(2 * MIB, &stream).unwrap_err();
        assert_eq!((held.get().address(), also.get().address()), (here, there));
        assert_eq!(pool.stats().migrations, 0);
    }
    drop(pool.alloc::<u8>(2 * MIB, &stream).unwrap());
    assert!(pool.stats().migrations > 0);
}

fn a_leaked_hold_is_safe(world: &World) {
    let pool = moving_pool(world, 4);
    let kernels = Kernels::load(pool.device());
    let [stream, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut buffer = pool.alloc_movable::<u8>(MIB, &stream).unwrap();
    let held = buffer.on_mut(&other).unwrap();
    world.slow(&kernels, &other);
    kernels.mark(held.get(), 1, 0);
    core::mem::forget(held);
    // It cannot be freed now, and nothing else gets its memory.
    drop(buffer);
    assert!(pool.take_failure().is_some());
    let mut rest = Vec::new();
    while let Ok(mut next) = pool.alloc::<u8>(MIB, &stream) {
        kernels.mark(next.on_mut(&stream).unwrap(), 2, 0);
        rest.push(next);
    }
    assert_eq!(rest.len(), 3);
    world.go();
    other.synchronize().unwrap();
    for buffer in &rest {
        assert_marked(&buffer.on(&stream).unwrap().to_vec().unwrap(), 2);
    }
}

fn moves_follow_uses_on_other_streams(world: &World) {
    let pool = moving_pool(world, 8);
    let kernels = Kernels::load(pool.device());
    let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let foreign = world.pool().create_stream().unwrap();
    let mut random = fastrand::Rng::with_seed(5);
    let mut live: Vec<(MovableBuffer<u8>, u8)> = Vec::new();
    for round in 0..world.times(60, 400) {
        let mark = mark_of(round);
        let [home, user] = [(); 2].map(|()| *random.choice(&[&one, &other]).unwrap());
        let user = if round % 5 == 0 { &foreign } else { user };
        if live.len() > 4 || random.u8(..3) == 0 && !live.is_empty() {
            let (gone, mark) = live.swap_remove(random.usize(..live.len()));
            if random.bool() {
                assert_marked(&gone.on(&one).unwrap().get().to_vec().unwrap(), mark);
            }
        }
        if round % 4 == 0 {
            world.slow(&kernels, user);
        }
        if let Ok(mut buffer) = pool.alloc_movable::<u8>(MIB, home) {
            kernels.mark(buffer.on_mut(user).unwrap().get(), mark, random.u64(..100_000));
            live.push((buffer, mark));
        }
        // It moves what is in its way.
        if let Ok(mut large) = pool.alloc::<u8>(random.usize(1..5) * MIB, home) {
            let part = large.on_mut(home).unwrap().slice(..MIB).unwrap();
            kernels.mark(part, 255, random.u64(..100_000));
        }
        if round % 8 == 0 {
            world.go();
        }
    }
    assert!(pool.stats().migrations > 0);
    for (buffer, mark) in &live {
        assert_marked(&buffer.on(&other).unwrap().get().to_vec().unwrap(), *mark);
    }
    drop(live);
    verify(&pool);
}
