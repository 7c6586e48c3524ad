//! A child that is forked while other threads are in the midst of calls: it has what they hold locked,
//! and does not have them.

#![cfg(unix)]

use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use pool_core::budget::{Budget, Share, Tenancy};
use pool_core::device::{Device, Failure};
use pool_core::sync::{Lock, Yielding};
use pool_core::threads::Threads;
use pool_core::{On, Pool, PoolConfig, RangeConfig, Request, SharedAllocator};

const MIB: u64 = 1 << 20;

/// How many children are forked: in each moment of each call there should be one.
const CHILDREN: usize = 24;

/// How long a child may take that waits for nobody.
const LONGEST: Duration = Duration::from_secs(20);

/// A device that hands out addresses, with no lock of its own.
#[derive(Default)]
struct Bump {
    next: AtomicU64,
    /// Whether this is the process that opened it.
    gone: Arc<AtomicBool>,
    called_when_gone: Arc<AtomicBool>,
}

impl Bump {
    fn call(&self) {
        if self.gone.load(Ordering::Relaxed) {
            self.called_when_gone.store(true, Ordering::Relaxed);
        }
    }
}

impl Device for Bump {
    type Range = u64;
    type Stream = ();
    type Fence = ();
    type Pages = ();
    type Error = std::io::Error;

    fn allocate(&self, size_bytes: u64) -> Result<u64, Failure<Self::Error>> {
        self.call();
        Ok(self.next.fetch_add(size_bytes, Ordering::Relaxed))
    }

    fn free(&self, _: &u64) -> Result<(), Failure<Self::Error>> {
        self.call();
        Ok(())
    }

    fn is_alive(&self) -> bool {
        !self.gone.load(Ordering::Relaxed)
    }
}

/// Threads whose locks are counted when they are taken.
struct Counted;

impl Threads for Counted {
    type Lock<V: Send> = CountedLock<V>;
}

struct CountedLock<V>(Yielding<V>);

/// Locks that this thread took.
fn locks() -> u64 {
    LOCKS.with(Cell::get)
}

thread_local! {
    static LOCKS: Cell<u64> = const { Cell::new(0) };
}

impl<V: Send> Lock<V> for CountedLock<V> {
    type Guard<'a>
        = <Yielding<V> as Lock<V>>::Guard<'a>
    where
        Self: 'a;

    fn new(value: V) -> Self {
        Self(Yielding::new(value))
    }

    fn lock(&self) -> Self::Guard<'_> {
        LOCKS.with(|locks| locks.set(locks.get() + 1));
        self.0.lock()
    }

    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        LOCKS.with(|locks| locks.set(locks.get() + 1));
        self.0.try_lock()
    }
}

/// What threads of the parent share with the child.
struct World {
    pool: Pool<Bump>,
    tenancy: Tenancy,
    /// No other thread has it, or the tenancies below, which the child ends.
    own: Pool<Bump>,
    seated: Tenancy,
    vacant: Tenancy,
    gone: Arc<AtomicBool>,
    called_when_gone: Arc<AtomicBool>,
}

/// A pool, and another one at the same budget.
fn world(budget: &Budget) -> World {
    let device = Bump::default();
    let (gone, called_when_gone) = (device.gone.clone(), device.called_when_gone.clone());
    let other =
        Bump { gone: gone.clone(), called_when_gone: called_when_gone.clone(), ..Bump::default() };
    let tenant = || budget.tenant(Share::guaranteed(MIB)).unwrap();
    let seated = tenant();
    World {
        pool: Pool::new(device, PoolConfig::new().initial_bytes(64 * MIB)).unwrap(),
        own: Pool::new(other, PoolConfig::new().tenancy(&seated).initial_bytes(MIB)).unwrap(),
        tenancy: tenant(),
        seated,
        vacant: tenant(),
        gone,
        called_when_gone,
    }
}

/// Uses a pool without a pause, so that most of the time some lock of it is held.
fn hammer(pool: &Pool<Bump>, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let blocks: Vec<_> =
            (0..8).map(|n| pool.allocate(Request::new(200_000 << (n % 3)))).collect();
        pool.flush();
        for block in blocks.into_iter().flatten() {
            pool.free(block.handle()).unwrap();
        }
        for _ in 0..20 {
            let _ = pool.stats();
        }
    }
}

/// The same with a budget.
fn hammer_budget(tenancy: &Tenancy, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        let _ = tenancy.stats();
    }
}

/// Forks: zero in the child, which leaves what may be locked, and the child's number in the parent.
#[expect(unsafe_code, reason = "std has no fork")]
fn fork() -> i32 {
    // SAFETY: what the child does it does with this one thread; it waits for no other.
    let child = unsafe { libc::fork() };
    if child == 0 {
        pool_core::sync::leave_locks();
    }
    child
}

/// Does in the child what a test is about. A panic ends it with code 3.
#[expect(unsafe_code, reason = "std's exit runs handlers that a child may not")]
fn in_child(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        // SAFETY: it ends the process and does nothing else.
        unsafe { libc::_exit(3) };
    }
}

/// Waits for a child; how it ended, or none if it had to be killed.
#[expect(unsafe_code, reason = "std knows children only that it started")]
fn wait(child: i32) -> Option<i32> {
    let start = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: `status` is there for the call.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return Some(status);
        }
        if start.elapsed() > LONGEST {
            // SAFETY: the child is there until it was waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// A child that drops what it has of pools, budgets, guards and keepers, and whose thread ends with
/// caches of its own, is done, whatever was locked when it was forked.
#[test]
fn p125_a_child_ends_without_a_lock_or_a_call() {
    let budget = Budget::new(1 << 30);
    for turn in 0..CHILDREN {
        let world = world(&budget);
        let done = Arc::new(AtomicBool::new(false));
        let (pool, tenancy) = (world.pool.clone(), world.tenancy.clone());
        let (end, end_of_budget) = (done.clone(), done.clone());
        let hammers = [
            thread::spawn(move || hammer(&pool, &end)),
            thread::spawn(move || hammer_budget(&tenancy, &end_of_budget)),
        ];
        let forking = thread::spawn(move || fork_in_the_midst(world));
        let child = forking.join().unwrap();
        let ended = wait(child);
        done.store(true, Ordering::Relaxed);
        for hammer in hammers {
            hammer.join().unwrap();
        }
        assert_eq!(ended, Some(0), "child {turn}");
    }
}

/// The same, with every lock counted that is taken on the way.
#[test]
fn p125_what_ends_in_a_child_takes_no_lock() {
    let forking = thread::spawn(|| {
        let budget = Budget::<Counted>::on_platform(1 << 30);
        let [seated, vacant] = [(); 2].map(|()| budget.tenant(Share::guaranteed(MIB)).unwrap());
        let config = PoolConfig::new().tenancy(&seated).initial_bytes(MIB);
        let pool = Pool::<_, Counted>::on_platform(Bump::default(), config).unwrap();
        let shared = SharedAllocator::<Counted>::on_platform(RangeConfig::new(64 * MIB)).unwrap();
        let mut cache = shared.cache();
        let block = cache.allocate(256).unwrap();
        cache.free(block.handle()).unwrap();
        let movable = pool.allocate_movable(On::Nothing, 4096).unwrap();
        let guard = pool.guard(movable, On::Nothing).unwrap();
        let before = locks();
        assert!(before > 0);
        let child = fork();
        if child == 0 {
            in_child(|| drop((guard, cache, shared)));
            in_child(|| drop((pool, seated, vacant, budget)));
            in_child(|| assert_eq!(locks(), before));
        }
        child
    });
    assert_eq!(wait(forking.join().unwrap()), Some(0));
}

/// At the end of a process a pool takes no lock either.
#[test]
fn p034_at_the_end_of_a_process_no_lock_is_taken() {
    let device = Bump::default();
    let gone = device.gone.clone();
    let budget = Budget::<Counted>::on_platform(1 << 30);
    let tenancy = budget.tenant(Share::guaranteed(MIB)).unwrap();
    let config = PoolConfig::new().tenancy(&tenancy).initial_bytes(MIB);
    let pool = Pool::<_, Counted>::on_platform(device, config).unwrap();
    gone.store(true, Ordering::Relaxed);
    let before = locks();
    drop(pool);
    assert_eq!(locks(), before);
}

/// Forks with caches, a guard and a keeper of this thread's; in the child all of it ends, and the
/// thread, which is its last, so that it ends with code zero. The child's number.
fn fork_in_the_midst(world: World) -> i32 {
    let World { pool, tenancy, own, seated, vacant, gone, called_when_gone } = world;
    let cached: Vec<_> = (0..32).map(|_| pool.allocate(256).unwrap()).collect();
    for block in cached {
        pool.free(block.handle()).unwrap();
    }
    let keeper = pool.keep_up(Duration::from_micros(50)).unwrap();
    let movable = pool.allocate_movable(On::Nothing, 4096).unwrap();
    let guard = pool.guard(movable, On::Nothing).unwrap();
    let child = fork();
    if child == 0 {
        in_child(|| {
            gone.store(true, Ordering::Relaxed);
            drop((guard, keeper, own, seated, vacant, tenancy));
        });
        drop(pool);
        in_child(|| assert!(!called_when_gone.load(Ordering::Relaxed), "the device is called"));
    }
    child
}
