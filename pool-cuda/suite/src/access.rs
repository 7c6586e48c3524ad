//! Which devices may use pages: those that were let in, all that is mapped, whenever it is mapped.

use core::ffi::{CStr, c_int, c_void};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use pool_core::device::Device;
use pool_cuda::{CudaDevice, CudaPages, CudaPool, CudaRange, PoolStream};

use crate::kernels::Kernels;
use crate::pages::page;
use crate::raw::read;
use crate::row::{Row, driver};
use crate::run::Test;
use crate::world::{World, assert_marked, config, mark_of};

pub(crate) const TESTS: &[Test] = crate::tests![;
    two:
    a_peer_uses_what_was_mapped_before_and_what_comes_after,
    a_peer_is_let_in_while_pages_come_and_go,
    a_row_that_is_being_mapped_is_opened_to_who_comes_meanwhile,
    a_handle_that_leaves_is_not_opened,
    a_handle_that_cannot_leave_is_opened_to_who_came_meanwhile;
    simulated:
    a_peer_that_is_refused_has_nothing,
];

/// A device that is let in, with kernels.
struct Guest {
    device: CudaDevice,
    kernels: Kernels,
    stream: PoolStream,
}

impl Guest {
    /// The second device, if it can use memory of the first.
    fn of(world: &World, first: &CudaDevice) -> Option<Self> {
        let device = world.device(1);
        let pool = CudaPool::new(device.clone(), config()).unwrap();
        let (kernels, stream) = (Kernels::load(&device), pool.create_stream().unwrap());
        device.can_access(first).unwrap().then_some(Self { device, kernels, stream })
    }

    /// Writes to every handle of a row; the marks are found there.
    fn use_all(&self, first: &CudaDevice, row: &Row) {
        for place in 0..row.pages.len() {
            let mark = mark_of(place + 1);
            self.kernels.mark_at(&self.stream, row.address(place), row.len(place), mark);
        }
        self.stream.synchronize().unwrap();
        for place in 0..row.pages.len() {
            assert_marked(&read(first, row.address(place), 1000), mark_of(place + 1));
        }
    }
}

fn a_peer_uses_what_was_mapped_before_and_what_comes_after(world: &World) {
    let first = world.device(0);
    let Some(guest) = Guest::of(world, &first) else { return };
    let page = page(&first);
    let mut row = Row::new(&first, 64 * page, &[page, 16 * page]).unwrap();
    first.open_to(&guest.device).unwrap();
    first.open_to(&guest.device).unwrap();
    row.push(first.create_pages(page).unwrap());
    let other = Row::new(&first.clone(), 64 * page, &[page; 3]).unwrap();
    guest.use_all(&first, &row);
    guest.use_all(&first, &other);
}

fn a_peer_is_let_in_while_pages_come_and_go(world: &World) {
    for _ in 0..world.times(10, 50) {
        let first = world.device(0);
        let Some(guest) = Guest::of(world, &first) else { return };
        let page = page(&first);
        let mut row = Row::new(&first, 64 * page, &[page; 8]).unwrap();
        thread::scope(|scope| {
            let opened = scope.spawn(|| first.open_to(&guest.device).unwrap());
            for _ in 0..20 {
                let last = row.pop();
                row.push(last);
            }
            opened.join().unwrap();
        });
        guest.use_all(&first, &row);
    }
}

/// What is to be done just before a call, and what that is to fail with.
type Before = Box<dyn FnOnce() -> c_int + Send>;

static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

/// The driver's functions that others stand for: by address, as a table of pointers has them.
static DRIVERS: Mutex<[usize; 2]> = Mutex::new([0; 2]);

/// The driver's function behind one that stands for it.
fn behind(place: usize) -> *const c_void {
    core::ptr::with_exposed_provenance(DRIVERS.lock().unwrap()[place])
}

/// Does what is to be done, once.
fn before() -> c_int {
    // The lock ends before the work begins, which makes calls of its own.
    let work = BEFORE.lock().unwrap().take();
    work.map_or(0, |work| work())
}

extern "C" fn set_access(address: u64, bytes: usize, access: *const c_void, count: usize) -> c_int {
    type SetAccess = unsafe extern "C" fn(u64, usize, *const c_void, usize) -> c_int;
    match before() {
        // SAFETY: it is the driver's function of this prototype, with what it was called with.
        0 => unsafe {
            core::mem::transmute::<*const c_void, SetAccess>(behind(0))(
                address, bytes, access, count,
            )
        },
        code => code,
    }
}

extern "C" fn unmap(address: u64, bytes: usize) -> c_int {
    type Unmap = unsafe extern "C" fn(u64, usize) -> c_int;
    match before() {
        // SAFETY: as above.
        0 => unsafe { core::mem::transmute::<*const c_void, Unmap>(behind(1))(address, bytes) },
        code => code,
    }
}

/// The first device, over a driver before whose calls other things happen.
fn device_with_delays(world: &World) -> CudaDevice {
    let names: [&CStr; 2] = [c"cuMemSetAccess", c"cuMemUnmap"];
    *DRIVERS.lock().unwrap() = names.map(|name| world.symbol(name).expose_provenance());
    let others = [(names[0], set_access as *const c_void), (names[1], unmap as *const c_void)];
    CudaDevice::open_on(world.driver_with(&others), 0).unwrap()
}

/// Two handles at the start of a range.
fn two_handles(device: &CudaDevice) -> (Arc<CudaRange>, [CudaPages; 2]) {
    let page = page(device);
    let range = device.reserve(8 * page).unwrap();
    let pages = [(); 2].map(|()| device.create_pages(page).unwrap());
    device.commit(&range, 0, &[&pages[0], &pages[1]]).unwrap();
    (Arc::new(range), pages)
}

fn a_row_that_is_being_mapped_is_opened_to_who_comes_meanwhile(world: &World) {
    let first = device_with_delays(world);
    let Some(guest) = Guest::of(world, &first) else { return };
    let page = page(&first);
    let (device, peer) = (first.clone(), guest.device.clone());
    *BEFORE.lock().unwrap() = Some(Box::new(move || {
        device.open_to(&peer).unwrap();
        0
    }));
    let row = Row::new(&first, 64 * page, &[page, 16 * page]).unwrap();
    guest.use_all(&first, &row);
}

fn a_handle_that_leaves_is_not_opened(world: &World) {
    let first = device_with_delays(world);
    let Some(guest) = Guest::of(world, &first) else { return };
    let page = page(&first);
    let (range, [stays, leaves]) = two_handles(&first);
    let (sent, received) = mpsc::channel();
    let (device, from) = (first.clone(), Arc::clone(&range));
    // The first is about to be opened when the second leaves.
    *BEFORE.lock().unwrap() = Some(Box::new(move || {
        device.decommit(&from, page, &leaves).unwrap();
        sent.send(leaves).unwrap();
        0
    }));
    first.open_to(&guest.device).unwrap();
    let leaves = received.recv().unwrap();
    first.commit(&range, 4 * page, &[&leaves]).unwrap();
    for offset in [0, 4 * page] {
        guest.kernels.mark_at(&guest.stream, range.address() + offset, 1000, 5);
        guest.stream.synchronize().unwrap();
        assert_marked(&read(&first, range.address() + offset, 1000), 5);
    }
    first.decommit(&range, 0, &stays).unwrap();
    first.decommit(&range, 4 * page, &leaves).unwrap();
    first.destroy_pages(stays).unwrap();
    first.destroy_pages(leaves).unwrap();
    first.free(&range).unwrap();
}

fn a_handle_that_cannot_leave_is_opened_to_who_came_meanwhile(world: &World) {
    let first = device_with_delays(world);
    let Some(guest) = Guest::of(world, &first) else { return };
    let page = page(&first);
    let (range, [stays, leaves]) = two_handles(&first);
    let (device, peer) = (first.clone(), guest.device.clone());
    *BEFORE.lock().unwrap() = Some(Box::new(move || {
        device.open_to(&peer).unwrap();
        999
    }));
    let refused = driver(first.decommit(&range, page, &leaves).unwrap_err());
    assert_eq!(refused.code(), Some(999));
    for offset in [0, page] {
        guest.kernels.mark_at(&guest.stream, range.address() + offset, 1000, 6);
        guest.stream.synchronize().unwrap();
        assert_marked(&read(&first, range.address() + offset, 1000), 6);
    }
    first.decommit(&range, 0, &stays).unwrap();
    first.decommit(&range, page, &leaves).unwrap();
    first.destroy_pages(stays).unwrap();
    first.destroy_pages(leaves).unwrap();
    first.free(&range).unwrap();
}

fn a_peer_that_is_refused_has_nothing(world: &World) {
    let simulation = world.simulation();
    let make = || {
        let first = world.device(0);
        let guest = Guest::of(world, &first).unwrap();
        let page = page(&first);
        let row = Row::new(&first, 64 * page, &[page; 3]).unwrap();
        (row, guest, first)
    };
    let (row, guest, first) = make();
    let before = simulation.calls().len();
    first.open_to(&guest.device).unwrap();
    let calls = simulation.calls().split_off(before);
    drop((row, guest, first));
    let opens = calls.iter().enumerate().filter(|&(_, &call)| call == "cuMemSetAccess");
    // Whichever is refused: those that are open by then are closed, and what comes is not opened.
    for (refused, (place, _)) in opens.enumerate() {
        for used in 0..4 {
            simulation.restart();
            let (mut row, guest, first) = make();
            simulation.fail_call(simulation.calls().len() + place, 217);
            assert_eq!(first.open_to(&guest.device).unwrap_err().code(), Some(217));
            row.push(first.create_pages(page(&first)).unwrap());
            guest.kernels.mark_at(&guest.stream, row.address(used), 10, 1);
            let found = world.take_violations();
            assert_eq!(found.len(), 1, "{refused}, {used}: {found:?}");
            assert!(found[0].contains("no access"), "{found:?}");
        }
    }
    simulation.restart();
}
