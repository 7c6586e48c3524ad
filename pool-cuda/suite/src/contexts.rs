//! The caller's current context is its own: it is the same after each call, whatever the call
//! needs.

use core::ptr;
use std::thread;

use pool_core::GraphId;
use pool_cuda::{ArenaSource, PinnedPool};

use crate::kernels::Kernels;
use crate::raw::{OwnContext, Primary, current_context, set_current_context};
use crate::run::Test;
use crate::world::{MIB, World, config};

pub(crate) const TESTS: &[Test] = crate::tests![
    guards_restore_what_was_current;
    two:
    each_call_leaves_the_current_context;
    simulated:
    a_hit_makes_no_call_of_the_driver,
    a_context_that_is_current_is_not_pushed,
];

fn each_call_leaves_the_current_context(world: &World) {
    let (own, other) = (Primary::retain(0), Primary::retain(1));
    let by_hand = OwnContext::create(0);
    for current in [ptr::null_mut(), own.context, other.context, by_hand.context] {
        set_current_context(current);
        every_call(world, &|call| {
            assert_eq!(current_context(), current, "after {call}, with {current:?} current");
        });
        assert_eq!(current_context(), current, "after all drops");
    }
    set_current_context(ptr::null_mut());
}

/// Makes each call of the crate, and has something checked after each.
fn every_call(world: &World, check: &dyn Fn(&str)) {
    macro_rules! checked {
        ($($call:tt)*) => {{
            let result = { $($call)* };
            check(stringify!($($call)*));
            result
        }};
    }
    let device = checked!(world.device(0));
    let peer = checked!(world.device(1));
    checked!(device.memory()).unwrap();
    if checked!(peer.can_access(&device)).unwrap() {
        checked!(device.open_to(&peer)).unwrap();
        checked!(device.with_source(ArenaSource::Plain).unwrap().open_to(&peer)).unwrap();
    }
    let pool = checked!(pool_cuda::CudaPool::new(device.clone(), config())).unwrap();
    let stream = checked!(pool.create_stream()).unwrap();
    let side = checked!(pool.create_stream()).unwrap();
    let legacy = checked!(pool.legacy_stream()).unwrap();
    let per_thread = checked!(pool.per_thread_stream());
    for home in [&stream, &legacy, &per_thread] {
        let mut buffer = checked!(pool.alloc_from(&[1_u8; 1000], home)).unwrap();
        checked!(buffer.on_mut(&side).unwrap().fill_bytes(2)).unwrap();
        checked!(buffer.on(home).unwrap().to_vec()).unwrap();
        checked!(buffer.on_mut(&per_thread).unwrap().copy_from(&[1; 1000])).unwrap();
        let other = checked!(pool.alloc_zeroed::<u8>(1000, &side)).unwrap();
        let from = other.on(&stream).unwrap();
        checked!(buffer.on_mut(&stream).unwrap().copy_from_device(from)).unwrap();
        checked!(drop(buffer));
        checked!(other.free_on(&stream)).unwrap();
        check("a pool's order of streams");
        // SAFETY: nothing of a buffer's is freed.
        let core = unsafe { pool.core() };
        let block = checked!(core.allocate(5 << 20)).unwrap();
        checked!(core.free(block.handle())).unwrap();
    }
    let mut movable = checked!(pool.alloc_movable::<u8>(1000, &stream)).unwrap();
    checked!(movable.on_mut(&side).unwrap().get().fill_bytes(2)).unwrap();
    let staging = checked!(PinnedPool::new(&device, config())).unwrap();
    let mut host = checked!(staging.alloc::<u8>(1000)).unwrap();
    checked!(movable.on(&side).unwrap().get().async_copy_to(&mut host)).unwrap();
    checked!(host.as_slice()).unwrap();
    checked!(movable.on_mut(&stream).unwrap().get().async_copy_from(&host)).unwrap();
    checked!(drop((movable, host)));
    let mut memory = vec![0; 1 << 16];
    // SAFETY: it is dropped here, and no work uses it.
    checked!(drop(unsafe { device.register_host(&mut memory) }.unwrap()));
    let kernels = Kernels::load(&device);
    checked!(kernels.spin(&stream, 10));
    checked!(pool.begin_capture(&side, GraphId(1))).unwrap();
    checked!(pool.end_capture(&side)).unwrap();
    checked!(pool.release_graph(GraphId(1))).unwrap();
    checked!(stream.synchronize()).unwrap();
    checked!(pool.warm(1 << 20)).unwrap();
    checked!(pool.trim(0)).unwrap();
    checked!(staging.trim(0)).unwrap();
    checked!(drop((stream, side, legacy, per_thread)));
    checked!(drop((pool, staging)));
    checked!(drop(kernels));
    checked!(drop((device, peer)));
}

fn guards_restore_what_was_current(world: &World) {
    let device = world.device(0);
    let by_hand = OwnContext::create(0);
    // SAFETY: the context outlives the device.
    let other = unsafe { pool_cuda::CudaDevice::in_context(world.driver(), by_hand.context) };
    let other = other.unwrap();
    let outer = device.enter().unwrap();
    let primary = current_context();
    assert!(!primary.is_null() && primary != by_hand.context);
    {
        let inner = other.enter().unwrap();
        assert_eq!(current_context(), by_hand.context);
        {
            let _again = device.enter().unwrap();
            assert_eq!(current_context(), primary);
        }
        assert_eq!(current_context(), by_hand.context);
        inner.leave().unwrap();
    }
    assert_eq!(current_context(), primary);
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(current_context(), ptr::null_mut()));
    });
    drop(outer);
    assert_eq!(current_context(), ptr::null_mut());
    drop(other);
}

fn a_hit_makes_no_call_of_the_driver(world: &World) {
    let simulation = world.simulation();
    let pool = world.pool();
    let [stream, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let legacy = pool.legacy_stream().unwrap();
    for stream in [&stream, &legacy] {
        for bytes in [1, 300, 5000, 100_000, 3 * MIB] {
            // Once, for the arena and the thread's cache.
            drop(pool.alloc::<u8>(bytes, stream).unwrap());
            let before = simulation.calls().len();
            for _ in 0..100 {
                let mut buffer = pool.alloc::<u8>(bytes, stream).unwrap();
                // Its own stream is named without a call, too.
                buffer.on_mut(stream).unwrap();
                buffer.on(stream).unwrap();
            }
            let calls = &simulation.calls()[before..];
            assert!(calls.is_empty(), "{bytes} bytes on {stream:?}: {calls:?}");
        }
    }
    // What another stream's turn costs is counted.
    let before = simulation.calls().len();
    let buffer = pool.alloc::<u8>(100, &stream).unwrap();
    buffer.on(&other).unwrap();
    assert!(simulation.calls().len() > before);
}

fn a_context_that_is_current_is_not_pushed(world: &World) {
    let simulation = world.simulation();
    let device = world.device(0);
    let _current = device.enter().unwrap();
    let pushes = simulation.count("cuCtxPushCurrent_v2");
    device.memory().unwrap();
    assert_eq!(simulation.stack(), 1);
    assert_eq!(simulation.count("cuCtxPushCurrent_v2"), pushes);
}
