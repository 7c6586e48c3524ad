//! Idle memory that goes back by itself.

use core::time::Duration;

use pool_core::device::{Call, Capabilities};
use pool_core::policy::{Decay, Growth, Idle, Preallocation, Reclaim};
use pool_core::{PoolConfig, StreamId};
use pool_mock::device::SimConfig;

use crate::support::{Buffer, GIB, MIB, World};

const PERIOD: Duration = Duration::from_secs(10);

fn world(reclaim: Reclaim, preallocation: Preallocation) -> World {
    let growth = Growth { floor_bytes: 16 * MIB, ahead: None, ..Growth::new() };
    let device = SimConfig::new().memory_bytes(8 * GIB).without(Capabilities::EXTEND);
    let config = PoolConfig::new().growth(growth).reclaim(reclaim).preallocation(preallocation);
    World::new(device, config)
}

fn decaying(watermark_bytes: u64) -> World {
    let decay = Some(Decay { period: Idle::For(PERIOD) });
    let watermark_bytes = Some(watermark_bytes);
    world(Reclaim { watermark_bytes, decay, ..Reclaim::new() }, Preallocation::Nothing)
}

/// Lets time pass and ticks; the calls of the device that give memory back, in that tick.
fn tick(world: &World, time: Duration) -> u64 {
    world.device.run_all();
    world.device.pass(time);
    let before = world.calls(Call::Free);
    world.pool.tick().unwrap();
    world.calls(Call::Free) - before
}

/// A load: blocks of 1 to 8 MiB that are used on two streams.
struct Load<'a> {
    world: &'a World,
    streams: [StreamId; 2],
    live: Vec<(StreamId, Buffer)>,
    random: fastrand::Rng,
}

impl<'a> Load<'a> {
    fn new(world: &'a World) -> Self {
        let random = fastrand::Rng::with_seed(3);
        Self { world, streams: world.streams(), live: Vec::new(), random }
    }

    fn live_bytes(&self) -> u64 {
        self.live.iter().map(|(_, buffer)| buffer.size_bytes).sum()
    }

    /// Changes the load towards so many bytes, with blocks that come and go on the way.
    fn to(&mut self, bytes: u64) {
        for _ in 0..20 {
            let stream = self.streams[self.random.usize(0..2)];
            let size_bytes = self.random.u64(1..=8) * MIB;
            self.live.push((stream, self.world.used(stream, size_bytes)));
            while self.live_bytes() > bytes {
                let (stream, buffer) = self.live.swap_remove(self.random.usize(0..self.live.len()));
                self.world.free(stream, buffer);
            }
        }
    }

    /// Bytes of arenas that hold a live block.
    fn pinned_bytes(&self) -> u64 {
        let mut arenas: Vec<(u64, u64)> = Vec::new();
        for (_, buffer) in &self.live {
            let arena = self.world.pool.location(buffer.handle).unwrap().arena;
            let known = (arena.range().id(), arena.size_bytes());
            if !arenas.contains(&known) {
                arenas.push(known);
            }
        }
        arenas.iter().map(|&(_, bytes)| bytes).sum()
    }

    fn end(self) {
        for (stream, buffer) in self.live {
            self.world.free(stream, buffer);
        }
    }
}

/// A load that rises and falls: within two periods no more is reserved than the watermark or the
/// arenas that are in use, in steps, and no hit pays for it.
#[test]
fn reserved_follows_a_load_that_falls() {
    for watermark in [0, 200 * MIB, GIB] {
        for ticks in [2, 10, 50] {
            let world = decaying(watermark);
            let mut load = Load::new(&world);
            let step = PERIOD / ticks;
            let mut largest = 0;
            for _ in 0..3 {
                for _ in 0..3 * ticks {
                    load.to(2 * GIB);
                    tick(&world, step);
                }
                for _ in 0..40 {
                    load.to(2 * GIB);
                }
                let high = world.pool.stats().reserved_bytes;
                assert!(high > 2 * GIB, "{high}");
                load.to(100 * MIB);
                for _ in 0..2 * ticks {
                    load.to(100 * MIB);
                    largest = largest.max(tick(&world, step));
                }
                let reserved = world.pool.stats().reserved_bytes;
                let floor = watermark.max(load.pinned_bytes());
                assert!(
                    reserved <= floor + floor / 10,
                    "{reserved} reserved, {floor} needed, {ticks} ticks, watermark {watermark}"
                );
                assert!(reserved >= watermark.min(high), "below the watermark");
            }
            // About 130 arenas go, over half a period; never twice as many as evenly.
            let most = if ticks == 2 { 140 } else { u64::from(2 * 2 * 140 / ticks) };
            assert!(largest <= most, "{largest} arenas in one of {ticks} ticks");
            load.end();
            world.end();
        }
    }
}

/// Hits call nothing, at any time of a decay.
#[test]
fn no_hit_pays() {
    let world = decaying(0);
    let stream = world.stream();
    let live: Vec<_> = (0..64).map(|_| world.used(stream, 16 * MIB)).collect();
    for buffer in live {
        world.free(stream, buffer);
    }
    let mut hits = 0;
    for _ in 0..40 {
        tick(&world, PERIOD / 20);
        for size_bytes in [4096, MIB] {
            // The first brings memory back from the hub; what follows are hits.
            world.pass(stream, size_bytes);
            let before = world.device.calls();
            for _ in 0..10 {
                let block = world.pool.allocate_on(stream, size_bytes).unwrap();
                world.pool.free_on(stream, block.handle()).unwrap();
                hits += 1;
            }
            assert_eq!(world.device.calls().since(&before).total(), 0);
        }
    }
    assert_eq!(hits, 800);
    assert_eq!(world.pool.stats().arenas, 1);
    world.end();
}

/// A peak that comes back within each period keeps its memory: nothing goes and comes.
#[test]
fn what_is_needed_in_each_period_stays() {
    let world = decaying(0);
    let mut load = Load::new(&world);
    for _ in 0..40 {
        load.to(GIB);
    }
    let mut calls = 0;
    for round in 0..20 {
        for _ in 0..5 {
            load.to(100 * MIB);
            tick(&world, PERIOD / 10);
        }
        if round == 2 {
            calls = world.calls(Call::Free) + world.calls(Call::Allocate);
        }
        for _ in 0..40 {
            load.to(GIB);
        }
        tick(&world, PERIOD / 10);
    }
    let since = world.calls(Call::Free) + world.calls(Call::Allocate) - calls;
    assert!(since <= 8, "{since} calls where the load repeats");
    load.end();
    world.end();
}

/// Without a decay what is above the watermark goes at the next tick.
#[test]
fn a_watermark_alone_acts_at_once() {
    for watermark in [0, 64 * MIB, 100 * MIB] {
        let reclaim = Reclaim { watermark_bytes: Some(watermark), ..Reclaim::new() };
        let world = world(reclaim, Preallocation::Nothing);
        let stream = world.stream();
        let live: Vec<_> = (0..20).map(|_| world.used(stream, 16 * MIB)).collect();
        assert_eq!(world.pool.stats().reserved_bytes, 320 * MIB);
        for buffer in live {
            world.free(stream, buffer);
        }
        assert_eq!(world.pool.stats().reserved_bytes, 320 * MIB, "not before a tick");
        tick(&world, Duration::ZERO);
        let kept = watermark.next_multiple_of(16 * MIB);
        assert_eq!(world.pool.stats().reserved_bytes, kept);
        world.end();
    }
}

/// Idle by requests: no clock is needed.
#[test]
fn idleness_is_counted_in_requests_too() {
    let decay = Some(Decay { period: Idle::Requests(1000) });
    let reclaim = Reclaim { watermark_bytes: Some(0), decay, ..Reclaim::new() };
    let world = world(reclaim, Preallocation::Nothing);
    let stream = world.stream();
    let live: Vec<_> = (0..20).map(|_| world.used(stream, 16 * MIB)).collect();
    for buffer in live {
        world.free(stream, buffer);
    }
    let mut reserved = Vec::new();
    for _ in 0..20 {
        // Time alone makes nothing idle.
        tick(&world, 100 * PERIOD);
        reserved.push(world.pool.stats().reserved_bytes / (16 * MIB));
        for _ in 0..100 {
            world.pass(stream, MIB);
        }
    }
    assert_eq!(reserved[..10], [20; 10]);
    assert!(reserved.is_sorted_by(|one, next| one >= next), "{reserved:?}");
    assert_eq!(reserved[19], 1, "{reserved:?}");
    world.end();
}

/// What was there before anyone asked stays.
#[test]
fn the_base_stays() {
    let decay = Some(Decay { period: Idle::For(PERIOD) });
    let reclaim = Reclaim { watermark_bytes: Some(0), decay, ..Reclaim::new() };
    for base in [Preallocation::Bytes(64 * MIB), Preallocation::OnDemand { base_bytes: 64 * MIB }] {
        let world = world(reclaim, base);
        let stream = world.stream();
        let live: Vec<_> = (0..20).map(|_| world.used(stream, 16 * MIB)).collect();
        for buffer in live {
            world.free(stream, buffer);
        }
        for _ in 0..40 {
            tick(&world, PERIOD / 20);
        }
        assert_eq!(world.pool.stats().reserved_bytes, 64 * MIB);
        world.pool.trim(0).unwrap();
        assert_eq!(world.pool.stats().reserved_bytes, 0, "but on request");
        world.end();
    }
}

/// A period without a clock, or with nothing to give, calls nothing.
#[test]
fn idle_ticks_call_nothing() {
    let device = SimConfig::new().without(Capabilities::CLOCK);
    let decay = Some(Decay { period: Idle::For(PERIOD) });
    let reclaim = Reclaim { watermark_bytes: Some(0), decay, ..Reclaim::new() };
    let world = World::new(device, PoolConfig::new().reclaim(reclaim));
    let stream = world.stream();
    world.pass(stream, 40 * MIB);
    world.device.run_all();
    world.pool.reclaim().unwrap();
    let before = world.device.calls();
    for _ in 0..100 {
        world.pool.tick().unwrap();
    }
    assert_eq!(world.device.calls().since(&before).total(), 0);
    // The caller's clock does as well.
    for second in 0..40 {
        world.pool.tick_at(Duration::from_secs(second)).unwrap();
    }
    assert_eq!(world.pool.stats().reserved_bytes, 0);
    world.end();
}

/// Idle memory that lies between live blocks is not looked for at each tick.
#[test]
fn what_cannot_go_is_not_looked_for_again_and_again() {
    let world = decaying(0);
    let stream = world.stream();
    let live: Vec<_> = (0..200).map(|_| world.used(stream, 8 * MIB)).collect();
    // One of the two blocks of each arena stays.
    let (kept, freed): (Vec<_>, Vec<_>) =
        live.into_iter().enumerate().partition(|(place, _)| place % 2 == 0);
    for (_, buffer) in freed {
        world.free(stream, buffer);
    }
    for _ in 0..200 {
        tick(&world, PERIOD / 100);
    }
    assert_eq!(world.pool.stats().reserved_bytes, 1600 * MIB);
    // Each look moves all free memory into the hub, where it waits for a fence.
    let records = world.pool.stats().calls.records;
    assert!(records <= 8, "{records} looks in two periods");
    for (_, buffer) in kept {
        world.free(stream, buffer);
    }
    world.end();
}

/// The policy can be changed at any time.
#[test]
fn a_policy_can_change() {
    let world = world(Reclaim::new(), Preallocation::Nothing);
    let stream = world.stream();
    let live: Vec<_> = (0..20).map(|_| world.used(stream, 16 * MIB)).collect();
    for buffer in live {
        world.free(stream, buffer);
    }
    for _ in 0..100 {
        tick(&world, PERIOD);
    }
    assert_eq!(world.pool.stats().reserved_bytes, 320 * MIB, "by default nothing goes");
    let reclaim = Reclaim { watermark_bytes: Some(160 * MIB), ..world.pool.reclaim_policy() };
    world.pool.set_reclaim(reclaim);
    tick(&world, Duration::ZERO);
    assert_eq!(world.pool.stats().reserved_bytes, 160 * MIB);
    world.end();
}

/// A fence that cannot be recorded when memory is seen off is recorded at the next tick.
#[test]
fn a_failed_fence_keeps_nothing() {
    let world = decaying(0);
    let [stream, other] = world.streams();
    let live: Vec<_> = (0..20).map(|_| world.used(stream, 16 * MIB)).collect();
    for buffer in live {
        world.free(stream, buffer);
    }
    world.pass(other, 4096);
    for _ in 0..40 {
        world.device.run_all();
        world.device.pass(PERIOD / 20);
        // One call to record fails in each tick, if there is one.
        world.device.fail_next(Call::Record, 1);
        let _ = world.pool.tick();
        world.device.clear_faults();
        let _ = world.pool.tick();
        world.check();
    }
    assert!(world.pool.stats().reserved_bytes <= 16 * MIB);
    world.end();
}

/// A search in vain under a period, which ends, keeps nothing from going back without one.
#[test]
fn a_period_can_end() {
    let world = decaying(0);
    let stream = world.stream();
    // Half of each of two arenas stays: what is idle is as much as an arena, and none is.
    let mut live: Vec<_> = (0..4).map(|_| world.used(stream, 8 * MIB)).collect();
    for place in [2, 0] {
        world.free(stream, live.remove(place));
    }
    for _ in 0..60 {
        tick(&world, PERIOD / 20);
    }
    assert_eq!(world.pool.stats().reserved_bytes, 32 * MIB);
    let large = world.used(stream, 100 * MIB);
    world.free(stream, large);
    world.pool.set_reclaim(Reclaim { decay: None, ..world.pool.reclaim_policy() });
    tick(&world, Duration::ZERO);
    tick(&world, Duration::ZERO);
    assert_eq!(world.pool.stats().reserved_bytes, 32 * MIB);
    for buffer in live {
        world.free(stream, buffer);
    }
    world.end();
}
