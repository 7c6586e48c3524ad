//! Typed buffers: what can be asked for, and what is refused.

use pool_core::{PoolError, Request};
use pool_cuda::{CudaPool, DeviceMut, DeviceRef, Error, PinnedPool, PoolBuffer};

use crate::kernels::Kernels;
use crate::raw::is_busy;
use crate::run::Test;
use crate::world::{KIB, MIB, World, assert_marked, config, contents, counter, fixed_pool, verify};

pub(crate) const TESTS: &[Test] = crate::tests![
    granules_that_align_too_little_are_refused,
    a_buffer_has_what_was_asked_for,
    values_go_there_and_back,
    no_elements_and_elements_of_no_bytes,
    lengths_that_cannot_be_are_refused,
    parts_are_checked,
    lengths_of_copies_are_checked,
    streams_of_other_pools_are_refused,
    a_buffer_is_taken_apart_and_put_together,
    a_drop_waits_for_nothing,
    a_drop_waits_for_nothing_on_other_streams,
    memory_serves_its_own_stream_again_at_once,
    a_free_on_another_stream_is_behind_its_work,
    what_is_refused_says_why,
    guards_stay_on_their_thread,
];

fn a_buffer_has_what_was_asked_for(world: &World) {
    let pool = world.pool();
    let stream = pool.create_stream().unwrap();
    for len in [1, 63, 64, 65, 1000, 4096, 100_000, MIB, 5 * MIB + 3] {
        let mut buffer = pool.alloc::<u32>(len, &stream).unwrap();
        assert_eq!((buffer.len(), buffer.is_empty()), (len, false));
        let all = buffer.on_mut(&stream).unwrap();
        assert_eq!(all.address() % 256, 0);
        assert_eq!((all.len(), all.is_empty()), (len, false));
        assert_eq!(all.as_ref().address(), all.address());
    }
    verify(&pool);
    assert_eq!(pool.stats().live_bytes, 0);
}

fn values_go_there_and_back(world: &World) {
    let pool = world.pool();
    let stream = pool.create_stream().unwrap();
    let numbers: Vec<f64> = (0..10_000).map(f64::from).collect();
    let buffer = pool.alloc_from(&numbers, &stream).unwrap();
    assert_eq!(buffer.on(&stream).unwrap().to_vec().unwrap(), numbers);
    let zeros = pool.alloc_zeroed::<[u16; 3]>(1234, &stream).unwrap();
    assert_eq!(zeros.on(&stream).unwrap().to_vec().unwrap(), [[0; 3]; 1234]);
    // The memory of one that is gone is zeroed as well.
    drop(pool.alloc_from(&[0xff_u8; 5000], &stream).unwrap());
    let zeros = pool.alloc_zeroed::<u8>(5000, &stream).unwrap();
    assert_marked(&contents(&zeros, &stream), 0);
}

fn no_elements_and_elements_of_no_bytes(world: &World) {
    let pool = world.pool();
    let stream = pool.create_stream().unwrap();
    let mut none = pool.alloc_from::<u64>(&[], &stream).unwrap();
    let mut other = pool.alloc_zeroed::<u64>(0, &stream).unwrap();
    assert!(none.is_empty());
    // Each has an address of its own.
    let addresses = [&none, &other].map(|buffer| buffer.on(&stream).unwrap().address());
    assert!(addresses[0] != 0 && addresses[1] != 0 && addresses[0] != addresses[1]);
    let all = none.on_mut(&stream).unwrap();
    all.fill_bytes(1).unwrap();
    all.copy_from(&[]).unwrap();
    all.copy_from_device(other.on(&stream).unwrap()).unwrap();
    assert!(all.as_ref().is_empty());
    assert!(all.slice(0..0).unwrap().is_empty());
    assert_eq!(all.to_vec().unwrap(), []);
    other.on_mut(&stream).unwrap().as_ref().copy_to(&mut []).unwrap();

    let units = pool.alloc_zeroed::<()>(usize::MAX, &stream).unwrap();
    assert_eq!(units.len(), usize::MAX);
    let few = units.on(&stream).unwrap().slice(usize::MAX - 3..).unwrap();
    assert_eq!(few.to_vec().unwrap(), [(); 3]);
}

fn lengths_that_cannot_be_are_refused(world: &World) {
    let pool = world.pool();
    let stream = pool.create_stream().unwrap();
    for len in [usize::MAX, usize::MAX / 8 + 1, usize::MAX / 2] {
        let error = pool.alloc::<u64>(len, &stream).unwrap_err();
        assert!(matches!(error, Error::TooLarge { len: told, element_bytes: 8 } if told == len));
        assert!(pool.alloc_zeroed::<u64>(len, &stream).is_err());
        assert!(pool.alloc_movable::<u64>(len, &stream).is_err());
    }
    // What has a number of bytes, but is in no device.
    for len in [usize::MAX / 8, 1 << 50, 1 << 44] {
        let error = pool.alloc::<u64>(len, &stream).unwrap_err();
        assert!(matches!(
            error.pool(),
            Some(PoolError::OutOfMemory { .. } | PoolError::Request(_))
        ));
    }
    verify(&pool);
    assert_eq!(pool.stats().live_blocks, 0);
    drop(pool.alloc::<u64>(10, &stream).unwrap());
}

fn parts_are_checked(world: &World) {
    let pool = world.pool();
    let stream = pool.create_stream().unwrap();
    let numbers: Vec<u16> = (0..100).collect();
    let mut buffer = pool.alloc_from(&numbers, &stream).unwrap();
    let all = buffer.on(&stream).unwrap();
    let part = all.slice(10..20).unwrap();
    assert_eq!((part.len(), part.address()), (10, all.address() + 20));
    assert_eq!(part.to_vec().unwrap(), numbers[10..20]);
    assert_eq!(part.slice(2..=3).unwrap().to_vec().unwrap(), numbers[12..=13]);
    assert_eq!(all.slice(..).unwrap().len(), 100);
    assert_eq!(all.slice(100..).unwrap().len(), 0);
    assert_eq!(all.slice(..=99).unwrap().len(), 100);
    let from_1 = (core::ops::Bound::Excluded(0), core::ops::Bound::Unbounded);
    assert_eq!(all.slice(from_1).unwrap().to_vec().unwrap(), numbers[1..]);
    #[expect(clippy::reversed_empty_ranges, reason = "that is what is refused")]
    let backwards = 20..10;
    for refused in [0..101, 101..101, 50..usize::MAX, backwards] {
        let (start, end) = (refused.start, refused.end);
        let error = all.slice(refused).unwrap_err();
        assert!(matches!(
            error,
            Error::Bounds { start: told, end: until, len: 100 } if told == start && until == end
        ));
    }
    assert!(all.slice(..=usize::MAX).is_err());
    let after_all = (core::ops::Bound::Excluded(usize::MAX), core::ops::Bound::Unbounded);
    assert!(all.slice(after_all).is_err());
    assert!(part.slice(..11).is_err(), "a part has bounds of its own");
    assert!(buffer.on_mut(&stream).unwrap().slice(0..101).is_err());
}

fn lengths_of_copies_are_checked(world: &World) {
    let pool = world.pool();
    let [stream, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut buffer = pool.alloc_from(&[1_u8, 2, 3], &stream).unwrap();
    let source = pool.alloc_zeroed::<u8>(4, &stream).unwrap();
    let all = buffer.on_mut(&stream).unwrap();
    let length = |result: Result<(), Error>| match result.unwrap_err() {
        Error::Length { from, to } => (from, to),
        error => panic!("{error}"),
    };
    assert_eq!(length(all.copy_from(&[0; 4])), (4, 3));
    assert_eq!(length(all.as_ref().copy_to(&mut [0; 2])), (3, 2));
    assert_eq!(length(all.copy_from_device(source.on(&stream).unwrap())), (4, 3));
    let three = source.on(&other).unwrap().slice(..3).unwrap();
    assert!(matches!(all.copy_from_device(three), Err(Error::OtherStream)));
    assert_eq!(all.to_vec().unwrap(), [1, 2, 3], "nothing was copied");
}

fn streams_of_other_pools_are_refused(world: &World) {
    let (pool, other) = (world.pool(), world.pool());
    let stream = other.create_stream().unwrap();
    assert!(matches!(pool.alloc::<u8>(1, &stream), Err(Error::OtherPool)));
    assert!(matches!(pool.alloc_zeroed::<u8>(1, &stream), Err(Error::OtherPool)));
    assert!(matches!(pool.alloc_from(&[1_u8], &stream), Err(Error::OtherPool)));
    assert!(matches!(pool.alloc_movable::<u8>(1, &stream), Err(Error::OtherPool)));
    assert_eq!(pool.stats().live_blocks, 0);
}

fn a_buffer_is_taken_apart_and_put_together(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let [home, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
    world.slow(&kernels, &other);
    kernels.mark(buffer.on_mut(&other).unwrap(), 7, 0);
    let raw = buffer.into_raw();
    assert_eq!(raw.len, MIB);
    assert_eq!(pool.stats().live_blocks, 1, "nothing is freed");
    // SAFETY: it is what was taken apart, with the same type.
    let buffer: PoolBuffer<u8> = unsafe { PoolBuffer::from_raw(raw) };
    // It has not forgotten who wrote it.
    assert_marked(&contents(&buffer, &home), 7);
    drop(buffer);
    assert_eq!(pool.stats().live_blocks, 0);
}

fn a_drop_waits_for_nothing(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let stream = pool.create_stream().unwrap();
    for bytes in [300, 20 * KIB, MIB] {
        let mut buffer = pool.alloc::<u8>(bytes, &stream).unwrap();
        world.slow(&kernels, &stream);
        kernels.mark(buffer.on_mut(&stream).unwrap(), 1, 0);
        drop(buffer);
        assert!(is_busy(pool.device(), stream.as_raw()));
        world.go();
    }
}

fn a_drop_waits_for_nothing_on_other_streams(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let [home, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let foreign = world.pool().create_stream().unwrap();
    let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
    for stream in [&home, &other, &foreign] {
        world.slow(&kernels, stream);
        kernels.mark(buffer.on_mut(stream).unwrap(), 1, 0);
    }
    let mut count = counter(&pool, &home);
    kernels.verify(buffer.on(&home).unwrap(), 1, count.on_mut(&home).unwrap());
    drop(buffer);
    for stream in [&home, &other, &foreign] {
        assert!(is_busy(pool.device(), stream.as_raw()));
    }
    assert_eq!(count.on(&home).unwrap().to_vec().unwrap(), [0]);
}

fn memory_serves_its_own_stream_again_at_once(world: &World) {
    let pool = world.fixed_pool(2 * MIB);
    let kernels = Kernels::load(pool.device());
    let stream = pool.create_stream().unwrap();
    let mut count = counter(&pool, &stream);
    world.slow(&kernels, &stream);
    for mark in 1..20 {
        let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
        kernels.mark(buffer.on_mut(&stream).unwrap(), mark, 0);
        kernels.verify(buffer.on(&stream).unwrap(), mark, count.on_mut(&stream).unwrap());
    }
    assert!(is_busy(pool.device(), stream.as_raw()), "the host never waited");
    assert_eq!(count.on(&stream).unwrap().to_vec().unwrap(), [0]);
}

fn a_free_on_another_stream_is_behind_its_work(world: &World) {
    let pool = world.fixed_pool(MIB);
    let kernels = Kernels::load(pool.device());
    let [home, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    for round in 0..4 {
        let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
        world.slow(&kernels, &other);
        // SAFETY: nothing else uses it, and it is freed behind this.
        let all = unsafe { buffer.on_unordered(&other) }.unwrap();
        if round == 0 {
            kernels.mark(all, 1, 0);
        } else {
            kernels.mark(buffer.on_mut(&other).unwrap(), 1, 0);
        }
        buffer.free_on(&other).unwrap();
        let mut next = pool.alloc::<u8>(MIB, &home).unwrap();
        kernels.mark(next.on_mut(&home).unwrap(), 2, 0);
        world.go();
        other.synchronize().unwrap();
        assert_marked(&contents(&next, &home), 2);
    }
}

fn what_is_refused_says_why(world: &World) {
    let pool = world.fixed_pool(4 * MIB);
    let stream = pool.create_stream().unwrap();
    let held = pool.alloc::<u8>(3 * MIB, &stream).unwrap();
    let error = pool.alloc::<u8>(2 * MIB, &stream).unwrap_err();
    let Some(PoolError::OutOfMemory { shortage, .. }) = error.pool() else { panic!("{error}") };
    assert_eq!(shortage.size_bytes, 2 * MIB as u64);
    assert_eq!(shortage.limit_bytes, Some(4 * MIB as u64));
    assert_eq!(shortage.live_bytes, 3 * MIB as u64);
    drop(held);
    drop(pool.alloc::<u8>(4 * MIB, &stream).unwrap());

    let more = pool.device().total_bytes() + 1;
    let all = fixed_pool(pool.device().clone(), 4 * MIB);
    drop(all);
    let unlimited = pool_cuda::CudaPool::new(pool.device().clone(), config()).unwrap();
    // SAFETY: no buffer has a block of it.
    let error = unsafe { unlimited.core() }.allocate(Request::new(more)).unwrap_err();
    let PoolError::OutOfMemory { cause, .. } = error else { panic!("{error}") };
    assert!(cause.to_string().contains("error 2"), "the driver's own words: {cause}");
}

/// Holds for types that do not implement `Send`: for others there are two functions to choose from.
trait StaysHere<A> {
    fn check() {}
}
impl<T> StaysHere<()> for T {}
impl<T: Send> StaysHere<u8> for T {}

fn guards_stay_on_their_thread(_: &World) {
    const fn is_copy<T: Copy>() {}
    const fn is_shared<T: Send + Sync>() {}
    const {
        is_copy::<DeviceRef<'_, u8>>();
        is_copy::<DeviceMut<'_, u8>>();
        is_shared::<PoolBuffer<u8>>();
        is_shared::<pool_cuda::CudaPool>();
        is_shared::<pool_cuda::PoolStream>();
        is_shared::<pool_cuda::CudaDevice>();
    };
    <DeviceRef<'static, u8> as StaysHere<_>>::check();
    <DeviceMut<'static, u8> as StaysHere<_>>::check();
}

fn granules_that_align_too_little_are_refused(world: &World) {
    for granule_bytes in [16, 128] {
        let small = || config().granule_bytes(granule_bytes);
        let refused = CudaPool::new(world.device(0), small()).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Granule { granule_bytes: told } if told == granule_bytes));
        let refused = PinnedPool::new(&world.device(0), small()).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Granule { .. }));
    }
    let pool = CudaPool::new(world.device(0), config().granule_bytes(512)).unwrap();
    let stream = pool.create_stream().unwrap();
    let buffer = pool.alloc_from(&[1_u8; 700], &stream).unwrap();
    assert_eq!(buffer.on(&stream).unwrap().address() % 512, 0);
    assert_eq!(contents(&buffer, &stream), [1; 700]);
}
