//! Handles that mean another stream on each thread, and streams with two handles.

use pool_core::On;
use pool_mock::device::{SimDevice, StreamKind};

use crate::support::{MIB, each_way};

/// The per-thread handle is another stream on another thread.
#[test]
fn p038_the_per_thread_handle_is_a_stream_a_thread() {
    each_way(|way| {
        for size_bytes in [MIB, 700] {
            let world = way.fixed(size_bytes.next_multiple_of(256));
            let handle = world.device.per_thread_stream();
            for thread in [1, 2, 1, 3, 2] {
                SimDevice::as_thread(thread, || {
                    let buffer = world.allocate(&handle, size_bytes);
                    world.touch(&buffer, handle);
                    world.device.hold(handle).unwrap();
                    world.free(&handle, buffer);
                });
            }
            world.end();
        }
    });
}

/// With room, one thread's pending memory is not another's.
#[test]
fn p038_threads_do_not_share_what_is_pending() {
    each_way(|way| {
        let world = way.fixed(4 * MIB);
        let handle = world.device.per_thread_stream();
        let buffers = [1, 2, 3].map(|thread| {
            SimDevice::as_thread(thread, || {
                let buffer = world.allocate(&handle, MIB);
                world.touch(&buffer, handle);
                world.device.hold(handle).unwrap();
                let freed = buffer.again();
                world.free(&handle, buffer);
                freed
            })
        });
        drop(buffers);
        let own = world.stream();
        world.pass(own, 2 * MIB);
        world.end();
    });
}

/// The special handles, in all pairs of a stream that takes and one that frees, from two threads.
#[test]
fn p080_special_handles_in_all_pairs() {
    each_way(|way| {
        for known in [false, true] {
            let world = way.fixed(MIB);
            let (null, explicit) =
                (world.device.legacy_stream(), world.device.explicit_legacy_stream());
            let per_thread = world.device.per_thread_stream();
            let blocking = world.device.open_stream(StreamKind::Blocking);
            let separate = world.foreign();
            let adopted = known.then(|| world.adopt(null));
            let handles = [null, explicit, per_thread, blocking, separate];
            for (place, take) in handles.into_iter().enumerate() {
                for free in handles {
                    let buffer = SimDevice::as_thread(1, || {
                        let buffer = world.allocate(&take, MIB);
                        world.touch(&buffer, take);
                        world.device.hold(take).unwrap();
                        buffer
                    });
                    SimDevice::as_thread(1 + u32::from(place % 2 == 0), || {
                        world.pool.record_use(buffer.handle, &free).unwrap();
                        world.free(&free, buffer);
                    });
                }
            }
            if let Some(adopted) = adopted {
                // Both names of the legacy stream are one.
                assert_eq!(world.pool.find_stream(&explicit), Some(adopted));
                world.pool.retire(adopted).unwrap();
            }
            world.end();
        }
    });
}

/// A block of one thread's default stream that another thread frees, by the same handle or by
/// none, is behind the first one's work.
#[test]
fn p081_a_stored_per_thread_handle_is_the_first_threads() {
    each_way(|way| {
        for without in [true, false] {
            for next in [1, 2, 3] {
                let world = way.fixed(MIB);
                let handle = world.device.per_thread_stream();
                let buffer = SimDevice::as_thread(1, || {
                    let buffer = world.allocate(&handle, MIB);
                    world.touch(&buffer, handle);
                    world.device.hold(handle).unwrap();
                    buffer
                });
                SimDevice::as_thread(2, || {
                    if without {
                        world.free(On::Nothing, buffer);
                    } else {
                        world.free(&handle, buffer);
                    }
                });
                SimDevice::as_thread(next, || {
                    let buffer = world.allocate(&handle, MIB);
                    world.touch(&buffer, handle);
                    world.free(&handle, buffer);
                });
                world.end();
            }
        }
    });
}

/// A use that was declared by the per-thread handle is the declaring thread's, whoever frees.
#[test]
fn p081_a_declared_use_is_the_declaring_threads() {
    each_way(|way| {
        // A device that does not tell such streams apart cannot have them.
        if !way.ids {
            return;
        }
        for declared_by in [&[2][..], &[2, 3], &[3, 2, 3]] {
            let world = way.fixed(MIB);
            let home = world.stream();
            let handle = world.device.per_thread_stream();
            let buffer = world.used(home, MIB);
            for &thread in declared_by {
                SimDevice::as_thread(thread, || {
                    world.share(&buffer, &handle);
                    world.device.hold(handle).unwrap();
                    world.touch(&buffer, handle);
                });
            }
            SimDevice::as_thread(1, || world.free(home, buffer));
            SimDevice::as_thread(1, || world.pass(home, MIB));
            world.end();
        }
    });
}
