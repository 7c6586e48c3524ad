//! A device whose streams are threads of the host: work takes real time there, and really overlaps.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::io::{Error, ErrorKind};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use pool_core::device::{Capabilities, Device, Failure, Severity};
use pool_mock::conformance::{Pace, Trial, check};

type Result<T> = core::result::Result<T, Failure<Error>>;

/// How much memory there is.
const TOTAL_BYTES: u64 = 1 << 30;

/// What slow work takes.
const SLOW: Duration = Duration::from_millis(50);

type Job = Box<dyn FnOnce() + Send>;
type Bytes = Arc<Mutex<Vec<u8>>>;

/// A stream: its thread runs jobs in order, until nobody can send any more.
#[derive(Clone)]
struct Queue {
    id: u64,
    jobs: Sender<Job>,
}

impl Queue {
    fn push(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let sent = self.jobs.send(Box::new(job));
        Ok(sent.map_err(|_| Error::from(ErrorKind::BrokenPipe))?)
    }
}

/// A fence: up once the work before it is done.
#[derive(Clone, Default)]
struct Flag(Arc<(Mutex<bool>, Condvar)>);

impl Flag {
    fn raise(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn is_up(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    fn wait(&self) {
        let up = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(up, |up| !*up).unwrap());
    }
}

/// The device.
struct Threads {
    start: Instant,
    free_bytes: AtomicU64,
    next: AtomicU64,
    /// The streams that are there, and the ends of those that are not.
    streams: Mutex<(Vec<Queue>, Vec<Flag>)>,
}

impl Threads {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            free_bytes: AtomicU64::new(TOTAL_BYTES),
            next: AtomicU64::new(1),
            streams: Mutex::default(),
        }
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Threads")
    }
}

/// Bytes of a range by their place.
fn part(offset_bytes: u64, size_bytes: u64) -> core::ops::Range<usize> {
    let start = usize::try_from(offset_bytes).unwrap();
    start..start + usize::try_from(size_bytes).unwrap()
}

impl Device for Threads {
    type Range = Bytes;
    type Stream = Queue;
    type Fence = Flag;
    type Pages = ();
    type Error = Error;

    fn allocate(&self, size_bytes: u64) -> Result<Bytes> {
        let take = |free: u64| free.checked_sub(size_bytes);
        let taken = self.free_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map_err(|_| Error::from(ErrorKind::OutOfMemory))?;
        Ok(Arc::new(Mutex::new(vec![0; usize::try_from(size_bytes).unwrap()])))
    }

    fn free(&self, range: &Bytes) -> Result<()> {
        let bytes = core::mem::take(&mut *range.lock().unwrap());
        self.free_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FENCES
            | Capabilities::STREAMS
            | Capabilities::STREAM_IDS
            | Capabilities::COPY
            | Capabilities::CLOCK
    }

    fn severity(&self, error: &Error) -> Severity {
        match error.kind() {
            ErrorKind::OutOfMemory => Severity::OutOfMemory,
            _ => Severity::Call,
        }
    }

    fn create_stream(&self) -> Result<Queue> {
        let (jobs, queued) = mpsc::channel::<Job>();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        thread::spawn(move || queued.into_iter().for_each(|job| job()));
        let queue = Queue { id, jobs };
        self.streams.lock().unwrap().0.push(queue.clone());
        Ok(queue)
    }

    fn destroy_stream(&self, stream: &Queue) -> Result<()> {
        let end = self.record(stream)?;
        let mut streams = self.streams.lock().unwrap();
        streams.0.retain(|other| other.id != stream.id);
        streams.1.retain(|gone| !gone.is_up());
        streams.1.push(end);
        Ok(())
    }

    fn stream_key(&self, stream: &Queue) -> u64 {
        stream.id
    }

    fn stream_id(&self, stream: &Queue) -> Result<u64> {
        Ok(stream.id)
    }

    fn record(&self, stream: &Queue) -> Result<Flag> {
        let flag = Flag::default();
        let raised = flag.clone();
        stream.push(move || raised.raise())?;
        Ok(flag)
    }

    fn record_all(&self) -> Result<Vec<Flag>> {
        let (there, mut fences) = self.streams.lock().unwrap().clone();
        for stream in &there {
            fences.push(self.record(stream)?);
        }
        Ok(fences)
    }

    fn is_done(&self, fence: &Flag) -> Result<bool> {
        Ok(fence.is_up())
    }

    fn wait(&self, stream: &Queue, fence: &Flag) -> Result<()> {
        let fence = fence.clone();
        stream.push(move || fence.wait())
    }

    fn wait_on_host(&self, fence: &Flag) -> Result<()> {
        fence.wait();
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        self.record_all()?.iter().for_each(Flag::wait);
        Ok(())
    }

    fn copy(
        &self,
        stream: &Queue,
        from: (&Bytes, u64),
        to: (&Bytes, u64),
        size_bytes: u64,
    ) -> Result<()> {
        let (source, target) = (Arc::clone(from.0), Arc::clone(to.0));
        let (from, to) = (part(from.1, size_bytes), part(to.1, size_bytes));
        stream.push(move || {
            let bytes = source.lock().unwrap()[from].to_vec();
            target.lock().unwrap()[to].copy_from_slice(&bytes);
        })
    }

    fn now(&self) -> Option<Duration> {
        Some(self.start.elapsed())
    }
}

impl Trial for Threads {
    fn mark(
        &self,
        stream: &Queue,
        range: &Bytes,
        offset_bytes: u64,
        size_bytes: u64,
        mark: u8,
        pace: Pace,
    ) -> Result<()> {
        let range = Arc::clone(range);
        stream.push(move || {
            if pace == Pace::Slow {
                thread::sleep(SLOW);
            }
            range.lock().unwrap()[part(offset_bytes, size_bytes)].fill(mark);
        })
    }

    fn read(&self, range: &Bytes, offset_bytes: u64, bytes: &mut [u8]) -> Result<()> {
        let part = part(offset_bytes, bytes.len() as u64);
        bytes.copy_from_slice(&range.lock().unwrap()[part]);
        Ok(())
    }

    fn too_many_bytes(&self) -> Option<u64> {
        Some(TOTAL_BYTES + 1)
    }
}

#[test]
fn a_device_whose_streams_are_threads_conforms() {
    let report = check(Threads::new).unwrap();
    assert!(report.passed() > 30, "{report}");
}
