//! Several threads at once: what one queues another waits for, and nobody waits for ever.

use core::ptr::without_provenance_mut;

use pool_mock::device::Pacing;
use pool_mock_driver::*;

use crate::world::{KIB, UNTIMED, World, call, handle, made, ok, order, two_streams};

/// Allocates, writes, reads on another stream, frees, and looks at what it reads.
fn work_of_one(context: usize, mark: u8) {
    ok!(cuCtxPushCurrent_v2(without_provenance_mut(context)));
    let [stream, other] = two_streams();
    let event = handle!(cuEventCreate(UNTIMED));
    for round in 0..20 {
        let memory: u64 = made!(cuMemAllocAsync(KIB, stream));
        ok!(cuMemsetD8Async(memory, mark + round, KIB, stream));
        order(stream, other);
        let mut read = [0_u8; 16];
        ok!(cuMemcpyDtoHAsync_v2(read.as_mut_ptr().cast(), memory, 16, other));
        assert_eq!(read, [mark + round; 16]);
        order(other, stream);
        ok!(cuMemFreeAsync(memory, stream));
        ok!(cuEventRecord(event, stream));
        if round % 4 == 0 {
            ok!(cuEventSynchronize(event));
        } else {
            call!(cuEventQuery(event));
        }
    }
    ok!(cuEventDestroy_v2(event));
    for stream in [stream, other] {
        ok!(cuStreamDestroy_v2(stream));
    }
}

#[test]
fn threads_with_streams_of_their_own_find_their_own_bytes() {
    for pacing in [Pacing::Eager, Pacing::Random(7), Pacing::Idle] {
        let world = World::new();
        world.device().set_pacing(pacing);
        let context = world.context.addr();
        // Joined one by one, which ThreadSanitizer understands without a std of its own.
        let threads: Vec<_> =
            (1..=4_u8).map(|mark| std::thread::spawn(move || work_of_one(context, mark))).collect();
        for thread in threads {
            thread.join().unwrap();
        }
        ok!(cuCtxSynchronize());
        world.device().assert_clean();
        let balance = world.simulation.balance();
        assert_eq!((balance.streams, balance.events, balance.bytes), (0, 0, 0));
    }
}
