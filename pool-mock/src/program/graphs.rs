//! Captures and graphs, as a program makes and launches them.

use pool_core::{GraphId, PoolError};

use super::act::Named;
use super::finding::Fault;
use super::run::Run;
use super::world::{Capture, Executable, Graph, Stream};
use crate::device::{CaptureMode, SimStream};

/// The most captures at a time.
const MOST_CAPTURES: usize = 2;

/// The most graphs that can be launched at a time.
const MOST_EXECUTABLES: usize = 6;

impl Run {
    pub(super) fn begin_capture(
        &self,
        pick: u8,
        graph: u8,
        mode: u8,
        announce_first: bool,
    ) -> Result<(), Fault> {
        let id = GraphId(graph.into());
        let named = {
            let world = self.world();
            let launchable: usize = world.graphs.iter().map(|graph| graph.executables.len()).sum();
            let known = world.graphs.iter().find(|known| known.id == id);
            if world.captures.len() >= MOST_CAPTURES
                || launchable >= MOST_EXECUTABLES
                || known.is_some_and(|known| known.released)
            {
                return Ok(());
            }
            let Some(stream) = world.pick_stream(pick, is_free) else { return Ok(()) };
            Named::of(stream, false)
        };
        let mode = match mode {
            0 => CaptureMode::Global,
            1 => CaptureMode::ThreadLocal,
            _ => CaptureMode::Relaxed,
        };
        // In a capture a use is noted as the graph's, not as one of the stream.
        if !self.note_everywhere(named.number)? || !self.is_free(named.number) {
            return Ok(());
        }
        let injected = self.device.injected();
        let handle = named.handle();
        if !announce_first && self.device.begin_capture_in(handle, mode).is_err() {
            return Ok(());
        }
        // Others would not know yet that the stream is captured.
        let announced = self.without_guests(|| self.pool.begin_capture(named.on(), id));
        if let Err(error) = announced {
            if !announce_first && let Ok(graph) = self.device.end_capture(handle) {
                let _ = self.device.drop_graph(graph);
            }
            return self.judge("begin_capture", injected, &error, false);
        }
        if announce_first && self.device.begin_capture_in(handle, mode).is_err() {
            let ended = self.pool.end_capture(named.on());
            return ended.map_err(|error| Fault::unexpected("end_capture", &error));
        }
        self.tally(|tally| tally.captures += 1);
        let mut world = self.world();
        let number = world.number();
        if let Some(stream) = world.stream_mut(named.number) {
            stream.capture = Some(number);
        }
        world.captures.push(Capture {
            number,
            graph: id,
            stream: named.number,
            joined: Vec::new(),
            before: Vec::new(),
        });
        match world.graphs.iter_mut().find(|graph| graph.id == id) {
            Some(graph) => {
                graph.captures += 1;
                graph.doubtful = false;
            }
            None => world.graphs.push(Graph {
                id,
                executables: Vec::new(),
                last: None,
                captures: 1,
                released: false,
                doubtful: false,
            }),
        }
        Ok(())
    }

    /// Another stream joins a capture.
    pub(super) fn fork(&self, pick: u8, stream: u8) -> Result<(), Fault> {
        let joining = self.world().pick_stream(stream, is_free).map(|s| (s.number, s.handle));
        let Some(joining) = joining else { return Ok(()) };
        if self.note_everywhere(joining.0)? && self.is_free(joining.0) {
            self.join_capture(pick, joining);
        }
        Ok(())
    }

    fn join_capture(&self, pick: u8, joining: (u32, SimStream)) {
        let mut world = self.world();
        let Some(place) = usize::from(pick).checked_rem(world.captures.len()) else { return };
        let (number, origin) = (world.captures[place].number, world.captures[place].stream);
        let Some(origin) = world.stream(origin).map(|stream| stream.handle) else { return };
        let Ok(fence) = self.device.queue_record(origin) else { return };
        if self.device.queue_wait(joining.1, &fence).is_ok() {
            if let Some(stream) = world.stream_mut(joining.0) {
                stream.capture = Some(number);
            }
            world.captures[place].joined.push(joining.0);
        }
        self.device.discard_fence(fence);
    }

    /// Whether a stream can be captured.
    fn is_free(&self, number: u32) -> bool {
        self.world().stream(number).is_some_and(is_free)
    }

    /// Where a capture began waits for one that joined it.
    pub(super) fn join(&self, pick: u8) {
        let mut world = self.world();
        let Some(stream) = world.pick_stream(pick, |stream| stream.capture.is_some()) else {
            return;
        };
        let (joined, of) = (stream.number, stream.capture);
        let capture = world.captures.iter().find(|capture| Some(capture.number) == of);
        if let Some(origin) = capture.map(|capture| capture.stream) {
            world.order(&self.device, joined, origin);
        }
    }

    pub(super) fn end_captures(&self) -> Result<(), Fault> {
        while !self.world().captures.is_empty() {
            self.end_capture(0, false)?;
        }
        Ok(())
    }

    pub(super) fn end_capture(&self, pick: u8, spoil: bool) -> Result<(), Fault> {
        let injected = self.device.injected();
        let (named, made) = {
            let mut world = self.world();
            let Some(place) = usize::from(pick).checked_rem(world.captures.len()) else {
                return Ok(());
            };
            let capture = world.captures.remove(place);
            for &joined in &capture.joined {
                world.order(&self.device, joined, capture.stream);
            }
            let Some(stream) = world.stream(capture.stream) else { return Ok(()) };
            let named = Named::of(stream, false);
            if spoil {
                let _ = self.device.spoil_capture(named.handle());
            }
            let made = self.device.end_capture(named.handle());
            for stream in &mut world.streams {
                stream.capture = stream.capture.filter(|&of| of != capture.number);
            }
            if let Some(graph) = world.graphs.iter_mut().find(|graph| graph.id == capture.graph) {
                graph.captures -= 1;
                match made {
                    Ok(handle) => {
                        graph.executables.push(Executable { handle, before: capture.before });
                    }
                    Err(_) => {
                        capture
                            .before
                            .into_iter()
                            .for_each(|fence| self.device.discard_fence(fence));
                    }
                }
            }
            (named, made)
        };
        let ended = self.pool.end_capture(named.on());
        let mut world = self.world();
        if world.captures.is_empty() {
            // Those that were released meanwhile are gone, or the pool says that they are not.
            if ended.is_ok() {
                world.graphs.retain(|graph| !graph.released);
            }
            // It does not say which of them.
            for graph in &mut world.graphs {
                graph.doubtful |= core::mem::take(&mut graph.released);
            }
        }
        drop(world);
        if let (Err(error), false) = (made, spoil) {
            self.look_at_device()?;
            return Err(Fault::Unexpected {
                call: "the device's end_capture",
                error: error.to_string(),
            });
        }
        ended.or_else(|error| self.judge("end_capture", injected, &error, false))
    }

    pub(super) fn launch(&self, pick: u8, stream: u8) {
        let mut world = self.world();
        let graphs = world.graphs.iter().enumerate();
        let launchable = graphs.flat_map(|(place, graph)| {
            (0..graph.executables.len()).map(move |executable| (place, executable))
        });
        let launchable: Vec<(usize, usize)> = launchable.collect();
        let Some(choice) = usize::from(pick).checked_rem(launchable.len()) else { return };
        let (place, executable) = launchable[choice];
        let free = |stream: &Stream| stream.capture.is_none();
        let Some(handle) = world.pick_stream(stream, free).map(|s| s.handle) else { return };
        let graph = &mut world.graphs[place];
        let Executable { handle: launched, before } = &graph.executables[executable];
        for fence in before.iter().chain(&graph.last) {
            if self.device.queue_wait(handle, fence).is_err() {
                return;
            }
        }
        if self.device.launch_graph(*launched, handle).is_err() {
            return;
        }
        self.tally(|tally| tally.launches += 1);
        if let Ok(fence) = self.device.queue_record(handle) {
            graph.last.replace(fence).into_iter().for_each(|old| self.device.discard_fence(old));
        }
    }

    pub(super) fn release_some_graph(&self, pick: u8) -> Result<(), Fault> {
        let found = {
            let world = self.world();
            let place = usize::from(pick).checked_rem(world.graphs.len());
            place.map(|place| world.graphs[place].id)
        };
        found.map_or(Ok(()), |id| self.release_graph(id))
    }

    pub(super) fn release_graph(&self, id: GraphId) -> Result<(), Fault> {
        let injected = self.device.injected();
        let answer = self.pool.release_graph(id);
        let mut world = self.world();
        let capturing = world.is_capturing();
        let Some(place) = world.graphs.iter().position(|graph| graph.id == id) else {
            return Ok(());
        };
        match answer {
            Ok(()) if world.graphs[place].captures > 0 => Err(Fault::Unexpected {
                call: "release_graph",
                error: "released while it is captured into".into(),
            }),
            Ok(()) => {
                world.drop_executables(&self.device, place);
                if capturing {
                    world.graphs[place].released = true;
                } else {
                    world.graphs.remove(place);
                }
                Ok(())
            }
            Err(PoolError::NoCapture) if world.graphs[place].doubtful => {
                world.graphs.remove(place);
                Ok(())
            }
            Err(error) => {
                let captured = matches!(error, PoolError::Captured(_));
                let expected = captured && world.graphs[place].captures > 0;
                drop(world);
                self.judge("release_graph", injected, &error, expected)
            }
        }
    }
}

/// Whether a stream can be captured: no call names it.
fn is_free(stream: &Stream) -> bool {
    stream.capture.is_none() && stream.busy == 0
}
