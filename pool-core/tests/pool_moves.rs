//! Pages that hold no block and no work go where memory is wanted, before a pool without a limit grows
//! by much more than is in use; and they do no more than that.

#[path = "faults_pool/support.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use pool_core::device::{Call, Capabilities};
use pool_core::policy::{Growth, Pages, Settings};
use pool_core::{On, PoolConfig, StreamId};
use pool_mock::device::{Pacing, SimConfig, SimStream};

use support::{Buffer, GIB, MIB, Where, World};

const PAGE: u64 = 2 * MIB;

fn world(pacing: Pacing, limit_bytes: Option<u64>) -> World {
    let growth = Growth { ahead: None, ..Growth::new() };
    let pages = Some(Pages::new());
    let settings = Settings { pages, growth, limit_bytes, ..Settings::default() };
    // Without a clock, moves that are used up do not come again.
    let device = SimConfig::new().pacing(pacing).memory_bytes(4 * GIB);
    World::new(device.without(Capabilities::CLOCK), settings.into())
}

fn reserved_pages(world: &World) -> u64 {
    world.pool.stats().reserved_bytes / PAGE
}

fn moved_pages(world: &World) -> u64 {
    world.pool.stats().moved_pages
}

/// Frees every other one.
fn thin(world: &World, on: Where<'_>, buffers: Vec<Buffer>) -> Vec<Buffer> {
    let (free, keep): (Vec<_>, Vec<_>) =
        buffers.into_iter().enumerate().partition(|(place, _)| place % 2 == 0);
    for (_, buffer) in free {
        world.free(on, buffer);
    }
    keep.into_iter().map(|(_, buffer)| buffer).collect()
}

/// Every other page of 64 is free, and the stream that had them all has the rest.
fn every_other_page(world: &World) -> (StreamId, Vec<Buffer>) {
    let stream = world.stream();
    let buffers = (0..64).map(|_| world.used(stream, PAGE)).collect();
    (stream, thin(world, stream.into(), buffers))
}

/// A buffer of a stream that the pool does not know.
fn used_on(world: &World, stream: SimStream, bytes: u64) -> Buffer {
    let buffer = world.allocate(On::Raw(&stream), bytes);
    world.touch(&buffer, stream);
    buffer
}

/// As [`every_other_page`], on such a stream.
fn every_other_page_of(world: &World, stream: SimStream) -> Vec<Buffer> {
    let buffers = (0..64).map(|_| used_on(world, stream, PAGE)).collect();
    thin(world, On::Raw(&stream), buffers)
}

fn end<'a>(world: World, on: impl Into<Where<'a>>, buffers: impl IntoIterator<Item = Buffer>) {
    let on = on.into();
    buffers.into_iter().for_each(|buffer| world.free(on, buffer));
    world.device.run_all();
    world.pool.trim_waiting(0).unwrap();
    assert_eq!(reserved_pages(&world), 0);
    world.end();
}

#[test]
fn what_lies_idle_moves_before_the_pool_grows() {
    let world = world(Pacing::Eager, None);
    let (stream, mut buffers) = every_other_page(&world);
    buffers.push(world.used(stream, 16 * PAGE));
    assert_eq!(reserved_pages(&world), 64);
    assert!((14..=16).contains(&moved_pages(&world)), "{}", moved_pages(&world));
    assert_eq!(world.calls(Call::WaitOnHost) + world.calls(Call::Synchronize), 0);
    end(world, stream, buffers);
}

#[test]
fn new_memory_is_taken_for_what_is_missing_then() {
    let world = world(Pacing::Eager, None);
    let (stream, mut buffers) = every_other_page(&world);
    buffers.push(world.used(stream, 40 * PAGE));
    // All 32 that are free are in it, and no more than it needs is new.
    assert_eq!(reserved_pages(&world), 64 + 8);
    end(world, stream, buffers);
}

#[test]
fn nobody_waits_for_pages_that_work_may_still_use() {
    let world = world(Pacing::Idle, None);
    let (stream, mut buffers) = every_other_page(&world);
    buffers.push(world.used(stream, 16 * PAGE));
    assert!(reserved_pages(&world) >= 64 + 14);
    assert_eq!(moved_pages(&world), 0);
    assert_eq!(world.calls(Call::WaitOnHost) + world.calls(Call::Synchronize), 0);
    end(world, stream, buffers);
}

/// Memory of streams that the pool does not know is common, and behind fences.
#[test]
fn what_is_common_moves_once_its_work_is_done() {
    for (pacing, moves) in [(Pacing::Eager, true), (Pacing::Idle, false)] {
        let world = world(pacing, None);
        let [first, second] = [world.foreign(), world.foreign()];
        let keep = every_other_page_of(&world, first);
        let large = used_on(&world, second, 16 * PAGE);
        assert_eq!(moved_pages(&world) > 0, moves, "{pacing:?}");
        assert_eq!(world.calls(Call::WaitOnHost) + world.calls(Call::Synchronize), 0);
        world.free(On::Raw(&second), large);
        end(world, On::Raw(&first), keep);
    }
}

/// What is to be waited for stays, and keeps nothing else where it is.
#[test]
fn what_is_done_moves_without_what_is_not() {
    let world = world(Pacing::Idle, None);
    let [first, second] = [world.foreign(), world.foreign()];
    let keep = every_other_page_of(&world, first);
    world.device.run_all();
    world.order(first, second);
    let mut keep = keep.into_iter();
    for buffer in keep.by_ref().take(8) {
        world.touch(&buffer, second);
        world.free(On::Raw(&second), buffer);
    }
    let large = used_on(&world, first, 44 * PAGE);
    assert!(moved_pages(&world) >= 16, "{}", moved_pages(&world));
    assert_eq!(world.calls(Call::WaitOnHost) + world.calls(Call::Synchronize), 0);
    end(world, On::Raw(&first), keep.chain([large]));
}

/// What is left of a handle that is more than is missing would be no use: none is given back so that
/// others are made.
#[test]
fn no_handle_is_moved_that_is_more_than_is_missing() {
    let config = PoolConfig::new().pages(Pages::new()).initial_bytes(32 * PAGE);
    let device = SimConfig::new().page_sizes(vec![PAGE, 8 * PAGE]).memory_bytes(4 * GIB);
    let world = World::new(device.pacing(Pacing::Eager), config);
    let stream = world.stream();
    let [stays, goes, other] = [8; 3].map(|pages| world.used(stream, pages * PAGE));
    let last = world.used(stream, 4 * PAGE);
    world.free(stream, goes);
    // Four pages are free behind the last, five are missing, and eight are one handle.
    let large = world.used(stream, 9 * PAGE);
    assert_eq!(world.calls(Call::DestroyPages), 0);
    assert!(reserved_pages(&world) <= 32 + 5);
    end(world, stream, [stays, other, last, large]);
}

#[test]
fn a_pool_grows_with_what_is_in_use() {
    let world = world(Pacing::Eager, None);
    let stream = world.stream();
    let mut buffers: Vec<_> = (0..64).map(|_| world.used(stream, PAGE)).collect();
    for place in [40, 20] {
        world.free(stream, buffers.swap_remove(place));
    }
    buffers.push(world.used(stream, 2 * PAGE));
    assert_eq!((reserved_pages(&world), moved_pages(&world)), (64 + 2, 0));
    end(world, stream, buffers);
}

#[test]
fn a_pool_with_a_limit_uses_that_up_before_pages_move() {
    let world = world(Pacing::Eager, Some(80 * PAGE));
    let (stream, mut buffers) = every_other_page(&world);
    buffers.push(world.used(stream, 10 * PAGE));
    assert_eq!(moved_pages(&world), 0);
    buffers.push(world.used(stream, 10 * PAGE));
    assert!(moved_pages(&world) > 0);
    end(world, stream, buffers);
}

/// Where a device lets go of no page, new memory serves as well.
#[test]
fn a_move_that_fails_refuses_no_request() {
    for call in [Call::Decommit, Call::Record, Call::IsDone] {
        let world = world(Pacing::Eager, None);
        let (stream, mut buffers) = every_other_page(&world);
        world.device.fail_each(call);
        buffers.push(world.used(stream, 16 * PAGE));
        world.device.clear_faults();
        assert_eq!((reserved_pages(&world) >= 64 + 14, moved_pages(&world)), (true, 0), "{call}");
        world.pool.verify().unwrap();
        end(world, stream, buffers);
    }
}

/// Nor where nothing is said of the pages that do not move, and each step would try them again.
#[test]
fn a_move_of_what_is_common_that_fails_refuses_no_request() {
    let world = world(Pacing::Eager, None);
    let stream = world.foreign();
    let keep = every_other_page_of(&world, stream);
    world.device.fail_each(Call::Decommit);
    let large = used_on(&world, stream, 16 * PAGE);
    world.device.clear_faults();
    assert_eq!((reserved_pages(&world) >= 64 + 14, moved_pages(&world)), (true, 0));
    end(world, On::Raw(&stream), keep.into_iter().chain([large]));
}

/// A program whose blocks need other places again and again gets memory for that, and is not slow for ever.
#[test]
fn moves_come_to_an_end() {
    let world = world(Pacing::Eager, None);
    let stream = world.stream();
    let mut random = fastrand::Rng::with_seed(3);
    let (mut buffers, mut moves) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        let before = moved_pages(&world);
        for _ in 0..200 {
            if buffers.len() > 30 || (random.bool() && !buffers.is_empty()) {
                world.free(stream, buffers.swap_remove(random.usize(0..buffers.len())));
            } else {
                buffers.push(world.used(stream, random.u64(1..=40) * PAGE));
            }
        }
        moves.push(moved_pages(&world) - before);
    }
    assert!(moves[0] > 0, "{moves:?}");
    assert!(moves.iter().sum::<u64>() <= 300, "{moves:?}");
    assert_eq!(moves[30..].iter().sum::<u64>(), 0, "{moves:?}");
    end(world, stream, buffers);
}
