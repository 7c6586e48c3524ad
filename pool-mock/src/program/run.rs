//! Runs a program: makes its pool and device, its steps, and looks at what is left.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pool_core::budget::{Budget, Share, Tenancy};
use pool_core::device::{Call, Capabilities};
use pool_core::policy::{Ahead, CoolDown, Decay, Growth, Handles, Idle, Pages, Reclaim};
use pool_core::{Pool, PoolConfig, PoolError};

use super::finding::{Fault, Finding};
use super::generate::decode_operation;
use super::operation::{Operation, Pace, Program, Shape};
use super::platform::{self, ProgramThreads};
#[cfg(feature = "record")]
use super::recorded::Recorded;
use super::turns::{self, Turns};
use super::world::World;
use crate::device::{Pacing, SimConfig, SimDevice, SimError};

/// How often the whole pool is gone through.
const VERIFY_EACH: usize = 8;

/// The offsets of a pool: twice what a device has, so that its arenas always find a place.
const ADDRESS_BYTES: u64 = 32 << 20;

/// The most calls of the device that a step may make.
const MOST_CALLS: u64 = 20_000;

/// The most calls of guests in a step.
const MOST_GUESTS: u32 = 16;

/// The number of the thread that meets others in the midst of their calls.
const GUEST: usize = 7;

/// What programs came to, so that a test can see that they did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is a count of what its name says")]
pub struct Tally {
    pub served: u64,
    pub refused: u64,
    pub freed: u64,
    pub uses: u64,
    pub retired: u64,
    pub captures: u64,
    pub launches: u64,
    pub failed_calls: u64,
    pub steals: u64,
    pub growths: u64,
    pub meetings: u64,
    pub shelf_hits: u64,
    pub released_bytes: u64,
    /// Steps after which something rested.
    pub rested: u64,
    pub guards: u64,
    pub migrations: u64,
    pub moved_pages: u64,
}

impl Tally {
    /// Adds another program's counts.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::program::Tally;
    ///
    /// let mut sum = Tally { served: 1, ..Tally::default() };
    /// sum.add(&Tally { served: 2, ..Tally::default() });
    /// assert_eq!(sum.served, 3);
    /// ```
    pub fn add(&mut self, other: &Self) {
        self.served += other.served;
        self.refused += other.refused;
        self.freed += other.freed;
        self.uses += other.uses;
        self.retired += other.retired;
        self.captures += other.captures;
        self.launches += other.launches;
        self.failed_calls += other.failed_calls;
        self.steals += other.steals;
        self.growths += other.growths;
        self.meetings += other.meetings;
        self.shelf_hits += other.shelf_hits;
        self.released_bytes += other.released_bytes;
        self.rested += other.rested;
        self.guards += other.guards;
        self.migrations += other.migrations;
        self.moved_pages += other.moved_pages;
    }
}

/// What a call of the pool gives.
pub(super) type Answer<T> = Result<T, PoolError<SimError>>;

/// A program under way.
pub(super) struct Run {
    pub(super) device: SimDevice,
    pub(super) pool: Pool<SimDevice, ProgramThreads>,
    /// Whose quota the pool's limit is, if it has one.
    pub(super) tenancy: Option<Tenancy<ProgramThreads>>,
    world: Mutex<World>,
    tally: Mutex<Tally>,
    /// Calls of the device in this step.
    pub(super) calls: AtomicU64,
    /// What guests do, while a call that they may meet is under way.
    guests: Mutex<Guests>,
    /// What the pool says that it did, if it is asked.
    #[cfg(feature = "record")]
    recorded: Option<Mutex<Recorded>>,
    pub(super) shape: Shape,
    /// Whether one thread makes all calls, so that the books can be known.
    pub(super) alone: bool,
}

/// Calls of another thread in the midst of a call.
#[derive(Debug)]
struct Guests {
    random: fastrand::Rng,
    inside: bool,
    /// How many may still come in this step.
    left: u32,
    fault: Option<Fault>,
}

/// Runs a program whose calls one thread makes, and looks at everything that it leaves.
///
/// # Errors
///
/// The first thing that the pool must not do and did.
///
/// # Example
///
/// ```
/// use pool_mock::program::{check, decode};
///
/// let tally = check(&decode(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 50]))?;
/// assert!(tally.served > 0);
/// # Ok::<(), pool_mock::program::Finding>(())
/// ```
pub fn check(program: &Program) -> Result<Tally, Finding> {
    check_alone(program, false, |_| {})
}

/// As [`check`], of a pool that records: what it notes must come to what its books say.
///
/// # Errors
///
/// As [`check`].
#[cfg(feature = "record")]
pub fn check_recorded(program: &Program) -> Result<Tally, Finding> {
    check_alone(program, true, |_| {})
}

/// As [`check_recorded`], and shows the pool after each step to who has more to look at.
///
/// # Errors
///
/// As [`check`].
///
/// # Example
///
/// ```
/// use pool_mock::program::{check_watched, decode};
///
/// let mut most_bytes = 0;
/// let tally = check_watched(&decode(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 50]), |pool| {
///     most_bytes = pool.stats().live_bytes.max(most_bytes);
/// })?;
/// assert!(tally.served > 0 && most_bytes > 0);
/// # Ok::<(), pool_mock::program::Finding>(())
/// ```
#[cfg(feature = "record")]
pub fn check_watched(
    program: &Program,
    watch: impl FnMut(&Pool<SimDevice, ProgramThreads>),
) -> Result<Tally, Finding> {
    check_alone(program, true, watch)
}

fn check_alone(
    program: &Program,
    records: bool,
    mut watch: impl FnMut(&Pool<SimDevice, ProgramThreads>),
) -> Result<Tally, Finding> {
    platform::end_threads();
    let run = Run::start(&program.shape, true, records)?;
    run.expect_guests();
    let mut outcome = Ok(());
    for (step, operation) in program.operations.iter().enumerate() {
        run.calls.store(0, Ordering::Relaxed);
        run.guests().left = MOST_GUESTS;
        #[cfg(feature = "record")]
        let labels = run.label(step);
        let done = run.step(operation);
        #[cfg(feature = "record")]
        drop(labels);
        let done = done.and_then(|()| run.look(step));
        watch(&run.pool);
        outcome = done.map_err(|fault| Finding { step: step + 1, fault });
        if outcome.is_err() {
            break;
        }
    }
    run.device.clear_hooks();
    let step = program.operations.len();
    outcome.and_then(|()| run.end().map_err(|fault| Finding { step, fault }))
}

/// Runs a program over several threads, of which one at a time has its turn: it passes where the
/// pool locks, or calls the device, as the seed says. The operations are dealt out in turn.
///
/// # Errors
///
/// The first thing that the pool must not do and did.
///
/// # Example
///
/// ```
/// use pool_mock::program::{check_threads, decode};
///
/// let tally = check_threads(&decode(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 50]), 2, 1)?;
/// assert!(tally.served > 0);
/// # Ok::<(), pool_mock::program::Finding>(())
/// ```
pub fn check_threads(program: &Program, threads: usize, seed: u64) -> Result<Tally, Finding> {
    check_together(program, threads, seed, false)
}

/// As [`check_threads`], of a pool that records.
///
/// # Errors
///
/// As [`check`].
#[cfg(feature = "record")]
pub fn check_threads_recorded(
    program: &Program,
    threads: usize,
    seed: u64,
) -> Result<Tally, Finding> {
    check_together(program, threads, seed, true)
}

fn check_together(
    program: &Program,
    threads: usize,
    seed: u64,
    records: bool,
) -> Result<Tally, Finding> {
    platform::end_threads();
    let threads = threads.max(1);
    let run = Run::start(&program.shape, false, records)?;
    let weak = Arc::downgrade(&run);
    run.device.on_call(move |_| {
        if let Some(run) = weak.upgrade() {
            run.count_call();
        }
        turns::may_pass();
    });
    run.device.after_call(|_| turns::may_pass());
    let percent = match seed % 4 {
        0 => 2,
        1 => 8,
        2 => 20,
        _ => 50,
    };
    let turns = Turns::new(threads, seed, percent);
    let fault: Mutex<Option<Finding>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for number in 0..threads {
            let (run, turns, fault) = (&run, &turns, &fault);
            scope.spawn(move || {
                let entered = turns.enter(number);
                let mine = program.operations.iter().enumerate().skip(number).step_by(threads);
                for (step, operation) in mine {
                    let failed = || fault.lock().unwrap_or_else(PoisonError::into_inner);
                    if failed().is_some() {
                        break;
                    }
                    run.calls.store(0, Ordering::Relaxed);
                    #[cfg(feature = "record")]
                    let labels = run.label(step);
                    let done = run.step(operation).and_then(|()| run.look_at_device());
                    #[cfg(feature = "record")]
                    drop(labels);
                    if let Err(found) = done {
                        failed().get_or_insert(Finding { step: step + 1, fault: found });
                    }
                    turns::may_pass();
                }
                platform::end_threads();
                drop(entered);
            });
        }
    });
    run.device.clear_hooks();
    let step = program.operations.len();
    let found = fault.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.map_or(Ok(()), Err)?;
    run.look(0).and_then(|()| run.end()).map_err(|fault| Finding { step, fault })
}

impl Run {
    fn start(shape: &Shape, alone: bool, records: bool) -> Result<Arc<Self>, Finding> {
        let mut config = SimConfig::new()
            .memory_bytes(shape.memory_bytes)
            .misalign_bytes(shape.misalign_bytes)
            .lists_streams(shape.lists_streams)
            .pacing(pacing(shape.pace));
        if !shape.stream_ids {
            config = config.without(Capabilities::STREAM_IDS);
        }
        if shape.grows_in_capture {
            config = config.with(Capabilities::GROWS_IN_CAPTURE);
        }
        if !shape.extends {
            config = config.without(Capabilities::EXTEND);
        }
        if shape.free_waits {
            config = config.with(Capabilities::FREE_WAITS);
        }
        if let Some((page_bytes, _)) = shape.pages {
            config = config.page_sizes(vec![page_bytes, 3 * page_bytes, 12 * page_bytes]);
        }
        let device = SimDevice::new(config);
        let mut config = PoolConfig::new()
            .initial_bytes(shape.initial_bytes)
            .growth(Growth {
                floor_bytes: shape.arena_bytes,
                steps: shape.steps,
                ahead: shape.ahead.then(Ahead::default),
                migrate_from_percent: shape.migrate_from_percent,
                ..Growth::new()
            })
            .cache_bytes(shape.cache_bytes)
            .address_bytes(if shape.rounds() { 2 * ADDRESS_BYTES } else { ADDRESS_BYTES })
            .reuse(shape.reuse)
            .reclaim(reclaim(shape, shape.cool_down));
        let budget = Budget::<ProgramThreads>::on_platform(u64::MAX);
        let tenancy = budget.tenant(quota(shape.limit_bytes)).ok().filter(|_| shape.is_tenant);
        if let Some(tenancy) = &tenancy {
            config = config.tenancy(tenancy);
        } else if let Some(limit_bytes) = shape.limit_bytes {
            config = config.limit_bytes(limit_bytes);
        }
        if let Some(bytes) = shape.short_from_bytes {
            config = config.short_from_bytes(bytes);
        }
        if let Some((_, is_graded)) = shape.pages {
            let handles = if is_graded { Handles::Graded } else { Handles::Smallest };
            config = config.pages(Pages { handles, ..Pages::new() });
        }
        let pool = Pool::on_platform(device.clone(), config);
        let at_start = |fault| Finding { step: 0, fault };
        let pool = pool.map_err(|error| at_start(Fault::unexpected("new", &error)))?;
        #[cfg(feature = "record")]
        let recorded = match records.then(|| Recorded::start(&pool)).transpose() {
            Ok(recorded) => recorded.map(Mutex::new),
            Err(error) => return Err(at_start(Fault::unexpected("start_recording", &error))),
        };
        #[cfg(not(feature = "record"))]
        let _ = records;
        let guests = Guests {
            random: fastrand::Rng::with_seed(u64::from(shape.meetings) + shape.arena_bytes),
            inside: true,
            left: 0,
            fault: None,
        };
        let run = Self {
            device,
            pool,
            tenancy,
            world: Mutex::new(World {
                limit_bytes: shape.limit_bytes,
                ceiling_bytes: u64::MAX,
                ..World::default()
            }),
            tally: Mutex::default(),
            calls: AtomicU64::new(0),
            guests: Mutex::new(guests),
            #[cfg(feature = "record")]
            recorded,
            shape: *shape,
            alone,
        };
        for _ in 0..shape.streams {
            run.step(&Operation::Create).map_err(at_start)?;
        }
        Ok(Arc::new(run))
    }

    /// The program's own knowledge; never held over a call of the pool.
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tally(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has another thread make a call of its own in the midst of some of the pool's calls of the
    /// device: no lock is held then, so the pool must bear it.
    fn expect_guests(self: &Arc<Self>) {
        let weak: Weak<Self> = Arc::downgrade(self);
        self.device.on_call(move |call| {
            if let Some(run) = weak.upgrade() {
                run.count_call();
                run.meet(call);
            }
        });
        if self.shape.meetings == 0 {
            return;
        }
        let weak: Weak<Self> = Arc::downgrade(self);
        self.device.after_call(move |call| {
            if let Some(run) = weak.upgrade() {
                run.meet(call);
            }
        });
        self.guests().inside = false;
    }

    /// A step that makes no end of calls would be no finding otherwise.
    fn count_call(&self) {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        assert!(calls < MOST_CALLS, "a step makes {MOST_CALLS} calls of the device");
    }

    fn meet(&self, call: Call) {
        // A guest may wait for the growth that it meets: it is no other thread in truth.
        if matches!(call, Call::Allocate | Call::Free) || self.shape.pages.is_some() {
            return;
        }
        let mut guests = self.guests();
        if guests.inside || guests.left == 0 || guests.random.u8(..100) >= self.shape.meetings {
            return;
        }
        guests.left -= 1;
        guests.inside = true;
        let mut record = [0; super::generate::RECORD_BYTES];
        guests.random.fill(&mut record);
        // Allocations, uses, and frees.
        record[0] = guests.random.u8(..152);
        drop(guests);
        if let Some(host) = platform::switch_thread(GUEST) {
            let done = self.step(&decode_operation(&self.shape, record));
            platform::switch_thread(host);
            self.tally(|tally| tally.meetings += 1);
            let mut guests = self.guests();
            guests.inside = false;
            guests.fault = guests.fault.take().or(done.err());
        } else {
            self.guests().inside = false;
        }
    }

    /// A call that no other thread may meet.
    pub(super) fn without_guests<R>(&self, call: impl FnOnce() -> R) -> R {
        let inside = core::mem::replace(&mut self.guests().inside, true);
        let result = call();
        self.guests().inside = inside;
        result
    }

    /// Whether no call of another thread is under way.
    pub(super) fn is_alone(&self) -> bool {
        let expects = self.shape.meetings > 0;
        self.alone && !(expects && self.guests().inside)
    }

    /// How many calls guests have made: whoever asks twice knows whether one was met.
    pub(super) fn meetings(&self) -> u64 {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).meetings
    }

    /// Looks at everything after a step.
    fn look(&self, step: usize) -> Result<(), Fault> {
        if let Some(fault) = self.guests().fault.take() {
            return Err(fault);
        }
        self.look_at_device()?;
        let stats = self.pool.stats();
        let (live_bytes, live_blocks, tags, limit_bytes, streams) = {
            let world = self.world();
            let streams = world.streams.iter().filter(|stream| stream.id.is_some()).count() as u64;
            (world.live_bytes, world.live_blocks, world.tag_bytes, world.limit_bytes, streams)
        };
        for (figure, got, expected) in [
            ("live_bytes", stats.live_bytes, live_bytes),
            ("live_blocks", stats.live_blocks, live_blocks),
            ("streams", stats.streams, streams),
        ] {
            Fault::differs(figure, got, expected)?;
        }
        for (tag, &bytes) in (0..).zip(&tags) {
            let tag = pool_core::Tag(tag);
            Fault::differs("tag_live_bytes", self.pool.tag_live_bytes(tag), bytes)?;
        }
        let sum = stats.live_bytes + stats.cached_bytes + stats.deferred_bytes + stats.free_bytes;
        Fault::differs("live, cached, deferred and free bytes", sum, stats.reserved_bytes)?;
        Fault::differs("resting_bytes", stats.resting_bytes, self.device.resting_bytes())?;
        self.tally(|tally| tally.rested += u64::from(stats.resting_bytes > 0));
        let held_bytes = self.device.balance().bytes;
        Fault::differs("reserved_bytes", stats.reserved_bytes, held_bytes)?;
        let (got, mut world) = (stats.reserved_bytes, self.world());
        if got > world.ceiling_bytes {
            let expected = world.ceiling_bytes;
            return Err(Fault::Books { figure: "reserved_bytes over the limit", got, expected });
        }
        world.ceiling_bytes = limit_bytes.map_or(u64::MAX, |limit| limit.max(got));
        drop(world);
        if step.is_multiple_of(VERIFY_EACH) {
            self.pool.verify().map_err(Fault::Verify)?;
        }
        #[cfg(feature = "record")]
        if let Some(recorded) = &self.recorded {
            let peaks = self.alone && self.shape.meetings == 0;
            recorded.lock().unwrap_or_else(PoisonError::into_inner).look(&self.pool, peaks)?;
        }
        Ok(())
    }

    /// What a step is at: one of some labels, or one within another, or nothing.
    #[cfg(feature = "record")]
    fn label(&self, step: usize) -> impl Drop + '_ {
        struct Ends<E>(Vec<E>);
        impl<E> Drop for Ends<E> {
            fn drop(&mut self) {
                while self.0.pop().is_some() {}
            }
        }
        let names: &[&str] = [&[][..], &["even"], &["even", "third"], &["third"]][step % 4];
        Ends(names.iter().map(|name| self.pool.label(name)).collect())
    }

    pub(super) fn look_at_device(&self) -> Result<(), Fault> {
        let violations = self.device.violations();
        if violations.is_empty() { Ok(()) } else { Err(Fault::Device(violations)) }
    }

    /// Undoes everything, and looks at what is left.
    fn end(self: Arc<Self>) -> Result<Tally, Fault> {
        self.device.clear_faults();
        self.end_captures()?;
        if !self.shape.abrupt_end {
            self.undo()?;
        }
        self.look_at_device()?;
        let stats = self.pool.stats();
        self.tally(|tally| {
            (tally.steals, tally.growths) = (stats.steals, stats.growths);
            tally.migrations = stats.migrations;
            tally.moved_pages = stats.moved_pages;
            tally.shelf_hits = stats.shelf_hits;
        });
        self.world().drop_all(&self.device);
        let Some(run) = Arc::into_inner(self) else { return Ok(Tally::default()) };
        let Self { device, pool, tally, .. } = run;
        platform::end_threads();
        drop(pool);
        device.run_all();
        let violations = device.violations();
        if !violations.is_empty() {
            return Err(Fault::Device(violations));
        }
        let balance = device.balance();
        if !balance.is_zero() {
            return Err(Fault::Left(balance));
        }
        Ok(tally.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn undo(&self) -> Result<(), Fault> {
        while self.world().blocks.last().is_some() {
            self.step(&Operation::Free {
                block: 0,
                release: super::operation::Release::AtHome,
                last_use: false,
            })?;
        }
        while !self.world().movables.is_empty() {
            self.step(&Operation::FreeMovable {
                movable: 0,
                release: super::operation::Release::AtHome,
            })?;
        }
        loop {
            let last = self.world().graphs.last().map(|graph| graph.id);
            let Some(graph) = last else { break };
            self.release_graph(graph)?;
        }
        loop {
            let known = self.world().pick_stream(0, |stream| stream.id.is_some()).map(|s| s.number);
            let Some(number) = known else { break };
            self.retire(number)?;
        }
        self.look(0)?;
        let trimmed = self.pool.trim_waiting(0);
        trimmed.map_err(|error| Fault::unexpected("trim_waiting", &error))?;
        let stats = self.pool.stats();
        for (figure, got) in [
            ("live_bytes at the end", stats.live_bytes),
            ("deferred_bytes at the end", stats.deferred_bytes),
            ("cached_bytes at the end", stats.cached_bytes),
            ("reserved_bytes at the end", stats.reserved_bytes),
            ("streams at the end", stats.streams),
        ] {
            Fault::differs(figure, got, 0)?;
        }
        self.pool.verify().map_err(Fault::Verify)
    }
}

impl Fault {
    pub(super) fn unexpected(call: &'static str, error: &PoolError<SimError>) -> Self {
        Self::Unexpected { call, error: error.to_string() }
    }

    pub(super) fn differs(figure: &'static str, got: u64, expected: u64) -> Result<(), Self> {
        if got == expected { Ok(()) } else { Err(Self::Books { figure, got, expected }) }
    }
}

/// When freed memory is free.
pub(super) fn reclaim(shape: &Shape, cool_down: bool) -> Reclaim {
    let cool_down = if cool_down { CoolDown::UntilDone } else { CoolDown::Off };
    Reclaim {
        deferred: shape.deferred,
        cool_down,
        watermark_bytes: shape.watermark_bytes,
        decay: shape.decay.map(|requests| Decay { period: Idle::Requests(requests) }),
        ..Reclaim::new()
    }
}

/// When work runs.
pub(super) fn pacing(pace: Pace) -> Pacing {
    match pace {
        Pace::Eager => Pacing::Eager,
        Pace::Idle => Pacing::Idle,
        Pace::Lag(items) => Pacing::Lag(items.into()),
        Pace::Random(seed) => Pacing::Random(seed.into()),
    }
}

/// A tenant's share that allows what a limit does.
pub(super) fn quota(limit_bytes: Option<u64>) -> Share {
    Share::borrowing(limit_bytes.unwrap_or(u64::MAX))
}
