//! Where arenas come from, and how they go back.

use pool_cuda::{ArenaSource, CudaPool};

use crate::kernels::Kernels;
use crate::raw::is_busy;
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, config, contents, verify};

pub(crate) const TESTS: &[Test] = crate::tests![
    giving_back_waits_for_nothing,
    giving_back_waits_where_the_driver_does,
    every_source_serves_and_is_given_back,
    memory_goes_back_to_the_device;
    simulated:
    a_refused_arena_is_told,
];

/// All that there are.
pub(crate) const SOURCES: [ArenaSource; 4] =
    [ArenaSource::Automatic, ArenaSource::DriverPool, ArenaSource::Plain, ArenaSource::PinnedHost];

/// Trims while a stream works; whether it still does after that.
fn trims_beside_work(world: &World, source: ArenaSource) -> bool {
    let device = world.device(0).with_source(source).unwrap();
    let pool = CudaPool::new(device, config()).unwrap();
    let kernels = Kernels::load(pool.device());
    let [busy, idle] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut used = pool.alloc::<u8>(MIB, &busy).unwrap();
    drop(pool.alloc::<u8>(100 * MIB, &idle).unwrap());
    // A fence is recorded, and done.
    pool.trim(u64::MAX).unwrap();
    idle.synchronize().unwrap();
    world.slow(&kernels, &busy);
    kernels.mark(used.on_mut(&busy).unwrap(), 1, 0);
    let trimmed = pool.trim(0).unwrap();
    assert!(trimmed.released_bytes >= 100 * MIB as u64, "{trimmed:?}");
    let still = is_busy(pool.device(), busy.as_raw());
    assert_marked(&contents(&used, &busy), 1);
    still
}

fn giving_back_waits_for_nothing(world: &World) {
    assert!(trims_beside_work(world, ArenaSource::Automatic));
    assert!(trims_beside_work(world, ArenaSource::DriverPool));
}

fn giving_back_waits_where_the_driver_does(world: &World) {
    assert!(!trims_beside_work(world, ArenaSource::Plain));
}

fn every_source_serves_and_is_given_back(world: &World) {
    for source in SOURCES {
        let device = world.device(0).with_source(source).unwrap();
        let pool = CudaPool::new(device, config()).unwrap();
        let kernels = Kernels::load(pool.device());
        let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
        for round in 1..6_u8 {
            let bytes = usize::from(round) * 30 * MIB;
            let mut buffer = pool.alloc::<u8>(bytes, &one).unwrap();
            let (start, end) = (0..MIB, bytes - MIB..bytes);
            world.slow(&kernels, &one);
            let all = buffer.on_mut(&one).unwrap();
            kernels.mark(all.slice(start.clone()).unwrap(), round, 0);
            kernels.mark(all.slice(end.clone()).unwrap(), round, 0);
            let all = buffer.on(&other).unwrap();
            assert_marked(&all.slice(start).unwrap().to_vec().unwrap(), round);
            assert_marked(&all.slice(end).unwrap().to_vec().unwrap(), round);
            drop(buffer);
            pool.trim(0).unwrap();
        }
        verify(&pool);
        one.synchronize().unwrap();
        other.synchronize().unwrap();
        pool.trim(0).unwrap();
        assert_eq!(pool.stats().reserved_bytes, 0, "{source:?}");
    }
}

fn memory_goes_back_to_the_device(world: &World) {
    for source in [ArenaSource::Automatic, ArenaSource::DriverPool, ArenaSource::Plain] {
        let device = world.device(0).with_source(source).unwrap();
        let free = || device.memory().unwrap().free_bytes;
        let pool = CudaPool::new(device.clone(), config()).unwrap();
        let stream = pool.create_stream().unwrap();
        let before = free();
        let buffer = pool.alloc::<u8>(512 * MIB, &stream).unwrap();
        assert!(free() <= before - 512 * MIB as u64);
        drop(buffer);
        pool.trim(0).unwrap();
        stream.synchronize().unwrap();
        pool.trim(0).unwrap();
        // The driver keeps a little for itself.
        assert!(free() + (32 * MIB as u64) >= before, "{} of {before} bytes", free());
    }
}

fn a_refused_arena_is_told(world: &World) {
    let simulation = world.simulation();
    let device = world.device(0).with_source(ArenaSource::DriverPool).unwrap();
    let pool = CudaPool::new(device, config()).unwrap();
    let stream = pool.create_stream().unwrap();
    for call in ["cuMemAllocFromPoolAsync", "cuStreamSynchronize"] {
        simulation.fail_next(call, u64::MAX, 999);
        let error = pool.alloc::<u8>(MIB, &stream).unwrap_err();
        simulation.fail_next(call, 0, 0);
        let told = error.to_string();
        assert!(told.contains(&format!("{call} failed with CUDA error 999")), "{told}");
        verify(&pool);
        assert_eq!(pool.stats().reserved_bytes, 0);
    }
    // Where memory is short, less is asked for.
    simulation.fail_next("cuMemAllocFromPoolAsync", 1, 2);
    drop(pool.alloc::<u8>(MIB, &stream).unwrap());
    assert!(pool.stats().reserved_bytes < 64 * MIB as u64);
}
