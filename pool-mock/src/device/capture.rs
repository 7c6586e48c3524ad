//! Captures: streams whose work goes into a graph, and graphs that run it.

use std::collections::BTreeMap;

use super::clock::{Actor, Clock, Point};
use super::error::SimError;
use super::fence::Place;
use super::state::{Job, State};
use super::stream::{Origin, Work};
use super::thread;
use super::violation::{Action, Violation};

/// What is forbidden while a stream is captured: calls that allocate, free, query or wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CaptureMode {
    /// To every thread.
    #[default]
    Global,
    /// To the thread that began the capture.
    ThreadLocal,
    /// To none.
    Relaxed,
}

/// Whether a stream is being captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureStatus {
    /// It is not.
    None,
    /// It is, into the capture with this number.
    Active(u64),
    /// It is, but the capture with this number is broken.
    Broken(u64),
}

/// A graph that a capture made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphHandle {
    pub(super) id: u64,
}

/// A capture that is open.
#[derive(Debug)]
pub(super) struct Capture {
    device: u32,
    mode: CaptureMode,
    thread: u64,
    origin: Actor,
    broken: bool,
    nodes: Vec<Node>,
    /// For each stream in it the nodes that its next one comes after.
    frontiers: BTreeMap<Actor, Vec<u32>>,
}

/// A piece of work in a graph.
#[derive(Debug)]
struct Node {
    stream: Actor,
    after: Vec<u32>,
    job: Job,
}

/// A graph.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) device: u32,
    nodes: Vec<Node>,
    /// For each node whether one on another chain comes after it.
    is_shared: Vec<bool>,
    /// For each stream that was captured the chain that stands for it.
    chains: BTreeMap<Actor, Actor>,
    /// The end of the last launch: the next one comes after it.
    last: Option<(Point, Clock)>,
}

impl State {
    /// Has a stream's work go into a graph from now on; gives the capture's number.
    pub(super) fn begin_capture(
        &mut self,
        actor: Actor,
        mode: CaptureMode,
    ) -> Result<u64, SimError> {
        let stream = self.stream(actor);
        if stream.capture.is_some() {
            return Err(SimError::Capturing);
        }
        if stream.origin == Origin::Legacy {
            return Err(SimError::Invalid("the legacy default stream cannot be captured"));
        }
        let device = stream.name.device;
        let id = self.new_id();
        self.captures.insert(
            id,
            Capture {
                device,
                mode,
                thread: thread::number(),
                origin: actor,
                broken: false,
                nodes: Vec::new(),
                frontiers: BTreeMap::from([(actor, Vec::new())]),
            },
        );
        self.stream_mut(actor).capture = Some(id);
        Ok(id)
    }

    /// Ends the capture that began on a stream; gives the graph's number.
    pub(super) fn end_capture(&mut self, actor: Actor) -> Result<u64, SimError> {
        let id = self.stream(actor).capture.ok_or(SimError::NotCapturing)?;
        let capture = self.captures.get(&id).ok_or(SimError::NotCapturing)?;
        if capture.origin != actor {
            return Err(SimError::NotOrigin);
        }
        let Some(capture) = self.captures.remove(&id) else { return Err(SimError::NotCapturing) };
        for &member in capture.frontiers.keys() {
            self.stream_mut(member).capture = None;
        }
        if capture.broken {
            return Err(SimError::CaptureInvalidated);
        }
        if !capture.is_joined() {
            return Err(SimError::Unjoined);
        }
        let mut chains = BTreeMap::new();
        for node in &capture.nodes {
            chains.entry(node.stream).or_insert_with(|| {
                let key = self.stream(node.stream).name.key;
                self.add_stream(capture.device, key, Origin::Chain)
            });
        }
        let mut is_shared = vec![false; capture.nodes.len()];
        for node in &capture.nodes {
            for &before in &node.after {
                is_shared[before as usize] |= capture.nodes[before as usize].stream != node.stream;
            }
        }
        let graph = self.new_id();
        let Capture { device, nodes, .. } = capture;
        self.graphs.insert(graph, Graph { device, nodes, is_shared, chains, last: None });
        Ok(graph)
    }

    /// Runs a graph's work in a stream.
    pub(super) fn launch(&mut self, id: u64, actor: Actor) -> Result<(), SimError> {
        if self.stream(actor).capture.is_some() {
            return Err(SimError::Capturing);
        }
        let mut graph = self.graphs.remove(&id).ok_or(SimError::Unknown("graph"))?;
        let mut waits = Vec::new();
        if let Some((point, clock)) = &graph.last {
            self.learn(actor, *point, clock);
            waits.push(*point);
        }
        let start = self.submit(actor, Work::Nothing, waits);
        let before = self.stream(actor).clock.clone();
        let mut placed: Vec<(Point, Option<Clock>)> = Vec::with_capacity(graph.nodes.len());
        for (place, node) in graph.nodes.iter().enumerate() {
            let chain = graph.chains[&node.stream];
            self.learn(chain, start, &before);
            let mut waits = vec![start];
            for &node in &node.after {
                let (point, clock) = &placed[node as usize];
                if let Some(clock) = clock
                    && point.actor != chain
                {
                    self.learn(chain, *point, clock);
                    waits.push(*point);
                }
            }
            let at = self.queue(chain, &node.job, waits);
            let clock = graph.is_shared[place].then(|| self.stream(chain).clock.clone());
            placed.push((at, clock));
        }
        let mut waits = Vec::new();
        for &chain in graph.chains.values() {
            self.follow(actor, chain, &mut waits);
        }
        let end = self.submit(actor, Work::Nothing, waits);
        graph.last = Some((end, self.stream(actor).clock.clone()));
        self.graphs.insert(id, graph);
        Ok(())
    }

    /// Puts work on a stream: in its queue, or in the graph that it is captured into.
    pub(super) fn place(&mut self, actor: Actor, job: Job, action: Action) -> Result<(), SimError> {
        self.check_queue(actor, action)?;
        let Some(id) = self.stream(actor).capture else {
            self.queue(actor, &job, Vec::new());
            return Ok(());
        };
        let Some(capture) = self.captures.get_mut(&id) else { return Err(SimError::NotCapturing) };
        let number = u32::try_from(capture.nodes.len()).map_err(|_| SimError::Invalid("nodes"))?;
        let after = capture.frontiers.insert(actor, vec![number]).unwrap_or_default();
        capture.nodes.push(Node { stream: actor, after, job });
        Ok(())
    }

    /// Whether something may be queued on a stream: not in a broken capture, nor on the legacy
    /// default stream while a stream that it waits for is captured.
    pub(super) fn check_queue(&mut self, actor: Actor, action: Action) -> Result<(), SimError> {
        if let Some(id) = self.stream(actor).capture {
            let is_broken = self.captures.get(&id).is_none_or(|capture| capture.broken);
            return if is_broken { Err(SimError::CaptureInvalidated) } else { Ok(()) };
        }
        if self.captures.is_empty() || self.stream(actor).origin != Origin::Legacy {
            return Ok(());
        }
        let device = self.stream(actor).name.device;
        let captured = self.streams.iter().find_map(|stream| {
            let waits = stream.origin.is_blocking() && stream.name.device == device;
            stream.capture.filter(|_| waits)
        });
        captured.map_or(Ok(()), |capture| {
            self.break_capture(capture, action);
            Err(SimError::ImplicitInCapture { capture })
        })
    }

    /// Whether a stream is being captured.
    pub(super) fn capture_status(&self, actor: Actor) -> CaptureStatus {
        let Some(id) = self.stream(actor).capture else { return CaptureStatus::None };
        let is_broken = self.captures.get(&id).is_none_or(|capture| capture.broken);
        if is_broken { CaptureStatus::Broken(id) } else { CaptureStatus::Active(id) }
    }

    /// Whether a call that no capture allows may be made now.
    pub(super) fn check_captures(&mut self, action: Action) -> Result<(), SimError> {
        if self.captures.is_empty() {
            return Ok(());
        }
        let (thread, own_mode) = (thread::number(), thread::mode());
        let forbidding = self.captures.iter().filter(|(_, capture)| match capture.mode {
            _ if own_mode == CaptureMode::Relaxed => false,
            CaptureMode::Global => own_mode == CaptureMode::Global || capture.thread == thread,
            CaptureMode::ThreadLocal => capture.thread == thread,
            CaptureMode::Relaxed => false,
        });
        let mut forbidding: Vec<u64> = forbidding.map(|(&id, _)| id).collect();
        forbidding.sort_unstable();
        let errors: Vec<_> =
            forbidding.into_iter().map(|id| self.break_capture(id, action)).collect();
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    /// A call that no capture of this device allows, whatever its mode, such as a fence for all
    /// its work.
    pub(super) fn check_device_captures(
        &mut self,
        device: u32,
        action: Action,
    ) -> Result<(), SimError> {
        let captures = self.captures.iter();
        let first = captures.filter(|(_, c)| c.device == device).map(|(&id, _)| id).min();
        first.map_or(Ok(()), |id| Err(self.break_capture(id, action)))
    }

    /// Breaks a capture, if it is open.
    pub(super) fn spoil_capture(&mut self, id: u64) {
        if let Some(capture) = self.captures.get_mut(&id) {
            capture.broken = true;
        }
    }

    /// Breaks a capture, which is a violation.
    pub(super) fn break_capture(&mut self, id: u64, action: Action) -> SimError {
        self.spoil_capture(id);
        self.violate(Violation::InCapture { action, capture: id });
        SimError::ForbiddenInCapture { capture: id }
    }

    /// The nodes that a stream's next one comes after.
    pub(super) fn frontier(&self, capture: u64, actor: Actor) -> Vec<u32> {
        let capture = self.captures.get(&capture);
        capture.and_then(|capture| capture.frontiers.get(&actor)).cloned().unwrap_or_default()
    }

    /// Has a stream wait for a fence.
    pub(super) fn wait(
        &mut self,
        actor: Actor,
        fence: u64,
        action: Action,
    ) -> Result<(), SimError> {
        self.check_queue(actor, action)?;
        let place = &self.fences.get(&fence).ok_or(SimError::Unknown("fence"))?.place;
        match (place.clone(), self.stream(actor).capture) {
            (Place::Stream { at, clock }, None) => {
                self.learn(actor, at, &clock);
                let waits = if self.is_done(at) { Vec::new() } else { vec![at] };
                self.submit(actor, Work::Nothing, waits);
                Ok(())
            }
            (Place::Stream { .. }, Some(capture)) => {
                self.break_capture(capture, action);
                Err(SimError::OutsideCapture)
            }
            (Place::Capture { capture, nodes }, into) => {
                // The legacy default stream is in no capture.
                let is_legacy = self.stream(actor).origin == Origin::Legacy;
                if is_legacy || into.is_some_and(|into| into != capture) {
                    self.break_capture(capture, action);
                    return Err(SimError::OutsideCapture);
                }
                let Some(open) = self.captures.get_mut(&capture) else {
                    self.violate(Violation::CapturedFence { action, capture });
                    return Err(SimError::CapturedFence);
                };
                if open.broken {
                    return Err(SimError::CaptureInvalidated);
                }
                let frontier = open.frontiers.entry(actor).or_default();
                frontier.extend(nodes);
                frontier.sort_unstable();
                frontier.dedup();
                self.stream_mut(actor).capture = Some(capture);
                Ok(())
            }
        }
    }

    /// Where a fence is in real work, for the host to look at. One of a capture breaks that.
    pub(super) fn real_place(
        &mut self,
        fence: u64,
        action: Action,
    ) -> Result<(Point, Clock), SimError> {
        match self.fences.get(&fence).map(|fence| fence.place.clone()) {
            Some(Place::Stream { at, clock }) => Ok((at, clock)),
            Some(Place::Capture { capture, .. }) => {
                self.spoil_capture(capture);
                self.violate(Violation::CapturedFence { action, capture });
                Err(SimError::CapturedFence)
            }
            None => {
                self.violate(Violation::Unknown { action, what: "fence" });
                Err(SimError::Unknown("fence"))
            }
        }
    }
}

impl Capture {
    /// Whether all its work comes before what would be queued next where it began.
    fn is_joined(&self) -> bool {
        let mut is_before = vec![false; self.nodes.len()];
        for &node in self.frontiers.get(&self.origin).into_iter().flatten() {
            is_before[node as usize] = true;
        }
        for (place, node) in self.nodes.iter().enumerate().rev() {
            if is_before[place] {
                for &before in &node.after {
                    is_before[before as usize] = true;
                }
            }
        }
        is_before.into_iter().all(|before| before)
    }
}
