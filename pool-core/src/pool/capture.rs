//! Captures: work that becomes a graph, which runs again later with the same memory.

use alloc::vec::Vec;

use super::Pool;
use super::books::{Books, Capture, Held, Holder};
use super::error::PoolError;
use super::gather::Gathered;
use super::inner::Inner;
use super::parcel::Needs;
use super::sabotage::{FORGETS_GRAPH, IGNORES_CALLS};
use super::stream::{GraphId, On};
use crate::device::{Call, Capabilities, Device};
use crate::sync::pause;
use crate::threads::{Aside, Owner, Threads};

impl<D: Device, T: Threads> Inner<D, T> {
    /// The space of a graph for one of the streams of its captures.
    pub(super) fn space_of_graph(
        &self,
        graph: GraphId,
        key: u64,
    ) -> Result<Owner, PoolError<D::Error>> {
        let known = self.with_books(|books| {
            let spaces = books.graphs.get(&graph).map(|graph| graph.spaces.as_slice())?;
            spaces.iter().find(|(of, _)| *of == key).map(|&(_, space)| space)
        });
        if let Some(space) = known {
            return Ok(space);
        }
        let space = self.new_space(Holder::Graph).ok_or(PoolError::OutOfHostMemory)?;
        self.with_books(|books| {
            books.graphs.entry(graph).or_default().spaces.push((key, space));
        });
        Ok(space)
    }

    /// Keeps a block that the program freed, and that graphs' work uses, until all of them are
    /// released.
    pub(super) fn hold(&self, mut graphs: Vec<GraphId>, block: Aside, needs: Needs<D>) {
        let left = self.with_books(|books| {
            while let Some(graph) = graphs.pop() {
                if let Some(graph) = books.graphs.get_mut(&graph) {
                    graph.held.push(Held { block, others: graphs, needs });
                    return None;
                }
            }
            Some(needs)
        });
        if let Some(needs) = left {
            // They are gone; what they did is behind all work so far.
            self.defer(block, Needs { all: true, ..needs });
        }
    }

    fn begin_capture(
        &self,
        on: &On<'_, D::Stream>,
        graph: GraphId,
    ) -> Result<(), PoolError<D::Error>> {
        self.check_alive()?;
        if !self.capabilities.contains(Capabilities::CAPTURE) {
            return Err(PoolError::Unsupported(Call::CaptureId));
        }
        let handle = self.handle_of(on)?;
        let key = self.device.stream_key(&handle);
        let id = self.call(Call::CaptureId, |device| device.capture_id(&handle))?;
        if id.is_none() && !self.is_capturing() {
            self.make_clean();
        }
        self.with_books(|books| {
            if let Some(capture) = books.captures.iter().find(|capture| capture.key == key) {
                return Err(PoolError::Captured(capture.graph));
            }
            books.captures.push(Capture { id, graph, handle: handle.clone(), key });
            let graph = books.graphs.entry(graph).or_default();
            graph.captures += 1;
            graph.released = false;
            self.set_capturing(true);
            Ok(())
        })?;
        // What other threads have begun that the capture forbids ends before it begins.
        let under_way = |books: &mut Books<D>| {
            let number = books.keys.get(&key);
            let known = number.and_then(|number| books.streams.get(number));
            books.uncapturable > 0 || known.is_some_and(|known| known.busy > 0)
        };
        while !IGNORES_CALLS.is_out() && self.with_books(under_way) {
            pause();
        }
        Ok(())
    }

    /// Has all memory that is done with lie in the hub, clean: a capture, in which nothing can be
    /// asked, gets no other. What cannot be asked for now is not.
    fn make_clean(&self) {
        let mut failure = None;
        self.drain(&mut failure);
        self.flush();
        if self.is_paged() {
            // What a stream that is alone keeps is found in the hub only.
            self.keep_leaving();
            self.with_books(|books| self.bring_addresses_back(books));
        }
        self.gather_all(&mut failure, true, Gathered::All);
        self.fence_hub(&mut failure);
        self.poll(&mut failure);
    }

    fn end_capture(&self, on: &On<'_, D::Stream>) -> Result<(), PoolError<D::Error>> {
        self.check_alive()?;
        let handle = self.handle_of(on)?;
        let key = self.device.stream_key(&handle);
        let released = self.with_books(|books| {
            let place = books.captures.iter().position(|capture| capture.key == key);
            let capture = books.captures.swap_remove(place.ok_or(PoolError::NoCapture)?);
            if let Some(graph) = books.graphs.get_mut(&capture.graph) {
                graph.captures = graph.captures.saturating_sub(1);
            }
            if FORGETS_GRAPH.is_out()
                && let Some(graph) = books.graphs.get_mut(&capture.graph)
            {
                for (_, space) in core::mem::take(&mut graph.spaces) {
                    // No source has this number: its memory is clean.
                    books.spaces[space.0 as usize] = Holder::Gone(0);
                }
            }
            let last = books.captures.is_empty();
            if last {
                self.set_capturing(false);
                self.set_due();
            }
            let graphs = books.graphs.iter().filter(|(_, graph)| last && graph.released);
            Ok::<Vec<GraphId>, PoolError<D::Error>>(graphs.map(|(&id, _)| id).collect())
        })?;
        for graph in released {
            self.release_now(graph)?;
        }
        Ok(())
    }

    fn release_graph(&self, graph: GraphId) -> Result<(), PoolError<D::Error>> {
        self.check_alive()?;
        let now = self.with_books(|books| {
            let capturing = books.is_capturing();
            let known = books.graphs.get_mut(&graph).ok_or(PoolError::NoCapture)?;
            if known.captures > 0 {
                return Err(PoolError::Captured(graph));
            }
            // A fence for all work cannot be recorded while something is captured.
            known.released |= capturing;
            Ok(!capturing)
        })?;
        if now { self.release_now(graph) } else { Ok(()) }
    }

    /// Gives what belonged to a graph back, behind all work of the device so far.
    fn release_now(&self, graph: GraphId) -> Result<(), PoolError<D::Error>> {
        // What is freed from here on may be used by work that the fences are not behind.
        let held = self.take_held(graph);
        let recorded = if self.has_fences() { self.record_all() } else { Ok(Some(Vec::new())) };
        let fences = match recorded {
            Ok(Some(fences)) => fences,
            refused => {
                // If another capture was announced meanwhile: when that ends.
                self.with_books(|books| {
                    books.take_held_out_of_hand(&held);
                    if let Some(known) = books.graphs.get_mut(&graph) {
                        known.held.extend(held);
                        known.released = refused.is_ok();
                    }
                });
                return refused.map(|_| ()).map_err(PoolError::from);
            }
        };
        // Its blocks that caches have go to its spaces.
        self.shared.flush();
        let later = self.with_books(|books| {
            books.take_held_out_of_hand(&held);
            let source = books.sources.add_fences(fences.clone(), &mut books.garbage);
            let released = books.graphs.remove(&graph).unwrap_or_default();
            for &(_, space) in &released.spaces {
                // No source has number zero: what waits for nothing is clean.
                books.set_holder(space, Holder::Gone(source.unwrap_or(0)));
                books.enter_again(space);
            }
            released.held
        });
        self.notes.forget_graph(graph, &fences);
        for Held { block, others, mut needs } in held {
            needs.fences.extend(fences.iter().cloned());
            self.release_block(block, others, needs);
        }
        for Held { block, others, needs } in later {
            self.release_block(block, others, Needs { all: true, ..needs });
        }
        self.empty_gone_spaces();
        Ok(())
    }

    /// Lets go of a block of a graph that is released: it waits for the other graphs that use it,
    /// or for work.
    fn release_block(&self, block: Aside, others: Vec<GraphId>, needs: Needs<D>) {
        if others.is_empty() {
            self.defer(block, needs);
        } else {
            self.hold(others, block, needs);
        }
    }

    /// Takes what is held for a graph into this thread's hands.
    fn take_held(&self, graph: GraphId) -> Vec<Held<D>> {
        self.with_books(|books| {
            let known = books.graphs.get_mut(&graph);
            let held = known.map_or(Vec::new(), |known| core::mem::take(&mut known.held));
            for held in &held {
                books.in_hand_blocks += 1;
                books.in_hand_bytes += held.block.size_bytes;
            }
            held
        })
    }

    /// The device's handle of a stream that a call names.
    pub(super) fn handle_of(
        &self,
        on: &On<'_, D::Stream>,
    ) -> Result<D::Stream, PoolError<D::Error>> {
        match on {
            On::Raw(handle) => Ok((*handle).clone()),
            On::Nothing => Err(PoolError::NoCapture),
            On::Stream(id) => self
                .with_books(|books| books.streams.get(&id.number).map(|known| known.handle.clone()))
                .ok_or(PoolError::UnknownStream(*id)),
        }
    }
}

impl<D: Device> Books<D> {
    fn take_held_out_of_hand(&mut self, held: &[Held<D>]) {
        for held in held {
            self.in_hand_blocks -= 1;
            self.in_hand_bytes -= held.block.size_bytes;
        }
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Announces that a stream is about to be captured into a graph, or is since a moment. Streams
    /// that join the capture need no announcement.
    ///
    /// Until [`end_capture`](Self::end_capture) nothing is waited for on the host, asked of
    /// fences, or given back, anywhere in the pool. What is allocated on a captured stream belongs
    /// to the graph, as does what is freed or [used](Self::record_use) on it, until
    /// [`release_graph`](Self::release_graph): each launch uses it again. Several captures may
    /// share a graph's memory; then their launches must not overlap.
    ///
    /// # Errors
    ///
    /// [`PoolError::Captured`] if the stream is announced already, [`PoolError::Unsupported`] on a
    /// device without captures.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{GraphId, Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let device = SimDevice::new(SimConfig::new());
    /// # let pool = Pool::new(device.clone(), PoolConfig::new().initial_bytes(64 << 20))?;
    /// let stream = pool.create_stream()?;
    /// pool.begin_capture(stream, GraphId(1))?;
    /// // Here the device begins to capture, and work is queued as usual.
    /// pool.end_capture(stream)?;
    /// pool.release_graph(GraphId(1))?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn begin_capture<'a>(
        &self,
        on: impl Into<On<'a, D::Stream>>,
        graph: GraphId,
    ) -> Result<(), PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        self.inner().begin_capture(&on.into(), graph)
    }

    /// Whether a capture is announced, of any stream.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// assert!(!pool.is_capturing());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn is_capturing(&self) -> bool {
        self.inner().is_capturing()
    }

    /// Announces that a capture has ended, well or not.
    ///
    /// # Errors
    ///
    /// [`PoolError::NoCapture`] if none was announced for the stream; [`PoolError::Device`] if a
    /// graph that was released meanwhile cannot be given back now: it is still the graph's then.
    ///
    /// # Example
    ///
    /// See [`begin_capture`](Self::begin_capture).
    pub fn end_capture<'a>(
        &self,
        on: impl Into<On<'a, D::Stream>>,
    ) -> Result<(), PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        self.inner().end_capture(&on.into())
    }

    /// Announces that a graph will not be launched any more. Its memory is free once all work of
    /// the device so far is done.
    ///
    /// # Errors
    ///
    /// [`PoolError::NoCapture`] for a graph that the pool does not know, [`PoolError::Captured`]
    /// while it is captured into, [`PoolError::Device`] if no fence could be recorded: it is still
    /// the graph's then.
    ///
    /// # Example
    ///
    /// See [`begin_capture`](Self::begin_capture).
    pub fn release_graph(&self, graph: GraphId) -> Result<(), PoolError<D::Error>> {
        self.inner().release_graph(graph)
    }
}
