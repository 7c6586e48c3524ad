//! Copies and fills, in the order of their streams.

use crate::kernels::Kernels;
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, contents, mark_of};

pub(crate) const TESTS: &[Test] = crate::tests![
    copies_come_after_what_is_queued,
    parts_are_copied_alone,
    a_copy_on_the_device_is_in_its_stream,
    elements_of_several_bytes,
    cust_takes_what_a_guard_has,
];

fn copies_come_after_what_is_queued(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let [home, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
    let mut host = vec![0; MIB];
    for (round, stream) in [&home, &other, &home].into_iter().enumerate() {
        let mark = mark_of(round) + 1;
        world.slow(&kernels, &home);
        kernels.mark(buffer.on_mut(&home).unwrap(), mark, 0);
        buffer.on(stream).unwrap().copy_to(&mut host).unwrap();
        assert_marked(&host, mark);
        world.slow(&kernels, &other);
        kernels.mark(buffer.on_mut(&other).unwrap(), 99, 0);
        buffer.on_mut(stream).unwrap().copy_from(&vec![mark + 50; MIB]).unwrap();
        assert_marked(&contents(&buffer, &home), mark + 50);
    }
}

fn parts_are_copied_alone(world: &World) {
    let pool = world.pool();
    let stream = pool.create_stream().unwrap();
    let mut buffer = pool.alloc_zeroed::<u8>(10_000, &stream).unwrap();
    let all = buffer.on_mut(&stream).unwrap();
    all.slice(100..200).unwrap().copy_from(&[1; 100]).unwrap();
    all.slice(9_999..).unwrap().fill_bytes(2).unwrap();
    let source = pool.alloc_from(&[3_u8; 50], &stream).unwrap();
    let from = source.on(&stream).unwrap().slice(10..20).unwrap();
    all.slice(5_000..5_010).unwrap().copy_from_device(from).unwrap();
    let mut expected = vec![0; 10_000];
    expected[100..200].fill(1);
    expected[9_999] = 2;
    expected[5_000..5_010].fill(3);
    assert_eq!(contents(&buffer, &stream), expected);
}

fn a_copy_on_the_device_is_in_its_stream(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut from = pool.alloc::<u8>(MIB, &one).unwrap();
    let mut to = pool.alloc::<u8>(MIB, &other).unwrap();
    for mark in 1..5 {
        world.slow(&kernels, &one);
        kernels.mark(from.on_mut(&one).unwrap(), mark, 0);
        to.on_mut(&other).unwrap().copy_from_device(from.on(&other).unwrap()).unwrap();
        kernels.mark(from.on_mut(&one).unwrap(), 0, 0);
        assert_marked(&contents(&to, &other), mark);
    }
}

fn elements_of_several_bytes(world: &World) {
    let pool = world.pool();
    let stream = pool.create_stream().unwrap();
    let numbers: Vec<[u32; 3]> = (0..500).map(|number| [number, number + 1, number + 2]).collect();
    let mut buffer = pool.alloc_from(&numbers, &stream).unwrap();
    assert_eq!(buffer.on(&stream).unwrap().slice(7..9).unwrap().to_vec().unwrap(), numbers[7..9]);
    buffer.on_mut(&stream).unwrap().slice(..2).unwrap().fill_bytes(0xff).unwrap();
    let now = buffer.on(&stream).unwrap().to_vec().unwrap();
    assert_eq!(now[..2], [[u32::MAX; 3]; 2]);
    assert_eq!(now[2..], numbers[2..]);
}

fn cust_takes_what_a_guard_has(world: &World) {
    use cust::memory::{CopyDestination, DeviceMemory};
    let pool = world.pool();
    let stream = pool.legacy_stream().unwrap();
    let _current = pool.device().enter().unwrap();
    let buffer = pool.alloc_from(&[1_u32, 2, 3, 4], &stream).unwrap();
    let part = buffer.on(&stream).unwrap().slice(1..3).unwrap();
    assert_eq!((part.as_raw_ptr(), part.size_in_bytes()), (part.address(), 8));
    assert_eq!(part.as_device_ptr().as_raw(), part.address());
    let mut host = [0; 2];
    // SAFETY: the slice is used here alone, on the legacy default stream.
    unsafe { part.as_cust_slice() }.copy_to(&mut host).unwrap();
    assert_eq!(host, [2, 3]);
    // SAFETY: as above; it is not dropped.
    let mut cust_buffer = unsafe { part.as_cust_buffer() };
    cust_buffer.copy_from(&[7, 8]).unwrap();
    assert_eq!(buffer.on(&stream).unwrap().to_vec().unwrap(), [1, 7, 8, 4]);
}
