//! Plain memory in the hands of those who hold the blocks: what orders their accesses is the
//! allocator alone. Under a race detector a free that does not happen before the next allocation
//! of the same place is a data race here.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crossbeam_queue::ArrayQueue;
use fastrand::Rng;
use pool_core::{Block, Cache, Owner, RangeConfig, SharedAllocator, SharedConfig, Spans};

const GRANULE: u64 = 256;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const THREADS: usize = 4;

/// A word for each granule, without any order of its own.
struct Memory(Vec<UnsafeCell<u64>>);

// SAFETY: a word is only touched by `write` and `read` below, by whoever holds the block that it
// lies in. That no two threads hold it at once is what the allocator promises and this test checks.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(shared: &SharedAllocator) -> Self {
        let granules = shared.capacity_bytes() / GRANULE;
        Self((0..granules).map(|_| UnsafeCell::new(0)).collect())
    }

    fn words(&self, block: &Block) -> &[UnsafeCell<u64>] {
        let index = |bytes| usize::try_from(bytes / GRANULE).unwrap();
        let start = index(block.offset_bytes());
        &self.0[start..start + index(block.size_bytes())]
    }

    /// Writes what only the holder knows.
    fn write(&self, block: &Block) {
        for word in self.words(block) {
            // SAFETY: the caller was given the block and has not freed it.
            unsafe { *word.get() = block.handle().to_raw() };
        }
    }

    /// Whether what was written is there.
    fn read(&self, block: &Block) -> bool {
        self.words(block).iter().all(|word| {
            // SAFETY: as above.
            let value = unsafe { *word.get() };
            value == block.handle().to_raw()
        })
    }
}

/// What the threads share.
struct Floor<'a> {
    shared: &'a SharedAllocator,
    memory: Memory,
    mailboxes: [ArrayQueue<Block>; THREADS],
    ended: AtomicUsize,
    owners: u32,
}

/// A thread that writes into every block it gets, passes one in three on, and reads before a free.
struct Hand<'a> {
    floor: &'a Floor<'a>,
    mailbox: &'a ArrayQueue<Block>,
    cache: Cache,
    numbers: Rng,
}

impl<'a> Hand<'a> {
    fn new(floor: &'a Floor<'a>, thread: usize) -> Self {
        let mailbox = &floor.mailboxes[thread];
        Self { floor, mailbox, cache: floor.shared.cache(), numbers: Rng::with_seed(thread as u64) }
    }

    fn owner(&mut self) -> Owner {
        Owner(self.numbers.u32(..self.floor.owners))
    }

    fn work(mut self) {
        let mut held = vec![];
        for _ in 0..4000 {
            held.extend(self.allocate());
            if held.len() > self.numbers.usize(..32) {
                let block = held.swap_remove(self.numbers.usize(..held.len()));
                let to = self.numbers.usize(..3 * THREADS);
                let sent = self.floor.mailboxes.get(to).map(|mailbox| mailbox.push(block));
                if sent != Some(Ok(())) {
                    self.free(block);
                }
            }
            self.free_what_came();
            if self.numbers.u32(..256) == 0 {
                // Takes blocks out of the others' caches while they use them.
                self.floor.shared.flush();
            }
        }
        for block in held {
            self.free(block);
        }
        self.floor.ended.fetch_add(1, Ordering::AcqRel);
        while self.floor.ended.load(Ordering::Acquire) < THREADS {
            self.free_what_came();
            std::thread::yield_now();
        }
        self.free_what_came();
    }

    /// A block through the cache or by the allocator itself; none if it is refused.
    fn allocate(&mut self) -> Option<Block> {
        let most = GRANULE << self.numbers.u32(..8);
        let size = self.numbers.u64(1..=most);
        let owner = self.owner();
        let block = if self.numbers.bool() {
            self.cache.allocate_for(owner, size)
        } else {
            self.floor.shared.allocate_for(owner, size)
        };
        let block = block.ok()?;
        self.floor.memory.write(&block);
        Some(block)
    }

    fn free(&mut self, block: Block) {
        assert!(self.floor.memory.read(&block), "somebody else wrote into {block:?}");
        let owner = self.owner();
        let freed = if self.numbers.bool() {
            self.cache.free_for(owner, block.handle())
        } else {
            self.floor.shared.free_for(owner, block.handle())
        };
        assert_eq!(freed, Ok(block));
    }

    fn free_what_came(&mut self) {
        while let Some(block) = self.mailbox.pop() {
            self.free(block);
        }
    }
}

fn churn(shared: &SharedAllocator, owners: u32) {
    let floor = Floor {
        shared,
        memory: Memory::new(shared),
        mailboxes: core::array::from_fn(|_| ArrayQueue::new(16)),
        ended: AtomicUsize::new(0),
        owners,
    };
    thread::scope(|scope| {
        let floor = &floor;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || Hand::new(floor, thread).work()))
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    });
    shared.flush();
    assert_eq!(shared.verify(), Ok(()));
    assert_eq!(shared.largest_free_bytes(), shared.capacity_bytes());
}

/// In caches and magazines, through the range's lock, and through shards; ample, and so scarce that
/// every thread lives on what it takes out of the others' caches.
#[test]
fn what_a_holder_wrote_is_ordered_before_the_next_one_writes() {
    let spans = Spans::Sized { span_bytes: 32 * KIB, small_bytes: 16 * KIB };
    for (capacity_bytes, shards, cache_bytes) in
        [(8 * MIB, 1, 64 * KIB), (8 * MIB, 4, 0), (64 * MIB, 16, MIB), (256 * KIB, 4, MIB)]
    {
        let range = RangeConfig::new(capacity_bytes).spans(spans);
        let config = SharedConfig::new(range).shards(shards).cache_bytes(cache_bytes);
        churn(&SharedAllocator::new(config).unwrap(), 1);
        churn(&SharedAllocator::new(config).unwrap(), 3);
    }
}
