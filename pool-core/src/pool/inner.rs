//! What all handles of one pool share, and the device's calls as the pool makes them.

use alloc::sync::Arc;
use core::time::Duration;

use super::arenas::{Addresses, Arenas, WINDOW_BYTES, Whole, Windows};
use super::books::{Books, Holder};
use super::budget::Seat;
use super::config::{OnShortage, PoolConfig};
use super::error::{DeviceError, PoolError};
use super::fence::Port;
use super::notes::Notes;
use super::notice::Listener;
use super::policy::{CoolDown, Preallocation, Reuse, Settings};
use super::shelves::Shelves;
use super::stats::Counters;
use super::stream::{StreamId, Tag};
use super::tags::Tags;
use super::vacate::Vacating;
use crate::device::{Call, Capabilities, Device, Failure, MemoryInfo, Severity};
use crate::range::{Placement, RangeConfig, Shape, Spans, Tolerance};
use crate::sync::{AtomicU32, Lock, Ordering, Padded, instance_number, is_left};
use crate::threads::{Owner, SharedAllocator, SharedConfig, Threads};

/// The space of requests that name no stream.
pub(super) const CLEAN: Owner = Owner(1);

/// The space of what a tenant of a budget is about to give back.
const VACATED: Owner = Owner(2);

/// Something is captured.
const CAPTURING: u32 = 1;
/// The device failed for good, or is no more.
const POISONED: u32 = 1 << 1;
/// Parcels are to be drained by the next call that may.
const DUE: u32 = 1 << 2;
/// Memory is short: what is free lies in the hub, for all.
const SHARED: u32 = 1 << 3;
/// Freed blocks rest. An allocation can be a hit nevertheless.
const COOLING: u32 = 1 << 4;
/// All memory is the device's, until the pool wakes.
const ASLEEP: u32 = 1 << 5;
/// Others need what was borrowed: it is given back by the calls that come.
const PRESSED: u32 = 1 << 6;

/// Hits are noted, and so go another way.
#[cfg(feature = "record")]
const RECORDING: u32 = 1 << 7;
#[cfg(not(feature = "record"))]
const RECORDING: u32 = 0;

/// Offsets for a device that does not say how much memory it has.
const UNKNOWN_SPACE_BYTES: u64 = 64 << 30;

/// The parts of a pool.
pub(super) struct Inner<D: Device, T: Threads> {
    pub(super) device: Arc<Port<D>>,
    pub(super) capabilities: Capabilities,
    pub(super) shared: SharedAllocator<T>,
    pub(super) shared_config: SharedConfig,
    pub(super) on_shortage: Option<OnShortage>,
    /// Its place at a budget, if it shares one.
    pub(super) seat: Option<Seat>,
    pub(super) reuse: Reuse,
    /// What keeps calls off the way of a hit.
    mode: AtomicU32,
    /// The number of the stream that each space is of, for hits; zero: of none.
    slots: alloc::boxed::Box<[AtomicU32]>,
    pub(super) addresses: Addresses,
    pub(super) notes: Notes<D, T>,
    pub(super) tags: Tags<T>,
    // What is written apart from what a hit reads.
    pub(super) books: Padded<T::Lock<Books<D>>>,
    pub(super) counters: Padded<Counters>,
    /// As the pool was made.
    pub(super) settings: Settings,
    /// Who is told what happens, once there is somebody.
    pub(super) recorder: Listener<T>,
}

/// A call of the device that failed, for now.
pub(super) type Failed<D> = DeviceError<<D as Device>::Error>;

/// Keeps what failed last for a report; but that the device is lost says less than how.
pub(super) fn keep<E>(failure: &mut Option<DeviceError<E>>, failed: DeviceError<E>) {
    if failure.is_none() || !matches!(failed.failure, Failure::Lost) {
        *failure = Some(failed);
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    pub(super) fn new(device: D, config: PoolConfig) -> Result<Self, PoolError<D::Error>> {
        let PoolConfig { mut settings, on_shortage, tenancy, finds_addresses } = config;
        settings.granule_bytes = settings.granule_bytes.max(device.granule_bytes());
        let seat = tenancy.map(|account| Seat::take(account).ok_or(PoolError::TenancyTaken));
        let seat = seat.transpose()?;
        let capabilities = device.capabilities();
        let memory = memory_of(&device, capabilities)?;
        let total = memory.map(|memory| memory.total_bytes).or_else(|| device.total_bytes());
        let most = settings.limit_bytes.or(total);
        // Arenas of buddies leave gaps before them.
        let by_size = settings.reuse.placement == Placement::Buddy;
        let pages = settings.pages.filter(|_| !by_size);
        let pages = pages.filter(|_| capabilities.contains(Capabilities::PAGES));
        let times = match pages {
            Some(pages) => u64::from(pages.address_times).max(2),
            None if by_size => 4,
            None => 2,
        };
        let twice = most.map_or(UNKNOWN_SPACE_BYTES, |most| most.saturating_mul(times));
        let first_bytes = match settings.preallocation {
            Preallocation::Nothing => 0,
            Preallocation::Bytes(bytes) | Preallocation::OnDemand { base_bytes: bytes } => bytes,
            Preallocation::AllBut { margin_bytes } => {
                memory.map_or(0, |memory| memory.free_bytes.saturating_sub(margin_bytes))
            }
        };
        let wanted = settings
            .address_bytes
            .unwrap_or_else(|| twice.max(first_bytes).max(settings.growth.floor_bytes));
        let limit = settings.granule_bytes.checked_shl(32).unwrap_or(u64::MAX);
        let space_bytes = wanted
            .checked_next_multiple_of(WINDOW_BYTES)
            .and_then(|bytes| bytes.checked_add(WINDOW_BYTES))
            .unwrap_or(limit)
            .min(limit);
        let range = RangeConfig::new(space_bytes)
            .granule_bytes(settings.granule_bytes)
            .placement(settings.reuse.placement)
            .tolerance_percent(settings.reuse.tolerance_percent)
            .handle_seed(instance_number())
            .spans(spans_for(most.unwrap_or(UNKNOWN_SPACE_BYTES), settings.granule_bytes));
        let reuse = settings.reuse;
        // What a block was given over when it was new, it may have on a shelf, too.
        let percent = reuse.shelf_tolerance_percent.max(reuse.tolerance_percent);
        let shelves =
            Shelves::new(reuse.shelf_bytes, Tolerance::new(percent)?, settings.granule_bytes);
        let shared_config = SharedConfig::new(range).cache_bytes(settings.cache_bytes);
        let shared = SharedAllocator::of_spaces(&shared_config)?;
        shared.make_space(CLEAN, &shared_config)?;
        let spaces = shared.most_spaces();
        let arenas = Arenas::new(space_bytes, by_size);
        let mut books = Books::new(arenas, shelves, &settings, spaces);
        if let Some(holder) = books.spaces.get_mut(CLEAN.0 as usize) {
            *holder = Holder::Clean;
        }
        if seat.is_some() {
            books.set_holder(VACATED, Holder::Vacated);
            books.vacating = Vacating::with_space(VACATED);
        }
        let mut inner = Self {
            device: Arc::new(Port::new(device)),
            capabilities,
            shared,
            shared_config,
            on_shortage,
            seat,
            reuse,
            mode: AtomicU32::new(0),
            slots: (0..spaces).map(|_| AtomicU32::new(0)).collect(),
            addresses: Addresses::Windows(Windows::new(0, false)?),
            notes: Notes::new(),
            tags: Tags::new(),
            books: Padded(Lock::new(books)),
            counters: Padded::default(),
            settings,
            recorder: Listener::<T>::default(),
        };
        inner.set_cooling(settings.reclaim.cool_down);
        let least_bytes = most.unwrap_or(UNKNOWN_SPACE_BYTES).min(space_bytes / 2);
        let whole = match pages {
            Some(pages) => inner.reserve_addresses(pages, space_bytes, least_bytes)?,
            None => None,
        };
        inner.addresses = match whole {
            Some(whole) => Addresses::Whole(Whole { finds: finds_addresses, ..whole }),
            None => Addresses::Windows(Windows::new(space_bytes, finds_addresses)?),
        };
        if matches!(settings.preallocation, Preallocation::OnDemand { .. }) {
            // With the first request.
        } else if settings.warms_later {
            inner.with_books(|books| books.left_to_warm_bytes = first_bytes);
        } else if first_bytes > 0 {
            inner.preallocate(first_bytes)?;
        }
        Ok(inner)
    }

    /// Whether a request may be a hit: nothing is captured, due, lost, or another process's.
    #[inline(always)]
    pub(super) fn is_quiet(&self) -> bool {
        self.mode.load(Ordering::Acquire) & !COOLING == 0 && !is_left()
    }

    /// Whether a free may be a hit: the same, and no freed block has to rest.
    #[inline(always)]
    pub(super) fn is_quiet_for_frees(&self) -> bool {
        self.mode.load(Ordering::Acquire) == 0 && !is_left()
    }

    /// Whether a request may be one but for that it is noted.
    pub(super) fn is_calm(&self) -> bool {
        self.mode.load(Ordering::Acquire) & !(COOLING | RECORDING) == 0 && !is_left()
    }

    /// Whether a free may be one but for that it is noted.
    #[cfg(feature = "record")]
    pub(super) fn is_calm_for_frees(&self) -> bool {
        self.mode.load(Ordering::Acquire) & !RECORDING == 0 && !is_left()
    }

    /// Whether what happens is noted.
    #[cfg(feature = "record")]
    #[inline]
    pub(super) fn is_recording(&self) -> bool {
        self.is(RECORDING) && !is_left()
    }

    #[cfg(feature = "record")]
    pub(super) fn set_recording(&self, recording: bool) {
        self.set(RECORDING, recording);
    }

    fn is(&self, bit: u32) -> bool {
        self.mode.load(Ordering::Acquire) & bit != 0
    }

    fn set(&self, bit: u32, on: bool) {
        if on {
            self.mode.fetch_or(bit, Ordering::AcqRel);
        } else {
            self.mode.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    pub(super) fn is_capturing(&self) -> bool {
        self.is(CAPTURING)
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.is(POISONED)
    }

    pub(super) fn set_capturing(&self, capturing: bool) {
        self.set(CAPTURING, capturing);
    }

    /// Whether memory is so short that what is free lies in the hub, for all.
    pub(super) fn is_shared(&self) -> bool {
        self.is(SHARED)
    }

    pub(super) fn set_shared(&self, shared: bool) {
        self.set(SHARED, shared);
    }

    /// Whether freed blocks rest.
    pub(super) fn is_cooling(&self) -> bool {
        self.is(COOLING)
    }

    /// Has blocks rest that are freed from now on, or not. On a device with one queue none does:
    /// nothing can be seen done there.
    pub(super) fn set_cooling(&self, cool_down: CoolDown) {
        self.set(COOLING, cool_down == CoolDown::UntilDone && self.has_fences());
    }

    /// Whether the pool owes a budget memory that it has not given back yet.
    pub(super) fn is_pressed(&self) -> bool {
        self.is(PRESSED)
    }

    pub(super) fn set_pressed(&self, pressed: bool) {
        self.set(PRESSED, pressed);
    }

    /// Whether the pool sleeps: then its blocks have no memory.
    pub(super) fn is_asleep(&self) -> bool {
        self.is(ASLEEP)
    }

    pub(super) fn set_asleep(&self, asleep: bool) {
        self.set(ASLEEP, asleep);
    }

    pub(super) fn set_due(&self) {
        self.set(DUE, true);
    }

    /// Whether parcels were to be drained; from now on they are not.
    pub(super) fn take_due(&self) -> bool {
        self.is(DUE) && self.mode.fetch_and(!DUE, Ordering::AcqRel) & DUE != 0
    }

    /// Whether a stream is one of this pool with a space of its own.
    #[inline(always)]
    pub(super) fn knows(&self, stream: StreamId) -> bool {
        let slot = self.slots.get(stream.space as usize);
        slot.is_some_and(|slot| slot.load(Ordering::Acquire) == stream.number)
    }

    pub(super) fn set_slot(&self, space: Owner, number: u32) {
        if let Some(slot) = self.slots.get(space.0 as usize) {
            slot.store(number, Ordering::Release);
        }
    }

    /// Works on the books. Fences that became needless meanwhile go back to the device once the
    /// lock is open, and blocks that became free are noted.
    pub(super) fn with_books<R>(&self, work: impl FnOnce(&mut Books<D>) -> R) -> R {
        let (result, garbage, reclaimed) = {
            let mut books = self.books.lock();
            let result = work(&mut books);
            let reclaimed = books.reclaimed.take();
            (result, core::mem::take(&mut books.garbage), reclaimed)
        };
        drop(garbage);
        if let Some(reclaimed) = reclaimed {
            self.notice_reclaimed(reclaimed);
        }
        result
    }

    pub(super) fn check_alive(&self) -> Result<(), PoolError<D::Error>> {
        check_not_left()?;
        if self.is_poisoned() { Err(PoolError::Poisoned) } else { Ok(()) }
    }

    pub(super) fn has_fences(&self) -> bool {
        self.capabilities.contains(Capabilities::FENCES)
    }

    /// The device's time, where it has a clock.
    pub(super) fn now(&self) -> Option<Duration> {
        self.device.now().or_else(|| self.counters.last_tick())
    }

    /// From here on the pool makes no call of the device.
    pub(super) fn poison(&self) {
        // In this order: who is told that the device is lost finds that the pool knows.
        self.set(POISONED, true);
        self.device.lose();
    }

    pub(super) fn charge(&self, tag: Tag, size_bytes: u64) -> Result<(), PoolError<D::Error>> {
        self.tags.charge(tag, size_bytes).map_err(|over| PoolError::Quota {
            tag,
            size_bytes,
            live_bytes: over.live_bytes,
            quota_bytes: over.quota_bytes,
        })
    }
}

/// Refuses in a forked child, before any lock is taken.
pub(super) fn check_not_left<E>() -> Result<(), PoolError<E>> {
    if is_left() { Err(PoolError::Forked) } else { Ok(()) }
}

/// How much memory the device has, where it says so; but not that it is lost.
fn memory_of<D: Device>(
    device: &D,
    capabilities: Capabilities,
) -> Result<Option<MemoryInfo>, Failed<D>> {
    if !capabilities.contains(Capabilities::MEMORY) {
        return Ok(None);
    }
    match device.memory() {
        Ok(memory) => Ok(Some(memory)),
        Err(Failure::Device(error)) if device.severity(&error) == Severity::Fatal => {
            Err(DeviceError { call: Call::Memory, failure: Failure::Device(error) })
        }
        Err(_) => Ok(None),
    }
}

/// Spans as they are for a range of so many bytes, whatever the space of offsets.
fn spans_for(most_bytes: u64, granule_bytes: u64) -> Spans {
    let config = RangeConfig::new(most_bytes.max(granule_bytes)).granule_bytes(granule_bytes);
    match Shape::of(&config) {
        Ok(shape) if shape.has_spans() => Spans::Sized {
            span_bytes: shape.bytes(shape.span_granules.into()),
            small_bytes: shape.bytes(shape.small_granules),
        },
        _ => Spans::Off,
    }
}
