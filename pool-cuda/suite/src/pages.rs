//! Pages: memory that is mapped where it is needed, and moves without being copied.

use core::ffi::{CStr, c_void};
use core::ptr;
use std::thread;

use pool_core::device::{Capabilities, Device};
use pool_cuda::{ArenaSource, CudaDevice, CudaError, CudaPool, PageCounts, SharedBytes};

use crate::kernels::Kernels;
use crate::raw::{CAPTURE_MODES, begin_capture, current_context, end_capture, is_busy, read};
use crate::row::{Row, driver};
use crate::run::Test;
use crate::sweep::each_call_fails;
use crate::world::{World, assert_marked, config, contents, mark_of};

pub(crate) const TESTS: &[Test] = crate::tests![
    a_device_says_which_handles_it_maps,
    a_driver_without_a_function_for_pages_has_none,
    memory_is_where_handles_are_committed,
    a_handle_moves_with_its_bytes,
    to_decommit_waits_for_nothing,
    pages_come_and_go_while_a_stream_is_captured,
    many_threads_map_in_one_range;
    simulated:
    a_row_is_opened_by_one_call,
    each_failed_call_leaves_no_pages_behind,
];

/// The size of the least page.
pub(crate) fn page(device: &CudaDevice) -> u64 {
    device.page_bytes().unwrap()
}

fn a_device_says_which_handles_it_maps(world: &World) {
    for ordinal in 0..world.driver().device_count().unwrap() {
        let device = world.device(ordinal);
        let has_pages = device.capabilities().contains(Capabilities::PAGES);
        assert_eq!(has_pages, device.page_bytes().is_some());
        let sizes = device.page_sizes();
        assert_eq!(sizes.first().copied(), device.page_bytes());
        assert!(sizes.is_sorted(), "{sizes:?}");
        assert!(sizes.iter().all(|size| size.is_multiple_of(page(&device))), "{sizes:?}");
        for source in [ArenaSource::DriverPool, ArenaSource::Plain, ArenaSource::PinnedHost] {
            let other = device.with_source(source).unwrap();
            assert!(!other.capabilities().contains(Capabilities::PAGES), "{source:?}");
            assert!(other.page_sizes().is_empty());
            let refused = driver(other.reserve(page_or(&device)).unwrap_err());
            assert!(matches!(refused, CudaError::Unsupported { .. }), "{refused}");
        }
    }
}

/// The size of the least page, or what is one elsewhere.
fn page_or(device: &CudaDevice) -> u64 {
    device.page_bytes().unwrap_or(2 << 20)
}

fn a_driver_without_a_function_for_pages_has_none(world: &World) {
    let functions: [&CStr; 10] = [
        c"cuMemGetAllocationGranularity",
        c"cuMemAddressReserve",
        c"cuMemAddressFree",
        c"cuMemCreate",
        c"cuMemRelease",
        c"cuMemMap",
        c"cuMemUnmap",
        c"cuMemSetAccess",
        c"cuMemExportToShareableHandle",
        c"cuMemImportFromShareableHandle",
    ];
    for name in functions {
        let older = world.driver_with(&[(name, ptr::null::<c_void>())]);
        let device = CudaDevice::open_on(older, 0).unwrap();
        assert_eq!(device.page_bytes(), None);
        assert!(!device.capabilities().contains(Capabilities::PAGES));
        let refused = device.exportable().unwrap_err();
        assert!(matches!(refused, CudaError::Unsupported { .. }), "{refused}");
        // Its arenas are whole, as before.
        let pool = CudaPool::new(device, config()).unwrap();
        let stream = pool.create_stream().unwrap();
        let buffer = pool.alloc_from(&[3_u8; 1000], &stream).unwrap();
        assert_eq!(contents(&buffer, &stream), [3; 1000]);
    }
}

fn memory_is_where_handles_are_committed(world: &World) {
    // What the pool has is counted apart.
    let (device, pool) = (world.device(0), world.pool());
    let (kernels, stream) = (Kernels::load(&device), pool.create_stream().unwrap());
    let page = page(&device);
    let free = || device.memory().unwrap().free_bytes;
    let before = free();
    // More addresses than there is memory.
    let reserved_bytes = device.total_bytes().next_multiple_of(page) * 4;
    let sizes = [page, 16 * page, 3 * page, page, 128 * page];
    let row = Row::new(&device, reserved_bytes, &sizes).unwrap();
    let bytes: u64 = sizes.iter().sum();
    let all = PageCounts { reserved_bytes, held_bytes: bytes, mapped_bytes: bytes };
    assert_eq!(device.page_counts(), all);
    assert!(free() + bytes <= before, "{} of {before} bytes", free());
    for place in 0..sizes.len() {
        kernels.mark_at(&stream, row.address(place), row.len(place), mark_of(place + 1));
    }
    for place in 0..sizes.len() {
        let (address, len) = (row.address(place), row.len(place));
        for start in [address, address + len as u64 - 1000] {
            assert_marked(&read(&device, start, 1000), mark_of(place + 1));
        }
    }
    drop(row);
    assert_eq!(device.page_counts(), PageCounts::default());
    // The driver keeps a little for itself.
    assert!(free() + (32 << 20) >= before, "{} of {before} bytes", free());
    assert_eq!(current_context(), ptr::null_mut());
}

fn a_handle_moves_with_its_bytes(world: &World) {
    let device = world.device(0);
    let pool = CudaPool::new(device.clone(), config()).unwrap();
    let (kernels, stream) = (Kernels::load(&device), pool.create_stream().unwrap());
    let page = page(&device);
    let len = usize::try_from(page).unwrap();
    let mut from = Row::new(&device, 64 * page, &[page; 8]).unwrap();
    let mut to = Row::new(&device, 64 * page, &[16 * page]).unwrap();
    for place in 0..8 {
        kernels.mark_at(&stream, from.address(place), len, mark_of(place));
    }
    stream.synchronize().unwrap();
    for place in (0..8).rev() {
        to.push(from.pop());
        // New memory where the old was, which is another's now.
        if place % 2 == 0 {
            let next = Row::new(&device, page, &[page]).unwrap();
            kernels.mark_at(&stream, next.address(0), len, 99);
            stream.synchronize().unwrap();
        }
    }
    assert!(from.pages.is_empty());
    for place in 0..8 {
        assert_marked(&read(&device, to.address(place + 1), len), mark_of(7 - place));
    }
    // And back to where they were.
    for place in 0..8 {
        from.push(to.pop());
        assert_marked(&read(&device, from.address(place), len), mark_of(place));
    }
}

fn to_decommit_waits_for_nothing(world: &World) {
    let device = world.device(0);
    let pool = CudaPool::new(device.clone(), config()).unwrap();
    let kernels = Kernels::load(&device);
    let [busy, idle] = [(); 2].map(|()| pool.create_stream().unwrap());
    let page = page(&device);
    let mut row = Row::new(&device, 64 * page, &[page, 16 * page, page, page]).unwrap();
    for place in 1..4 {
        kernels.mark_at(&idle, row.address(place), row.len(place), 1);
    }
    idle.synchronize().unwrap();
    world.slow(&kernels, &busy);
    kernels.mark_at(&busy, row.address(0), row.len(0), 7);
    // One goes back to the device, one goes elsewhere, one is new.
    device.destroy_pages(row.pop()).unwrap();
    let mut other = Row::new(&device, 64 * page, &[page]).unwrap();
    other.push(row.pop());
    assert!(is_busy(&device, busy.as_raw()));
    kernels.mark_at(&idle, other.address(0), other.len(0), 2);
    idle.synchronize().unwrap();
    assert!(is_busy(&device, busy.as_raw()));
    assert_marked(&read(&device, row.address(0), row.len(0)), 7);
    assert_marked(&read(&device, other.address(0), other.len(0)), 2);
    assert_marked(&read(&device, other.address(1), other.len(1)), 1);
}

fn pages_come_and_go_while_a_stream_is_captured(world: &World) {
    let pool = world.pool();
    let device = pool.device();
    let captured = pool.create_stream().unwrap();
    let page = page(device);
    let mut row = Row::new(device, 16 * page, &[page, page]).unwrap();
    for mode in CAPTURE_MODES {
        begin_capture(device, &captured, mode);
        let last = row.pop();
        let other = Row::new(device, 16 * page, &[page]).unwrap();
        row.push(last);
        drop(other);
        let graph = end_capture(device, &captured);
        let graph = graph.unwrap_or_else(|code| panic!("{mode:?}: {code}"));
        let executable = crate::raw::instantiate(device, graph);
        crate::raw::destroy(device, graph, executable);
    }
}

fn many_threads_map_in_one_range(world: &World) {
    let device = world.device(0);
    let page = page(&device);
    let range = device.reserve(64 * page).unwrap();
    let (device, range) = (&device, &range);
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 0..world.times(20, 200) as u64 {
                    let pages = [(); 2].map(|()| device.create_pages(page).unwrap());
                    let start = thread * 16 * page + round % 8 * page;
                    device.commit(range, start, &[&pages[0], &pages[1]]).unwrap();
                    let [first, second] = pages;
                    device.decommit(range, start + page, &second).unwrap();
                    device.decommit(range, start, &first).unwrap();
                    device.destroy_pages(first).unwrap();
                    device.destroy_pages(second).unwrap();
                }
            });
        }
    });
    device.free(range).unwrap();
    assert_eq!(device.page_counts(), PageCounts::default());
}

fn a_row_is_opened_by_one_call(world: &World) {
    let simulation = world.simulation();
    let device = world.device(0);
    let page = page(&device);
    let count = |name| simulation.count(name);
    let row = Row::new(&device, 64 * page, &[page; 16]).unwrap();
    let calls = ["cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess"].map(count);
    assert_eq!(calls, [1, 16, 16, 1]);
    // Nothing is no call.
    device.commit(&row.range, 0, &[]).unwrap();
    drop(row);
    assert_eq!(
        [count("cuMemUnmap"), count("cuMemRelease"), count("cuMemAddressFree")],
        [16, 16, 1]
    );
    assert_eq!((count("cuMemMap"), count("cuMemSetAccess")), (16, 1));
    assert_eq!(simulation.waited(), [""; 0]);
}

/// All that can be done with pages.
fn everything(world: &World) -> Result<(), CudaError> {
    let device = CudaDevice::open_on(world.driver(), 0)?.exportable()?;
    let peer = CudaDevice::open_on(world.driver(), 1)?;
    let page = page(&device);
    let row = Row::new(&device, 8 * page, &[page, 2 * page])?;
    device.open_to(&peer)?;
    let more = Row::new(&device, 4 * page, &[page])?;
    let parts = [&row.pages[0], &more.pages[0]].map(|pages| device.export_pages(pages));
    let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
    let shared = SharedBytes { parts, offset_bytes: page - 10, len_bytes: 20 };
    let imported = device.import_bytes(&shared)?;
    let again = device.import_bytes(&shared)?;
    // SAFETY: the row stays.
    let bytes = unsafe { device.export_bytes(row.address(1) - 5, 10) }?;
    drop((imported, shared, again));
    drop(device.import_bytes(&bytes)?);
    device.decommit(&row.range, page, &row.pages[1]).map_err(driver)?;
    device.commit(&row.range, page, &[&row.pages[1]]).map_err(driver)
}

fn each_failed_call_leaves_no_pages_behind(world: &World) {
    // What the driver does not end when it is asked stays, and so does what is around it.
    let ends = [
        "cuDevicePrimaryCtxRelease_v2",
        "cuCtxPopCurrent_v2",
        "cuStreamDestroy_v2",
        "cuMemPoolDestroy",
        "cuMemUnmap",
        "cuMemRelease",
        "cuMemAddressFree",
    ];
    let failed = each_call_fails(world, everything, &ends);
    for call in [
        "cuMemAddressReserve",
        "cuMemCreate",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemUnmap",
        "cuMemRelease",
        "cuMemAddressFree",
        "cuMemExportToShareableHandle",
        "cuMemImportFromShareableHandle",
        "cuMemGetAllocationGranularity",
    ] {
        assert!(failed.contains(call), "{call} was not made");
    }
}
