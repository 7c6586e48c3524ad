//! Virtual memory: sizes that are not whole pages, steps that fail half-way, options that exclude
//! each other.

use pool_core::device::Device;
use pool_cuda::{ArenaSource, CudaError, PageCounts};

use crate::pages::page;
use crate::raw::read;
use crate::row::{Row, driver};
use crate::run::Test;
use crate::world::{World, assert_marked};

pub(crate) const TESTS: &[Test] = crate::tests![
    p041_a_size_that_is_no_whole_page_takes_nothing,
    p090_handles_in_a_row_are_mapped_all_or_not_at_all,
    p091_a_handle_is_unmapped_as_it_was_mapped,
    p117_options_that_exclude_each_other_are_refused_at_once;
    simulated:
    p090_each_step_that_fails_is_undone,
];

fn p041_a_size_that_is_no_whole_page_takes_nothing(world: &World) {
    for device in [world.device(0), world.device(0).exportable().unwrap()] {
        let page = page(&device);
        for bytes in [0, 1, 6912, page - 1, page + 1, 2 * page + 6912] {
            let refused = driver(device.create_pages(bytes).unwrap_err());
            assert_eq!(refused, CudaError::Call { call: "cuMemCreate", code: 1 }, "{bytes}");
            assert!(device.reserve(bytes).is_err(), "{bytes}");
        }
        assert_eq!(device.page_counts(), PageCounts::default());
        // The one that a pool asks for: what is asked of it, in whole pages.
        let bytes = 6912_u64.next_multiple_of(page);
        let row = Row::new(&device, bytes, &[bytes]).unwrap();
        assert_eq!(row.pages[0].size_bytes(), bytes);
    }
}

fn p090_handles_in_a_row_are_mapped_all_or_not_at_all(world: &World) {
    let device = world.device(0);
    let page = page(&device);
    let row = Row::new(&device, 16 * page, &[page; 4]).unwrap();
    let counts = device.page_counts();
    let more = [(); 3].map(|()| device.create_pages(page).unwrap());
    let handles: Vec<_> = more.iter().collect();
    // The third would be where the first of the row is; then beyond the range.
    let other = Row::new(&device, 8 * page, &[page]).unwrap();
    for (range, offset) in [
        (&row.range, page),
        (&row.range, 14 * page),
        (&row.range, 16 * page),
        (&row.range, u64::MAX - page),
        (&other.range, 0),
        (&other.range, 6 * page),
    ] {
        let refused = driver(device.commit(range, offset, &handles).unwrap_err());
        assert_eq!(refused, CudaError::Call { call: "cuMemMap", code: 1 }, "{offset}");
        let mapped = counts.mapped_bytes + page;
        assert_eq!(device.page_counts().mapped_bytes, mapped);
    }
    let refused = device.commit(&other.range, page, &[&more[0], &more[1], &more[0], &more[2]]);
    // One handle at two places is no fault.
    refused.unwrap();
    for (place, of) in [0, 1, 0, 2].into_iter().enumerate() {
        device.decommit(&other.range, (place as u64 + 1) * page, &more[of]).unwrap();
    }
    for pages in more {
        device.destroy_pages(pages).unwrap();
    }
    drop(other);
    assert_eq!(device.page_counts(), counts);
}

fn p090_each_step_that_fails_is_undone(world: &World) {
    let simulation = world.simulation();
    let device = world.device(0);
    let page = page(&device);
    let mut row = Row::new(&device, 16 * page, &[page; 2]).unwrap();
    let more = [(); 4].map(|()| device.create_pages(page).unwrap());
    let handles: Vec<_> = more.iter().collect();
    let counts = device.page_counts();
    let left = simulation.left_behind();
    for call in ["cuMemMap", "cuMemSetAccess"] {
        simulation.fail_next(call, 1, 999);
        let refused = driver(device.commit(&row.range, 2 * page, &handles).unwrap_err());
        assert_eq!(refused, CudaError::Call { call, code: 999 });
        assert_eq!(device.page_counts(), counts);
        assert_eq!(simulation.left_behind(), left);
    }
    // Each of the four in turn, when those before it are mapped.
    let start = simulation.calls().len();
    device.commit(&row.range, 2 * page, &handles).unwrap();
    let calls = simulation.calls().split_off(start);
    for (place, pages) in handles.iter().enumerate() {
        device.decommit(&row.range, (place as u64 + 2) * page, pages).unwrap();
    }
    let maps = calls.iter().enumerate().filter(|&(_, &call)| call == "cuMemMap");
    for (mapped, (place, _)) in maps.enumerate() {
        let unmapped = simulation.count("cuMemUnmap");
        simulation.fail_call(simulation.calls().len() + place, 2);
        let refused = driver(device.commit(&row.range, 2 * page, &handles).unwrap_err());
        assert_eq!(refused, CudaError::Call { call: "cuMemMap", code: 2 });
        assert_eq!(device.page_counts(), counts);
        assert_eq!(simulation.left_behind(), left);
        assert_eq!(simulation.count("cuMemUnmap"), unmapped + mapped, "only what was mapped");
    }
    // All is as before, and goes on.
    for pages in more {
        row.push(pages);
    }
    let last = row.pages.len() - 1;
    simulation.fail_next("cuMemUnmap", 1, 999);
    let refused = device.decommit(&row.range, row.offset(last), &row.pages[last]).unwrap_err();
    assert_eq!(driver(refused).code(), Some(999));
    assert_marked(&read(&device, row.address(last), 100), 0xA5);
    let range = device.reserve(page).unwrap();
    simulation.fail_next("cuMemAddressFree", 1, 999);
    assert!(device.free(&range).is_err());
    device.free(&range).unwrap();
    let pages = device.create_pages(page).unwrap();
    simulation.fail_next("cuMemRelease", 1, 999);
    assert!(device.destroy_pages(pages).is_err());
    assert_eq!(device.page_counts().held_bytes, counts.held_bytes + page);
    drop(row);
    // A handle that was not given back is known nowhere any more.
    assert_eq!(device.page_counts().held_bytes, page);
    drop(device);
    simulation.restart();
}

fn p091_a_handle_is_unmapped_as_it_was_mapped(world: &World) {
    let device = world.device(0);
    let page = page(&device);
    // Three MiB and then five, as pages have them.
    let mut row = Row::new(&device, 16 * page, &[2 * page]).unwrap();
    row.push(device.create_pages(page).unwrap());
    let counts = device.page_counts();
    let (large, small) = (&row.pages[0], &row.pages[1]);
    for (offset, pages) in [
        (0, small),
        (page, large),
        (page, small),
        (2 * page, large),
        (3 * page, small),
        (2 * page + 1, small),
        (u64::MAX, small),
    ] {
        let refused = driver(device.decommit(&row.range, offset, pages).unwrap_err());
        assert_eq!(refused, CudaError::Call { call: "cuMemUnmap", code: 1 }, "{offset}");
    }
    // Addresses stay as long as anything is mapped there.
    assert!(device.free(&row.range).is_err());
    assert_eq!(device.page_counts(), counts);
    device.decommit(&row.range, 2 * page, small).unwrap();
    assert!(device.decommit(&row.range, 2 * page, small).is_err());
    device.commit(&row.range, 2 * page, &[small]).unwrap();
    drop(row);
    assert_eq!(device.page_counts(), PageCounts::default());
}

fn p117_options_that_exclude_each_other_are_refused_at_once(world: &World) {
    let device = world.device(0);
    for source in [ArenaSource::DriverPool, ArenaSource::Plain, ArenaSource::PinnedHost] {
        let refused = device.with_source(source).unwrap().exportable().unwrap_err();
        assert!(matches!(refused, CudaError::Unsupported { .. }), "{source:?}: {refused}");
    }
    // And what is not exportable is not exported.
    let row = Row::new(&device, page(&device), &[page(&device)]).unwrap();
    let refused = device.export_pages(&row.pages[0]).unwrap_err();
    assert!(matches!(refused, CudaError::Unsupported { .. }), "{refused}");
    // SAFETY: the row stays.
    let refused = unsafe { device.export_bytes(row.address(0), 1) }.unwrap_err();
    assert!(matches!(refused, CudaError::Unsupported { .. }), "{refused}");
}
