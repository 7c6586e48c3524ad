//! Memory that other processes can have: a file of the system's that exists in memory alone.
//!
//! What is given away is a descriptor with a lock of its own, which the system keeps as long as any
//! copy of it is open, in whichever process. So one can ask whether any is left.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::bytes::{HostBytes, Storage, UNWRITTEN};

/// Such a file is named so, with the ordinal of the device whose pages it stands for.
const NAME: &str = "pool-mock-pages-";

/// The memory of pages that other processes may have.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    file: File,
}

/// Where the system shows what a descriptor of this process is.
fn shown(descriptor: i32) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{descriptor}"))
}

/// Opens once more what a descriptor of this process is, and keeps it from counting as left by
/// everybody.
fn open(descriptor: i32) -> io::Result<File> {
    let file = File::options().read(true).write(true).open(shown(descriptor))?;
    file.lock_shared()?;
    Ok(file)
}

impl SharedMemory {
    /// New memory for pages of a device.
    pub(crate) fn create(ordinal: usize, bytes: u64) -> io::Result<Self> {
        let name = format!("{NAME}{ordinal}\0");
        // SAFETY: the name ends with a zero byte.
        let made = unsafe { libc::memfd_create(name.as_ptr().cast(), libc::MFD_CLOEXEC) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was made just now, and nobody else knows it.
        let file = unsafe { File::from_raw_fd(made) };
        file.set_len(bytes)?;
        let memory = Self { file };
        memory.storage(bytes)?.fill(0..bytes, UNWRITTEN);
        Ok(memory)
    }

    /// Memory that another process gave: it, the ordinal of its device, and its bytes.
    pub(crate) fn of_another(descriptor: i32) -> Option<(Self, usize, u64)> {
        let target = fs::read_link(shown(descriptor)).ok()?;
        let (_, name) = target.to_str()?.split_once(NAME)?;
        let ordinal = name.split(' ').next()?.parse().ok()?;
        let file = open(descriptor).ok()?;
        let bytes = file.metadata().ok()?.len();
        Some((Self { file }, ordinal, bytes))
    }

    /// Its bytes, as work reads and writes them.
    pub(crate) fn storage(&self, bytes: u64) -> io::Result<Storage> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mapped = HostBytes::map(&self.file, length);
        mapped.map(Storage::Host).ok_or_else(io::Error::last_os_error)
    }

    /// A descriptor for another process, which keeps the memory.
    pub(crate) fn export(&self) -> io::Result<OwnedFd> {
        open(self.file.as_raw_fd()).map(OwnedFd::from)
    }

    /// Whether it is the memory behind a descriptor.
    pub(crate) fn is(&self, descriptor: i32) -> bool {
        let own = self.file.metadata().map(|known| (known.dev(), known.ino()));
        let other = fs::metadata(shown(descriptor)).map(|known| (known.dev(), known.ino()));
        own.is_ok_and(|own| other.is_ok_and(|other| own == other))
    }

    /// Whether anybody has a descriptor that was exported, or has the memory by one. To be asked
    /// by the process that made it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let nowhere = self.file.try_lock().is_ok();
        if nowhere {
            let _ = self.file.unlock();
        }
        !nowhere
    }
}
