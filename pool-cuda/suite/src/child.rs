//! What only another process can show: its end, and a fork.
//!
//! The test starts this program again with the name of a part to play.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::thread;

use pool_core::PoolError;
use pool_core::device::{Device, Failure};
use pool_cuda::{CudaDevice, PoolStream};
use pool_cuda::{CudaError, CudaPool, Error, ImportedBytes};
use pool_cuda::{MovableBuffer, PinnedBuffer, PinnedPool, PoolBuffer};

use crate::bed::{Bed, Session, Simulated};
use crate::faults::ipc;
use crate::kernels::Kernels;
use crate::row::{Row, driver};
use crate::run::Test;
use crate::world::{World, config};

pub(crate) const TESTS: &[Test] = crate::tests![
    no_call_comes_after_the_end_of_the_process,
    p125_a_forked_child_calls_nothing_and_ends,
    p075_a_device_that_fails_for_good_ends_nothing_else,
];

const EXIT: &str = "--part=exit";
const FORK: &str = "--part=fork";
const FAIL: &str = "--part=fail";
pub(crate) const IMPORT: &str = "--part=import";

/// What a late check says if all is well.
pub(crate) const ALL_IS_WELL: c_int = 42;

/// What a child process does.
pub(crate) enum Part {
    Exit,
    Fork,
    Fail,
    Import,
}

impl Part {
    /// The part that the command line names, if it names one. To be asked before the driver is
    /// started.
    pub(crate) fn of_this_process() -> Option<Self> {
        match std::env::args().nth(1)?.as_str() {
            EXIT => {
                // Registered before any of the driver's or of the crate's, so it runs after theirs.
                // SAFETY: the handler may run at any end of the process.
                unsafe { libc::atexit(after_the_end) };
                Some(Self::Exit)
            }
            FORK => Some(Self::Fork),
            FAIL => Some(Self::Fail),
            IMPORT => Some(Self::Import),
            _ => None,
        }
    }

    pub(crate) fn play(self, bed: &'static dyn Bed) -> ExitCode {
        match self {
            Self::Exit => end_with_live_buffers(bed),
            Self::Fork => fork_with_live_buffers(bed),
            Self::Fail => fail_for_good(bed),
            Self::Import => import(bed),
        }
    }
}

/// Has a child process play a part, with words for it; its exit code and what it said.
pub(crate) fn play(part: &[&str]) -> (Option<i32>, String) {
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program).args(part).output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    (output.status.code(), said.concat())
}

fn no_call_comes_after_the_end_of_the_process(_: &World) {
    let (code, said) = play(&[EXIT]);
    assert_eq!(code, Some(ALL_IS_WELL), "{said}");
}

fn p125_a_forked_child_calls_nothing_and_ends(_: &World) {
    let (code, said) = play(&[FORK]);
    assert_eq!(code, Some(ALL_IS_WELL), "{said}");
}

/// In a process of its own, since the device's context is lost with it.
fn p075_a_device_that_fails_for_good_ends_nothing_else(_: &World) {
    let (code, said) = play(&[FAIL]);
    assert_eq!(code, Some(ALL_IS_WELL), "{said}");
}

/// Everything that a program can have of a pool.
struct Belongings {
    buffers: Vec<PoolBuffer<u8>>,
    movable: MovableBuffer<u8>,
    pinned: PinnedBuffer<u8>,
    streams: Vec<PoolStream>,
    staging: PinnedPool,
    pool: CudaPool,
    device: CudaDevice,
    row: Row,
    imported: ImportedBytes,
}

impl Belongings {
    fn of(session: &dyn Session) -> Self {
        let device = CudaDevice::open_on(session.driver(), 0).unwrap();
        let pool = CudaPool::new(device.clone(), config()).unwrap();
        let staging = PinnedPool::new(&device, config()).unwrap();
        let mut streams: Vec<_> = (0..2).map(|_| pool.create_stream().unwrap()).collect();
        streams.extend([pool.legacy_stream().unwrap(), pool.per_thread_stream()]);
        let mut buffers = Vec::new();
        for stream in &streams {
            for bytes in [100, 5000, 1 << 20] {
                // One that is cached, one that lives and is used on two streams.
                drop(pool.alloc::<u8>(bytes, stream).unwrap());
                let mut buffer = pool.alloc::<u8>(bytes, stream).unwrap();
                buffer.on_mut(&streams[0]).unwrap().fill_bytes(1).unwrap();
                buffers.push(buffer);
            }
        }
        let movable = pool.alloc_movable::<u8>(5000, &streams[1]).unwrap();
        let mut pinned = staging.alloc::<u8>(5000).unwrap();
        buffers[1].on(&streams[0]).unwrap().async_copy_to(&mut pinned).unwrap();
        let paged = device.exportable().unwrap();
        let page = paged.page_bytes().unwrap();
        let row = Row::new(&paged, 4 * page, &[page, page]).unwrap();
        // SAFETY: the row stays.
        let shared = unsafe { paged.export_bytes(row.address(1), 100) }.unwrap();
        let imported = paged.import_bytes(&shared).unwrap();
        Self { buffers, movable, pinned, streams, staging, pool, device, row, imported }
    }

    /// Asks for everything, which is refused, and drops all.
    fn refuse_and_drop(self, refused: &dyn Fn(&CudaError) -> bool) -> Result<(), String> {
        let Self {
            mut buffers,
            mut movable,
            mut pinned,
            streams,
            staging,
            pool,
            device,
            row,
            imported,
        } = self;
        let asked: [(&str, Result<(), Error>); 21] = [
            ("alloc", pool.alloc::<u8>(100, &streams[0]).map(drop)),
            ("alloc on legacy", pool.alloc::<u8>(1 << 20, &streams[2]).map(drop)),
            ("alloc per thread", pool.alloc::<u8>(100, &streams[3]).map(drop)),
            ("zeroed", pool.alloc_zeroed::<u8>(100, &streams[0]).map(drop)),
            ("alloc_movable", pool.alloc_movable::<u8>(100, &streams[0]).map(drop)),
            ("movable on", movable.on_mut(&streams[0]).map(drop)),
            ("pinned alloc", staging.alloc::<u8>(100).map(drop)),
            ("as_mut_slice", pinned.as_mut_slice().map(drop)),
            ("create_stream", pool.create_stream().map(drop)),
            ("synchronize", streams[0].synchronize()),
            ("trim", pool.trim(0).map(drop)),
            ("on", buffers[1].on(&streams[1]).map(drop)),
            ("new pool", CudaPool::new(device.clone(), config()).map(drop)),
            ("memory", device.memory().map(drop).map_err(Error::from)),
            ("reserve", device.reserve(1 << 30).map(drop).map_err(of_driver)),
            ("create_pages", device.create_pages(2 << 20).map(drop).map_err(of_driver)),
            ("decommit", device.decommit(&row.range, 0, &row.pages[0]).map_err(of_driver)),
            ("commit", device.commit(&row.range, 0, &[&row.pages[0]]).map_err(of_driver)),
            ("exportable", device.exportable().map(drop).map_err(Error::from)),
            ("export", device.export_pages(&row.pages[0]).map(drop).map_err(Error::from)),
            ("fill", { buffers[0].on_mut(&streams[0]).and_then(|all| all.fill_bytes(0)) }),
        ];
        for (call, outcome) in asked {
            match outcome {
                Err(Error::Driver(error)) if refused(&error) => {}
                outcome => return Err(format!("{call}: {outcome:?}")),
            }
        }
        drop((imported, row));
        drop((buffers, movable, pinned, streams, staging, pool, device));
        Ok(())
    }
}

/// A device's error as a pool tells it.
fn of_driver(failure: Failure<CudaError>) -> Error {
    Error::Driver(driver(failure))
}

/// A kernel uses an address that it may not: from then on each call fails, and nothing else does.
fn fail_for_good(bed: &'static dyn Bed) -> ExitCode {
    let session = bed.begin(0);
    let mut belongings = Belongings::of(&*session);
    let stream = belongings.streams[0].clone();
    if let Some(simulated) = session.simulated() {
        simulated.make_fatal(0);
    } else {
        let kernels = Kernels::load(&belongings.device);
        let mut raw = belongings.buffers.remove(0).into_raw();
        raw.address = 4096;
        // SAFETY: the wrong address is what this is about; the process ends with it.
        let mut wrong: PoolBuffer<u8> = unsafe { PoolBuffer::from_raw(raw) };
        kernels.mark(wrong.on_mut(&stream).unwrap(), 1, 0);
        belongings.buffers.push(wrong);
        core::mem::forget(kernels);
    }
    let fatal = |error: Error| match error {
        Error::Driver(error) => assert_eq!(error.code(), Some(700)),
        error => panic!("{error}"),
    };
    fatal(stream.synchronize().unwrap_err());
    let mut large = Vec::new();
    let error = loop {
        match belongings.pool.alloc::<u8>(200 << 20, &stream) {
            Ok(buffer) => large.push(buffer),
            Err(error) => break error,
        }
    };
    assert!(!matches!(error.pool(), Some(PoolError::OutOfMemory { .. })), "{error}");
    let error = belongings.pool.alloc::<u8>(200 << 20, &stream).unwrap_err();
    assert!(matches!(error.pool(), Some(PoolError::Poisoned)), "{error}");
    drop((large, belongings, stream));
    ExitCode::from(u8::try_from(ALL_IS_WELL).unwrap_or(1))
}

/// Uses memory of the process that started this one.
fn import(bed: &'static dyn Bed) -> ExitCode {
    let session = bed.begin(0);
    let words: Vec<_> = std::env::args().skip(2).collect();
    let outcome = CudaDevice::open_on(session.driver(), 0)
        .map_err(|error| error.to_string())
        .and_then(|device| ipc::import(&device, &words));
    if let Err(error) = outcome.and_then(|()| session.end()) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::from(u8::try_from(ALL_IS_WELL).unwrap_or(1))
}

/// What a process has that ends.
static BELONGINGS: Mutex<Option<Belongings>> = Mutex::new(None);

/// The session of the part, for the check that comes last.
struct Last(Box<dyn Session>);

// SAFETY: it stays on the main thread, which also runs the handlers of the process's end.
unsafe impl Send for Last {}

static SESSION: Mutex<Option<Last>> = Mutex::new(None);

fn end_with_live_buffers(bed: &'static dyn Bed) -> ExitCode {
    let session = bed.begin(0);
    *BELONGINGS.lock().unwrap() = Some(Belongings::of(&*session));
    *SESSION.lock().unwrap() = Some(Last(session));
    ExitCode::SUCCESS
}

extern "C" fn after_the_end() {
    let session = SESSION.lock().unwrap_or_else(PoisonError::into_inner).take();
    let belongings = BELONGINGS.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (Some(Last(session)), Some(belongings)) = (session, belongings) else { end(1) };
    if let Some(simulated) = session.simulated() {
        simulated.exit();
    }
    let outcome = belongings.refuse_and_drop(&|error| *error == CudaError::Exiting);
    end(code_of(&*session, outcome))
}

/// Ends the process, without any more handlers.
fn end(code: c_int) -> ! {
    // SAFETY: no pointers.
    unsafe { libc::_exit(code) }
}

/// What a process's end says of what it found.
fn code_of(session: &dyn Session, outcome: Result<(), String>) -> c_int {
    let late = session.simulated().map(Simulated::late_calls).unwrap_or_default();
    if let Err(error) = outcome {
        eprintln!("{error}");
        return 2;
    }
    if !late.is_empty() {
        eprintln!("late calls: {late:?}");
        return 3;
    }
    ALL_IS_WELL
}

/// Forks again and again while other threads use the pool, and so may hold any of its locks.
fn fork_with_live_buffers(bed: &'static dyn Bed) -> ExitCode {
    let session = bed.begin(0);
    let stop = AtomicBool::new(false);
    let belongings = Belongings::of(&*session);
    let pool = belongings.pool.clone();
    *BELONGINGS.lock().unwrap() = Some(belongings);
    let code = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
                let mut random = fastrand::Rng::with_seed(1);
                while !stop.load(Ordering::Relaxed) {
                    // Large ones take the pool's lock, small ones fill and empty a cache.
                    let small = (0..100).map(|_| pool.alloc::<u8>(random.usize(1..16_000), &one));
                    let small: Vec<_> = small.collect();
                    let mut large = pool.alloc::<u8>(random.usize(1..300_000), &one).unwrap();
                    large.on_mut(&other).unwrap();
                    drop((small, large));
                }
            });
        }
        let forks = if session.simulated().is_some() { 100 } else { 20 };
        let code = (0..forks).map(|_| fork_once(&*session)).find(|&code| code != ALL_IS_WELL);
        stop.store(true, Ordering::Relaxed);
        code.unwrap_or(ALL_IS_WELL)
    });
    // The parent goes on as before.
    let mut belongings = BELONGINGS.lock().unwrap().take().unwrap();
    let stream = belongings.streams[0].clone();
    belongings.buffers[0].on_mut(&stream).unwrap().fill_bytes(7).unwrap();
    let now = belongings.buffers[0].on(&stream).unwrap().to_vec().unwrap();
    assert_eq!(now, [7; 100]);
    drop((belongings, stream, pool));
    let left = session.end();
    assert_eq!(left, Ok(()));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Forks; what the child found.
fn fork_once(session: &dyn Session) -> c_int {
    // SAFETY: the child does nothing but what is meant to work there, and ends by itself.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // One that hangs is ended by the system, after so many seconds.
        // SAFETY: no pointers.
        unsafe { libc::alarm(60) };
        // The thread that forked holds no lock of these.
        let belongings = BELONGINGS.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(belongings) = belongings else { end(1) };
        let outcome = belongings.refuse_and_drop(&|error| *error == CudaError::Forked);
        let code = code_of(session, outcome);
        if session.simulated().is_none() {
            // A driver's own handlers find its locks as other threads held them: they are not what
            // is looked at.
            end(code);
        }
        // With the handlers, and with what ends with a thread.
        std::process::exit(code);
    }
    let mut status = 0;
    // SAFETY: the pointer is to a local, and the child is this process's.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    // As a shell has it.
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) }
}
