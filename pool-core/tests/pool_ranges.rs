//! Devices that do not give every range, nor use every part of one.

use std::sync::{Arc, Mutex};

use pool_core::device::{Device, Failure};
use pool_core::{Pool, PoolConfig, PoolError, Remedy};

const MIB: u64 = 1 << 20;

/// Gives ranges of at most so many bytes, and is content with blocks of a certain granule.
#[derive(Clone)]
struct Picky {
    granule_bytes: u64,
    most_bytes: u64,
    total_bytes: Option<u64>,
    /// What it was asked for, and, if it gave it, has not got back.
    asked: Arc<Mutex<Vec<u64>>>,
    given: Arc<Mutex<Vec<u64>>>,
}

#[derive(Debug, thiserror::Error, PartialEq)]
#[error("more than a range has")]
struct TooLarge;

impl Picky {
    fn new(granule_bytes: u64, most_bytes: u64) -> Self {
        let (asked, given) = Default::default();
        Self { granule_bytes, most_bytes, total_bytes: None, asked, given }
    }

    fn given(&self) -> Vec<u64> {
        self.given.lock().unwrap().clone()
    }
}

impl Device for Picky {
    type Range = u64;
    type Stream = ();
    type Fence = ();
    type Pages = ();
    type Error = TooLarge;

    fn allocate(&self, size_bytes: u64) -> Result<u64, Failure<TooLarge>> {
        self.asked.lock().unwrap().push(size_bytes);
        if size_bytes > self.most_bytes {
            return Err(TooLarge.into());
        }
        self.given.lock().unwrap().push(size_bytes);
        Ok(size_bytes)
    }

    fn free(&self, range: &u64) -> Result<(), Failure<TooLarge>> {
        let mut given = self.given.lock().unwrap();
        let place = given.iter().position(|size| size == range).unwrap();
        given.swap_remove(place);
        Ok(())
    }

    fn granule_bytes(&self) -> u64 {
        self.granule_bytes
    }

    fn most_range_bytes(&self) -> u64 {
        self.most_bytes
    }

    fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }
}

#[test]
fn blocks_are_in_the_granules_that_the_device_needs() {
    let pool = Pool::new(Picky::new(4096, u64::MAX), PoolConfig::new()).unwrap();
    for size_bytes in [1, 300, 5000, 70_000, 3 * MIB + 1] {
        let block = pool.allocate(size_bytes).unwrap();
        let location = pool.location(block.handle()).unwrap();
        assert_eq!(location.offset_bytes % 4096, 0);
        assert_eq!(block.size_bytes() % 4096, 0);
    }
    pool.verify().unwrap();
}

#[test]
fn a_granule_that_the_program_wants_is_not_made_smaller() {
    let config = PoolConfig::new().granule_bytes(1024);
    let pool = Pool::new(Picky::new(128, u64::MAX), config).unwrap();
    assert_eq!(pool.allocate(1).unwrap().size_bytes(), 1024);
}

#[test]
fn a_granule_of_the_device_that_is_none_is_refused() {
    let refused = Pool::new(Picky::new(768, u64::MAX), PoolConfig::new());
    assert!(matches!(refused, Err(PoolError::Config(_))));
}

#[test]
fn a_start_of_more_than_a_range_is_several() {
    let device = Picky::new(1, 100 * MIB);
    let pool = Pool::new(device.clone(), PoolConfig::new().initial_bytes(250 * MIB)).unwrap();
    assert_eq!(device.given(), [100 * MIB, 100 * MIB, 50 * MIB]);
    assert_eq!(pool.stats().initial_bytes, 250 * MIB);
    pool.verify().unwrap();
    drop(pool);
    assert!(device.given().is_empty());
}

#[test]
fn a_start_in_parts_asks_for_no_more_than_a_range() {
    let device = Picky::new(1, 40 * MIB);
    let config = PoolConfig::new().initial_bytes(100 * MIB).warms_later(true);
    let pool = Pool::new(device.clone(), config).unwrap();
    while pool.warm(64 * MIB).unwrap().left_bytes > 0 {}
    assert_eq!(device.given(), [40 * MIB, 40 * MIB, 20 * MIB]);
}

#[test]
fn growth_asks_for_no_more_than_a_range_unless_a_request_needs_it() {
    let device = Picky::new(1, 48 * MIB);
    let pool = Pool::new(device.clone(), PoolConfig::new().arena_bytes(64 * MIB)).unwrap();
    pool.allocate(MIB).unwrap();
    pool.allocate(48 * MIB).unwrap();
    assert_eq!(*device.asked.lock().unwrap(), [48 * MIB, 48 * MIB]);
    // What no range holds is refused, and the reason is the device's.
    let refused = pool.allocate(48 * MIB + 1).unwrap_err();
    assert!(refused.to_string().contains(&TooLarge.to_string()), "{refused}");
    let PoolError::OutOfMemory { shortage, .. } = refused else { panic!("{refused}") };
    assert_eq!(shortage.remedy, Remedy::AskForLess);
    assert_eq!(shortage.most_range_bytes, Some(48 * MIB));
    assert!(
        shortage.to_string().contains("in parts: the device gives no more than 48 MiB at once")
    );
    assert_eq!(shortage.advised(PoolConfig::new().settings()), None);
    pool.verify().unwrap();
    assert_eq!(device.given(), [48 * MIB, 48 * MIB]);
}

#[test]
fn a_pool_can_hold_all_of_a_device_that_says_how_much_that_is() {
    let unknown = Picky::new(1, u64::MAX);
    let known = Picky { total_bytes: Some(200 << 30), ..unknown.clone() };
    let served = [unknown, known].map(|device| {
        let pool = Pool::new(device, PoolConfig::new()).unwrap();
        (0..3).filter(|_| pool.allocate(60 << 30).is_ok()).count()
    });
    assert_eq!(served, [1, 3]);
}

#[test]
fn a_device_that_gives_next_to_nothing_at_once_does_not_hang_the_start() {
    let device = Picky::new(1, 0);
    let refused = Pool::new(device.clone(), PoolConfig::new().initial_bytes(8 * MIB));
    assert!(matches!(refused, Err(PoolError::Device(_))));
    assert!(device.given().is_empty());
}
