//! Many queues, and a look at every byte.

mod support;

use pool_opencl::{Plan, Unwaiting, stress};

/// Memory is short: most of it changes queues again and again.
fn short() -> Plan {
    Plan { blocks: 3_000, limit_bytes: 8 << 20, most_bytes: 256 << 10, ..Plan::default() }
}

#[test]
fn every_byte_is_its_blocks_own_on_whichever_queue() {
    let Some(device) = support::device() else { return };
    for plan in [Plan { blocks: 3_000, ..Plan::default() }, short()] {
        let outcome = stress(&device, device.clone(), &plan).unwrap();
        println!("{outcome:#?}");
        assert_eq!(outcome.wrong_bytes, 0);
        assert_eq!(outcome.blocks, u64::from(plan.blocks));
        assert!(outcome.checked_bytes > outcome.pool.peak_bytes);
        assert!(outcome.other_stream_reuses > 0 && outcome.uses_elsewhere > 0);
        let calls = outcome.pool.calls;
        assert!(calls.records > 0 && calls.device_waits > 0);
    }
}

#[test]
fn without_waits_between_queues_the_bytes_are_others() {
    let Some(device) = support::device() else { return };
    // Nothing that the program orders is missed, only what the pool does.
    let plan = Plan { elsewhere: false, dawdle_rounds: 1 << 23, ..short() };
    let outcome = stress(&device, device.clone(), &plan).unwrap();
    assert_eq!(outcome.wrong_bytes, 0);
    let control = stress(&device, Unwaiting(device.clone()), &plan).unwrap();
    println!("{} of {} bytes wrong", control.wrong_bytes, control.checked_bytes);
    assert!(control.wrong_bytes > 0);
}
