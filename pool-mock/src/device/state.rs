//! Everything that the devices of a world know, under one lock.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeSet, HashMap};

use pool_core::device::Capabilities;

use super::calls::Calls;
use super::capture::{Capture, Graph};
use super::clock::{Actor, Clock, HostClock, Point};
use super::config::{Pacing, SimConfig};
use super::detector::Past;
use super::error::SimError;
use super::faults::Faults;
use super::fence::{FenceState, Place};
use super::memory::RangeState;
use super::pages::PagesState;
use super::stream::{Item, Origin, SimStream, StreamState, Task, Work};
use super::thread;
use super::violation::{Access, Action, Owner, StreamName, Use, Violation};

/// The handle of the legacy default stream, and its other one.
pub(super) const LEGACY: [u64; 2] = [0, 1];
/// The handle of the default stream of the calling thread.
pub(super) const PER_THREAD: u64 = 2;
/// The first handle of a stream that is made.
const FIRST_KEY: u64 = 0x1000;

/// So many violations are kept.
const MOST_VIOLATIONS: usize = 1000;

/// The state of a world of devices.
pub(super) struct State {
    pub(super) devices: Vec<DeviceState>,
    pub(super) ranges: HashMap<u64, RangeState>,
    pub(super) pages: HashMap<u64, PagesState>,
    pub(super) streams: Vec<StreamState>,
    /// Streams with something in their queues.
    pub(super) active: BTreeSet<Actor>,
    pub(super) handles: HashMap<u64, Actor>,
    spare_keys: Vec<u64>,
    pub(super) fences: HashMap<u64, FenceState>,
    pub(super) captures: HashMap<u64, Capture>,
    pub(super) graphs: HashMap<u64, Graph>,
    pub(super) host: HostClock,
    pub(super) violations: Vec<Violation>,
    pub(super) pacing: Pacing,
    pub(super) random: fastrand::Rng,
    pub(super) now: Duration,
    pub(super) detector: bool,
    pub(super) same_owner: bool,
    pub(super) marks: bool,
    next_id: u64,
    uses: u64,
}

/// What is a device's own.
pub(super) struct DeviceState {
    pub(super) capabilities: Capabilities,
    pub(super) memory_bytes: u64,
    pub(super) used_bytes: u64,
    /// What others use.
    pub(super) foreign_bytes: u64,
    pub(super) alive: bool,
    /// How often it still says so, where that is set.
    pub(super) alive_for: Option<u64>,
    pub(super) fatal: Fatal,
    pub(super) calls: Calls,
    pub(super) faults: Faults,
    legacy: Option<Actor>,
    /// The streams that are ordered with the legacy default stream.
    blocking: Vec<Actor>,
    per_thread: HashMap<u64, Actor>,
}

impl DeviceState {
    /// Says whether the device can be called, which may be over with that.
    pub(super) fn ask_whether_alive(&mut self) -> bool {
        match &mut self.alive_for {
            Some(0) => self.alive = false,
            Some(left) => *left -= 1,
            None => {}
        }
        self.alive
    }
}

/// Whether a device works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fatal {
    /// It does.
    No,
    /// It does not, and no call has said so.
    Unsaid,
    /// It does not, and the caller was told.
    Said,
}

/// Bytes that are to be used.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) range: u64,
    pub(super) bytes: core::ops::Range<u64>,
    pub(super) owner: Option<Owner>,
    pub(super) access: Access,
}

/// Work that a stream runs or a graph keeps.
#[derive(Clone)]
pub(super) enum Job {
    Use(Wanted),
    Copy(Wanted, Wanted),
    Task(Vec<Wanted>, Task),
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Use(wanted) => f.debug_tuple("Use").field(wanted).finish(),
            Self::Copy(from, to) => f.debug_tuple("Copy").field(from).field(to).finish(),
            Self::Task(uses, _) => f.debug_tuple("Task").field(uses).finish_non_exhaustive(),
        }
    }
}

impl State {
    pub(super) fn new(config: &SimConfig) -> Self {
        let seed = if let Pacing::Random(seed) = config.pacing { seed } else { 0 };
        let mut state = Self {
            devices: Vec::new(),
            ranges: HashMap::new(),
            pages: HashMap::new(),
            streams: Vec::new(),
            active: BTreeSet::new(),
            handles: HashMap::new(),
            spare_keys: Vec::new(),
            fences: HashMap::new(),
            captures: HashMap::new(),
            graphs: HashMap::new(),
            host: HostClock::default(),
            violations: Vec::new(),
            pacing: config.pacing,
            random: fastrand::Rng::with_seed(seed),
            now: Duration::ZERO,
            detector: config.detector,
            same_owner: config.same_owner,
            marks: config.marks,
            next_id: 0,
            uses: 0,
        };
        state.add_device(config);
        state
    }

    /// Another device; gives its number.
    pub(super) fn add_device(&mut self, config: &SimConfig) -> u32 {
        self.devices.push(DeviceState {
            capabilities: config.capabilities,
            memory_bytes: config.memory_bytes,
            used_bytes: 0,
            foreign_bytes: 0,
            alive: true,
            alive_for: None,
            fatal: Fatal::No,
            calls: Calls::default(),
            faults: Faults::default(),
            legacy: None,
            blocking: Vec::new(),
            per_thread: HashMap::new(),
        });
        u32::try_from(self.devices.len() - 1).expect("a world has few devices")
    }

    pub(super) fn device(&mut self, device: u32) -> &mut DeviceState {
        &mut self.devices[device as usize]
    }

    /// A number that nothing else of this world gets.
    pub(super) const fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn violate(&mut self, violation: Violation) {
        if self.violations.len() < MOST_VIOLATIONS {
            self.violations.push(violation);
        }
    }

    pub(super) fn stream(&self, actor: Actor) -> &StreamState {
        &self.streams[actor as usize]
    }

    pub(super) fn stream_mut(&mut self, actor: Actor) -> &mut StreamState {
        &mut self.streams[actor as usize]
    }

    /// The stream that a handle means.
    pub(super) fn resolve(&mut self, stream: SimStream, action: Action) -> Result<Actor, SimError> {
        let SimStream { key, device } = stream;
        let one_queue = !self.device(device).capabilities.contains(Capabilities::FENCES);
        if one_queue || LEGACY.contains(&key) {
            return Ok(self.legacy(device));
        }
        if key == PER_THREAD {
            return Ok(self.per_thread(device));
        }
        let found = self.handles.get(&key).copied();
        found.ok_or_else(|| {
            self.violate(Violation::DeadStream { action, key });
            SimError::DeadStream { key }
        })
    }

    fn legacy(&mut self, device: u32) -> Actor {
        if let Some(actor) = self.device(device).legacy {
            return actor;
        }
        let actor = self.add_stream(device, LEGACY[0], Origin::Legacy);
        self.device(device).legacy = Some(actor);
        actor
    }

    fn per_thread(&mut self, device: u32) -> Actor {
        let thread = thread::number();
        if let Some(&actor) = self.device(device).per_thread.get(&thread) {
            return actor;
        }
        let actor = self.add_stream(device, PER_THREAD, Origin::PerThread);
        self.device(device).per_thread.insert(thread, actor);
        actor
    }

    /// A new stream, with a handle that was just another's, if there is one.
    pub(super) fn open(&mut self, device: u32, origin: Origin) -> SimStream {
        let key = self.spare_keys.pop().unwrap_or_else(|| FIRST_KEY + self.new_id() * 0x10);
        let actor = self.add_stream(device, key, origin);
        self.handles.insert(key, actor);
        SimStream { key, device }
    }

    /// A stream's handle means it no more.
    pub(super) fn close(&mut self, actor: Actor) {
        let stream = self.stream_mut(actor);
        stream.alive = false;
        let StreamName { key, device, .. } = stream.name;
        self.device(device).blocking.retain(|&other| other != actor);
        self.handles.remove(&key);
        self.spare_keys.push(key);
    }

    /// Ends a stream of this origin.
    pub(super) fn end_stream(
        &mut self,
        actor: Actor,
        origin: Origin,
        action: Action,
    ) -> Result<(), SimError> {
        let stream = self.stream(actor);
        let same = match (stream.origin, origin) {
            (Origin::Opened(_), Origin::Opened(_)) => true,
            (one, other) => one == other,
        };
        if !same {
            self.violate(Violation::Unknown { action, what: "stream" });
            return Err(SimError::Unknown("stream"));
        }
        if let Some(capture) = stream.capture {
            return Err(self.break_capture(capture, action));
        }
        self.close(actor);
        Ok(())
    }

    pub(super) fn add_stream(&mut self, device: u32, key: u64, origin: Origin) -> Actor {
        let actor = Actor::try_from(self.streams.len()).expect("fewer than 2^32 streams");
        let name = StreamName { id: u64::from(actor), key, device };
        self.streams.push(StreamState::new(name, origin));
        if origin.is_blocking() {
            self.device(device).blocking.push(actor);
        }
        actor
    }

    /// Whether a point is done.
    pub(super) fn is_done(&self, point: Point) -> bool {
        self.stream(point.actor).done >= point.position
    }

    /// Queues an item behind all that is in its stream, and what the legacy default stream's
    /// rule adds.
    pub(super) fn submit(&mut self, actor: Actor, work: Work, mut waits: Vec<Point>) -> Point {
        self.obey_legacy(actor, &mut waits);
        let stream = &mut self.streams[actor as usize];
        stream.submitted += 1;
        stream.queue.push_back(Item { waits, work });
        self.active.insert(actor);
        self.stream(actor).end(actor)
    }

    /// The legacy default stream and the blocking streams of a device wait for each other.
    fn obey_legacy(&mut self, actor: Actor, waits: &mut Vec<Point>) {
        let (origin, device) = (self.stream(actor).origin, self.stream(actor).name.device);
        if origin == Origin::Legacy {
            for place in 0..self.device(device).blocking.len() {
                let other = self.device(device).blocking[place];
                self.follow(actor, other, waits);
            }
        } else if origin.is_blocking()
            && let Some(legacy) = self.device(device).legacy
        {
            self.follow(actor, legacy, waits);
        }
    }

    /// What is queued on `actor` next comes after all that is queued on `other` so far.
    pub(super) fn follow(&mut self, actor: Actor, other: Actor, waits: &mut Vec<Point>) {
        let end = self.stream(other).end(other);
        if !self.is_done(end) {
            waits.push(end);
        }
        let clock = self.stream(other).clock.clone();
        self.learn(actor, end, &clock);
    }

    /// What is queued on `actor` next comes after a point and what is before that.
    pub(super) fn learn(&mut self, actor: Actor, point: Point, clock: &Clock) {
        let stream = &mut self.streams[actor as usize];
        if !self.host.knows(point) && !stream.clock.knows(point) {
            stream.clock.join(clock, &self.host);
            stream.clock.add(point);
        }
    }

    /// The host has seen that a point is done.
    pub(super) fn see(&mut self, point: Point, clock: &Clock) {
        self.host.see_all(clock);
        self.host.see(point);
    }

    /// Queues work on a stream that is not captured.
    pub(super) fn queue(&mut self, actor: Actor, job: &Job, waits: Vec<Point>) -> Point {
        let at = self.submit(actor, Work::Nothing, waits);
        let work = match job {
            Job::Use(wanted) => {
                let queued = self.declare(at, wanted);
                Work::Use(Box::new(queued))
            }
            Job::Copy(from, to) => {
                let (read, write) = (self.declare(at, from), self.declare(at, to));
                Work::Copy(Box::new((read, write)))
            }
            Job::Task(uses, task) => {
                for wanted in uses {
                    self.declare(at, wanted);
                }
                Work::Task(Task::clone(task))
            }
        };
        if (self.marks || matches!(work, Work::Task(_)))
            && let Some(item) = self.stream_mut(actor).queue.back_mut()
        {
            item.work = work;
        }
        at
    }

    /// A use is submitted: whether it may be, and whether all is ordered that must be.
    fn declare(&mut self, at: Point, wanted: &Wanted) -> Use {
        self.uses += 1;
        let queued = Use {
            order: self.uses,
            stream: self.stream(at.actor).name,
            owner: wanted.owner,
            access: wanted.access,
            range: wanted.range,
            bytes: wanted.bytes.clone(),
        };
        if let Some(violation) = self.misplaced(&queued) {
            self.violate(violation);
        } else if self.detector {
            self.detect(at, &queued);
        }
        queued
    }

    /// What is wrong with where a use is.
    fn misplaced(&self, queued: &Use) -> Option<Violation> {
        let bytes = queued.bytes.clone();
        let Some(range) = self.ranges.get(&queued.range) else {
            return Some(Violation::Freed(queued.clone()));
        };
        if bytes.end > range.size_bytes {
            return Some(Violation::Outside(queued.clone()));
        }
        if let Some(gap) = range.committed.first_gap(bytes.clone()) {
            return Some(Violation::NotCommitted { queued: queued.clone(), bytes: gap });
        }
        let (resting, ()) = range.resting.overlapping(bytes).next()?;
        Some(Violation::Resting { queued: queued.clone(), bytes: resting })
    }

    fn detect(&mut self, at: Point, queued: &Use) {
        let Some(range) = self.ranges.get_mut(&queued.range) else { return };
        let past = Past {
            at,
            order: queued.order,
            owner: queued.owner,
            access: queued.access,
            bytes: queued.bytes.clone(),
        };
        let (host, clock) = (&self.host, &self.streams[at.actor as usize].clock);
        let is_before =
            |past: &Past| past.at.actor == at.actor || host.knows(past.at) || clock.knows(past.at);
        let is_other =
            |past: &Past| self.same_owner || past.owner.is_none() || past.owner != queued.owner;
        let races = range.uses.add(&past, is_before, is_other);
        for earlier in races {
            let earlier = self.past_use(queued.range, earlier);
            self.violate(Violation::Race { earlier, later: queued.clone() });
        }
    }

    /// A kept use, for a report.
    fn past_use(&self, range: u64, past: Past) -> Use {
        Use {
            order: past.order,
            stream: self.stream(past.at.actor).name,
            owner: past.owner,
            access: past.access,
            range,
            bytes: past.bytes,
        }
    }

    /// The use of these bytes that the host has not seen done, if there is one. On a device with
    /// one queue everything is in order, the host's own calls, too.
    pub(super) fn pending(&self, range: u64, bytes: core::ops::Range<u64>) -> Option<Use> {
        let known = self.ranges.get(&range)?;
        let capabilities = self.devices[known.device as usize].capabilities;
        if !self.detector || !capabilities.contains(Capabilities::FENCES) {
            return None;
        }
        let past = known.uses.pending(bytes, |past| self.host.knows(past.at))?;
        Some(self.past_use(range, past))
    }

    /// Where a device's streams end now that the host has not seen done, with what is before that.
    pub(super) fn ends(&self, device: u32) -> Vec<(Point, Clock)> {
        let streams = self.streams.iter().zip(0..);
        streams
            .filter(|(stream, _)| stream.name.device == device && stream.origin != Origin::Chain)
            .map(|(stream, actor)| (stream.end(actor), stream))
            .filter(|(end, _)| end.position > 0 && !self.host.knows(*end))
            .map(|(end, stream)| (end, stream.clock.clone()))
            .collect()
    }

    /// A fence.
    pub(super) fn add_fence(&mut self, device: u32, place: Place) -> u64 {
        let id = self.new_id();
        self.fences.insert(id, FenceState { device, place });
        id
    }

    /// A fence behind all that is queued in a stream.
    pub(super) fn record(&mut self, device: u32, actor: Actor) -> u64 {
        let place = if let Some(capture) = self.stream(actor).capture {
            Place::Capture { capture, nodes: self.frontier(capture, actor) }
        } else {
            let at = self.submit(actor, Work::Nothing, Vec::new());
            Place::Stream { at, clock: self.stream(actor).clock.clone() }
        };
        self.add_fence(device, place)
    }
}
