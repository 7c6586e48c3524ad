//! The trait.

use alloc::vec::Vec;
use core::error::Error;
use core::fmt::Debug;
use core::time::Duration;

use super::{Call, Capabilities, Failure, Severity};

/// A result of a device's call.
type Result<T, D> = core::result::Result<T, Failure<<D as Device>::Error>>;

/// Memory of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemoryInfo {
    /// Bytes that could still be allocated, by this process or another.
    pub free_bytes: u64,
    /// All there are.
    pub total_bytes: u64,
}

/// A device: the calls that a [`Pool`](crate::Pool) makes.
///
/// Only [`allocate`](Self::allocate) and [`free`](Self::free) must be written; each other call
/// has a default that says that the device does not have it, and
/// [`capabilities`](Self::capabilities) says which it has.
///
/// A pool holds no lock while it makes any of these calls, so each may block, and may even use
/// another pool. They are made from whichever thread uses the pool: a device whose runtime keeps
/// a current context for each thread sets its own at each call and restores the caller's.
///
/// The [guide](super::guide) says how to write one, and how to find out whether it is right.
///
/// # Example
///
/// A device with one queue and no fences:
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use pool_core::device::{Device, Failure};
/// use pool_core::{Pool, PoolConfig};
///
/// /// Hands out addresses, and takes back nothing.
/// #[derive(Default)]
/// struct Bump(AtomicU64);
///
/// impl Device for Bump {
///     type Range = u64;
///     type Stream = ();
///     type Fence = ();
///     type Pages = ();
///     type Error = std::io::Error;
///
///     fn allocate(&self, size_bytes: u64) -> Result<u64, Failure<std::io::Error>> {
///         Ok(self.0.fetch_add(size_bytes, Ordering::Relaxed))
///     }
///
///     fn free(&self, _: &u64) -> Result<(), Failure<std::io::Error>> {
///         Ok(())
///     }
/// }
///
/// let pool = Pool::new(Bump::default(), PoolConfig::new())?;
/// let block = pool.allocate(4096)?;
/// pool.free(block.handle())?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait Device: Send + Sync + Sized + 'static {
    /// Memory that the device gave: an address, a buffer, whatever it knows it by.
    type Range: Send + Sync + 'static;
    /// A queue of work that runs in order.
    type Stream: Clone + Send + Sync + 'static;
    /// A point in a stream's work: done, or waited for by the host or another stream. It lasts
    /// longer than its stream. It is given back by [`discard`](Self::discard).
    type Fence: Send + Sync + 'static;
    /// A handle of physical memory, which is mapped, unmapped and given back whole.
    type Pages: Send + Sync + 'static;
    /// What the device says when it refuses.
    type Error: Error + Send + Sync + 'static;

    /// Memory of exactly so many bytes. It is there when the call returns: a runtime that only
    /// notes a request and refuses its first use is made to use it here.
    ///
    /// # Errors
    ///
    /// The device's own; nothing is allocated.
    fn allocate(&self, size_bytes: u64) -> Result<Self::Range, Self>;

    /// Gives a range back, which is not used any more.
    ///
    /// # Errors
    ///
    /// The device's own; the range is still allocated.
    fn free(&self, range: &Self::Range) -> Result<(), Self>;

    /// Which calls it has. They never change.
    fn capabilities(&self) -> Capabilities {
        Capabilities::empty()
    }

    /// What blocks are multiples of, in size, and in their addresses or, where ranges have none, in
    /// their offsets in the range: a power of two. A pool's granule is this or more. For runtimes
    /// that take parts of a range only from certain offsets on, as OpenCL's sub-buffers and the
    /// bindings of graphics interfaces do.
    fn granule_bytes(&self) -> u64 {
        1
    }

    /// The most bytes that one [`allocate`](Self::allocate) gives, where a device has more memory
    /// than it gives at once. A pool takes what it is to have at the start in as many ranges as that
    /// makes, and grows by no more at a time. A larger request is the device's to refuse.
    fn most_range_bytes(&self) -> u64 {
        u64::MAX
    }

    /// All memory of the device, where that is known though nothing says how much is free
    /// ([`Capabilities::MEMORY`]). A pool's space of offsets is made for it.
    fn total_bytes(&self) -> Option<u64> {
        None
    }

    /// What an error means for what comes after it.
    fn severity(&self, error: &Self::Error) -> Severity {
        let _ = error;
        Severity::Call
    }

    /// Whether the device can still be called: not when the process ends, nor in a forked child.
    /// A pool asks before each call, and makes none any more once it is told so: at its end it leaves
    /// what it has. Ranges, streams, fences and pages are dropped then all the same: if their drops
    /// call the runtime, those ask too.
    fn is_alive(&self) -> bool {
        true
    }

    /// Where a range begins ([`Capabilities::ADDRESSES`]).
    fn address(&self, range: &Self::Range) -> Option<u64> {
        let _ = range;
        None
    }

    /// Makes a range longer where it is ([`Capabilities::EXTEND`]).
    ///
    /// # Errors
    ///
    /// The device's own; the range is as before.
    fn extend(&self, range: &Self::Range, from_bytes: u64, to_bytes: u64) -> Result<(), Self> {
        let _ = (range, from_bytes, to_bytes);
        Err(Failure::Unsupported(Call::Extend))
    }

    /// The sizes of handles of physical memory that make sense, smallest first, each a multiple of
    /// the smallest ([`Capabilities::PAGES`]). [`create_pages`](Self::create_pages) takes every
    /// multiple of the smallest.
    fn page_sizes(&self) -> &[u64] {
        &[]
    }

    /// Addresses that no memory is behind yet ([`Capabilities::PAGES`]): a multiple of the smallest
    /// page, and aligned to it. [`free`](Self::free) gives them back once nothing is committed there.
    ///
    /// # Errors
    ///
    /// The device's own; nothing is reserved.
    fn reserve(&self, size_bytes: u64) -> Result<Self::Range, Self> {
        let _ = size_bytes;
        Err(Failure::Unsupported(Call::Reserve))
    }

    /// Physical memory in one handle, mapped nowhere yet ([`Capabilities::PAGES`]).
    ///
    /// # Errors
    ///
    /// The device's own; there are no pages.
    fn create_pages(&self, size_bytes: u64) -> Result<Self::Pages, Self> {
        let _ = size_bytes;
        Err(Failure::Unsupported(Call::CreatePages))
    }

    /// Gives physical memory back to the device, which is mapped nowhere any more
    /// ([`Capabilities::PAGES`]). Never waits for work.
    ///
    /// # Errors
    ///
    /// The device's own; the pages may be lost.
    fn destroy_pages(&self, pages: Self::Pages) -> Result<(), Self> {
        drop(pages);
        Err(Failure::Unsupported(Call::DestroyPages))
    }

    /// Maps handles in a row from an offset on, and opens them to the device
    /// ([`Capabilities::PAGES`]). What the handles hold is kept.
    ///
    /// # Errors
    ///
    /// The device's own; none of them is mapped there.
    fn commit(
        &self,
        range: &Self::Range,
        offset_bytes: u64,
        pages: &[&Self::Pages],
    ) -> Result<(), Self> {
        let _ = (range, offset_bytes, pages);
        Err(Failure::Unsupported(Call::Commit))
    }

    /// Takes one handle from under a range, where it begins at an offset
    /// ([`Capabilities::PAGES`]). It lives on, and can be committed elsewhere. Does not wait for work:
    /// that nothing uses it any more is the caller's to know.
    ///
    /// # Errors
    ///
    /// The device's own; it is still mapped.
    fn decommit(
        &self,
        range: &Self::Range,
        offset_bytes: u64,
        pages: &Self::Pages,
    ) -> Result<(), Self> {
        let _ = (range, offset_bytes, pages);
        Err(Failure::Unsupported(Call::Decommit))
    }

    /// Makes a stream ([`Capabilities::STREAMS`]).
    ///
    /// # Errors
    ///
    /// The device's own.
    fn create_stream(&self) -> Result<Self::Stream, Self> {
        Err(Failure::Unsupported(Call::CreateStream))
    }

    /// Ends a stream of [`create_stream`](Self::create_stream). Work that is queued in it still
    /// runs, and its fences last; the host does not wait for either.
    ///
    /// # Errors
    ///
    /// The device's own; the stream may be lost.
    fn destroy_stream(&self, stream: &Self::Stream) -> Result<(), Self> {
        let _ = stream;
        Err(Failure::Unsupported(Call::DestroyStream))
    }

    /// The value by which programs name a stream. Two streams that exist at the same time have
    /// different ones; a new stream may have that of one that is gone.
    fn stream_key(&self, stream: &Self::Stream) -> u64 {
        let _ = stream;
        0
    }

    /// An identity of a stream that no other ever had or will have
    /// ([`Capabilities::STREAM_IDS`]). A value that means another stream for each thread has the
    /// calling thread's; a device with such values has to have identities. It is not asked of a
    /// stream that is captured: CUDA has no such call then, and the capture is broken.
    ///
    /// # Errors
    ///
    /// The device's own.
    fn stream_id(&self, stream: &Self::Stream) -> Result<u64, Self> {
        let _ = stream;
        Err(Failure::Unsupported(Call::StreamId))
    }

    /// A fence behind all work that is queued in a stream now, and all that the stream waits for
    /// ([`Capabilities::FENCES`]). Does not wait. The fence comes to be done by itself: a runtime that
    /// holds queued work back until it is told to begin (as OpenCL may until `clFlush`) is told here.
    /// Who waits for a fence tells nobody.
    ///
    /// # Errors
    ///
    /// The device's own; there is no fence.
    fn record(&self, stream: &Self::Stream) -> Result<Self::Fence, Self> {
        let _ = stream;
        Err(Failure::Unsupported(Call::Record))
    }

    /// The streams that the device knows of, for [`record_all`](Self::record_all): those that were
    /// destroyed too, until their work is done. `None` if it cannot say. A device of which those that
    /// were destroyed have no handles any more writes `record_all` by itself.
    fn streams(&self) -> Option<Vec<Self::Stream>> {
        None
    }

    /// Fences behind all work of the device so far, on streams that the pool was told of and on
    /// others. None: all that work is done. By default one for each of
    /// [`streams`](Self::streams); without those, a wait for the whole device.
    ///
    /// # Errors
    ///
    /// The device's own; there are no fences.
    fn record_all(&self) -> Result<Vec<Self::Fence>, Self> {
        let Some(streams) = self.streams() else {
            self.synchronize()?;
            return Ok(Vec::new());
        };
        let mut fences = Vec::new();
        for stream in &streams {
            match self.record(stream) {
                Ok(fence) => fences.push(fence),
                Err(error) => {
                    for fence in fences {
                        self.discard(fence);
                    }
                    return Err(error);
                }
            }
        }
        Ok(fences)
    }

    /// Whether what is before a fence is done. Does not wait.
    ///
    /// # Errors
    ///
    /// The device's own; the fence is as before, and not taken as done.
    fn is_done(&self, fence: &Self::Fence) -> Result<bool, Self> {
        let _ = fence;
        Err(Failure::Unsupported(Call::IsDone))
    }

    /// Has a stream wait for a fence before it runs what is queued in it from now on, also for one of
    /// its own, which changes nothing. The host does not wait, and the fence may be discarded at once.
    ///
    /// # Errors
    ///
    /// The device's own; the stream does not wait.
    fn wait(&self, stream: &Self::Stream, fence: &Self::Fence) -> Result<(), Self> {
        let _ = (stream, fence);
        Err(Failure::Unsupported(Call::Wait))
    }

    /// Has the host wait for a fence.
    ///
    /// # Errors
    ///
    /// The device's own; the fence is not taken as done.
    fn wait_on_host(&self, fence: &Self::Fence) -> Result<(), Self> {
        let _ = fence;
        Err(Failure::Unsupported(Call::WaitOnHost))
    }

    /// Has the host wait for all work of the device so far.
    ///
    /// # Errors
    ///
    /// The device's own; nothing is taken as done.
    fn synchronize(&self) -> Result<(), Self> {
        Err(Failure::Unsupported(Call::Synchronize))
    }

    /// Takes a fence back that nobody needs any more, done or not.
    fn discard(&self, fence: Self::Fence) {
        drop(fence);
    }

    /// The capture that a stream is in, by a number that no other capture had
    /// ([`Capabilities::CAPTURE`]).
    ///
    /// # Errors
    ///
    /// The device's own.
    fn capture_id(&self, stream: &Self::Stream) -> Result<Option<u64>, Self> {
        let _ = stream;
        Ok(None)
    }

    /// Copies bytes from one place to another, in a stream ([`Capabilities::COPY`]). The two do
    /// not overlap. The host does not wait.
    ///
    /// # Errors
    ///
    /// The device's own; nothing is copied.
    fn copy(
        &self,
        stream: &Self::Stream,
        from: (&Self::Range, u64),
        to: (&Self::Range, u64),
        size_bytes: u64,
    ) -> Result<(), Self> {
        let _ = (stream, from, to, size_bytes);
        Err(Failure::Unsupported(Call::Copy))
    }

    /// Free and total memory ([`Capabilities::MEMORY`]).
    ///
    /// # Errors
    ///
    /// The device's own.
    fn memory(&self) -> Result<MemoryInfo, Self> {
        Err(Failure::Unsupported(Call::Memory))
    }

    /// Time since some moment that never changes ([`Capabilities::CLOCK`]).
    fn now(&self) -> Option<Duration> {
        None
    }

    /// A notice that bytes rest: until they are released, no use that is queued is right. For
    /// devices that check. It may come from inside a callback of a stream, and during a capture, and
    /// whoever gets it must not wait.
    fn quarantine(&self, range: &Self::Range, offset_bytes: u64, size_bytes: u64) {
        let _ = (range, offset_bytes, size_bytes);
    }

    /// A notice that bytes rest no more. As [`quarantine`](Self::quarantine).
    fn release(&self, range: &Self::Range, offset_bytes: u64, size_bytes: u64) {
        let _ = (range, offset_bytes, size_bytes);
    }
}
