//! What every device has to do, this one too: the suite of `pool_mock`.

mod tried;

use pool_cuda::ArenaSource;
use pool_mock::conformance::Suite;

use self::tried::Tried;
use crate::run::Test;
use crate::world::World;

pub(crate) const TESTS: &[Test] = crate::tests![
    a_device_in_pages_conforms,
    a_device_with_a_pool_of_the_drivers_conforms,
    a_device_with_plain_memory_conforms,
    pinned_memory_conforms,
];

fn a_device_in_pages_conforms(world: &World) {
    conforms(world, ArenaSource::Automatic);
}

fn a_device_with_a_pool_of_the_drivers_conforms(world: &World) {
    conforms(world, ArenaSource::DriverPool);
}

fn a_device_with_plain_memory_conforms(world: &World) {
    conforms(world, ArenaSource::Plain);
}

fn pinned_memory_conforms(world: &World) {
    conforms(world, ArenaSource::PinnedHost);
}

fn conforms(world: &World, source: ArenaSource) {
    let device = world.device(0).with_source(source).unwrap();
    let tried = Tried::new(device, world.gate());
    let report = Suite::new().run(move || tried.clone());
    assert_eq!(report.broken().count(), 0, "{report}");
    // The suite looks at bytes that are being written, on purpose. Nothing else races.
    let mut violations = world.take_violations();
    violations.retain(|violation| !(violation.starts_with("race") && violation.contains("a read")));
    assert_eq!(violations, [""; 0]);
}
