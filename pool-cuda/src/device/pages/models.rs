//! Models of what is mapped, explored by loom over a driver that is a table: every order of two
//! threads, one of which lets a device in while the other maps, unmaps, moves, or cannot unmap.

use core::ffi::{CStr, c_int, c_void};
use std::collections::{BTreeMap, BTreeSet};

use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

use super::{CudaPages, PagesId, Paging};
use crate::device::memory::CudaRange;
use crate::error::CudaError;
use crate::sys::{PageFunctions, RawDevice};

/// The device whose pages they are, and two others.
const OWN: RawDevice = 0;
const PEERS: [RawDevice; 2] = [1, 2];

const PAGE: u64 = 1 << 12;

/// What the driver answers to what cannot be, and to an unmapping that is to fail.
const INVALID: c_int = 1;
const FAILED: c_int = 999;

/// The driver: who may use what is mapped, by address.
#[derive(Default)]
struct Table {
    mapped: BTreeMap<u64, BTreeSet<RawDevice>>,
    unmapping_fails: bool,
}

loom::lazy_static! {
    static ref TABLE: Mutex<Table> = Mutex::new(Table::default());
}

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap()
}

extern "C" fn map(address: u64, _: usize, _: usize, _: u64, _: u64) -> c_int {
    let is_new = table().mapped.insert(address, BTreeSet::new()).is_none();
    if is_new { 0 } else { INVALID }
}

extern "C" fn unmap(address: u64, _: usize) -> c_int {
    let mut table = table();
    if table.unmapping_fails {
        return FAILED;
    }
    if table.mapped.remove(&address).is_some() { 0 } else { INVALID }
}

/// A description, as the driver reads it: a kind of place, the device, what it may.
type Description = [c_int; 3];

extern "C" fn set_access(address: u64, bytes: usize, access: *const c_void, count: usize) -> c_int {
    let mut table = table();
    let end = address + bytes as u64;
    let pages: Vec<u64> = (address..end).step_by(PAGE as usize).collect();
    if pages.iter().any(|page| !table.mapped.contains_key(page)) {
        return INVALID;
    }
    // SAFETY: the caller has so many descriptions, of three numbers each.
    let access = unsafe { core::slice::from_raw_parts(access.cast::<Description>(), count) };
    for page in pages {
        let devices = table.mapped.get_mut(&page).unwrap();
        devices.extend(access.iter().map(|&[_, device, _]| device));
    }
    0
}

extern "C" fn never() -> c_int {
    unreachable!("the models do not call it")
}

/// The table's functions.
fn lookup(name: &CStr) -> *const c_void {
    match name.to_str().unwrap() {
        "cuMemMap" => map as *const c_void,
        "cuMemUnmap" => unmap as *const c_void,
        "cuMemSetAccess" => set_access as *const c_void,
        _ => never as *const c_void,
    }
}

/// Pages over the table, and addresses for some.
fn paging() -> (Arc<Paging>, Arc<CudaRange>) {
    // SAFETY: those that are called have the prototypes of the driver's.
    let functions = unsafe { PageFunctions::find(lookup) }.unwrap();
    let paging = Paging::over(Box::leak(Box::new(functions)), OWN, false, vec![PAGE]);
    (Arc::new(paging), Arc::new(CudaRange { address: PAGE, reserved_bytes: 8 * PAGE }))
}

fn handles<const N: usize>() -> [CudaPages; N] {
    core::array::from_fn(|place| CudaPages {
        raw: place as u64,
        size_bytes: PAGE,
        id: PagesId::from(place as u128),
    })
}

/// Checks what is mapped, from the start of the range on, and that all of it is open to these.
fn check(paging: &Paging, expected: &[u64], peers: &[RawDevice]) {
    let table = table();
    let places: Vec<u64> = table.mapped.keys().map(|address| address / PAGE - 1).collect();
    assert_eq!(places, expected);
    for (address, devices) in &table.mapped {
        assert!(devices.contains(&OWN), "{address}");
        assert!(peers.iter().all(|peer| devices.contains(peer)), "{address}: {devices:?}");
    }
    drop(table);
    assert_eq!(paging.mapped.bytes(), expected.len() as u64 * PAGE);
}

/// Lets a device in, on a thread of its own.
fn let_in(paging: &Arc<Paging>, peer: RawDevice) -> thread::JoinHandle<Result<(), CudaError>> {
    let paging = paging.clone();
    thread::spawn(move || paging.open_to(peer))
}

#[test]
fn a_row_is_mapped_while_a_device_is_let_in() {
    loom::model(|| {
        let (paging, range) = paging();
        let [first, second] = handles();
        let opened = let_in(&paging, PEERS[0]);
        paging.commit(&range, 0, &[&first, &second]).unwrap();
        opened.join().unwrap().unwrap();
        check(&paging, &[0, 1], &PEERS[..1]);
    });
}

#[test]
fn a_handle_leaves_while_a_device_is_let_in() {
    loom::model(|| {
        let (paging, range) = paging();
        let [first, second] = handles();
        paging.commit(&range, 0, &[&first, &second]).unwrap();
        let opened = let_in(&paging, PEERS[0]);
        paging.decommit(&range, PAGE, &second).unwrap();
        opened.join().unwrap().unwrap();
        check(&paging, &[0], &PEERS[..1]);
    });
}

#[test]
fn a_handle_moves_while_a_device_is_let_in() {
    loom::model(|| {
        let (paging, range) = paging();
        let [first] = handles();
        paging.commit(&range, 0, &[&first]).unwrap();
        let opened = let_in(&paging, PEERS[0]);
        paging.decommit(&range, 0, &first).unwrap();
        paging.commit(&range, 2 * PAGE, &[&first]).unwrap();
        opened.join().unwrap().unwrap();
        check(&paging, &[2], &PEERS[..1]);
    });
}

#[test]
fn another_handle_comes_where_one_left_while_a_device_is_let_in() {
    loom::model(|| {
        let (paging, range) = paging();
        let [first, second] = handles();
        paging.commit(&range, 0, &[&first]).unwrap();
        let opened = let_in(&paging, PEERS[0]);
        paging.decommit(&range, 0, &first).unwrap();
        paging.commit(&range, 0, &[&second]).unwrap();
        opened.join().unwrap().unwrap();
        check(&paging, &[0], &PEERS[..1]);
    });
}

#[test]
fn a_handle_cannot_leave_while_a_device_is_let_in() {
    loom::model(|| {
        let (paging, range) = paging();
        let [first, second] = handles();
        paging.commit(&range, 0, &[&first, &second]).unwrap();
        table().unmapping_fails = true;
        let opened = let_in(&paging, PEERS[0]);
        let refused = paging.decommit(&range, PAGE, &second).unwrap_err();
        assert_eq!(refused.code(), Some(FAILED));
        opened.join().unwrap().unwrap();
        check(&paging, &[0, 1], &PEERS[..1]);
    });
}

#[test]
fn two_devices_are_let_in_while_a_row_is_mapped() {
    loom::model(|| {
        let (paging, range) = paging();
        let [first, second] = handles();
        paging.commit(&range, 0, &[&first]).unwrap();
        let opened = PEERS.map(|peer| let_in(&paging, peer));
        paging.commit(&range, PAGE, &[&second]).unwrap();
        for opened in opened {
            opened.join().unwrap().unwrap();
        }
        check(&paging, &[0, 1], &PEERS);
    });
}
