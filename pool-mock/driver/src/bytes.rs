//! The bytes of simulated memory: made when they are first written, and real ones of the host.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr;
use std::alloc;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd as _;

use parking_lot::Mutex;

/// What memory reads as that nobody wrote: not zero, so that one who counts on that is noticed.
pub(crate) const UNWRITTEN: u8 = 0xA5;

/// Bytes are made in pieces of this size.
const CHUNK_BYTES: u64 = 64 << 10;

/// Memory that work reads and writes.
pub(crate) enum Storage {
    /// Of a device, or staged on the way to it.
    Device(Bytes),
    /// The host's.
    Host(HostBytes),
}

impl Storage {
    /// New memory of a device.
    pub(crate) fn new() -> Self {
        Self::Device(Bytes::default())
    }

    /// Reads bytes.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        match self {
            Self::Device(bytes) => bytes.read(offset, into),
            Self::Host(bytes) => bytes.read(offset, into),
        }
    }

    /// Writes bytes.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) {
        match self {
            Self::Device(bytes) => bytes.write(offset, from),
            Self::Host(bytes) => bytes.write(offset, from),
        }
    }

    /// Gives each of these bytes a value.
    pub(crate) fn fill(&self, bytes: Range<u64>, value: u8) {
        match self {
            Self::Device(device) => device.fill(bytes, value),
            Self::Host(_) => {
                for piece in pieces(bytes) {
                    self.write(piece.start, &vec![value; len(&piece)]);
                }
            }
        }
    }

    /// How many of these bytes have another value.
    pub(crate) fn count_other(&self, bytes: Range<u64>, value: u8) -> u64 {
        match self {
            Self::Device(device) => device.count_other(bytes, value),
            Self::Host(_) => {
                let mut found = 0;
                for piece in pieces(bytes) {
                    let mut read = vec![0; len(&piece)];
                    self.read(piece.start, &mut read);
                    found += count(&read, value);
                }
                found
            }
        }
    }

    /// Adds to a number of eight bytes, in one step with respect to others that do.
    pub(crate) fn add(&self, offset: u64, value: u64) {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock();
        let mut number = [0; 8];
        self.read(offset, &mut number);
        self.write(offset, &u64::from_le_bytes(number).wrapping_add(value).to_le_bytes());
    }
}

/// Parts of a stretch that lie in one chunk each.
fn pieces(bytes: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = bytes.start;
    core::iter::from_fn(move || {
        let end = (at - at % CHUNK_BYTES).saturating_add(CHUNK_BYTES).min(bytes.end);
        let piece = at..end;
        at = end;
        (piece.start < piece.end).then_some(piece)
    })
}

/// The length of a piece, which is at most a chunk's.
fn len(piece: &Range<u64>) -> usize {
    usize::try_from(piece.end - piece.start).unwrap_or(0)
}

fn count(bytes: &[u8], value: u8) -> u64 {
    bytes.iter().filter(|&&byte| byte != value).count() as u64
}

/// Bytes of a device.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    chunks: Mutex<HashMap<u64, Chunk>>,
}

/// A piece of memory.
#[derive(Clone, Debug)]
enum Chunk {
    /// All bytes have this value.
    Same(u8),
    Mixed(Box<[u8]>),
}

impl Bytes {
    /// Memory with these bytes.
    pub(crate) fn of(from: &[u8]) -> Self {
        let bytes = Self::default();
        bytes.write(0, from);
        bytes
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        let chunks = self.chunks.lock();
        for piece in pieces(offset..offset + into.len() as u64) {
            let start = usize::try_from(piece.start - offset).unwrap_or(0);
            let part = &mut into[start..start + len(&piece)];
            match chunks.get(&(piece.start / CHUNK_BYTES)) {
                None => part.fill(UNWRITTEN),
                Some(Chunk::Same(value)) => part.fill(*value),
                Some(Chunk::Mixed(bytes)) => part.copy_from_slice(&bytes[inside(&piece)]),
            }
        }
    }

    fn write(&self, offset: u64, from: &[u8]) {
        let mut chunks = self.chunks.lock();
        for piece in pieces(offset..offset + from.len() as u64) {
            let start = usize::try_from(piece.start - offset).unwrap_or(0);
            let part = &from[start..start + len(&piece)];
            let chunk = chunks.entry(piece.start / CHUNK_BYTES).or_insert(Chunk::Same(UNWRITTEN));
            chunk.bytes()[inside(&piece)].copy_from_slice(part);
        }
    }

    fn fill(&self, bytes: Range<u64>, value: u8) {
        let mut chunks = self.chunks.lock();
        for piece in pieces(bytes) {
            let chunk = chunks.entry(piece.start / CHUNK_BYTES).or_insert(Chunk::Same(UNWRITTEN));
            if piece.end - piece.start == CHUNK_BYTES {
                *chunk = Chunk::Same(value);
            } else {
                chunk.bytes()[inside(&piece)].fill(value);
            }
        }
    }

    fn count_other(&self, bytes: Range<u64>, value: u8) -> u64 {
        let chunks = self.chunks.lock();
        let others = pieces(bytes).map(|piece| {
            let same = match chunks.get(&(piece.start / CHUNK_BYTES)) {
                Some(Chunk::Mixed(bytes)) => return count(&bytes[inside(&piece)], value),
                Some(Chunk::Same(same)) => *same,
                None => UNWRITTEN,
            };
            if same == value { 0 } else { piece.end - piece.start }
        });
        others.sum()
    }
}

impl Chunk {
    /// The chunk's own bytes, each by itself.
    fn bytes(&mut self) -> &mut [u8] {
        if let Self::Same(value) = *self {
            *self = Self::Mixed(vec![value; len(&(0..CHUNK_BYTES))].into_boxed_slice());
        }
        match self {
            Self::Mixed(bytes) => bytes,
            Self::Same(_) => &mut [],
        }
    }
}

/// Where a piece is in its chunk.
fn inside(piece: &Range<u64>) -> Range<usize> {
    let start = usize::try_from(piece.start % CHUNK_BYTES).unwrap_or(0);
    start..start + len(piece)
}

/// Bytes of the host, by their address.
#[derive(Debug)]
pub(crate) struct HostBytes {
    address: usize,
    owner: Owner,
}

/// Whose the host's bytes are.
#[derive(Debug)]
enum Owner {
    /// Somebody else's.
    Program,
    /// This value's, allocated so.
    Allocated(Layout),
    /// This value's, a view of so many bytes of a file.
    Mapped(usize),
}

impl HostBytes {
    /// New memory of the host's, which lives as long as this and what is queued with it.
    pub(crate) fn allocate(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes, 4096).ok().filter(|_| bytes > 0)?;
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc::alloc(layout) };
        if memory.is_null() {
            return None;
        }
        // SAFETY: it was just allocated, with this many bytes.
        unsafe { ptr::write_bytes(memory, UNWRITTEN, bytes) };
        Some(Self { address: memory.expose_provenance(), owner: Owner::Allocated(layout) })
    }

    /// So many bytes of a file, which has them.
    pub(crate) fn map(file: &File, bytes: usize) -> Option<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the system chooses an address that nothing is at.
        let memory = unsafe {
            libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return None;
        }
        Some(Self { address: memory.expose_provenance(), owner: Owner::Mapped(bytes) })
    }

    /// Memory that the program has.
    ///
    /// # Safety
    ///
    /// It stays valid for reads and writes as long as work that uses it is queued or kept in a
    /// graph.
    pub(crate) unsafe fn borrow(memory: *mut u8) -> Self {
        Self { address: memory.expose_provenance(), owner: Owner::Program }
    }

    /// Where they are.
    pub(crate) const fn address(&self) -> usize {
        self.address
    }

    fn read(&self, offset: u64, into: &mut [u8]) {
        let from = ptr::with_exposed_provenance::<u8>(self.at(offset));
        // SAFETY: the memory is this value's own, or valid by the contract of `borrow`; spans are
        // cut to its size where they are looked up.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    fn write(&self, offset: u64, from: &[u8]) {
        let into = ptr::with_exposed_provenance_mut::<u8>(self.at(offset));
        // SAFETY: as for reading.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), into, from.len()) };
    }

    fn at(&self, offset: u64) -> usize {
        self.address.wrapping_add(usize::try_from(offset).unwrap_or(0))
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        let start = ptr::with_exposed_provenance_mut::<u8>(self.address);
        match self.owner {
            Owner::Program => {}
            // SAFETY: allocated with this layout, and freed nowhere else.
            Owner::Allocated(layout) => unsafe { alloc::dealloc(start, layout) },
            Owner::Mapped(bytes) => {
                // SAFETY: mapped with this length, and unmapped nowhere else.
                unsafe { libc::munmap(start.cast(), bytes) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_what_was_written_last_and_never_zero_by_chance() {
        let storage = Storage::new();
        let mut read = [0; 4];
        storage.read(CHUNK_BYTES - 2, &mut read);
        assert_eq!(read, [UNWRITTEN; 4]);
        storage.fill(0..3 * CHUNK_BYTES, 7);
        storage.write(CHUNK_BYTES - 1, &[1, 2]);
        storage.read(CHUNK_BYTES - 2, &mut read);
        assert_eq!(read, [7, 1, 2, 7]);
        assert_eq!(storage.count_other(0..3 * CHUNK_BYTES, 7), 2);
        assert_eq!(storage.count_other(CHUNK_BYTES..4 * CHUNK_BYTES, 7), 1 + CHUNK_BYTES);
        storage.fill(CHUNK_BYTES - 1..CHUNK_BYTES + 1, 7);
        assert_eq!(storage.count_other(0..3 * CHUNK_BYTES, 7), 0);
    }

    #[test]
    fn numbers_are_added_across_chunks() {
        let storage = Storage::new();
        storage.fill(0..2 * CHUNK_BYTES, 0);
        storage.add(CHUNK_BYTES - 4, u64::from(u32::MAX));
        storage.add(CHUNK_BYTES - 4, 1);
        let mut read = [0; 8];
        storage.read(CHUNK_BYTES - 4, &mut read);
        assert_eq!(u64::from_le_bytes(read), 1 << 32);
    }
}
