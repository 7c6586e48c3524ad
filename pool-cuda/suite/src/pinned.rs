//! Pinned memory of the host.

use pool_cuda::{CudaPool, Error, PinnedPool};

use crate::kernels::Kernels;
use crate::raw::is_busy;
use crate::run::Test;
use crate::world::{KIB, MIB, World, assert_marked, config};

pub(crate) const TESTS: &[Test] = crate::tests![
    copies_go_both_ways_while_the_host_goes_on,
    the_host_waits_for_what_it_reads_and_writes,
    copies_of_one_buffer_follow_each_other,
    a_drop_with_a_copy_in_flight_is_safe,
    copies_on_streams_that_are_gone,
    lengths_are_checked,
    memory_of_the_host_begins_as_zeros,
];

struct Both {
    pool: CudaPool,
    staging: PinnedPool,
    kernels: Kernels,
}

impl Both {
    /// With so much pinned memory, and never more.
    fn new(world: &World, staging_bytes: usize) -> Self {
        let pool = world.pool();
        let bytes = staging_bytes as u64;
        let config = config().initial_bytes(bytes).limit_bytes(bytes);
        let staging = PinnedPool::new(pool.device(), config).unwrap();
        let kernels = Kernels::load(pool.device());
        Self { pool, staging, kernels }
    }
}

fn copies_go_both_ways_while_the_host_goes_on(world: &World) {
    let Both { pool, staging, kernels } = Both::new(world, 4 * MIB);
    let stream = pool.create_stream().unwrap();
    let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
    let mut host = staging.alloc::<u8>(MIB).unwrap();
    let mut back = staging.alloc::<u8>(MIB).unwrap();
    assert_eq!((host.len(), host.is_empty()), (MIB, false));
    for mark in 1..4 {
        host.as_mut_slice().unwrap().fill(mark);
        world.slow(&kernels, &stream);
        buffer.on_mut(&stream).unwrap().async_copy_from(&host).unwrap();
        buffer.on(&stream).unwrap().async_copy_to(&mut back).unwrap();
        assert!(is_busy(pool.device(), stream.as_raw()), "the host did not wait");
        // What a copy reads can be read meanwhile.
        assert_marked(host.as_slice().unwrap(), mark);
        assert!(is_busy(pool.device(), stream.as_raw()));
        assert_marked(back.as_slice().unwrap(), mark);
        world.go();
    }
}

fn the_host_waits_for_what_it_reads_and_writes(world: &World) {
    let Both { pool, staging, kernels } = Both::new(world, 4 * MIB);
    let [stream, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
    let mut host = staging.alloc::<u8>(MIB).unwrap();
    for mark in 1..4 {
        world.slow(&kernels, &stream);
        kernels.mark(buffer.on_mut(&stream).unwrap(), mark, 0);
        buffer.on(&other).unwrap().async_copy_to(&mut host).unwrap();
        assert_marked(host.as_slice().unwrap(), mark);
        world.slow(&kernels, &other);
        buffer.on_mut(&other).unwrap().async_copy_from(&host).unwrap();
        // The copy reads it until then.
        host.as_mut_slice().unwrap().fill(99);
        let now = buffer.on(&stream).unwrap().to_vec().unwrap();
        assert_marked(&now, mark);
    }
}

fn copies_of_one_buffer_follow_each_other(world: &World) {
    let Both { pool, staging, kernels } = Both::new(world, 4 * MIB);
    let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let [mut first, mut second, mut third] = [(); 3].map(|()| pool.alloc::<u8>(MIB, &one).unwrap());
    let mut host = staging.alloc::<u8>(MIB).unwrap();
    for mark in 1..5 {
        world.slow(&kernels, &one);
        kernels.mark(first.on_mut(&one).unwrap(), mark, 0);
        first.on(&one).unwrap().async_copy_to(&mut host).unwrap();
        // It is read on another stream, written there, and read again.
        second.on_mut(&other).unwrap().async_copy_from(&host).unwrap();
        kernels.mark(third.on_mut(&other).unwrap(), mark + 100, 0);
        third.on(&other).unwrap().async_copy_to(&mut host).unwrap();
        first.on_mut(&one).unwrap().async_copy_from(&host).unwrap();
        assert_marked(&second.on(&other).unwrap().to_vec().unwrap(), mark);
        assert_marked(&first.on(&one).unwrap().to_vec().unwrap(), mark + 100);
        assert_marked(host.as_slice().unwrap(), mark + 100);
    }
}

fn a_drop_with_a_copy_in_flight_is_safe(world: &World) {
    let Both { pool, staging, kernels } = Both::new(world, 2 * MIB);
    let [stream, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
    for mark in 1..6 {
        let mut host = staging.alloc::<u8>(MIB).unwrap();
        host.as_mut_slice().unwrap().fill(mark);
        world.slow(&kernels, &stream);
        buffer.on_mut(&stream).unwrap().async_copy_from(&host).unwrap();
        drop(host);
        assert!(is_busy(pool.device(), stream.as_raw()), "the drop did not wait");
        // The next ones have other memory, or wait for the copy.
        for _ in 0..2 {
            let mut next = staging.alloc::<u8>(MIB).unwrap();
            next.as_mut_slice().unwrap().fill(200);
        }
        assert_marked(&buffer.on(&other).unwrap().to_vec().unwrap(), mark);
        // As well for copies that write.
        let mut host = staging.alloc::<u8>(MIB).unwrap();
        world.slow(&kernels, &other);
        kernels.mark(buffer.on_mut(&other).unwrap(), 111, 0);
        buffer.on(&other).unwrap().async_copy_to(&mut host).unwrap();
        drop(host);
        let mut all = [(); 2].map(|()| staging.alloc::<u8>(MIB).unwrap());
        for host in &mut all {
            host.as_mut_slice().unwrap().fill(33);
        }
        world.go();
        other.synchronize().unwrap();
        for host in &all {
            assert_marked(host.as_slice().unwrap(), 33);
        }
    }
}

fn copies_on_streams_that_are_gone(world: &World) {
    let Both { pool, staging, kernels } = Both::new(world, MIB);
    let home = pool.create_stream().unwrap();
    let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
    for mark in 1..4 {
        let mut host = staging.alloc::<u8>(MIB).unwrap();
        let stream = pool.create_stream().unwrap();
        world.slow(&kernels, &stream);
        kernels.mark(buffer.on_mut(&stream).unwrap(), mark, 0);
        buffer.on(&stream).unwrap().async_copy_to(&mut host).unwrap();
        drop(stream);
        assert_marked(host.as_slice().unwrap(), mark);
        let successor = pool.create_stream().unwrap();
        buffer.on_mut(&successor).unwrap().async_copy_from(&host).unwrap();
        drop(successor);
        host.as_mut_slice().unwrap().fill(0);
        // The stream is forgotten before the memory is freed.
        assert_marked(&buffer.on(&home).unwrap().to_vec().unwrap(), mark);
        drop(host);
    }
}

fn lengths_are_checked(world: &World) {
    let Both { pool, staging, .. } = Both::new(world, MIB);
    let stream = pool.create_stream().unwrap();
    let mut buffer = pool.alloc_zeroed::<u16>(100, &stream).unwrap();
    let mut host = staging.alloc::<u16>(99).unwrap();
    let all = buffer.on_mut(&stream).unwrap();
    assert!(matches!(all.async_copy_from(&host), Err(Error::Length { from: 99, to: 100 })));
    let refused = all.as_ref().async_copy_to(&mut host);
    assert!(matches!(refused, Err(Error::Length { from: 100, to: 99 })));
    let part = all.slice(1..).unwrap();
    part.async_copy_from(&host).unwrap();
    part.as_ref().async_copy_to(&mut host).unwrap();
    let mut none = staging.alloc::<u16>(0).unwrap();
    all.slice(..0).unwrap().async_copy_from(&none).unwrap();
    all.slice(..0).unwrap().as_ref().async_copy_to(&mut none).unwrap();
    assert!(none.as_mut_slice().unwrap().is_empty() && none.as_slice().unwrap().is_empty());
    assert!(matches!(staging.alloc::<u64>(usize::MAX), Err(Error::TooLarge { .. })));
    staging.alloc::<u8>(2 * MIB).unwrap_err();
}

fn memory_of_the_host_begins_as_zeros(world: &World) {
    let Both { staging, .. } = Both::new(world, MIB);
    for len in [1, 100 * KIB, MIB, 100 * KIB] {
        let mut host = staging.alloc::<u8>(len).unwrap();
        assert_marked(host.as_slice().unwrap(), 0);
        host.as_mut_slice().unwrap().fill(0xff);
    }
}
