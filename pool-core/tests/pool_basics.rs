//! The pool from the outside: one thing at a time.

use pool_core::{Pool, PoolConfig, device::Call};
use pool_mock::device::{Access, Pacing, SimConfig, SimDevice};

fn pool(config: PoolConfig) -> (SimDevice, Pool<SimDevice>) {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    (device.clone(), Pool::new(device, config).unwrap())
}

#[test]
fn one_stream_calls_the_device_once_and_never_again() {
    let (device, pool) = pool(PoolConfig::new());
    let stream = pool.create_stream().unwrap();
    let first = pool.allocate_on(stream, 1 << 20).unwrap();
    pool.free_on(stream, first.handle()).unwrap();
    let before = device.calls();
    for size_bytes in (1..2000).map(|step| step * 1000) {
        let block = pool.allocate_on(stream, size_bytes).unwrap();
        pool.free_on(stream, block.handle()).unwrap();
    }
    assert_eq!(device.calls().since(&before).total(), 0);
    pool.verify().unwrap();
    drop(pool);
    device.assert_clean();
    assert!(device.balance().is_zero());
}

#[test]
fn another_stream_waits_for_the_one_before_it() {
    let (device, pool) = pool(PoolConfig::new().initial_bytes(1 << 20).limit_bytes(1 << 20));
    let (one, other) = (pool.create_stream().unwrap(), pool.create_stream().unwrap());
    for (stream, size_bytes) in [(one, 1 << 20), (other, 1 << 20), (one, 4096), (other, 1 << 19)] {
        let block = pool.allocate_on(stream, size_bytes).unwrap();
        let location = pool.location(block.handle()).unwrap();
        let owner = device.new_owner();
        let handle = pool.stream(stream).unwrap();
        let range = location.arena.range();
        let at = location.offset_bytes;
        device.queue_use(handle, range, at, block.size_bytes(), owner, Access::Write).unwrap();
        device.queue_use(handle, range, at, block.size_bytes(), owner, Access::Read).unwrap();
        pool.free_on(stream, block.handle()).unwrap();
        pool.verify().unwrap();
    }
    assert!(device.calls().of(Call::Record) > 0);
    assert_eq!(device.calls().of(Call::WaitOnHost), 0);
    drop(pool);
    device.run_all();
    device.assert_clean();
    assert!(device.balance().is_zero());
}
