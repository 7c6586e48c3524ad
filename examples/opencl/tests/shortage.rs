//! A device that has no more: refused in the call that asks, and served again when memory is free.

#![cfg(target_os = "linux")]

mod support;

use std::process::Command;

use pool_core::{Pool, PoolConfig, PoolError};

const MIB: u64 = 1 << 20;

/// Says to the test that it runs in the process with little memory.
const INSIDE: &str = "POOL_OPENCL_SHORT";

/// PoCL's device has the host's memory, so a limit of the process is one of the device. It takes a
/// process of its own.
#[test]
fn a_device_without_memory_refuses_and_the_pool_goes_on() {
    if std::env::var_os(INSIDE).is_some() {
        return fill_the_device();
    }
    let Some(device) = support::device() else { return };
    if !device.has_host_memory() {
        println!("{} has memory of its own: passed over", device.name());
        return;
    }
    let me = std::env::current_exe().unwrap();
    let test = "a_device_without_memory_refuses_and_the_pool_goes_on";
    let run = format!("ulimit -v 6000000 && exec \"$0\" --exact {test} --nocapture");
    let child = Command::new("sh").args(["-c", &run]).arg(me).env(INSIDE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    print!("{said}");
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert!(said.contains("refused after"), "{said}");
}

fn fill_the_device() {
    let Some(device) = support::device() else { return };
    // The space of offsets takes memory, too, so it is no larger than it needs to be.
    let config = PoolConfig::new().address_bytes(16 << 30).arena_bytes(512 * MIB);
    let pool = Pool::new(device, config).unwrap();
    let mut blocks = Vec::new();
    let refused = loop {
        match pool.allocate(512 * MIB) {
            Ok(block) => blocks.push(block),
            Err(error) => break error,
        }
        assert!(blocks.len() < 32, "there is no limit");
    };
    let PoolError::OutOfMemory { cause, .. } = &refused else { panic!("{refused}") };
    assert!(cause.to_string().contains("clCreateBuffer"), "{cause}");
    println!("refused after {} MiB: {cause}", pool.stats().reserved_bytes / MIB);
    pool.verify().unwrap();
    let last = blocks.pop().unwrap();
    pool.free(last.handle()).unwrap();
    let again = pool.allocate(512 * MIB).unwrap();
    assert_eq!(again.offset_bytes(), last.offset_bytes());
    blocks.push(again);
    for block in blocks {
        pool.free(block.handle()).unwrap();
    }
    pool.trim(0).unwrap();
    assert_eq!(pool.stats().reserved_bytes, 0);
}
