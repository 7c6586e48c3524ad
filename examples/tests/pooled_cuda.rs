//! Replays on a CUDA device of the simulated driver, beside the simulated device itself: the pool
//! does the same.

use std::path::Path;

use pool_core::device::Capabilities;
use pool_core::{Device, Pool, PoolConfig};
use pool_cuda::{CudaDevice, Driver};
use pool_mock::Trace;
use pool_mock::device::{Pacing, SimConfig, SimDevice};
use pool_mock::replay::{Cost, Deed, Pipeline, Pooled, Program, Queued, Work};
use pool_mock_driver::Simulation;

#[path = "../src/bin/replay/filled.rs"]
mod filled;

use filled::Filled;

/// What two passes cost.
fn costs<D: Device, W: Work<D> + Send>(device: D, program: &Program) -> Vec<Cost> {
    let pool = Pool::new(device, PoolConfig::new().initial_bytes(320 << 20)).unwrap();
    let mut pooled = Pooled::<D, W>::working(&pool, program).unwrap();
    let mut before = pool.stats();
    let mut costs = Vec::new();
    pooled
        .passes(2, |failures| {
            assert_eq!(failures, 0);
            let after = pool.stats();
            costs.push(Cost::between(&before, &after));
            before = after;
        })
        .unwrap();
    pool.verify().unwrap();
    costs
}

fn trace() -> Program {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/multi_stream.csv.gz");
    Program::of(&Trace::open(&path).unwrap())
}

/// The first device of the driver.
fn cuda() -> CudaDevice {
    // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    let driver = unsafe { Driver::from_symbols(pool_mock_driver::symbol) }.unwrap();
    CudaDevice::open_on(Box::leak(Box::new(driver)), 0).unwrap()
}

#[test]
fn a_trace_asks_the_same_of_both() {
    for pacing in [Pacing::Idle, Pacing::Eager] {
        let simulation = Simulation::start();
        simulation.device(0).set_pacing(pacing);
        let driven = costs::<_, Filled>(cuda(), &trace());
        simulation.device(0).assert_clean();

        let config = SimConfig::new().pacing(pacing).without(Capabilities::EXTEND);
        let simulated = SimDevice::new(config);
        let expected = costs::<_, Queued>(simulated.clone(), &trace());
        simulated.assert_clean();

        assert_eq!(driven, expected, "{pacing:?}");
        // It is something that is the same.
        assert!(driven[1].calls.records > 0 && driven[1].waits() > 0, "{driven:?}");
    }
}

#[test]
fn fills_are_queued_where_blocks_are_used() {
    let simulation = Simulation::start();
    let program = trace();
    costs::<_, Filled>(cuda(), &program);
    // One behind each allocation and one before each free, in two passes, in which the frees that
    // the program lacks are made at the end.
    let allocations = program.operations() - program.frees();
    assert_eq!(simulation.count("cuMemsetD8Async"), 4 * allocations);
}

#[test]
fn the_pipeline_orders_its_streams_by_itself() {
    let simulation = Simulation::start();
    let program = Pipeline { batches: 20, ..Pipeline::default() }.program();
    let costs = costs::<_, Filled>(cuda(), &program);
    let orders = program.calls().iter().filter(|call| matches!(call.deed, Deed::Order { .. }));
    let of_the_program = 2 * orders.count();
    let of_the_pool: u64 = costs.iter().map(|cost| cost.calls.records).sum();
    let recorded = simulation.count("cuEventRecord");
    assert_eq!(recorded, of_the_program + usize::try_from(of_the_pool).unwrap());
    assert!(of_the_program > 0);
}
