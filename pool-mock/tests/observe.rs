//! Replays that are looked on at.

use core::fmt::Write;
use std::collections::BTreeMap;

use pool_core::{OffsetAllocator, Pool, PoolConfig, RangeConfig};
use pool_mock::{
    Trace,
    device::{SimConfig, SimDevice},
    replay::{Observer, Pipeline, Pooled, Program, Queued, Script, Sight, observe, survey},
};
use proptest::prelude::*;

/// A log of blocks that come, and go if they are there.
fn log() -> impl Strategy<Value = String> {
    prop::collection::vec((any::<bool>(), 1_u32..9, 1_u64..5000), 0..200).prop_map(|lines| {
        let mut log = "Action,Pointer,Size,Stream\n".to_owned();
        let mut live = [0_u64; 9];
        for (is_free, pointer, size) in lines {
            let held = &mut live[pointer as usize];
            if is_free && *held > 0 {
                writeln!(log, "free,0x{pointer},{held},0").unwrap();
                *held = 0;
            } else if !is_free && *held == 0 {
                writeln!(log, "allocate,0x{pointer},{size},0").unwrap();
                *held = size;
            }
        }
        log
    })
}

/// Blocks that were seen, by where they are; none overlaps another.
#[derive(Default)]
struct Seen {
    live: BTreeMap<u64, (u64, u32)>,
    requests: u32,
    refused: u64,
    highest_end: u64,
}

impl Seen {
    fn see(&mut self, sight: Sight) {
        match sight {
            Sight::Allocated { request, offset_bytes, size_bytes } => {
                assert_eq!(request, self.requests);
                self.requests += 1;
                let end = offset_bytes + size_bytes;
                self.highest_end = self.highest_end.max(end);
                let before = self.live.range(..end).next_back();
                assert!(before.is_none_or(|(start, (size, _))| start + size <= offset_bytes));
                self.live.insert(offset_bytes, (size_bytes, request));
            }
            Sight::Freed { request, offset_bytes } => {
                let (_, owner) = self.live.remove(&offset_bytes).unwrap();
                assert_eq!(owner, request);
            }
            Sight::Refused { request, .. } => {
                assert_eq!(request, self.requests);
                self.requests += 1;
                self.refused += 1;
            }
            Sight::Other => {}
        }
    }
}

proptest! {
    #[test]
    fn a_range_does_what_a_survey_of_it_finds(log in log(), granules in 20_u64..100) {
        let script = Script::new(&Trace::read(log.as_bytes()).unwrap(), 256);
        let range = || OffsetAllocator::new(&RangeConfig::new(granules * 256)).unwrap();
        let mut seen = Seen::default();
        let mut next = 0;
        let refused = observe(&script, &mut range(), &mut |call, sight| {
            assert_eq!(call, next);
            next += 1;
            seen.see(sight);
        });
        let found = survey(&script, &mut range());
        prop_assert_eq!(next, script.operations());
        prop_assert_eq!((refused, seen.refused), (found.failures, found.failures));
        prop_assert_eq!(seen.highest_end, found.peak_reserved_granules * 256);
    }

    #[test]
    fn a_pool_does_what_a_pass_does(log in log()) {
        let program = Program::of(&Trace::read(log.as_bytes()).unwrap());
        let pool = || Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new()).unwrap();
        let (looked_at, other) = (pool(), pool());
        let mut seen = Seen::default();
        let mut pooled = Pooled::new(&looked_at, &program).unwrap();
        let refused = pooled.observe(&mut |_, sight| seen.see(sight)).unwrap();
        prop_assert_eq!(refused, Pooled::new(&other, &program).unwrap().play().unwrap());
        prop_assert_eq!(looked_at.stats().live_blocks, seen.live.len() as u64);
        prop_assert_eq!(looked_at.stats().peak_reserved_bytes, other.stats().peak_reserved_bytes);
    }
}

#[test]
fn a_pipeline_is_seen_whole() {
    let program = Pipeline::default().program();
    let device = SimDevice::new(SimConfig::new());
    let pool = Pool::new(device, PoolConfig::new()).unwrap();
    let mut seen = Seen::default();
    let mut calls = 0;
    let mut pooled = Pooled::<_, Queued>::working(&pool, &program).unwrap();
    let refused = pooled.observe(&mut |_, sight| {
        calls += 1;
        seen.see(sight);
    });
    assert_eq!((refused.unwrap(), calls), (0, program.calls().len()));
    assert_eq!(seen.requests as usize, program.operations() - program.frees());
    pool.device().assert_clean();
}

/// Sees so many calls, and no more.
struct Few(usize);

impl Observer for Few {
    fn see(&mut self, _call: usize, _sight: Sight) {
        self.0 -= 1;
    }

    fn is_done(&self) -> bool {
        self.0 == 0
    }
}

#[test]
fn a_replay_ends_once_enough_was_seen() {
    let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1,0\nallocate,0xb0,1,0\nfree,0xa0,1,0\n";
    let trace = Trace::read(log.as_bytes()).unwrap();
    let mut range = OffsetAllocator::new(&RangeConfig::new(4096)).unwrap();
    observe(&Script::new(&trace, 256), &mut range, &mut Few(2));
    assert_eq!(range.stats().live_blocks, 2);

    let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new()).unwrap();
    Pooled::new(&pool, &Program::of(&trace)).unwrap().observe(&mut Few(1)).unwrap();
    assert_eq!(pool.stats().live_blocks, 1);
}
