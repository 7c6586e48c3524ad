//! Memory of one process in another: where in its pages it lies, who ends a mapping, and what a
//! mapping takes.

use core::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use pool_core::policy::Pages;
use pool_cuda::{CudaDevice, CudaError, CudaPool, Error, PageCounts, SharedBytes, SharedPages};

use crate::child::{self, play};
use crate::kernels::Kernels;
use crate::pages::page;
use crate::raw::{is_busy, read, synchronize};
use crate::row::Row;
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, config, contents, mark_of};

pub(crate) const TESTS: &[Test] = crate::tests![
    p089_shared_bytes_are_found_where_they_lie,
    p089_another_process_finds_the_same_bytes,
    p089_buffers_are_shared_without_their_neighbours,
    p115_a_mapping_ends_with_its_last_user,
    p116_an_import_takes_as_many_addresses_as_it_has_bytes,
    what_is_not_shared_is_not_imported,
    shared_pages_outlive_whoever_made_them,
];

/// A device whose pages other processes can have.
fn exportable(world: &World) -> CudaDevice {
    world.device(0).exportable().unwrap()
}

/// Has all bytes of a row be a mark.
fn fill(device: &CudaDevice, address: u64, bytes: usize, mark: u8) {
    // SAFETY: the bytes are the test's, and the legacy default stream is always there.
    unsafe { device.fill(&pool_cuda::CudaStream::LEGACY, address, mark, bytes) }.unwrap();
    synchronize(device);
}

/// Bytes of a row for another process.
fn share(device: &CudaDevice, address: u64, bytes: usize) -> SharedBytes {
    // SAFETY: the tests keep their rows meanwhile.
    unsafe { device.export_bytes(address, bytes as u64) }.unwrap()
}

/// Four views of a megabyte each, that lie in one handle, in another, and across two.
fn views(device: &CudaDevice) -> (Row, [u64; 4]) {
    let page = page(device);
    let row = Row::new(device, 16 * page, &[2 * page, page, page]).unwrap();
    let start = row.range.address();
    let views = [start, start + MIB as u64, start + 2 * page + 512, start + 3 * page - 4096];
    for (view, mark) in views.into_iter().zip(1..) {
        fill(device, view, MIB, mark);
    }
    (row, views)
}

fn p089_shared_bytes_are_found_where_they_lie(world: &World) {
    let device = exportable(world);
    let (row, views) = views(&device);
    let there = world.device(0);
    let shared = views.map(|view| share(&device, view, MIB));
    assert_eq!([0, 1, 2, 3].map(|of| shared[of].parts.len()), [1, 1, 1, 2]);
    let imported = shared.each_ref().map(|shared| there.import_bytes(shared).unwrap());
    drop(shared);
    for (mark, imported) in (1..).zip(&imported) {
        assert_eq!(imported.len_bytes(), MIB as u64);
        assert_marked(&read(&there, imported.address(), MIB), mark);
    }
    // Both lie in one handle, which is mapped once.
    assert_eq!(imported[1].address(), imported[0].address() + MIB as u64);
    fill(&there, imported[3].address(), MIB, 9);
    assert_marked(&read(&device, views[3], MIB), 9);
    assert_marked(&read(&device, views[0], 2 * MIB)[MIB..], 2);
    drop(imported);
    assert_eq!(there.page_counts(), PageCounts::default());
    drop(row);
}

fn p089_another_process_finds_the_same_bytes(world: &World) {
    let device = exportable(world);
    let (row, views) = views(&device);
    for (view, mark) in views.into_iter().zip(1_usize..) {
        let shared = share(&device, view, MIB);
        // Copies that a child inherits.
        let copies: Vec<_> = shared.parts.iter().map(inherited).collect();
        let mut words = vec![child::IMPORT.to_owned(), mark.to_string()];
        words.extend([shared.offset_bytes, shared.len_bytes].map(|number| number.to_string()));
        for (part, copy) in shared.parts.iter().zip(&copies) {
            words.extend([copy.as_raw_fd().to_string(), part.size_bytes.to_string()]);
        }
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (code, said) = play(&words);
        assert_eq!(code, Some(child::ALL_IS_WELL), "{said}");
        // What it wrote is here.
        assert_marked(&read(&device, view, MIB), mark_of(mark + 100));
    }
    drop(row);
}

fn p089_buffers_are_shared_without_their_neighbours(world: &World) {
    let in_pages = || config().pages(Pages::new());
    let pool = CudaPool::new(exportable(world), in_pages()).unwrap();
    let there = world.device(0);
    let stream = pool.create_stream().unwrap();
    let mut buffers =
        [1_u8, 2, 3, 4].map(|mark| pool.alloc_from(&vec![mark; MIB], &stream).unwrap());
    let small = pool.alloc_from(&[0x0506_0708_u32; 100], &stream).unwrap();
    stream.synchronize().unwrap();
    let taken = buffers.each_ref().map(|one| there.import_bytes(&one.share().unwrap()).unwrap());
    for (mark, bytes) in (1..).zip(&taken) {
        assert_marked(&read(&there, bytes.address(), MIB), mark);
    }
    fill(&there, taken[1].address(), MIB, 20);
    assert_marked(&contents(&buffers[0], &stream), 1);
    assert_marked(&contents(&buffers[1], &stream), 20);
    assert_marked(&contents(&buffers[2], &stream), 3);
    buffers[3].on_mut(&stream).unwrap().fill_bytes(40).unwrap();
    stream.synchronize().unwrap();
    assert_marked(&read(&there, taken[3].address(), MIB), 40);
    let number = there.import_bytes(&small.share().unwrap()).unwrap();
    assert_eq!(number.len_bytes(), 400);
    assert_eq!(read(&there, number.address() + 396, 4), [8, 7, 6, 5]);
    // What is dropped there, and here, is nothing to the other.
    drop(taken);
    assert_marked(&contents(&buffers[1], &stream), 20);
    drop((buffers, small));
    pool.trim(0).unwrap();
    assert_eq!(read(&there, number.address(), 4), [8, 7, 6, 5]);
    let none = pool.alloc::<u8>(0, &stream).unwrap();
    let refused = none.share().unwrap_err();
    assert!(matches!(refused, Error::Driver(CudaError::NotShared { .. })), "{refused}");
    // Pages for this process alone, and memory that is no pages.
    for (device, expected) in
        [(world.device(0), "pages for other processes"), (world.whole_device(), "no pages")]
    {
        let pool = CudaPool::new(device, in_pages()).unwrap();
        let stream = pool.create_stream().unwrap();
        let refused = pool.alloc::<u8>(100, &stream).unwrap().share().unwrap_err();
        let Error::Driver(CudaError::Unsupported { what }) = refused else { panic!("{refused}") };
        assert!(expected.ends_with(what), "{what}");
    }
}

/// A descriptor that child processes have, too.
fn inherited(part: &SharedPages) -> OwnedFd {
    // SAFETY: the descriptor is open.
    let copy = unsafe { libc::dup(part.descriptor.as_raw_fd()) };
    assert!(copy >= 0);
    // SAFETY: it was opened just now.
    unsafe { OwnedFd::from_raw_fd(copy) }
}

/// What the child does: it looks for a mark, and leaves another.
pub(crate) fn import(device: &CudaDevice, words: &[String]) -> Result<(), String> {
    let number = |place: usize| {
        let word: &String = words.get(place).ok_or("a word is missing")?;
        word.parse::<u64>().map_err(|error| error.to_string())
    };
    let (mark, offset_bytes, len_bytes) = (number(0)?, number(1)?, number(2)?);
    let mut parts = Vec::new();
    for place in (3..words.len()).step_by(2) {
        let descriptor = c_int::try_from(number(place)?).map_err(|error| error.to_string())?;
        // SAFETY: the parent has left it open for this process.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let id = u128::from(number(place)?).into();
        parts.push(SharedPages { descriptor, size_bytes: number(place + 1)?, id });
    }
    let shared = SharedBytes { parts, offset_bytes, len_bytes };
    let bytes = device.import_bytes(&shared).map_err(|error| error.to_string())?;
    drop(shared);
    let (mark, len) = (usize::try_from(mark).unwrap_or(0), usize::try_from(len_bytes).unwrap_or(0));
    let found = read(device, bytes.address(), len);
    if found.iter().any(|&byte| usize::from(byte) != mark) {
        return Err(format!("{:?} in place of {mark}", found.first()));
    }
    fill(device, bytes.address(), len, mark_of(mark + 100));
    Ok(())
}

fn p115_a_mapping_ends_with_its_last_user(world: &World) {
    let (device, there) = (exportable(world), world.device(0));
    let (row, views) = views(&device);
    let first = there.import_bytes(&share(&device, views[0], MIB)).unwrap();
    let second = there.import_bytes(&share(&device, views[1], MIB)).unwrap();
    let mapped = there.page_counts();
    assert_eq!(mapped.mapped_bytes, 2 * page(&device), "one handle, mapped once");
    let again = second.clone();
    drop(first);
    assert_marked(&read(&there, second.address(), MIB), 2);
    drop(second);
    assert_marked(&read(&there, again.address(), MIB), 2);
    assert_eq!(there.page_counts(), mapped);
    drop(again);
    assert_eq!(there.page_counts(), PageCounts::default());
    // And once more, from the start.
    let first = there.import_bytes(&share(&device, views[0], MIB)).unwrap();
    assert_marked(&read(&there, first.address(), MIB), 1);
    std::thread::spawn(move || drop(first)).join().unwrap();
    assert_eq!(there.page_counts(), PageCounts::default());
    drop(row);
}

fn p116_an_import_takes_as_many_addresses_as_it_has_bytes(world: &World) {
    let (device, there) = (exportable(world), world.device(0));
    let page = page(&device);
    let row = Row::new(&device, 64 * page, &[page; 20]).unwrap();
    let imported: Vec<_> = (0..20)
        .map(|place| there.import_bytes(&share(&device, row.address(place), 100)).unwrap())
        .collect();
    let all = 20 * page;
    let counts = PageCounts { reserved_bytes: all, held_bytes: all, mapped_bytes: all };
    assert_eq!(there.page_counts(), counts);
    drop(imported);
    assert_eq!(there.page_counts(), PageCounts::default());
}

fn what_is_not_shared_is_not_imported(world: &World) {
    let (device, there) = (exportable(world), world.device(0));
    let page = page(&device);
    let row = Row::new(&device, 16 * page, &[page, page]).unwrap();
    let start = row.range.address();
    for (address, bytes) in
        [(start, 0), (start, 2 * page + 1), (start - 1, 2), (start + 2 * page, 1), (u64::MAX, 2)]
    {
        // SAFETY: the row stays.
        let refused = unsafe { device.export_bytes(address, bytes) }.unwrap_err();
        assert!(matches!(refused, CudaError::NotShared { .. }), "{refused}");
    }
    let whole = || share(&device, start, usize::try_from(2 * page).unwrap());
    let with = |change: &dyn Fn(&mut SharedBytes)| {
        let mut shared = whole();
        change(&mut shared);
        there.import_bytes(&shared).unwrap_err()
    };
    let inside: [&dyn Fn(&mut SharedBytes); 5] = [
        &|shared| shared.parts.clear(),
        &|shared| shared.len_bytes = 0,
        &|shared| shared.len_bytes += 1,
        &|shared| shared.offset_bytes = u64::MAX,
        &|shared| drop(shared.parts.pop()),
    ];
    for change in inside {
        let refused = with(change);
        assert!(matches!(refused, CudaError::NotShared { .. }), "{refused}");
    }
    // Sizes and descriptors that are wrong: the driver looks at them.
    let outside: [&dyn Fn(&mut SharedBytes); 4] = [
        &|shared| shared.parts[0].size_bytes += page,
        &|shared| shared.parts[0].size_bytes += 1,
        &|shared| shared.parts[1].size_bytes = u64::MAX - 2 * page,
        &|shared| shared.parts[1].descriptor = std::fs::File::open("/dev/null").unwrap().into(),
    ];
    for change in outside {
        let refused = with(change);
        assert!(matches!(refused, CudaError::Call { .. }), "{refused}");
        assert_eq!(there.page_counts(), PageCounts::default(), "{refused}");
    }
    // What comes after them is as if they had not been.
    drop(there.import_bytes(&whole()).unwrap());
}

fn shared_pages_outlive_whoever_made_them(world: &World) {
    let (device, there) = (exportable(world), world.device(0));
    let pool = world.pool();
    let (kernels, busy) = (Kernels::load(&there), pool.create_stream().unwrap());
    let page = page(&device);
    let row = Row::new(&device, 16 * page, &[page]).unwrap();
    fill(&device, row.address(0), row.len(0), 5);
    let shared = share(&device, row.address(0), row.len(0));
    drop(row);
    drop(device);
    let imported = there.import_bytes(&shared).unwrap();
    drop(shared);
    assert_marked(&read(&there, imported.address(), 1000), 5);
    // To import and to let go waits for no work.
    world.slow(&kernels, &busy);
    kernels.spin(&busy, 0);
    drop(imported);
    assert!(is_busy(&there, busy.as_raw()));
    world.go();
    busy.synchronize().unwrap();
    assert_eq!(there.page_counts(), PageCounts::default());
}
