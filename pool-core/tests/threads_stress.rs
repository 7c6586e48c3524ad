//! Many threads on one allocator, a third of the blocks freed by another thread, under a map of
//! every granule; the stress program is the same at full size.

use pool_core::{Placement, RangeConfig, SharedConfig};
use pool_mock::stress::{Caches, Outcome, Plan, run};

const MIB: u64 = 1 << 20;

const PLACEMENTS: [Placement; 3] = [Placement::BestFit, Placement::FirstFit, Placement::Buddy];

/// Runs a plan in which everything must hold, and in which something happened.
fn stressed(plan: Plan) -> Outcome {
    let outcome = run(&plan).unwrap_or_else(|finding| panic!("{finding}\n{plan:?}"));
    let tally = outcome.tally;
    assert_eq!(tally.allocations, u64::from(plan.threads) * plan.allocations);
    assert!(tally.second_frees > 0);
    // Each block goes to some thread with a chance of a third.
    assert!(tally.remote_frees > tally.frees / 4, "{tally:?}");
    outcome
}

fn plan(range: RangeConfig, shards: u32, cache_bytes: u64) -> Plan {
    Plan {
        threads: 8,
        allocations: 3000,
        ..Plan::new(SharedConfig::new(range).shards(shards).cache_bytes(cache_bytes))
    }
}

#[test]
fn ample_memory_in_every_placement() {
    for placement in PLACEMENTS {
        let range = RangeConfig::new(1024 * MIB).placement(placement);
        for caches in [Caches::ByItself, Caches::Explicit] {
            let outcome = stressed(Plan { caches, ..plan(range, 16, MIB) });
            assert_eq!(outcome.tally.refusals, 0, "{placement:?}");
        }
    }
}

/// Requests are refused, so that shards are merged and caches emptied all the time.
#[test]
fn scarce_memory_in_every_placement() {
    for placement in PLACEMENTS {
        let range = RangeConfig::new(8 * MIB).placement(placement);
        for (shards, caches) in [(1, Caches::Explicit), (4, Caches::ByItself)] {
            let plan = Plan { caches, largest_bytes: 4 * MIB, ..plan(range, shards, MIB / 4) };
            let outcome = stressed(plan);
            assert!(outcome.tally.refusals > 0, "{placement:?}");
            assert!(outcome.stats.work.flushes > 0, "{placement:?}");
        }
    }
}

/// Without caches every operation meets the others at the centre.
#[test]
fn no_caches_on_every_number_of_shards() {
    for shards in [1, 2, 32] {
        let outcome = stressed(plan(RangeConfig::new(256 * MIB), shards, 0));
        let work = outcome.stats.work;
        assert_eq!((work.in_cache, work.magazines), (0, 0));
        assert!(work.locks >= work.operations, "{work:?}");
    }
}

/// Blocks of one owner never serve another while cached, and all go back in the end.
#[test]
fn several_owners() {
    let range = RangeConfig::new(512 * MIB);
    for caches in [Caches::ByItself, Caches::Explicit] {
        stressed(Plan { owners: 5, caches, ..plan(range, 16, MIB) });
    }
}

/// Caches so small that their blocks pass through the depot without end.
#[test]
fn small_sizes_through_small_caches() {
    let range = RangeConfig::new(256 * MIB);
    let plan = Plan {
        caches: Caches::Explicit,
        largest_bytes: 1024,
        live_blocks: 512,
        allocations: 10_000,
        ..plan(range, 16, 16 << 10)
    };
    let work = stressed(plan).stats.work;
    assert!(work.in_cache > 0, "{work:?}");
    assert!(work.magazines > 0, "{work:?}");
}

/// More threads than shards, than cores, and than a magazine has blocks.
#[test]
fn thirty_two_threads() {
    let range = RangeConfig::new(512 * MIB);
    let plan =
        Plan { threads: 32, allocations: 2000, caches: Caches::Explicit, ..plan(range, 16, MIB) };
    let work = stressed(plan).stats.work;
    assert!(work.in_cache > work.operations / 2, "{work:?}");
}
