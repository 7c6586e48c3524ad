//! Whom a call is for.

use alloc::vec::Vec;

use super::arenas::WINDOW_BYTES;
use super::books::{Books, Holder};
use super::error::PoolError;
use super::inner::{CLEAN, Inner};
use super::sabotage::HOLDS_EARLY;
use super::stream::{GraphId, On, StreamId};
use crate::device::{Call, Capabilities, Device};
use crate::range::{AllocError, Need, Request};
use crate::sync::pause;
use crate::threads::{HUB, Owner, Threads};

/// Whom a call is for, as the books have it.
pub(super) enum Asker<D: Device> {
    /// A stream that the pool knows.
    Known { number: u32, space: Option<Owner>, handle: D::Stream },
    /// A stream that it does not know.
    Raw { handle: D::Stream },
    /// No stream.
    Nobody,
    /// A stream that is captured.
    Captured { graph: GraphId, key: u64 },
}

impl<D: Device> Asker<D> {
    /// The stream that can wait for another.
    pub(super) fn waits(&self) -> Option<&D::Stream> {
        match self {
            Self::Known { handle, .. } | Self::Raw { handle } => Some(handle),
            Self::Nobody | Self::Captured { .. } => None,
        }
    }

    pub(super) fn number(&self) -> Option<u32> {
        match self {
            Self::Known { number, .. } => Some(*number),
            _ => None,
        }
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Finds out whom a call is for. While something is captured, the device is asked whether
    /// this stream is.
    pub(super) fn resolve(&self, on: &On<'_, D::Stream>) -> Result<Asker<D>, PoolError<D::Error>> {
        self.check_alive()?;
        if !self.has_fences() {
            // One queue: every call is in its order.
            return Ok(Asker::Nobody);
        }
        let asker = match on {
            On::Nothing => Asker::Nobody,
            On::Stream(id) => {
                let known = self.with_books(|books| known(books, *id));
                let (space, handle) = known.ok_or(PoolError::UnknownStream(*id))?;
                Asker::Known { number: id.number, space, handle }
            }
            On::Raw(handle) => {
                let handle = (*handle).clone();
                match self.find(&handle) {
                    Some((number, space)) => Asker::Known { number, space, handle },
                    None => Asker::Raw { handle },
                }
            }
        };
        if self.is_capturing()
            && let Some(handle) = asker.waits()
            && let Some(graph) = self.graph_of_asker(&asker, handle)?
        {
            return Ok(Asker::Captured { graph, key: self.device.stream_key(handle) });
        }
        Ok(asker)
    }

    /// The graph whose capture an asker's stream is in. One that is retired meanwhile is in none.
    fn graph_of_asker(
        &self,
        asker: &Asker<D>,
        handle: &D::Stream,
    ) -> Result<Option<GraphId>, PoolError<D::Error>> {
        let Some(number) = asker.number() else { return self.graph_of(handle) };
        if self.begin_use(number).is_none() {
            return Ok(None);
        }
        let graph = self.graph_of(handle);
        self.end_use(number);
        graph
    }

    /// A known stream by its handle.
    pub(super) fn find(&self, handle: &D::Stream) -> Option<(u32, Option<Owner>)> {
        let key = self.device.stream_key(handle);
        self.with_books(|books| {
            let number = *books.keys.get(&key)?;
            let known = books.streams.get(&number)?;
            Some((number, known.space))
        })
    }

    /// The graph whose capture a stream is in.
    pub(super) fn graph_of(
        &self,
        handle: &D::Stream,
    ) -> Result<Option<GraphId>, PoolError<D::Error>> {
        let capture = self.call(Call::CaptureId, |device| device.capture_id(handle))?;
        let Some(capture_id) = capture else { return Ok(None) };
        let known = |books: &mut Books<D>| {
            let known = books.captures.iter().find(|known| known.id == Some(capture_id));
            known.map(|known| known.graph)
        };
        if let Some(graph) = self.with_books(known) {
            return Ok(Some(graph));
        }
        // The first call in a capture that was announced before it began: now the device knows.
        let unknown: Vec<(u64, D::Stream)> = self.with_books(|books| {
            let unknown = books.captures.iter().filter(|known| known.id.is_none());
            unknown.map(|known| (known.key, known.handle.clone())).collect()
        });
        for (key, handle) in unknown {
            let id = self.call(Call::CaptureId, |device| device.capture_id(&handle))?;
            self.with_books(|books| {
                if let Some(capture) = books.captures.iter_mut().find(|known| known.key == key) {
                    capture.id = capture.id.or(id);
                }
            });
        }
        let graph = self.with_books(known);
        graph.map(Some).ok_or(PoolError::UnannouncedCapture { capture_id })
    }

    /// Refuses if an asker's stream cannot wait, or nothing can be recorded for it.
    pub(super) fn check_waits(&self, asker: &Asker<D>) -> Result<(), PoolError<D::Error>> {
        self.with_books(|books| {
            if let Some(capture) = books.captures.first() {
                return Err(PoolError::Captured(capture.graph));
            }
            match asker {
                Asker::Known { number, space, .. }
                    if books.streams.get(number).is_none_or(|known| known.retiring) =>
                {
                    Err(PoolError::UnknownStream(StreamId::new(*number, *space)))
                }
                _ => Ok(()),
            }
        })
    }

    /// Refuses if an asker's stream was retired since it was resolved: what is got for it has nowhere to go.
    /// One that is about to be is served still, for that may fail.
    pub(super) fn check_not_retired(&self, asker: &Asker<D>) -> Result<(), PoolError<D::Error>> {
        match asker {
            Asker::Known { number, space, .. }
                if !self.with_books(|books| books.streams.contains_key(number)) =>
            {
                Err(PoolError::UnknownStream(StreamId::new(*number, *space)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses requests that nothing could ever serve.
    pub(super) fn check_request(&self, request: &Request) -> Result<(), PoolError<D::Error>> {
        Need::of(request, self.shared.shape()).map_err(PoolError::Request)?;
        if self.capabilities.contains(Capabilities::ADDRESSES) && request.align_bytes > WINDOW_BYTES
        {
            // Offsets are aligned as addresses are up to here.
            let align_bytes = request.align_bytes;
            return Err(PoolError::Request(AllocError::Alignment { align_bytes }));
        }
        Ok(())
    }

    /// The space that a request is served from; the hub's for a stream that has none.
    pub(super) fn space_for(&self, asker: &Asker<D>) -> Result<Owner, PoolError<D::Error>> {
        match asker {
            Asker::Known { space, .. } => Ok(space.unwrap_or(HUB)),
            Asker::Raw { .. } => Ok(HUB),
            Asker::Nobody => Ok(CLEAN),
            Asker::Captured { graph, key, .. } => self.space_of_graph(*graph, *key),
        }
    }

    /// A space that nobody holds, for somebody.
    pub(super) fn new_space(&self, holder: Holder) -> Option<Owner> {
        self.empty_gone_spaces();
        loop {
            let space = self.with_books(|books| books.free_space())?;
            // Before it is anybody's: others look into a space as soon as it is.
            if !HOLDS_EARLY.is_out() {
                self.shared.make_space(space, &self.shared_config).ok()?;
            }
            let held = self.with_books(|books| {
                let free = matches!(books.holder(space), Holder::Nobody);
                if free {
                    books.set_holder(space, holder);
                }
                free
            });
            if held {
                if HOLDS_EARLY.is_out() {
                    // A moment in which models let others run: none of the calls around is one.
                    pause();
                    self.shared.make_space(space, &self.shared_config).ok()?;
                }
                return Some(space);
            }
        }
    }
}

impl<D: Device> Books<D> {
    /// A space that nobody holds.
    fn free_space(&self) -> Option<Owner> {
        let mut others = self.spaces.iter().enumerate().skip(CLEAN.0 as usize + 1);
        let (place, _) = others.find(|(_, holder)| matches!(holder, Holder::Nobody))?;
        Some(Owner(place as u32))
    }
}

/// A stream that is there, by its name.
fn known<D: Device>(books: &Books<D>, id: StreamId) -> Option<(Option<Owner>, D::Stream)> {
    let known = books.streams.get(&id.number).filter(|known| !known.retiring)?;
    (StreamId::new(id.number, known.space) == id).then(|| (known.space, known.handle.clone()))
}
