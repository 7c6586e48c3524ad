//! Streams that the pool puts in order, and the host that waits for one.

#[path = "faults_pool/support.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use pool_core::device::{Call, Capabilities};
use pool_core::{GraphId, On, PoolError, StreamId};
use pool_mock::device::{Access, CaptureMode, SimConfig, SimDevice, SimStream, StreamKind};

use support::{Buffer, KIB, LATE, MIB, Refusal, Where, World, each_way};

/// The same bytes as somebody else's, whose uses must not race with the first one's.
fn anothers(world: &World, buffer: &Buffer) -> Buffer {
    let mut anothers = buffer.again();
    anothers.owner = world.device.new_owner();
    anothers
}

/// Writes a block on one stream, puts another behind that if told to, and overwrites the block
/// there; how many violations the device saw.
fn hand_over(world: &World, from: Where<'_>, to: Where<'_>, ordered: bool) -> usize {
    let stream = |on| match on {
        On::Stream(id) => world.raw(id),
        On::Raw(handle) => *handle,
        On::Nothing => panic!("no stream"),
    };
    let buffer = world.allocate(from, 64 * KIB);
    world.queue(&buffer, stream(from), Access::Write);
    if ordered {
        world.pool.order(from, to).unwrap();
    }
    world.queue(&anothers(world, &buffer), stream(to), Access::Write);
    world.pool.record_use(buffer.handle, to).unwrap();
    world.free(from, buffer);
    world.device.take_violations().len()
}

/// With the order there is no race, and without it there is one, whatever the streams are.
#[test]
fn an_order_is_an_order() {
    each_way(|way| {
        let world = way.growing();
        let [one, other] = world.streams();
        let (raw, legacy) = (world.foreign(), world.device.legacy_stream());
        let per_thread = world.device.per_thread_stream();
        let adopted = world.foreign();
        let known = world.adopt(adopted);
        let ons: [Where<'_>; 6] = [
            one.into(),
            other.into(),
            known.into(),
            On::Raw(&raw),
            On::Raw(&per_thread),
            On::Raw(&adopted),
        ];
        for from in ons {
            for to in ons {
                let same = from == to
                    || [from, to].iter().all(|on| *on == known.into() || *on == On::Raw(&adopted));
                assert_eq!(hand_over(&world, from, to, true), 0, "{from:?} before {to:?}");
                // Where all work is done at once there is nothing left to race.
                let races = hand_over(&world, from, to, false);
                assert_eq!(races == 0, same, "{from:?} and {to:?}, {races} races");
            }
        }
        // The order before that was of what was queued before it, and of no more.
        world.pool.order(one, other).unwrap();
        assert!(hand_over(&world, one.into(), other.into(), false) > 0);
        world.pool.order(&legacy, one).unwrap();
        world.pool.retire(known).unwrap();
        world.end();
    });
}

/// All work of the device, streams that the pool never heard of included, can come before.
#[test]
fn nothing_is_behind_everything() {
    each_way(|way| {
        for lists_streams in [false, true] {
            let world = World::new(way.device().lists_streams(lists_streams), way.pool());
            let [one, other] = world.streams();
            let raw = world.foreign();
            for to in [On::Stream(other), On::Raw(&raw)] {
                let unheard = world.foreign();
                let buffer = world.allocate(one, MIB);
                world.order(world.raw(one), unheard);
                world.queue(&buffer, unheard, Access::Write);
                world.pool.order(On::Nothing, to).unwrap();
                let stream = if let On::Raw(handle) = to { *handle } else { world.raw(other) };
                world.queue(&anothers(&world, &buffer), stream, Access::Write);
                world.device.assert_clean();
                world.pool.record_use(buffer.handle, to).unwrap();
                world.free(one, buffer);
            }
            world.end();
        }
    });
}

/// The calls that an order makes: one record and one wait, each time, and none for a stream and
/// itself.
#[test]
fn an_order_is_recorded_anew() {
    let world = LATE.growing();
    let [one, other] = world.streams();
    for _ in 0..3 {
        let before = world.device.calls();
        world.pool.order(one, other).unwrap();
        let calls = world.device.calls().since(&before);
        assert_eq!((calls.total(), calls.of(Call::Record), calls.of(Call::Wait)), (2, 1, 1));
    }
    let before = world.device.calls();
    world.pool.order(one, one).unwrap();
    world.pool.order(&world.raw(one), one).unwrap();
    assert_eq!(world.device.calls().since(&before).total(), 0);
    assert_eq!(world.pool.stats().calls.records, 3);
    world.end();
}

/// What a stream freed before the order serves the other one without a further wait; what it freed
/// after it does not.
#[test]
fn memory_follows_an_order() {
    let world = LATE.fixed(8 * MIB);
    let [one, other] = world.streams();
    let waits = |world: &World| world.calls(Call::Wait);
    world.pass(one, 8 * MIB);
    world.pool.order(one, other).unwrap();
    let before = waits(&world);
    world.pass(other, 8 * MIB);
    assert_eq!(waits(&world), before);
    world.pool.order(other, one).unwrap();
    world.pass(other, 8 * MIB);
    let before = waits(&world);
    world.pass(one, 8 * MIB);
    assert_eq!(waits(&world), before + 1);
    world.end();
}

/// Streams that are gone, or were never there.
#[test]
fn an_unknown_stream_is_refused() {
    let world = LATE.growing();
    let elsewhere = LATE.growing();
    let [one, gone] = world.streams();
    world.pool.retire(gone).unwrap();
    let before = world.device.calls();
    for unknown in [gone, elsewhere.stream()] {
        let refused = |answer| matches!(answer, Err(PoolError::UnknownStream(id)) if id == unknown);
        assert!(refused(world.pool.order(unknown, one)));
        assert!(refused(world.pool.order(one, unknown)));
        assert!(refused(world.pool.order(On::Nothing, unknown)));
        assert!(refused(world.pool.wait_for(unknown)));
    }
    assert_eq!(world.device.calls().since(&before).total(), 0);
    world.end();
    elsewhere.end();
}

/// What a program asks for, over two streams of the pool and two that it does not know.
type Ask = fn(&World, [StreamId; 2], (SimStream, SimStream)) -> Result<(), Refusal>;

/// Each call of an order fails once: the error names it, and the order works when it is asked for
/// again.
#[test]
fn a_call_that_fails_is_in_the_error() {
    let raw_device = |world: &World| (world.foreign(), world.foreign());
    let asks: [(Ask, &[Call]); 6] = [
        (|world, [one, other], _| world.pool.order(one, other), &[Call::Record, Call::Wait]),
        (|world, [one, _], (raw, _)| world.pool.order(&raw, one), &[Call::Record, Call::Wait]),
        (|world, _, (raw, other)| world.pool.order(&raw, &other), &[Call::Record, Call::Wait]),
        (|world, [one, _], _| world.pool.order(On::Nothing, one), &[Call::RecordAll, Call::Wait]),
        (|world, [one, _], _| world.pool.wait_for(one), &[Call::Record, Call::WaitOnHost]),
        (
            |world, [one, _], _| world.pool.order(one, On::Nothing),
            &[Call::Record, Call::WaitOnHost],
        ),
    ];
    for (ask, calls) in asks {
        for &failing in calls {
            let world = LATE.growing();
            let streams = world.streams();
            let raws = raw_device(&world);
            let buffer = world.used(streams[0], MIB);
            world.device.fail_next(failing, 1);
            match ask(&world, streams, raws) {
                Err(PoolError::Device(failed)) => assert_eq!(failed.call, failing),
                other => panic!("{failing}: {other:?}"),
            }
            world.check();
            ask(&world, streams, raws).unwrap();
            world.free(streams[0], buffer);
            world.end();
        }
    }
}

/// After a failure for good there is no call.
#[test]
fn a_lost_device_is_not_called() {
    let world = LATE.growing();
    let [one, other] = world.streams();
    let raw = world.foreign();
    world.device.make_fatal();
    assert!(matches!(world.pool.order(one, other), Err(PoolError::Device(_))));
    let before = world.device.calls();
    assert!(matches!(world.pool.order(one, other), Err(PoolError::Poisoned)));
    assert!(matches!(world.pool.order(one, one), Err(PoolError::Poisoned)));
    assert!(matches!(world.pool.wait_for(one), Err(PoolError::Poisoned)));
    assert!(matches!(world.pool.stream_identity(&raw), Err(PoolError::Poisoned)));
    assert_eq!(world.device.calls().since(&before).total(), 0);
    world.device.assert_clean();
}

/// One queue is in order.
#[test]
fn one_queue_needs_no_order() {
    let without = Capabilities::FENCES | Capabilities::STREAMS;
    let device = SimDevice::new(SimConfig::new().without(without));
    let world = World::over(device, LATE.pool());
    let (one, other) = (world.device.legacy_stream(), world.foreign());
    let before = world.device.calls();
    world.pool.order(&one, &other).unwrap();
    world.pool.order(On::Nothing, &other).unwrap();
    world.pool.order(&one, On::Nothing).unwrap();
    world.pool.wait_for(&one).unwrap();
    assert_eq!(world.device.calls().since(&before).total(), 0);
    world.end();
}

/// Announces and begins a capture.
fn begin(world: &World, stream: SimStream, graph: u64, mode: CaptureMode) {
    world.pool.begin_capture(&stream, GraphId(graph)).unwrap();
    world.device.begin_capture_in(stream, mode).unwrap();
}

fn end(world: &World, stream: SimStream, graph: u64) {
    let handle = world.device.end_capture(stream).unwrap();
    world.pool.end_capture(&stream).unwrap();
    world.pool.release_graph(GraphId(graph)).unwrap();
    world.device.drop_graph(handle).unwrap();
}

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

/// A capture elsewhere changes nothing for streams that are in none; what reaches into it, or would
/// have the host wait, is refused, and breaks no capture.
#[test]
fn a_capture_is_left_alone() {
    each_way(|way| {
        for mode in MODES {
            let world = way.fixed(8 * MIB);
            let [captured, one, other] = world.streams();
            let raw = world.foreign();
            begin(&world, world.raw(captured), 1, mode);
            let before = world.device.calls();
            let is_refused =
                |answer| matches!(answer, Err(PoolError::Captured(graph)) if graph == GraphId(1));
            let by_handle = world.raw(captured);
            for inside in [On::Stream(captured), On::Raw(&by_handle)] {
                for outside in [On::Stream(one), On::Raw(&raw), On::Nothing] {
                    assert!(is_refused(world.pool.order(inside, outside)));
                    assert!(is_refused(world.pool.order(outside, inside)));
                }
                assert!(is_refused(world.pool.wait_for(inside)));
            }
            assert!(is_refused(world.pool.order(On::Nothing, one)));
            assert!(is_refused(world.pool.order(one, On::Nothing)));
            assert!(is_refused(world.pool.wait_for(one)));
            assert!(is_refused(world.pool.wait_for(&raw)));
            assert!(is_refused(world.pool.wait_for(On::Nothing)));
            let calls = world.device.calls().since(&before);
            assert_eq!(calls.total(), calls.of(Call::CaptureId), "nothing is done");
            assert_eq!(hand_over(&world, one.into(), other.into(), true), 0);
            assert_eq!(hand_over(&world, one.into(), On::Raw(&raw), true), 0);
            end(&world, world.raw(captured), 1);
            world.end();
        }
    });
}

/// From its announcement on a stream counts as captured.
#[test]
fn an_announced_capture_is_one() {
    let world = LATE.growing();
    let [captured, one] = world.streams();
    world.pool.begin_capture(captured, GraphId(3)).unwrap();
    for answer in [world.pool.order(captured, one), world.pool.order(one, captured)] {
        assert!(matches!(answer, Err(PoolError::Captured(GraphId(3)))), "{answer:?}");
    }
    world.pool.end_capture(captured).unwrap();
    world.pool.release_graph(GraphId(3)).unwrap();
    world.pool.order(captured, one).unwrap();
    world.end();
}

/// Two streams of one capture are put in order in the graph, at each launch; those of two captures
/// are not.
#[test]
fn streams_of_one_capture_are_in_its_order() {
    each_way(|way| {
        for mode in MODES {
            for ordered in [true, false] {
                let world = way.fixed(8 * MIB);
                let [origin, joined, elsewhere] = world.streams();
                begin(&world, world.raw(origin), 1, mode);
                world.order(world.raw(origin), world.raw(joined));
                let buffer = world.allocate(joined, MIB);
                world.pool.record_use(buffer.handle, origin).unwrap();
                world.queue(&buffer, world.raw(joined), Access::Write);
                let records = world.calls(Call::Record);
                if ordered {
                    world.pool.order(joined, origin).unwrap();
                    world.pool.order(&world.raw(joined), &world.raw(joined)).unwrap();
                    assert_eq!(world.calls(Call::Record), records + 1);
                }
                world.queue(&anothers(&world, &buffer), world.raw(origin), Access::Write);
                begin(&world, world.raw(elsewhere), 2, mode);
                let refused = world.pool.order(origin, elsewhere);
                assert!(matches!(refused, Err(PoolError::Captured(_))), "{refused:?}");
                end(&world, world.raw(elsewhere), 2);
                world.device.assert_clean();
                world.order(world.raw(joined), world.raw(origin));
                let graph = world.device.end_capture(world.raw(origin)).unwrap();
                world.pool.end_capture(origin).unwrap();
                for _ in 0..2 {
                    world.device.launch_graph(graph, world.raw(origin)).unwrap();
                }
                assert_eq!(world.device.take_violations().is_empty(), ordered);
                world.free(On::Nothing, buffer);
                world.pool.release_graph(GraphId(1)).unwrap();
                world.device.drop_graph(graph).unwrap();
                world.end();
            }
        }
    });
}

/// Two captures into one graph are two captures.
#[test]
fn captures_that_share_a_graph_are_two() {
    let world = LATE.growing();
    let [one, other] = world.streams();
    begin(&world, world.raw(one), 1, CaptureMode::Global);
    begin(&world, world.raw(other), 1, CaptureMode::Global);
    let refused = world.pool.order(one, other);
    assert!(matches!(refused, Err(PoolError::Captured(GraphId(1)))), "{refused:?}");
    let handles = [one, other].map(|stream| {
        let handle = world.device.end_capture(world.raw(stream)).unwrap();
        world.pool.end_capture(stream).unwrap();
        handle
    });
    world.pool.release_graph(GraphId(1)).unwrap();
    for handle in handles {
        world.device.drop_graph(handle).unwrap();
    }
    world.end();
}

/// The host waits for a stream, sees its work done, and what waited for that is free.
#[test]
fn the_host_waits_for_a_stream() {
    each_way(|way| {
        let world = way.growing();
        let [home, other] = world.streams();
        let raw = world.foreign();
        for on in [On::Stream(other), On::Raw(&raw), On::Nothing] {
            let stream = if let On::Raw(raw) = on { *raw } else { world.raw(other) };
            let buffer = world.used(home, MIB);
            world.share(&buffer, if on == On::Nothing { On::Stream(other) } else { on });
            world.free(home, buffer);
            world.pool.reclaim().unwrap();
            world.pool.wait_for(on).unwrap();
            assert_eq!(world.device.queued(stream), Ok(0));
            if on != On::Raw(&raw) || way.ids {
                assert_eq!(world.pool.stats().deferred_bytes, 0, "{on:?}");
            }
        }
        world.end();
    });
}

/// A handle that came back to life names another stream, and one of each thread several.
#[test]
fn an_identity_is_of_one_stream() {
    let world = LATE.growing();
    let per_thread = world.device.per_thread_stream();
    let identity = |handle| world.pool.stream_identity(handle).unwrap();
    let of_thread = |number| SimDevice::as_thread(number, || identity(&per_thread));
    assert_ne!(of_thread(1), of_thread(2));
    assert_eq!(of_thread(1), of_thread(1));
    let first = world.device.open_stream(StreamKind::NonBlocking);
    let was = identity(&first);
    world.device.close_stream(first).unwrap();
    let second = world.device.open_stream(StreamKind::NonBlocking);
    assert_eq!(first, second, "the handle is used again");
    assert_ne!(was, identity(&second));
    let without = World::new(SimConfig::new().without(Capabilities::STREAM_IDS), LATE.pool());
    assert_eq!(without.pool.stream_identity(&without.foreign()).unwrap(), None);
}
