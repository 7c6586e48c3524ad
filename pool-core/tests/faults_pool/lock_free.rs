//! Blocks that pass from thread to thread.

use std::sync::Mutex;

use crate::support::{Buffer, KIB, MIB, each_way};
use crate::threads::on_threads;

/// What is known of a block goes with it, to whichever thread gets it.
#[test]
fn p070_what_is_known_of_a_block_goes_with_it() {
    each_way(|way| {
        let world = way.fixed(2 * MIB);
        let streams: [_; 3] = world.streams();
        let passed: Mutex<Vec<(usize, Buffer)>> = Mutex::new(Vec::new());
        on_threads(3, |thread| {
            let mine = streams[thread];
            for round in 0..40_usize {
                if let Ok(buffer) = world.try_allocate(mine, (4 * KIB) << (round % 4)) {
                    world.touch(&buffer, world.raw(mine));
                    passed.lock().unwrap().push((thread, buffer));
                }
                let taken = passed.lock().unwrap().pop();
                if let Some((home, buffer)) = taken {
                    world.share(&buffer, mine);
                    let last = if round % 3 == 0 { mine } else { streams[home] };
                    world.free(last, buffer);
                }
            }
        });
        for (home, buffer) in passed.into_inner().unwrap() {
            world.free(streams[home], buffer);
        }
        world.pass(streams[0], 2 * MIB);
        world.end();
    });
}

/// A block that one thread frees is found by another under its new handle only.
#[test]
fn p071_a_place_that_passes_on_is_named_by_its_new_handle() {
    each_way(|way| {
        let world = way.fixed(64 * KIB);
        let streams: [_; 2] = world.streams();
        on_threads(2, |thread| {
            let mine = streams[thread];
            let mut old = Vec::new();
            for _ in 0..50 {
                let Ok(buffer) = world.try_allocate(mine, 64 * KIB) else { continue };
                let handle = buffer.handle;
                assert_eq!(world.pool.block_at(buffer.offset_bytes), Some(handle));
                assert!(!old.contains(&handle));
                world.touch(&buffer, world.raw(mine));
                world.free(mine, buffer);
                assert!(world.pool.block(handle).is_err());
                old.push(handle);
            }
        });
        world.end();
    });
}
