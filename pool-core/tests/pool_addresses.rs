//! Blocks found by the addresses that programs keep, and streams that end without a word.

use pool_core::{Pool, PoolConfig, PoolError};
use pool_mock::device::{Access, Pacing, SimConfig, SimDevice, StreamKind};

const MIB: u64 = 1 << 20;

fn device() -> SimDevice {
    SimDevice::new(SimConfig::new().pacing(Pacing::Idle))
}

#[test]
fn every_live_block_is_found_by_its_address_and_nothing_else_is() {
    // Arenas of odd sizes, of which some share 2 MiB of addresses.
    let config = PoolConfig::new().arena_bytes(3 * MIB / 2).finds_addresses(true);
    let pool = Pool::new(device(), config).unwrap();
    let stream = pool.create_stream().unwrap();
    let mut live = Vec::new();
    let mut sizes = [256, 700, 4096, 70_000, MIB, 5 * MIB / 2].into_iter().cycle();
    for round in 0..300_usize {
        if round % 3 == 2 {
            let (address, handle) = live.swap_remove(round * 7 % live.len());
            assert_eq!(pool.block_at_address(address), Some(handle));
            pool.free_on(stream, handle).unwrap();
            assert_eq!(pool.block_at_address(address), None, "freed");
        } else {
            let block = pool.allocate_on(stream, sizes.next().unwrap()).unwrap();
            live.push((pool.address(&block).unwrap(), block.handle()));
        }
        if round % 50 == 49 {
            // What comes next lies at other addresses, for the same offsets.
            let free: Vec<_> = live.drain(..live.len() / 2 * (round / 50 % 3)).collect();
            for &(address, handle) in &free {
                pool.free_on(stream, handle).unwrap();
                assert_eq!(pool.block_at_address(address), None);
            }
            pool.trim_waiting(0).unwrap();
        }
        for &(address, handle) in &live {
            assert_eq!(pool.block_at_address(address), Some(handle));
            assert_eq!(pool.block_at_address(address + 1), None);
        }
    }
    assert!(pool.stats().calls.frees > 0, "no arena went back");
    for nothing in [0, 1, u64::MAX, u64::MAX - (2 * MIB - 1)] {
        assert_eq!(pool.block_at_address(nothing), None);
    }
}

#[test]
fn a_pool_that_was_not_told_to_finds_nothing() {
    let pool = Pool::new(device(), PoolConfig::new()).unwrap();
    let block = pool.allocate(4096).unwrap();
    assert_eq!(pool.block_at_address(pool.address(&block).unwrap()), None);
}

/// The program destroys a stream that the pool knows, and the next one has its handle. What the old one
/// had waits for its work, though nothing can be recorded in it, and the new one is another.
#[test]
fn what_a_forgotten_stream_had_waits_for_all_work() {
    let device = device();
    let pool = Pool::new(device.clone(), PoolConfig::new().limit_bytes(64 * MIB)).unwrap();
    let raw = device.open_stream(StreamKind::NonBlocking);
    // SAFETY: the pool makes no call between the stream's end and the word of it.
    let old = unsafe { pool.adopt(raw) }.unwrap();
    let other = pool.create_stream().unwrap();
    let used_elsewhere = pool.allocate_on(other, MIB).unwrap();
    let block = pool.allocate_on(old, 60 * MIB).unwrap();
    for held in [block, used_elsewhere] {
        let at = pool.location(held.handle()).unwrap();
        let (owner, bytes) = (device.new_owner(), held.size_bytes());
        device
            .queue_use(raw, at.arena.range(), at.offset_bytes, bytes, owner, Access::Write)
            .unwrap();
    }
    pool.record_use(used_elsewhere.handle(), old).unwrap();
    pool.free_on(old, block.handle()).unwrap();
    device.close_stream(raw).unwrap();
    pool.forget_stream(old).unwrap();
    assert!(matches!(pool.forget_stream(old), Err(PoolError::UnknownStream(_))));
    assert!(matches!(pool.allocate_on(old, 1), Err(PoolError::UnknownStream(_))));
    // All of it is wanted at once.
    pool.free_on(other, used_elsewhere.handle()).unwrap();
    let again = pool.allocate_on(other, 60 * MIB).unwrap();
    let small = pool.allocate_on(other, MIB).unwrap();
    for held in [again, small] {
        let at = pool.location(held.handle()).unwrap();
        let handle = pool.stream(other).unwrap();
        let (owner, bytes) = (device.new_owner(), held.size_bytes());
        device
            .queue_use(handle, at.arena.range(), at.offset_bytes, bytes, owner, Access::Write)
            .unwrap();
    }
    device.run_all();
    device.assert_clean();
    pool.verify().unwrap();
}

#[test]
fn a_stream_is_forgotten_in_no_capture_and_stays_as_it_was() {
    let device = device();
    let pool = Pool::new(device.clone(), PoolConfig::new()).unwrap();
    let raw = device.open_stream(StreamKind::NonBlocking);
    // SAFETY: it is open all the while.
    let stream = unsafe { pool.adopt(raw) }.unwrap();
    let captured = pool.create_stream().unwrap();
    pool.begin_capture(captured, pool_core::GraphId(1)).unwrap();
    assert!(matches!(pool.forget_stream(stream), Err(PoolError::Captured(_))));
    pool.end_capture(captured).unwrap();
    assert_eq!(pool.find_stream(&raw), Some(stream));
    let block = pool.allocate_on(stream, 4096).unwrap();
    pool.free_on(stream, block.handle()).unwrap();
    pool.forget_stream(stream).unwrap();
    pool.release_graph(pool_core::GraphId(1)).unwrap();
    pool.verify().unwrap();
}
