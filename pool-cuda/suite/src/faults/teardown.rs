//! The end of pools, streams, contexts, and of a device that fails for good. (P034, the end of the
//! process, is in `child`.)

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::thread;

use pool_core::PoolError;
use pool_cuda::{CudaError, CudaPool, Error, PinnedPool};

use crate::kernels::Kernels;
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, config, contents, verify};

pub(crate) const TESTS: &[Test] = crate::tests![
    p035_parts_may_be_dropped_in_any_order,
    p076_what_waits_on_streams_goes_back_too,
    p077_drops_on_threads_without_a_context,
    p111_nothing_stays_of_a_hundred_pools;
    simulated:
    p075_a_drop_survives_earlier_failures,
    p075_a_failed_free_loses_nothing,
];

fn p035_parts_may_be_dropped_in_any_order(world: &World) {
    // Each of the four last, and each order of them.
    for order in 0..24 {
        let device = world.device(0);
        let pool = CudaPool::new(device.clone(), config()).unwrap();
        let kernels = Kernels::load(&device);
        let stream = pool.create_stream().unwrap();
        let mut buffer = pool.alloc::<u8>(1000, &stream).unwrap();
        world.slow(&kernels, &stream);
        kernels.mark(buffer.on_mut(&stream).unwrap(), 1, 0);
        drop(kernels);
        let mut parts: Vec<Box<dyn core::any::Any>> =
            vec![Box::new(device), Box::new(pool), Box::new(stream), Box::new(buffer)];
        let mut places = order;
        while !parts.is_empty() {
            let place = places % parts.len();
            places /= parts.len();
            drop(parts.remove(place));
        }
    }
}

fn p076_what_waits_on_streams_goes_back_too(world: &World) {
    let device = world.device(0);
    for _ in 0..3 {
        let pool = CudaPool::new(device.clone(), config()).unwrap();
        let kernels = Kernels::load(&device);
        let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
        for bytes in [300, 30_000, MIB] {
            let mut buffer = pool.alloc::<u8>(bytes, &one).unwrap();
            world.slow(&kernels, &other);
            kernels.mark(buffer.on_mut(&other).unwrap(), 1, 0);
            drop(buffer);
        }
        let (free, reserved) = (device.memory().unwrap().free_bytes, pool.stats().reserved_bytes);
        drop((one, other, pool));
        let after = device.memory().unwrap().free_bytes;
        assert!(reserved > 0 && after >= free + reserved, "{after} after {free} and {reserved}");
    }
}

fn p077_drops_on_threads_without_a_context(world: &World) {
    let pool = world.pool();
    let _current = pool.device().enter().unwrap();
    let stream = pool.create_stream().unwrap();
    for bytes in [300, 30_000, MIB] {
        let buffers = [(); 3].map(|()| pool.alloc_zeroed::<u8>(bytes, &stream).unwrap());
        let [one, other, third] = buffers;
        thread::spawn(move || drop(one)).join().unwrap();
        // While unwinding, too.
        let unwound = thread::spawn(move || {
            let _other = other;
            let _ = catch_unwind(AssertUnwindSafe(|| {
                let _third = third;
                std::panic::resume_unwind(Box::new(1));
            }));
            std::panic::resume_unwind(Box::new(2));
        });
        assert_eq!(*unwound.join().unwrap_err().downcast::<i32>().unwrap(), 2);
        assert_eq!(pool.stats().live_blocks, 0);
    }
    let thread = thread::spawn({
        let pool = pool.clone();
        move || drop((pool, stream))
    });
    thread.join().unwrap();
    assert!(pool.take_failure().is_none());
}

fn p111_nothing_stays_of_a_hundred_pools(world: &World) {
    let device = world.device(0);
    let mut first = None;
    for _ in 0..world.times(20, 100) {
        let pool = CudaPool::new(device.clone(), config()).unwrap();
        let staging = PinnedPool::new(&device, config().arena_bytes(MIB as u64)).unwrap();
        let stream = pool.create_stream().unwrap();
        let mut buffer = pool.alloc::<u8>(64 * MIB, &stream).unwrap();
        let host = staging.alloc::<u8>(1000).unwrap();
        let part = buffer.on_mut(&stream).unwrap().slice(..1000).unwrap();
        part.async_copy_from(&host).unwrap();
        drop((buffer, stream, pool, host, staging));
        let free = device.memory().unwrap().free_bytes;
        // What the driver takes for itself it takes once.
        assert!(free + (32 << 20) >= *first.get_or_insert(free), "{free} of {first:?}");
    }
}

/// An error of work that ran before comes back from whatever call is next; nothing panics, what
/// went wrong is told, and the device is then left alone.
fn p075_a_drop_survives_earlier_failures(world: &World) {
    let simulation = world.simulation();
    for made_before in [false, true] {
        simulation.restart();
        let pool = world.pool();
        let staging = PinnedPool::new(pool.device(), config()).unwrap();
        let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
        let mut buffer = pool.alloc::<u8>(MIB, &one).unwrap();
        let mut host = staging.alloc::<u8>(1000).unwrap();
        let part = buffer.on_mut(&other).unwrap().slice(..1000).unwrap();
        part.as_ref().async_copy_to(&mut host).unwrap();
        let kept = made_before.then(|| pool.alloc::<u8>(MIB, &other).unwrap());
        simulation.make_fatal(0);
        let fatal = |error: &CudaError| error.code() == Some(700);
        assert!(matches!(part.fill_bytes(1), Err(Error::Driver(error)) if fatal(&error)));
        assert!(matches!(host.as_slice(), Err(Error::Driver(error)) if fatal(&error)));
        drop((buffer, host, kept));
        let error = loop {
            // What needs no call of the device may be served once more.
            if let Err(error) = pool.alloc::<u8>(100 * MIB, &one) {
                break error;
            }
        };
        assert!(
            matches!(error.pool(), Some(PoolError::Poisoned | PoolError::Device(_))),
            "{error}"
        );
        let error = pool.alloc::<u8>(100 * MIB, &one).unwrap_err();
        assert!(matches!(error.pool(), Some(PoolError::Poisoned)), "{error}");
        verify(&pool);
        let before = simulation.calls().len();
        drop(pool.alloc::<u8>(1000, &one));
        drop((one, other));
        assert_eq!(simulation.calls().len(), before, "the device is left alone");
        drop((pool, staging));
    }
    simulation.restart();
}

/// A failed call in a drop is told later, and the memory serves again.
fn p075_a_failed_free_loses_nothing(world: &World) {
    let simulation = world.simulation();
    let pool = world.fixed_pool(MIB);
    let kernels = Kernels::load(pool.device());
    let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let home = pool.per_thread_stream();
    for mark in 1..4 {
        let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
        world.slow(&kernels, &home);
        kernels.mark(buffer.on_mut(&home).unwrap(), mark, 0);
        simulation.fail_next("cuEventRecord", 1, 999);
        drop(buffer);
        let told = pool.take_failure().unwrap().to_string();
        assert!(told.contains("cuEventRecord failed with CUDA error 999"), "{told}");
        assert!(pool.take_failure().is_none(), "it is told once");
        let mut next = pool.alloc::<u8>(MIB, &one).unwrap();
        kernels.mark(next.on_mut(&other).unwrap(), 100, 0);
        world.go();
        assert_marked(&contents(&next, &one), 100);
    }
    verify(&pool);
}
