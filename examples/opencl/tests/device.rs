//! The device's calls, one at a time.

mod support;

use pool_core::device::{Device, Failure, Severity};
use pool_opencl::{ClDevice, ClError, ClPart, ClRange, ClStream, Kernels};

use support::Gate;

const MIB: u64 = 1 << 20;

/// A stream with work in it that lasts for a while, on four bytes of its own.
fn busy(device: &ClDevice, rounds: u32) -> (ClStream, ClRange) {
    let (stream, range) = (device.create_stream().unwrap(), device.allocate(4).unwrap());
    let mut kernels = Kernels::of(device).unwrap();
    kernels.dawdle(&stream, &range.part(0, 4).unwrap(), rounds).unwrap();
    (stream, range)
}

/// Four bytes that are zero.
fn counter(device: &ClDevice, kernels: &mut Kernels) -> ClPart {
    let (stream, range) = (device.create_stream().unwrap(), device.allocate(4).unwrap());
    let part = whole(&range, 4);
    kernels.fill(&stream, &part, 0..4, 0).unwrap();
    stream.finish().unwrap();
    // The part keeps the memory.
    device.free(&range).unwrap();
    part
}

fn whole(range: &ClRange, size_bytes: u64) -> ClPart {
    range.part(0, size_bytes).unwrap()
}

#[test]
fn a_fence_comes_to_be_done_though_nobody_waits_or_calls_anything_else() {
    let Some(device) = support::device() else { return };
    let (stream, _range) = busy(&device, 1 << 20);
    let fence = device.record(&stream).unwrap();
    while !device.is_done(&fence).unwrap() {
        std::thread::yield_now();
    }
}

#[test]
fn a_fence_lasts_longer_than_its_stream() {
    let Some(device) = support::device() else { return };
    let (stream, _range) = busy(&device, 1 << 24);
    let fence = device.record(&stream).unwrap();
    device.destroy_stream(&stream).unwrap();
    drop(stream);
    let (other, range) = (device.create_stream().unwrap(), device.allocate(MIB).unwrap());
    device.wait(&other, &fence).unwrap();
    let mut kernels = Kernels::of(&device).unwrap();
    kernels.mark(&other, &whole(&range, MIB), 1).unwrap();
    other.finish().unwrap();
    assert!(device.is_done(&fence).unwrap());
}

#[test]
fn the_fence_of_work_that_failed_is_an_error_and_never_done() {
    let Some(device) = support::device() else { return };
    let queue = device.create_stream().unwrap();
    let gate = Gate::shut(&queue);
    let fence = device.record(&queue).unwrap();
    assert_eq!(device.is_done(&fence), Ok(false));
    gate.fail();
    let other = device.create_stream().unwrap();
    let told = [
        device.wait_on_host(&fence),
        device.is_done(&fence).map(drop),
        // Nothing is queued that would fail, too.
        device.wait(&other, &fence),
    ];
    for failure in told {
        let Err(Failure::Device(error @ ClError::Work { .. })) = failure else {
            panic!("{failure:?}")
        };
        assert_eq!(device.severity(&error), Severity::Fatal);
    }
    other.finish().unwrap();
}

#[test]
fn streams_that_are_gone_count_until_their_work_is_done() {
    let Some(device) = support::device() else { return };
    let before = device.streams().unwrap().len();
    let (stream, _range) = busy(&device, 1 << 26);
    let fence = device.record(&stream).unwrap();
    device.destroy_stream(&stream).unwrap();
    drop(stream);
    if !device.is_done(&fence).unwrap() {
        assert_eq!(device.streams().unwrap().len(), before + 1);
    }
    device.synchronize().unwrap();
    assert!(device.is_done(&fence).unwrap());
    // The marker that it left behind comes right after.
    while device.streams().unwrap().len() > before {
        std::thread::yield_now();
    }
}

#[test]
fn two_streams_have_two_keys_and_identities_that_are_never_used_again() {
    let Some(device) = support::device() else { return };
    let (one, other) = (device.create_stream().unwrap(), device.create_stream().unwrap());
    assert_ne!(device.stream_key(&one), device.stream_key(&other));
    let known = [device.stream_id(&one).unwrap(), device.stream_id(&other).unwrap()];
    drop((one, other));
    for _ in 0..8 {
        let stream = device.create_stream().unwrap();
        assert!(!known.contains(&device.stream_id(&stream).unwrap()));
    }
}

#[test]
fn parts_of_a_range_begin_at_granules_and_stay_inside() {
    let Some(device) = support::device() else { return };
    let range = device.allocate(MIB).unwrap();
    let granule_bytes = device.granule_bytes();
    assert!(range.part(MIB - granule_bytes, granule_bytes).is_ok());
    let none = [(0, 0), (1, 16), (0, MIB + 1), (MIB, 1), (!(granule_bytes - 1), 16)];
    for (offset_bytes, size_bytes) in none {
        let refused = range.part(offset_bytes, size_bytes);
        assert!(matches!(refused, Err(ClError::NoPart { .. })), "{offset_bytes} {size_bytes}");
    }
}

#[test]
fn a_range_goes_back_once_and_not_before_its_work_is_done() {
    let Some(device) = support::device() else { return };
    let (stream, _range) = busy(&device, 1 << 24);
    let range = device.allocate(MIB).unwrap();
    let part = whole(&range, MIB);
    let mut kernels = Kernels::of(&device).unwrap();
    kernels.mark(&stream, &part, 3).unwrap();
    device.free(&range).unwrap();
    assert_eq!(device.free(&range), Err(Failure::Device(ClError::Freed)));
    assert_eq!(range.part(0, 16).unwrap_err(), ClError::Freed);
    // The part still has what was queued.
    let wrong = counter(&device, &mut kernels);
    kernels.check(&stream, &part, 3, &wrong).unwrap();
    assert_eq!(wrong.read(&stream).unwrap(), [0; 4]);
}

#[test]
fn copies_go_from_part_to_part_of_one_range_too() {
    let Some(device) = support::device() else { return };
    let mut kernels = Kernels::of(&device).unwrap();
    let (stream, range) = (device.create_stream().unwrap(), device.allocate(4 * MIB).unwrap());
    let wrong = counter(&device, &mut kernels);
    kernels.mark(&stream, &range.part(0, MIB).unwrap(), 5).unwrap();
    kernels.mark(&stream, &range.part(2 * MIB, MIB).unwrap(), 6).unwrap();
    device.copy(&stream, (&range, 0), (&range, MIB), MIB).unwrap();
    for (number, at) in [(5, 0), (5, MIB), (6, 2 * MIB)] {
        kernels.check(&stream, &range.part(at, MIB).unwrap(), number, &wrong).unwrap();
    }
    assert_eq!(wrong.read(&stream).unwrap(), [0; 4]);
    let outside = device.copy(&stream, (&range, 0), (&range, 4 * MIB), MIB);
    assert!(matches!(outside, Err(Failure::Device(ClError::NoPart { .. }))));
}

#[test]
fn more_than_a_range_has_is_refused_as_want_of_memory() {
    let Some(device) = support::device() else { return };
    let small = device.giving_at_most(MIB);
    for (device, too_much) in
        [(&small, MIB + 1), (&device, device.most_range_bytes() + 1), (&device, u64::MAX)]
    {
        let Err(Failure::Device(error)) = device.allocate(too_much) else { panic!("{too_much}") };
        assert_eq!(device.severity(&error), Severity::OutOfMemory, "{error}");
    }
    device.free(&small.allocate(MIB).unwrap()).unwrap();
}

#[test]
fn what_cannot_be_opened_says_why() {
    let Some(_) = support::device() else { return };
    let error = ClDevice::open(1000).unwrap_err();
    assert!(error.to_string().starts_with("there is no OpenCL device 1000: there are "), "{error}");
}
