//! Several pools on one device: quotas, guarantees, what is borrowed, and what comes back.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pool_core::budget::{Budget, Share, ShareError, Tenancy};
use pool_core::device::{Call, Capabilities};
use pool_core::policy::Growth;
use pool_core::{GraphId, On, Pool, PoolConfig, PoolError, Remedy, Shortage, StreamId};
use pool_mock::device::{Pacing, SimConfig, SimDevice};

use crate::support::{Buffer, MIB, Refusal, World, in_time};
use crate::threads::on_threads;

/// What one tenant's arenas are of here.
const ARENA: u64 = 8 * MIB;

fn share(guaranteed: u64, quota: u64) -> Share {
    Share { guaranteed_bytes: guaranteed * MIB, quota_bytes: quota * MIB }
}

fn config() -> PoolConfig {
    PoolConfig::new().growth(Growth { floor_bytes: ARENA, ahead: None, ..Growth::new() })
}

/// A device on which each arena goes back by itself.
fn machine() -> SimConfig {
    SimConfig::new().without(Capabilities::EXTEND)
}

/// A device, a budget of all its memory, and a pool for each share, with a stream.
struct House {
    device: SimDevice,
    budget: Budget,
    tenants: Vec<Tenant>,
}

struct Tenant {
    tenancy: Tenancy,
    world: World,
    stream: StreamId,
}

impl House {
    fn new(device: SimConfig, memory: u64, shares: &[Share]) -> Self {
        let device = SimDevice::new(device.memory_bytes(memory * MIB));
        let budget = Budget::new(memory * MIB);
        let tenants = shares.iter().map(|&share| {
            let tenancy = budget.tenant(share).unwrap();
            let world = World::over(device.clone(), config().tenancy(&tenancy));
            let stream = world.stream();
            Tenant { tenancy, world, stream }
        });
        let tenants = tenants.collect();
        Self { device, budget, tenants }
    }

    fn eager(memory: u64, shares: &[Share]) -> Self {
        Self::new(machine(), memory, shares)
    }

    /// The books of the budget, the pools and the device say the same, and it is not more than
    /// there is.
    fn check(&self) {
        self.device.assert_clean();
        self.budget.verify().unwrap();
        for tenant in &self.tenants {
            tenant.world.pool.verify().unwrap();
        }
        self.check_sums();
    }

    fn check_sums(&self) {
        let stats = self.budget.stats();
        let pools = self.tenants.iter().map(|tenant| tenant.world.pool.stats().reserved_bytes);
        assert_eq!(stats.reserved_bytes, pools.sum::<u64>());
        assert_eq!(stats.reserved_bytes, self.device.balance().bytes);
        assert!(stats.reserved_bytes <= stats.budget_bytes);
    }

    /// Ends all pools: everything is the device's again, and the budget's.
    fn end(self) {
        self.check();
        let Self { device, budget, tenants } = self;
        for Tenant { tenancy, world, .. } in tenants {
            drop(world);
            assert_eq!(tenancy.stats().reserved_bytes, 0);
        }
        let stats = budget.stats();
        assert_eq!(
            (stats.free_bytes(), stats.lost_bytes, stats.tenants),
            (stats.budget_bytes, 0, 0)
        );
        assert!(device.balance().is_zero(), "{}", device.balance());
        device.run_all();
        device.assert_clean();
    }
}

impl Tenant {
    fn take(&self, mib: u64) -> Buffer {
        self.world.used(self.stream, mib * MIB)
    }

    fn refuse(&self, mib: u64) -> Shortage {
        shortage(self.world.try_allocate(self.stream, mib * MIB))
    }

    fn free(&self, buffer: Buffer) {
        self.world.free(self.stream, buffer);
    }

    fn reserved(&self) -> u64 {
        self.world.pool.stats().reserved_bytes / MIB
    }

    /// Takes so many arenas, and leaves them idle.
    fn fill(&self, arenas: u64) {
        let buffers: Vec<_> = (0..arenas).map(|_| self.take(8)).collect();
        for buffer in buffers {
            self.free(buffer);
        }
    }
}

fn shortage(answer: Result<Buffer, Refusal>) -> Shortage {
    match answer {
        Err(PoolError::OutOfMemory { shortage, .. }) => *shortage,
        Err(other) => panic!("{other}"),
        Ok(buffer) => panic!("{buffer:?} should have been refused"),
    }
}

#[test]
fn a_quota_is_never_passed_and_the_refusal_says_so() {
    let house = House::eager(64, &[share(0, 16)]);
    let [tenant] = &house.tenants[..] else { unreachable!() };
    let buffers = [tenant.take(8), tenant.take(8)];
    let refused = tenant.refuse(1);
    assert_eq!(refused.remedy, Remedy::RaiseQuota);
    let standing = refused.tenancy.unwrap();
    assert_eq!((standing.reserved_bytes, standing.quota_bytes), (16 * MIB, 16 * MIB));
    assert!(refused.to_string().contains("raise the quota of the budget"), "{refused}");
    tenant.tenancy.set_share(share(0, 24)).unwrap();
    let more = tenant.take(8);
    assert_eq!(tenant.reserved(), 24);
    for buffer in buffers.into_iter().chain([more]) {
        tenant.free(buffer);
    }
    house.end();
}

#[test]
fn a_pool_starts_with_no_more_than_its_quota() {
    let budget = Budget::new(64 * MIB);
    let tenancy = budget.tenant(share(8, 16)).unwrap();
    let device = SimDevice::new(machine());
    let large = config().tenancy(&tenancy).initial_bytes(40 * MIB);
    let pool = Pool::new(device, large).unwrap();
    assert_eq!(pool.stats().reserved_bytes, 16 * MIB);
    assert_eq!(budget.stats().reserved_bytes, 16 * MIB);
}

/// What nobody uses may be borrowed, guaranteed to others or not; of idle memory as much comes back
/// as is asked for, in the call that asks.
#[test]
fn what_was_borrowed_and_is_idle_comes_back_in_the_call_that_needs_it() {
    let house = House::eager(64, &[share(32, 64), share(0, 64), share(0, 24)]);
    let [owner, borrower, small] = &house.tenants[..] else { unreachable!() };
    small.fill(1);
    borrower.fill(7);
    assert_eq!(borrower.tenancy.stats().borrowed_bytes(), 56 * MIB);
    let calls = house.device.calls();
    let first = owner.take(8);
    let since = house.device.calls().since(&calls);
    // Of the largest borrower one arena, and no more; nobody is under pressure.
    assert_eq!((since.of(Call::Free), since.of(Call::Allocate)), (1, 1));
    assert_eq!((owner.reserved(), borrower.reserved(), small.reserved()), (8, 48, 8));
    assert_eq!(house.budget.stats().claimed_bytes, 0);
    let rest = [owner.take(8), owner.take(16)];
    assert_eq!((owner.reserved(), borrower.reserved(), small.reserved()), (32, 24, 8));
    // Beyond its guarantee the owner borrows like others: nobody gives back for that.
    let refused = owner.refuse(8);
    assert_eq!(refused.remedy, Remedy::RaiseGuarantee);
    assert_eq!(borrower.reserved(), 24);
    house.check();
    for buffer in rest.into_iter().chain([first]) {
        owner.free(buffer);
    }
    house.end();
}

/// Live memory is not taken. Once it is freed it goes back at that call, and in between the
/// borrower does not borrow more, nor does anybody else.
#[test]
fn what_is_live_comes_back_when_it_is_freed() {
    let house = House::eager(64, &[share(32, 64), share(16, 64), share(0, 64)]);
    let [owner, borrower, other] = &house.tenants[..] else { unreachable!() };
    let mut held: Vec<_> = (0..7).map(|_| borrower.take(8)).collect();
    let mine = owner.take(8);
    let refused = owner.refuse(16);
    assert_eq!(refused.remedy, Remedy::AwaitBorrowers);
    assert_eq!(owner.tenancy.stats().claimed_bytes, 16 * MIB);
    assert_eq!(borrower.tenancy.stats().owed_bytes, 16 * MIB);
    for _ in 0..20 {
        assert_eq!(borrower.refuse(8).remedy, Remedy::RaiseGuarantee);
        assert_eq!(other.refuse(1).remedy, Remedy::RaiseGuarantee);
    }
    for left in [8, 0] {
        borrower.free(held.pop().unwrap());
        assert_eq!(borrower.tenancy.stats().owed_bytes, left * MIB);
        // It is kept for the owner.
        assert_eq!(other.refuse(1).remedy, Remedy::RaiseGuarantee);
    }
    assert_eq!(borrower.reserved(), 40);
    let got = owner.take(16);
    house.check();
    // Nothing is owed any more: its calls are hits again.
    borrower.free(held.pop().unwrap());
    borrower.world.pass(borrower.stream, 4096u64);
    let calls = house.device.calls();
    for _ in 0..100 {
        let block = borrower.world.pool.allocate_on(borrower.stream, 4096).unwrap();
        borrower.world.pool.free_on(borrower.stream, block.handle()).unwrap();
    }
    let [owed, claimed] = [borrower.tenancy.stats().owed_bytes, house.budget.stats().claimed_bytes];
    assert_eq!((owed, claimed, house.device.calls().since(&calls).total()), (0, 0, 0));
    for buffer in [mine, got] {
        owner.free(buffer);
    }
    for buffer in held {
        borrower.free(buffer);
    }
    house.end();
}

/// A borrower that never rests: it always has the same number of blocks, some in each arena, and its
/// streams always have work. What it frees in vacated arenas serves it no more, on whichever stream
/// it frees it, so that they empty; and what is left is work, for which its allocations wait in
/// the end.
#[test]
fn a_borrower_that_never_stops_does_not_keep_it() {
    for pacing in [Pacing::Eager, Pacing::Idle, Pacing::Lag(7)] {
        for way in ["where it was taken", "on another stream", "on a stream that is not known"] {
            let shares = [share(32, 64), share(32, 64)];
            let house = House::new(machine().pacing(pacing), 64, &shares);
            let [owner, borrower] = &house.tenants[..] else { unreachable!() };
            let (other, unknown) = (borrower.world.stream(), borrower.world.foreign());
            let take = |mib: u64| {
                let world = &borrower.world;
                if way == "on a stream that is not known" {
                    let buffer = world.try_allocate(&unknown, mib * MIB)?;
                    world.touch(&buffer, unknown);
                    return Ok(buffer);
                }
                let buffer = world.try_allocate(borrower.stream, mib * MIB)?;
                world.touch(&buffer, world.raw(borrower.stream));
                Ok::<_, Refusal>(buffer)
            };
            let free = |buffer| match way {
                "on another stream" => borrower.world.free(other, buffer),
                "on a stream that is not known" => borrower.world.free(&unknown, buffer),
                _ => borrower.free(buffer),
            };
            let mut live = Vec::new();
            while borrower.reserved() < 48 || live.len() % 4 > 0 {
                live.push(take(2).unwrap());
            }
            assert_eq!(borrower.reserved(), 48);
            let most = 2 * live.len() + 16;
            let mut random = fastrand::Rng::with_seed(3);
            let mine = [owner.take(8), owner.take(8)];
            // It asks once: the rest is the borrower's doing alone.
            assert_eq!(owner.refuse(8).remedy, Remedy::AwaitBorrowers);
            let mut calls = 0;
            while borrower.tenancy.stats().owed_bytes > 0 {
                // A free and an allocation: each block is freed once in so many calls.
                free(live.remove(0));
                live.extend(take(random.u64(1..=2)));
                calls += 2;
                assert!(calls <= most, "{pacing:?}, {way}: {calls} calls");
                house.check_sums();
            }
            assert_eq!(owner.tenancy.stats().claimed_bytes, 8 * MIB, "it is still asked for");
            let got = owner.take(8);
            println!("{pacing:?}, freed {way}: after {calls} calls of the borrower");
            house.check();
            for buffer in mine.into_iter().chain([got]) {
                owner.free(buffer);
            }
            live.into_iter().for_each(free);
            house.end();
        }
    }
}

/// One that is called back in the midst of a call that is made for it does not send the others on
/// again: that would have no end.
#[test]
fn who_is_called_back_does_not_ask_again() {
    let house =
        House::new(SimConfig::new().pacing(Pacing::Idle), 64, &[share(32, 64), share(0, 64)]);
    let [owner, borrower] = &house.tenants[..] else { unreachable!() };
    borrower.fill(8);
    let (depth, deepest) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    let (pool, stream) = (owner.world.pool.clone(), owner.stream);
    let noted = deepest.clone();
    house.device.on_call(move |call| {
        if call == Call::IsDone && depth.load(Ordering::Relaxed) < 3 {
            noted.fetch_max(1 + depth.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            assert!(pool.allocate_on(stream, 8 * MIB).is_err());
            depth.fetch_sub(1, Ordering::Relaxed);
        }
    });
    owner.refuse(8);
    house.device.clear_hooks();
    assert_eq!(deepest.load(Ordering::Relaxed), 1);
    house.end();
}

/// Small blocks in spans, in caches and on other streams' parcels: they come back, too.
#[test]
fn small_blocks_caches_and_parcels_come_back_within_64_calls() {
    let house = House::eager(64, &[share(64, 64), share(0, 64)]);
    let [owner, borrower] = &house.tenants[..] else { unreachable!() };
    let other = borrower.world.stream();
    let mut small: Vec<_> =
        (0..2000).map(|_| borrower.world.used(borrower.stream, 20_000u64)).collect();
    assert!(borrower.reserved() >= 40);
    owner.refuse(64);
    let rest = small.split_off(1990);
    for (place, buffer) in small.into_iter().enumerate() {
        match place % 3 {
            0 => borrower.world.free(borrower.stream, buffer),
            1 => borrower.world.free(other, buffer),
            _ => borrower.world.free(On::Nothing, buffer),
        }
    }
    for buffer in rest {
        borrower.free(buffer);
    }
    let calls = (0..=64).find(|_| {
        if borrower.reserved() == 0 {
            return true;
        }
        // A free of no block is a call as well as any.
        let buffer = borrower.world.try_allocate(borrower.stream, 256u64);
        assert!(buffer.is_err(), "all of it is vacated, or was never the borrower's");
        false
    });
    println!("after {calls:?} calls");
    assert!(calls.is_some());
    let got = owner.take(64);
    owner.free(got);
    house.end();
}

/// A tenant that asked once and went away keeps nothing for ever: its claim ends at its second tick,
/// or after 256 attempts of others.
#[test]
fn a_claim_that_nobody_repeats_ends() {
    for by_ticks in [false, true] {
        let house = House::eager(64, &[share(32, 64), share(0, 64)]);
        let [owner, borrower] = &house.tenants[..] else { unreachable!() };
        let mut held: Vec<_> = (0..7).map(|_| borrower.take(8)).collect();
        owner.refuse(32);
        borrower.free(held.pop().unwrap());
        assert_eq!(borrower.reserved(), 48);
        if by_ticks {
            owner.world.pool.tick().unwrap();
            borrower.refuse(8);
            owner.world.pool.tick().unwrap();
        } else {
            // Each refusal is an attempt or two.
            let refusals = (0..257).take_while(|_| {
                borrower
                    .world
                    .try_allocate(borrower.stream, 8 * MIB)
                    .map(|got| held.push(got))
                    .is_err()
            });
            assert!((128..=256).contains(&refusals.count()));
            borrower.free(held.pop().unwrap());
        }
        assert_eq!(house.budget.stats().claimed_bytes, 0);
        let again = borrower.take(8);
        for buffer in held.into_iter().chain([again]) {
            borrower.free(buffer);
        }
        house.end();
    }
}

#[test]
fn a_share_changes_while_the_pool_runs() {
    let house = House::eager(64, &[share(32, 64), share(32, 64)]);
    let [first, second] = &house.tenants[..] else { unreachable!() };
    let refused = first.tenancy.set_share(share(40, 64));
    assert!(matches!(refused, Err(ShareError::GuaranteesOverBudget { .. })));
    let refused = first.tenancy.set_share(share(32, 24));
    assert!(matches!(refused, Err(ShareError::GuaranteeOverQuota { .. })));
    assert_eq!(first.tenancy.share(), share(32, 64));
    // Six arenas, of which four are idle: those go at once, one of the others when it is freed.
    let held: Vec<_> = (0..6).map(|_| first.take(8)).collect();
    let mut held = held.into_iter();
    held.by_ref().take(4).for_each(|buffer| first.free(buffer));
    first.tenancy.set_share(share(8, 8)).unwrap();
    assert_eq!((first.reserved(), first.tenancy.stats().owed_bytes), (16, 8 * MIB));
    assert_eq!(first.refuse(1).remedy, Remedy::RaiseQuota);
    first.free(held.next().unwrap());
    assert_eq!((first.reserved(), first.tenancy.stats().owed_bytes), (8, 0));
    // What one gave up another is guaranteed now.
    second.tenancy.set_share(share(56, 64)).unwrap();
    let got = second.take(56);
    house.check();
    second.free(got);
    first.free(held.next().unwrap());
    house.end();
}

/// A call that fails leaves the budget and the pools as they were before it.
#[test]
fn a_failed_call_leaves_both_books_as_before() {
    let house = House::eager(64, &[share(32, 64), share(0, 64)]);
    let [owner, borrower] = &house.tenants[..] else { unreachable!() };
    borrower.fill(8);
    // The device does not take back what the borrower gives.
    house.device.fail_each(Call::Free);
    let refused = owner.refuse(8);
    assert_eq!(refused.remedy, Remedy::AwaitBorrowers);
    house.check();
    assert_eq!((owner.reserved(), borrower.reserved()), (0, 64));
    house.device.clear_faults();
    // It gives nothing to the owner, though there is room.
    house.device.fail_each(Call::Allocate);
    owner.refuse(8);
    house.check();
    assert_eq!((owner.reserved(), house.budget.stats().claimed_bytes), (0, 0));
    house.device.clear_faults();
    let got = owner.take(8);
    owner.free(got);
    house.end();
}

/// What a device does not take back at the end of a pool nobody gets: there is no more of it.
#[test]
fn what_is_lost_at_the_end_of_a_pool_is_nobodys() {
    let house = House::eager(64, &[share(32, 64), share(0, 64)]);
    house.tenants[1].fill(3);
    let House { device, budget, mut tenants } = house;
    device.fail_next(Call::Free, 2);
    let Tenant { tenancy, world, .. } = tenants.pop().unwrap();
    drop(world);
    let stats = budget.stats();
    assert_eq!((stats.lost_bytes, stats.reserved_bytes), (8 * MIB, 0));
    assert_eq!(device.balance().bytes, 8 * MIB);
    budget.verify().unwrap();
    // The tenancy is there for another pool.
    let again = World::over(device.clone(), config().tenancy(&tenancy));
    let stream = again.stream();
    let refused = shortage(again.try_allocate(stream, 57 * MIB));
    assert_eq!(refused.tenancy.unwrap().budget_free_bytes, 56 * MIB);
    again.pass(stream, 56 * MIB);
}

#[test]
fn one_pool_at_a_time_has_a_tenancy() {
    let budget = Budget::new(64 * MIB);
    let tenancy = budget.tenant(share(8, 64)).unwrap();
    let device = SimDevice::new(machine());
    let new = |initial: u64| {
        let config = config().tenancy(&tenancy).initial_bytes(initial);
        Pool::new(device.clone(), config)
    };
    let pool = new(16 * MIB).unwrap();
    assert!(matches!(new(0), Err(PoolError::TenancyTaken)));
    drop(pool);
    assert_eq!(budget.stats().reserved_bytes, 0);
    // One that was refused by its device has it no more.
    device.fail_next(Call::Allocate, 1);
    assert!(matches!(new(16 * MIB), Err(PoolError::Device(_))));
    assert_eq!(budget.stats().reserved_bytes, 0);
    let pool = new(16 * MIB).unwrap();
    // The share is kept as long as either exists.
    drop(tenancy);
    assert_eq!(budget.stats().guaranteed_bytes, 8 * MIB);
    drop(pool);
    assert_eq!((budget.stats().tenants, budget.stats().guaranteed_bytes), (0, 0));
}

/// A pool alone at a budget does what one without does: the same calls, the same offsets.
#[test]
fn a_budget_costs_a_pool_alone_nothing() {
    let run = |tenancy: Option<&Tenancy>| {
        let device = SimDevice::new(machine().memory_bytes(64 * MIB));
        let config = tenancy.map_or(config(), |tenancy| config().tenancy(tenancy));
        let world = World::over(device.clone(), config);
        let streams: [_; 2] = world.streams();
        let mut random = fastrand::Rng::with_seed(5);
        let mut live: Vec<(StreamId, Buffer)> = Vec::new();
        let mut offsets = Vec::new();
        for _ in 0..2000 {
            if random.u32(0..5) < 3 || live.is_empty() {
                let stream = streams[random.usize(0..2)];
                let size = 1 << random.u32(8..21);
                if let Ok(buffer) = world.try_allocate(stream, size) {
                    offsets.push(buffer.offset_bytes);
                    live.push((stream, buffer));
                }
            } else {
                let (stream, buffer) = live.swap_remove(random.usize(0..live.len()));
                world.free(stream, buffer);
            }
        }
        let calls = device.calls();
        for (stream, buffer) in live {
            world.free(stream, buffer);
        }
        world.end();
        (offsets, calls)
    };
    let tenancy = Budget::new(64 * MIB).tenant(Share::guaranteed(64 * MIB)).unwrap();
    assert_eq!(run(None), run(Some(&tenancy)));
}

/// While a borrower has a capture, nothing is asked of its device for others; afterwards it is.
#[test]
fn a_borrower_with_a_capture_gives_back_after_it() {
    let house = House::eager(64, &[share(32, 64), share(0, 64)]);
    let [owner, borrower] = &house.tenants[..] else { unreachable!() };
    borrower.fill(8);
    let other = borrower.world.stream();
    let shared = borrower.world.used(other, 100u64);
    borrower.free(shared);
    borrower.world.pool.begin_capture(borrower.stream, GraphId(1)).unwrap();
    let frees = house.device.calls().of(Call::Free);
    let records = house.device.calls().of(Call::Record);
    assert_eq!(owner.refuse(8).remedy, Remedy::AwaitBorrowers);
    assert_eq!(house.device.calls().of(Call::Record), records);
    borrower.world.pool.tick().unwrap();
    assert_eq!(house.device.calls().of(Call::Free), frees);
    borrower.world.pool.end_capture(borrower.stream).unwrap();
    borrower.world.pool.release_graph(GraphId(1)).unwrap();
    borrower.world.pool.tick().unwrap();
    assert_eq!(borrower.reserved(), 56);
    let got = owner.take(8);
    owner.free(got);
    house.end();
}

/// One that grows in the midst of its own capture may not have others call the device, which would
/// break it: they are only put under pressure.
#[test]
fn a_needy_pool_with_a_capture_makes_no_call_for_others() {
    let device = machine().with(Capabilities::GROWS_IN_CAPTURE);
    let house = House::new(device, 64, &[share(32, 64), share(0, 64)]);
    let [owner, borrower] = &house.tenants[..] else { unreachable!() };
    borrower.fill(8);
    owner.world.pool.begin_capture(owner.stream, GraphId(1)).unwrap();
    let frees = house.device.calls().of(Call::Free);
    assert!(owner.world.pool.allocate(8 * MIB).is_err());
    assert_eq!(house.device.calls().of(Call::Free), frees);
    borrower.world.pass(borrower.stream, 4096u64);
    assert_eq!(borrower.reserved(), 56);
    let block = owner.world.pool.allocate(8 * MIB).unwrap();
    owner.world.pool.free(block.handle()).unwrap();
    owner.world.pool.end_capture(owner.stream).unwrap();
    owner.world.pool.release_graph(GraphId(1)).unwrap();
    house.end();
}

/// Every call of the device, also those that a borrower makes for the one in need, comes back into
/// all three pools: no lock is held, and there is an end to it.
#[test]
fn calls_that_come_back_into_the_pools_end() {
    in_time(|| {
        let shares = [share(24, 64), share(24, 64), share(16, 64)];
        let house = House::new(machine().pacing(Pacing::Lag(3)), 64, &shares);
        let House { device, budget, tenants } = house;
        let inside: Vec<_> =
            tenants.iter().map(|tenant| (tenant.world.pool.clone(), tenant.stream)).collect();
        let (depth, entered) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
        let counted = entered.clone();
        device.on_call(move |_| {
            if depth.load(Ordering::Relaxed) >= 3 || counted.load(Ordering::Relaxed) >= 3000 {
                return;
            }
            depth.fetch_add(1, Ordering::Relaxed);
            counted.fetch_add(1, Ordering::Relaxed);
            for (pool, stream) in &inside {
                if let Ok(block) = pool.allocate_on(*stream, 9 * MIB) {
                    pool.free_on(*stream, block.handle()).unwrap();
                }
                let _ = pool.tick();
            }
            depth.fetch_sub(1, Ordering::Relaxed);
        });
        for round in 0..12 {
            let tenant = &tenants[round % 3];
            let got: Vec<_> = (0..7)
                .map_while(|_| tenant.world.try_allocate(tenant.stream, 8 * MIB).ok())
                .collect();
            for buffer in got {
                tenant.free(buffer);
            }
        }
        assert!(entered.load(Ordering::Relaxed) >= 100);
        device.clear_hooks();
        House { device, budget, tenants }.end();
    });
}

/// The last handle of a borrower is dropped while it gives way: it ends there, and all it had is
/// free for the one that asked.
#[test]
fn a_pool_that_is_dropped_while_it_is_asked_ends_in_peace() {
    in_time(|| {
        let house = House::eager(64, &[share(32, 64), share(0, 64)]);
        house.tenants[1].fill(8);
        let House { device, budget, mut tenants } = house;
        let Tenant { tenancy, world, .. } = tenants.pop().unwrap();
        let World { pool, .. } = world;
        let last = Mutex::new(Some(pool));
        device.on_call(move |call| {
            if call == Call::Free {
                let pool = last.lock().unwrap().take();
                drop(pool);
            }
        });
        let got = tenants[0].take(32);
        device.clear_hooks();
        assert_eq!(tenancy.stats().reserved_bytes, 0);
        assert_eq!(budget.stats().reserved_bytes, 32 * MIB);
        tenants[0].free(got);
        drop(tenancy);
        House { device, budget, tenants }.end();
    });
}

/// A block lives for at most so many calls of its pool.
const LIFETIME: u64 = 120;

/// A borrower gives an owner what it needs within so many of its own calls: until every block is
/// freed that was there when it was asked, and at the latest at the 64th call from then.
const BOUND: u64 = LIFETIME + 64;

/// What one of three tenants does: takes and frees blocks of drawn sizes and lifetimes.
struct Load<'a> {
    tenant: &'a Tenant,
    streams: [StreamId; 3],
    random: fastrand::Rng,
    /// The call after which each is freed, and the one in which it was taken.
    live: Vec<(u64, u64, usize, Buffer)>,
    calls: u64,
    served: u64,
    refused: u64,
}

impl<'a> Load<'a> {
    fn new(tenant: &'a Tenant, seed: u64) -> Self {
        let streams = [tenant.stream, tenant.world.stream(), tenant.world.stream()];
        let random = fastrand::Rng::with_seed(seed);
        Self { tenant, streams, random, live: Vec::new(), calls: 0, served: 0, refused: 0 }
    }

    /// Frees what has lived its time; false if there is none.
    fn free_expired(&mut self) -> bool {
        let Some(place) = (0..self.live.len()).min_by_key(|&place| self.live[place].0) else {
            return false;
        };
        let due = self.live[place].0 <= self.calls;
        if due {
            self.free(place);
        }
        due
    }

    fn free(&mut self, place: usize) {
        let (_, born, stream, buffer) = self.live.swap_remove(place);
        assert!(self.calls - born <= LIFETIME, "the load does not keep its own rule");
        self.calls += 1;
        self.tenant.world.free(self.streams[stream], buffer);
    }

    fn allocate(&mut self, size_bytes: u64, lifetime: u64) -> bool {
        let place = self.random.usize(0..3);
        let stream = self.streams[place];
        self.calls += 1;
        match self.tenant.world.try_allocate(stream, size_bytes) {
            Ok(buffer) => {
                self.tenant.world.touch(&buffer, self.tenant.world.raw(stream));
                self.live.push((self.calls + lifetime, self.calls, place, buffer));
                self.served += 1;
                true
            }
            Err(PoolError::OutOfMemory { .. }) => {
                self.refused += 1;
                false
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn live_bytes(&self) -> u64 {
        self.live.iter().map(|(_, _, _, buffer)| buffer.size_bytes).sum()
    }

    /// Takes whatever it gets.
    fn be_greedy(&mut self) {
        if !self.free_expired() {
            let (size, lifetime) =
                (self.random.u64(MIB / 2..6 * MIB), self.random.u64(1..LIFETIME / 2));
            if !self.allocate(size, lifetime) && self.random.u32(0..4) == 0 && !self.live.is_empty()
            {
                self.free(0);
            }
        }
    }

    /// Has up to 20 MiB of its 24, in blocks of 2; whether it got what it asked for.
    fn be_steady(&mut self) -> bool {
        if self.free_expired() || self.live_bytes() > 18 * MIB {
            return true;
        }
        let lifetime = self.random.u64(1..LIFETIME / 2);
        self.allocate(2 * MIB, lifetime)
    }

    fn end(mut self) {
        for (_, _, stream, buffer) in core::mem::take(&mut self.live) {
            self.tenant.world.free(self.streams[stream], buffer);
        }
    }
}

/// The greedy one has 16 MiB of 96, the bursty one 48, the steady one 24; 8 are nobody's.
fn three(device: SimConfig) -> House {
    House::new(device, 96, &[share(16, 96), share(48, 64), share(24, 24)])
}

/// Three pools under a load that a seed draws. What one is due it gets within a bounded number of
/// the borrower's calls, and no step has more than the device.
#[test]
fn three_tenants_get_their_shares_within_a_bounded_number_of_calls() {
    let mut longest = 0;
    for (pacing, seed) in [
        (Pacing::Eager, 1),
        (Pacing::Idle, 2),
        (Pacing::Lag(9), 3),
        (Pacing::Random(4), 4),
        (Pacing::Random(5), 5),
        (Pacing::Idle, 6),
    ] {
        let house = three(machine().pacing(pacing));
        let [greedy, bursty, steady] = &house.tenants[..] else { unreachable!() };
        let [mut greedy, mut bursty, mut steady] = [(greedy, 0), (bursty, 1), (steady, 2)]
            .map(|(tenant, more)| Load::new(tenant, 3 * seed + more));
        // When the bursty and the steady one were refused first, by the greedy one's calls.
        let mut waiting: [Option<u64>; 2] = [None, None];
        let (mut rounds, mut waits, mut borrowed) = (0, 0, 0);
        for step in 0..3000 {
            greedy.be_greedy();
            borrowed = borrowed.max(greedy.tenant.tenancy.stats().borrowed_bytes());
            // It sleeps; wants all of its guarantee, arena by arena; and gives it back.
            let phase = step % 500;
            let answers = [
                match phase {
                    200..450 if bursty.live.len() < 6 => bursty.allocate(ARENA, LIFETIME * 100),
                    450 => {
                        assert_eq!(bursty.live.len(), 6, "the whole share was there");
                        rounds += 1;
                        for (_, _, stream, buffer) in core::mem::take(&mut bursty.live) {
                            bursty.tenant.world.free(bursty.streams[stream], buffer);
                        }
                        bursty.tenant.world.pool.trim_waiting(0).unwrap();
                        true
                    }
                    _ => true,
                },
                steady.be_steady(),
            ];
            for (waiting, answer) in waiting.iter_mut().zip(answers) {
                if answer {
                    waits += u64::from(waiting.is_some());
                    *waiting = None;
                } else {
                    let since = greedy.calls - *waiting.get_or_insert(greedy.calls);
                    longest = longest.max(since);
                    assert!(since <= BOUND, "{pacing:?}: {since} calls of the borrower");
                }
            }
            house.check_sums();
            if step % 100 == 0 {
                house.check();
            }
        }
        println!(
            "{pacing:?}: {rounds} bursts, {waits} waits, the longest so far {longest} calls; borrowed \
             {} MiB at most; greedy {} served, {} refused",
            borrowed / MIB,
            greedy.served,
            greedy.refused
        );
        assert_eq!(rounds, 6);
        assert!(waits >= 10 && borrowed >= 40 * MIB, "there was something to wait for");
        assert!(greedy.served > 500, "nor does the borrower starve");
        for load in [greedy, bursty, steady] {
            load.end();
        }
        house.end();
    }
    println!("the longest wait: {longest} calls of the borrower, of at most {BOUND}");
}

/// The same from three threads. What is counted is the borrower's calls between two refusals of one
/// claimer, from the end of the first to the beginning of the last: how long it sleeps in between makes no
/// difference.
#[test]
fn three_threads_get_their_shares_within_a_bounded_number_of_calls() {
    in_time(|| {
        let house = three(machine().pacing(Pacing::Random(8)));
        let (calls, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let longest = AtomicU64::new(0);
        on_threads(3, |number| {
            let mut load = Load::new(&house.tenants[number], 70 + number as u64);
            let mut refused_at = None;
            // Makes an attempt, and looks how long it has been in vain.
            let mut attempt = |ask: &mut dyn FnMut() -> bool| {
                let now = calls.load(Ordering::Acquire);
                if ask() {
                    refused_at = None;
                } else {
                    let first = *refused_at.get_or_insert_with(|| calls.load(Ordering::Acquire));
                    let since = now.saturating_sub(first);
                    longest.fetch_max(since, Ordering::AcqRel);
                    assert!(since <= BOUND, "{since} calls of the borrower");
                }
            };
            match number {
                0 => {
                    while !over.load(Ordering::Acquire) {
                        load.be_greedy();
                        calls.store(load.calls, Ordering::Release);
                    }
                }
                1 => {
                    // Also where it fails: the others go on until then.
                    let _over = AtEnd(|| over.store(true, Ordering::Release));
                    for _ in 0..12 {
                        while load.live.len() < 6 {
                            attempt(&mut || load.allocate(ARENA, u64::MAX / 2));
                            std::thread::yield_now();
                        }
                        for (_, _, stream, buffer) in core::mem::take(&mut load.live) {
                            load.tenant.world.free(load.streams[stream], buffer);
                        }
                        load.tenant.world.pool.trim_waiting(0).unwrap();
                        for _ in 0..200 {
                            std::thread::yield_now();
                        }
                    }
                }
                _ => {
                    while !over.load(Ordering::Acquire) {
                        attempt(&mut || load.be_steady());
                        let stats = house.budget.stats();
                        assert!(stats.reserved_bytes <= stats.budget_bytes);
                        assert!(house.device.balance().bytes <= stats.budget_bytes);
                    }
                }
            }
            load.end();
        });
        println!("the longest: {} calls", longest.load(Ordering::Acquire));
        house.end();
    });
}

/// Does something at the end of what it is in, however that comes.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
