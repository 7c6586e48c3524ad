//! What kernels do: functions of a test's, known by the kernels' names.

use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::Arc;

use pool_mock::device::{Access, SimDevice, Violation};

use crate::space::Span;

/// What the kernels of a simulation do.
pub(crate) type Kernels = HashMap<String, Arc<dyn Fn(&Launch) -> KernelWork + Send + Sync>>;

/// A launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launch {
    /// The bytes of each argument.
    pub arguments: Vec<Vec<u8>>,
    /// Blocks of the grid in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// Bytes of shared memory that the launch asks for.
    pub shared_bytes: u32,
}

impl Launch {
    /// An argument as a number; zero if there is none, cut to 64 bits.
    #[must_use]
    pub fn number(&self, place: usize) -> u64 {
        let argument = self.arguments.get(place).map_or(&[][..], Vec::as_slice);
        let bytes = argument.iter().take(8).rev();
        bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}

/// What a launch will do.
pub struct KernelWork {
    pub(crate) uses: Vec<(u64, u64, Access)>,
    pub(crate) run: Arc<dyn Fn(&KernelMemory) + Send + Sync>,
}

impl fmt::Debug for KernelWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelWork").field("uses", &self.uses).finish_non_exhaustive()
    }
}

impl KernelWork {
    /// Work that runs when the stream comes to it, on the memory that it says it
    /// [uses](Self::using). It must not call the driver.
    pub fn new(run: impl Fn(&KernelMemory) + Send + Sync + 'static) -> Self {
        Self { uses: Vec::new(), run: Arc::new(run) }
    }

    /// It uses these bytes.
    #[must_use]
    pub fn using(mut self, address: u64, bytes: u64, access: Access) -> Self {
        if bytes > 0 {
            self.uses.push((address, bytes, access));
        }
        self
    }
}

/// The memory that a kernel said it uses. Any other is a violation, reads as nothing and takes
/// nothing.
///
/// # Example
///
/// ```
/// use pool_mock::device::Access;
/// use pool_mock_driver::{KernelWork, Simulation};
///
/// let simulation = Simulation::start();
/// // __global__ void reverse(char* bytes), of sixteen bytes
/// simulation.define_kernel("reverse", |launch| {
///     let address = launch.number(0);
///     KernelWork::new(move |memory| {
///         let mut bytes = [0; 16];
///         memory.read(address, &mut bytes);
///         bytes.reverse();
///         memory.write(address, &bytes);
///     })
///     .using(address, 16, Access::Write)
/// });
/// ```
pub struct KernelMemory {
    pub(crate) device: SimDevice,
    /// Addresses, how many bytes there, and the memory behind them.
    pub(crate) parts: Vec<(u64, u64, Vec<Span>)>,
}

impl fmt::Debug for KernelMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.parts.iter().map(|(address, size, _)| (address, size)).collect();
        f.debug_struct("KernelMemory").field("parts", &parts).finish_non_exhaustive()
    }
}

impl KernelMemory {
    /// Reads bytes.
    pub fn read(&self, address: u64, into: &mut [u8]) {
        self.each(address, into.len() as u64, |span, done| {
            let part = &mut into[done..done + len(span)];
            span.storage.read(span.offset, part);
        });
    }

    /// Writes bytes.
    pub fn write(&self, address: u64, from: &[u8]) {
        self.each(address, from.len() as u64, |span, done| {
            span.storage.write(span.offset, &from[done..done + len(span)]);
        });
    }

    /// Gives each of these bytes a value.
    pub fn fill(&self, address: u64, bytes: u64, value: u8) {
        self.each(address, bytes, |span, _| {
            span.storage.fill(span.offset..span.offset + span.size, value);
        });
    }

    /// How many of these bytes have another value.
    #[must_use]
    pub fn count_other(&self, address: u64, bytes: u64, value: u8) -> u64 {
        let mut found = 0;
        self.each(address, bytes, |span, _| {
            found += span.storage.count_other(span.offset..span.offset + span.size, value);
        });
        found
    }

    /// Adds to a number of eight bytes, atomically.
    pub fn add(&self, address: u64, value: u64) {
        self.each(address, 8, |span, _| {
            if span.size == 8 {
                span.storage.add(span.offset, value);
            }
        });
    }

    /// Lets time pass.
    pub fn spend(&self, time: Duration) {
        self.device.pass(time);
    }

    /// Does something with each span behind some bytes, and with how many came before it.
    fn each(&self, address: u64, bytes: u64, mut work: impl FnMut(&Span, usize)) {
        let part = self.parts.iter().find(|(start, size, _)| {
            let inside = address.checked_sub(*start);
            inside.is_some_and(|inside| inside <= *size && bytes <= *size - inside)
        });
        let Some((start, _, spans)) = part else {
            let words =
                format!("a kernel uses {bytes} bytes at {address:#x}, which it did not say");
            self.device.report(Violation::Other(words));
            return;
        };
        let (mut skip, mut left, mut done) = (address - start, bytes, 0);
        for span in spans {
            let size = span.size.saturating_sub(skip).min(left);
            if size > 0 {
                let storage = Arc::clone(&span.storage);
                let part = Span { storage, offset: span.offset + skip, size };
                work(&part, done);
                done += len(&part);
            }
            skip = skip.saturating_sub(span.size);
            left -= size;
        }
    }
}

/// The size of a span that is a part of a buffer of the host's.
fn len(span: &Span) -> usize {
    usize::try_from(span.size).unwrap_or(usize::MAX)
}

/// What three kernels do that every simulation knows.
///
/// | kernel | arguments | what it does |
/// | --- | --- | --- |
/// | `pool_mark` | address, bytes, mark, spins | writes the mark to every byte |
/// | `pool_verify` | address, bytes, mark, address of a number | adds how many bytes differ |
/// | `pool_spin` | spins | takes time: a nanosecond each |
pub(crate) fn built_in() -> Kernels {
    let mut kernels = Kernels::new();
    kernels.insert("pool_mark".into(), Arc::new(mark));
    kernels.insert("pool_verify".into(), Arc::new(verify));
    kernels.insert("pool_spin".into(), Arc::new(spin));
    kernels
}

/// The byte that an argument is.
fn byte(launch: &Launch, place: usize) -> u8 {
    launch.arguments.get(place).and_then(|bytes| bytes.first()).copied().unwrap_or(0)
}

fn mark(launch: &Launch) -> KernelWork {
    let (address, bytes, mark) = (launch.number(0), launch.number(1), byte(launch, 2));
    let time = Duration::from_nanos(launch.number(3));
    KernelWork::new(move |memory| {
        memory.spend(time);
        if bytes > 0 {
            memory.fill(address, bytes, mark);
        }
    })
    .using(address, bytes, Access::Write)
}

fn verify(launch: &Launch) -> KernelWork {
    let (address, bytes, mark) = (launch.number(0), launch.number(1), byte(launch, 2));
    let differences = launch.number(3);
    KernelWork::new(move |memory| {
        let found = if bytes == 0 { 0 } else { memory.count_other(address, bytes, mark) };
        memory.add(differences, found);
    })
    .using(address, bytes, Access::Read)
    .using(differences, 8, Access::Update)
}

fn spin(launch: &Launch) -> KernelWork {
    let time = Duration::from_nanos(launch.number(0));
    KernelWork::new(move |memory| memory.spend(time))
}
