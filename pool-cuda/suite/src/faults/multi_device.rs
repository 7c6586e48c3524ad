//! Several devices and contexts in one process.

use core::ptr;
use std::thread;

use pool_core::PoolConfig;
use pool_cuda::{ArenaSource, CudaDevice, CudaPool, PoolBuffer, PoolStream};

use crate::kernels::Kernels;
use crate::raw::{Primary, current_context, has_primary_context, is_busy, set_current_context};
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, config, contents};

pub(crate) const TESTS: &[Test] = crate::tests![
    p079_the_primary_context_is_the_one_that_others_have;
    two:
    p036_the_end_of_one_devices_pool_is_nothing_to_the_other,
    p037_events_are_of_their_own_device,
    p051_a_trim_is_about_its_own_device,
    p078_buffers_of_all_devices_end_wherever_they_are_dropped;
    simulated:
    p079_a_context_is_released_exactly_once,
    p036_a_device_that_is_lost_is_nothing_to_the_other,
];

fn p036_a_device_that_is_lost_is_nothing_to_the_other(world: &World) {
    let (first, second) = (pool_on(world, 0), pool_on(world, 1));
    let (stream, there) = (first.create_stream().unwrap(), second.create_stream().unwrap());
    let mut buffer = first.alloc_zeroed::<u8>(MIB, &stream).unwrap();
    buffer.on_mut(&there).unwrap().fill_bytes(1).unwrap();
    // The free asks for the other's stream, which answers as a device does that is lost.
    world.simulation().fail_next("cuStreamGetId", 1, 700);
    drop(buffer);
    let told = first.take_failure().unwrap();
    assert!(told.to_string().contains("on another device"), "{told}");
    // The first is not taken for lost by it.
    let next = first.alloc_from(&[5_u8; 1000], &stream).unwrap();
    assert_eq!(contents(&next, &stream), [5; 1000]);
    drop(next);
    first.trim(0).unwrap();
}

fn pool_on(world: &World, ordinal: u32) -> CudaPool {
    CudaPool::new(world.device(ordinal), config()).unwrap()
}

fn p036_the_end_of_one_devices_pool_is_nothing_to_the_other(world: &World) {
    let first = pool_on(world, 0);
    let stream = first.create_stream().unwrap();
    let buffer = first.alloc_from(&[1_u8; 1000], &stream).unwrap();
    let second = pool_on(world, 1);
    let there = second.create_stream().unwrap();
    let other = second.alloc_from(&[2_u8; 1000], &there).unwrap();
    let again = first.alloc_from(&vec![3_u8; MIB], &stream).unwrap();
    assert_eq!(contents(&other, &there), [2; 1000]);
    drop((other, there, second));
    assert_eq!(contents(&buffer, &stream), [1; 1000]);
    drop(buffer);
    drop(first.alloc_zeroed::<u8>(1000, &stream).unwrap());
    assert_marked(&contents(&again, &stream), 3);
    assert_eq!(current_context(), ptr::null_mut());
}

fn p037_events_are_of_their_own_device(world: &World) {
    // Both record again and again, in turn, each with what the other has just given back.
    let both = [0, 1].map(|ordinal| {
        let pool = CudaPool::new(
            world.device(ordinal).with_source(ArenaSource::DriverPool).unwrap(),
            config().initial_bytes(MIB as u64).limit_bytes(MIB as u64),
        );
        let pool = pool.unwrap();
        let streams = [(); 2].map(|()| pool.create_stream().unwrap());
        (Kernels::load(pool.device()), streams, pool)
    });
    for round in 0..20_u8 {
        for (kernels, [one, other], pool) in &both {
            let mut buffer = pool.alloc::<u8>(MIB, one).unwrap();
            world.slow(kernels, other);
            kernels.mark(buffer.on_mut(other).unwrap(), round, 0);
            assert_marked(&contents(&buffer, one), round);
            drop(buffer);
            let mut next = pool.alloc::<u8>(MIB, one).unwrap();
            kernels.mark(next.on_mut(one).unwrap(), round + 100, 0);
            assert_marked(&contents(&next, one), round + 100);
            assert!(pool.take_failure().is_none());
        }
    }
}

fn p051_a_trim_is_about_its_own_device(world: &World) {
    let pool = pool_on(world, 0);
    let kernels = Kernels::load(pool.device());
    let stream = pool.create_stream().unwrap();
    let there = Primary::retain(1);
    let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
    world.slow(&kernels, &stream);
    kernels.mark(buffer.on_mut(&stream).unwrap(), 1, 0);
    drop(buffer);
    set_current_context(there.context);
    // Work uses the memory: it stays, whatever is idle elsewhere.
    let trimmed = pool.trim(0).unwrap();
    assert!(is_busy(pool.device(), stream.as_raw()));
    assert_eq!(trimmed.released_bytes, 0);
    assert!(pool.stats().reserved_bytes > 0);
    // SAFETY: nothing of a buffer's is freed.
    unsafe { pool.core() }.trim_waiting(0).unwrap();
    assert_eq!(pool.stats().reserved_bytes, 0);
    assert_eq!(current_context(), there.context);
    set_current_context(ptr::null_mut());
}

/// A buffer, and perhaps its stream.
type Owned = (PoolBuffer<u8>, Option<PoolStream>);

fn p078_buffers_of_all_devices_end_wherever_they_are_dropped(world: &World) {
    let contexts = [0, 1].map(Primary::retain);
    for current in [ptr::null_mut(), contexts[0].context, contexts[1].context] {
        for fails in [false, true] {
            let make = || -> Result<Vec<Owned>, pool_cuda::Error> {
                let mut buffers = Vec::new();
                for ordinal in [0, 1, 0, 1, 1, 0] {
                    set_current_context(contexts[ordinal as usize].context);
                    let limit = PoolConfig::new().limit_bytes(4 << 20).arena_bytes(1 << 20);
                    let pool = CudaPool::new(world.device(ordinal), limit)?;
                    let stream = pool.create_stream()?;
                    let buffer = pool.alloc_from(&[7; 1000], &stream)?;
                    // Some have a stream still, of others only the buffer is left.
                    buffers.push((buffer, (ordinal == 0).then(|| stream.clone())));
                    if fails && buffers.len() == 5 {
                        set_current_context(current);
                        pool.alloc::<u8>(1 << 30, &stream)?;
                    }
                }
                set_current_context(current);
                Ok(buffers)
            };
            match make() {
                Ok(buffers) => {
                    assert!(!fails);
                    for (buffer, stream) in &buffers {
                        if let Some(stream) = stream {
                            assert_eq!(contents(buffer, stream), [7; 1000]);
                        }
                    }
                    drop(buffers);
                }
                Err(_) => assert!(fails),
            }
            assert_eq!(current_context(), current);
        }
    }
    set_current_context(ptr::null_mut());
}

fn p079_the_primary_context_is_the_one_that_others_have(world: &World) {
    // As a library of the runtime's: it retains, works on streams of its own, and expects the
    // context to last as long as its own reference.
    let theirs = Primary::retain(0);
    let device = world.device(0);
    {
        let _current = device.enter().unwrap();
        assert_eq!(current_context(), theirs.context);
    }
    let pool = CudaPool::new(device, config()).unwrap();
    let their_stream = crate::raw::OwnStream::create(pool.device(), crate::raw::Kind::Blocking);
    {
        // SAFETY: the stream outlives what is adopted here.
        let adopted = unsafe { pool.adopt_raw(their_stream.raw, ()) }.unwrap();
        let own = pool.create_stream().unwrap();
        let mut buffer = pool.alloc_zeroed::<u8>(1000, &own).unwrap();
        buffer.on_mut(&adopted).unwrap().fill_bytes(3).unwrap();
        assert_eq!(contents(&buffer, &own), [3; 1000]);
    }
    let keeper = pool.device().clone();
    drop(pool);
    thread::spawn(move || drop(keeper)).join().unwrap();
    assert!(has_primary_context(0));
    set_current_context(theirs.context);
    // SAFETY: what a library does of its own in the context that it has retained.
    let memory = CudaDevice::open_on(world.driver(), 0).unwrap().memory().unwrap();
    assert!(memory.free_bytes > 0);
    set_current_context(ptr::null_mut());
    let opened = world.device(0);
    drop(their_stream);
    drop(opened);
}

fn p079_a_context_is_released_exactly_once(world: &World) {
    let simulation = world.simulation();
    for _ in 0..3 {
        let pool = pool_on(world, 0);
        let stream = pool.create_stream().unwrap();
        let buffer = pool.alloc_zeroed::<u8>(1000, &stream).unwrap();
        assert_eq!(simulation.references(0), 1);
        drop((pool, stream));
        assert_eq!(simulation.references(0), 1, "the buffer holds it");
        drop(buffer);
        assert_eq!(simulation.references(0), 0);
        assert!(!has_primary_context(0));
    }
    assert_eq!(simulation.count("cuCtxCreate_v2"), 0);
}
