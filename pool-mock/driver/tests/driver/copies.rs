//! Copies and fills: bytes arrive, in order, when the stream comes there.

use core::ptr::{null, null_mut};

use pool_mock::device::Violation;
use pool_mock_driver::*;

use crate::world::{KIB, LEGACY, MIB, World, call, handle, made, ok, order, read, two_streams};

#[test]
fn bytes_go_there_and_back_in_parts() {
    let _world = World::new();
    let bytes: Vec<u8> = (0..=250).cycle().take(200 * KIB).collect();
    let [first, second] = [(); 2].map(|()| made!(cuMemAlloc_v2(MIB)));
    ok!(cuMemcpyHtoD_v2(first + 3, bytes.as_ptr().cast(), bytes.len()));
    ok!(cuMemcpyDtoD_v2(second + 77, first + 3, bytes.len()));
    assert_eq!(read(second + 77, bytes.len()), bytes);
    assert_eq!(read(second + 76, 2), [0xA5, bytes[0]]);
    assert_eq!(read(first + 3 + 70_000, 100), bytes[70_000..70_100]);
}

#[test]
fn a_copy_from_pageable_memory_has_read_it_when_it_returns() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [stream, _] = two_streams();
    let mut host = [1_u8; 8];
    ok!(cuMemcpyHtoDAsync_v2(memory, host.as_ptr().cast(), 8, stream));
    host.fill(2);
    assert_eq!(call!(cuStreamQuery(stream)), code::NOT_READY);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(memory, 8), [1; 8]);
    assert_eq!(host, [2; 8]);
    assert!(!world.simulation.waited().contains(&"cuMemcpyHtoDAsync_v2"));
}

#[test]
fn a_copy_to_pageable_memory_waits_and_one_to_pinned_memory_does_not() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [stream, _] = two_streams();
    let mut pageable = [0_u8; 8];
    ok!(cuMemsetD8Async(memory, 3, KIB, stream));
    ok!(cuMemcpyDtoHAsync_v2(pageable.as_mut_ptr().cast(), memory, 8, stream));
    assert_eq!(pageable, [3; 8]);
    assert_eq!(world.simulation.waited(), ["cuMemcpyDtoHAsync_v2"]);
    ok!(cuMemcpyDtoHAsync_v2(pageable.as_mut_ptr().cast(), memory, 8, stream));
    assert_eq!(world.simulation.waited().len(), 1, "nothing else was queued");
    let mut pinned = null_mut();
    ok!(cuMemHostAlloc(&raw mut pinned, 8, 0));
    ok!(cuMemcpyDtoHAsync_v2(pinned, memory, 8, stream));
    assert_eq!(call!(cuStreamQuery(stream)), code::NOT_READY);
    // SAFETY: the memory has eight bytes, which the driver has written.
    let now = || unsafe { pinned.cast::<[u8; 8]>().read() };
    assert_eq!(now(), [0xA5; 8]);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(now(), [3; 8]);
    ok!(cuMemFreeHost(pinned));
}

/// As a real one was seen to do, by each of the calls that queue a copy.
#[test]
fn a_copy_between_the_hosts_memory_waits_though_it_is_pinned() {
    let world = World::new();
    let [stream, _] = two_streams();
    let memory = made!(cuMemAlloc_v2(KIB));
    let (mut from, mut to) = (null_mut(), null_mut());
    ok!(cuMemHostAlloc(&raw mut from, 8, 0));
    ok!(cuMemHostAlloc(&raw mut to, 8, 0));
    let (from_address, to_address) = (from.expose_provenance(), to.expose_provenance());
    let (from_address, to_address) = (from_address as u64, to_address as u64);
    for call in 0..4 {
        ok!(cuMemsetD8Async(memory, 3, KIB, stream));
        match call {
            0 => ok!(cuMemcpyAsync(to_address, from_address, 8, stream)),
            1 => ok!(cuMemcpyDtoDAsync_v2(to_address, from_address, 8, stream)),
            2 => ok!(cuMemcpyHtoDAsync_v2(to_address, from, 8, stream)),
            _ => ok!(cuMemcpyDtoHAsync_v2(to, from_address, 8, stream)),
        }
        ok!(cuStreamQuery(stream));
        assert_eq!(world.simulation.waited().len(), call + 1);
    }
    ok!(cuMemFreeHost(from));
    ok!(cuMemFreeHost(to));
}

#[test]
fn pinned_memory_is_read_when_the_stream_comes_there() {
    let _world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [stream, _] = two_streams();
    let mut pinned = null_mut();
    ok!(cuMemHostAlloc(&raw mut pinned, 8, 0));
    ok!(cuMemcpyHtoDAsync_v2(memory, pinned, 8, stream));
    // SAFETY: the memory has eight bytes, and nothing runs now.
    unsafe { pinned.cast::<u8>().write_bytes(9, 8) };
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(memory, 8), [9; 8]);
    ok!(cuMemFreeHost(pinned));
}

#[test]
fn a_copy_at_once_runs_on_the_legacy_stream() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let blocking = handle!(cuStreamCreate(0));
    let [free, _] = two_streams();
    ok!(cuMemsetD8Async(memory, 4, KIB, blocking));
    assert_eq!(read(memory, 2), [4; 2]);
    world.device().assert_clean();
    assert_eq!(world.simulation.waited(), ["cuMemcpyDtoH_v2"]);
    ok!(cuMemsetD8_v2(memory, 5, KIB));
    ok!(cuMemcpyDtoD_v2(memory + 8, memory, 8));
    assert_eq!(world.simulation.waited().len(), 1, "the host has no part in it");
    ok!(cuMemsetD8Async(memory, 5, KIB, free));
    let violations = world.violations();
    assert!(!violations.is_empty() && violations.iter().all(Violation::is_race));
    ok!(cuCtxSynchronize());
}

#[test]
fn fills_have_one_two_or_four_bytes() {
    let _world = World::new();
    let memory = made!(cuMemAlloc_v2(MIB));
    ok!(cuMemsetD16_v2(memory + 2, 0x0201, 3));
    ok!(cuMemsetD32Async(memory + 8, 0x0605_0403, 2, LEGACY));
    assert_eq!(read(memory + 1, 16), [0xA5, 1, 2, 1, 2, 1, 2, 3, 4, 5, 6, 3, 4, 5, 6, 0xA5]);
    ok!(cuMemsetD32_v2(memory, 0x0102_0304, MIB / 4));
    ok!(cuMemsetD16Async(memory, 0x0909, 1, LEGACY));
    let read = read(memory, MIB);
    assert_eq!(read[..4], [9, 9, 2, 1]);
    assert!(read[4..].chunks(4).all(|number| number == [4, 3, 2, 1]));
    let codes = call!([cuMemsetD16_v2(memory + 1, 0, 1), cuMemsetD32_v2(memory + 2, 0, 1)]);
    assert_eq!(codes, [code::INVALID_VALUE; 2]);
    assert_eq!(call!(cuMemsetD32_v2(memory, 0, usize::MAX)), code::INVALID_VALUE);
}

#[test]
fn one_copy_serves_all_addresses() {
    let _world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [stream, _] = two_streams();
    let (from, mut to) = ([6_u8; 4], [0_u8; 4]);
    let address = |pointer: *const u8| pointer.expose_provenance() as u64;
    ok!(cuMemcpyAsync(memory, address(from.as_ptr()), 4, stream));
    ok!(cuMemcpyAsync(memory + 4, memory, 4, stream));
    ok!(cuMemcpyAsync(address(to.as_mut_ptr()), memory + 4, 4, stream));
    assert_eq!(to, [6; 4]);
    assert_eq!(call!(cuMemcpyAsync(memory, 0, 4, stream)), code::INVALID_VALUE);
    assert_eq!(call!(cuMemcpyHtoD_v2(memory, null(), 4)), code::INVALID_VALUE);
    ok!(cuMemcpyHtoD_v2(memory, null(), 0));
}

#[test]
fn unordered_copies_race() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [first, second] = two_streams();
    ok!(cuMemcpyDtoDAsync_v2(memory, memory + 512, 100, first));
    ok!(cuMemcpyDtoDAsync_v2(memory + 200, memory + 512, 100, second));
    world.device().assert_clean();
    ok!(cuMemcpyDtoDAsync_v2(memory + 300, memory + 50, 100, second));
    world.assert_violations(&["race"]);
    order(first, second);
    ok!(cuMemcpyDtoDAsync_v2(memory, memory + 512, 100, second));
    world.device().assert_clean();
    ok!(cuCtxSynchronize());
}
