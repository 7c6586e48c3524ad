//! Frees that are no hit: what a block has to wait for, and where it waits.

use alloc::vec::Vec;

use super::asker::Asker;
use super::error::PoolError;
use super::inner::{CLEAN, Inner, check_not_left};
use super::notes::{Note, RawUse};
use super::parcel::Needs;
use super::sabotage::{
    FOREIGN_IS_OWNER, FORGETS_CAPTURE_USE, FORGETS_USE, NOBODY_IS_OWNER, RAW_UNFENCED,
};
use super::stream::On;
use crate::device::Device;
use crate::range::{Block, Handle};
use crate::threads::{HUB, NotFreed, Owner, Threads};

/// Where a freed block waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// It is free, for whom it can serve already.
    Nowhere,
    /// In a parcel.
    InParcel,
    /// With graphs, until these are released.
    ForGraphs,
}

impl<D: Device, T: Threads> Inner<D, T> {
    #[inline(never)]
    pub(super) fn free_slowly(
        &self,
        on: &On<'_, D::Stream>,
        handle: Handle,
    ) -> Result<Block, PoolError<D::Error>> {
        check_not_left()?;
        #[cfg(feature = "record")]
        if let Some(block) = self.free_recorded(on, handle)? {
            return Ok(block);
        }
        let block = self.shared.block(handle)?;
        let since = self.stamp();
        let asker = self.resolve(on)?;
        let note = self.notes.copy(handle);
        let waits = self.free_behind(&asker, handle, note.as_ref())?;
        self.notice_free(on, &block, waits, since);
        // Of several threads that free one block, only one comes here.
        self.notes.take(handle);
        if let Some(tag) = note.and_then(|note| note.tag) {
            self.tags.credit(tag, block.size_bytes());
        }
        if waits == Waits::InParcel && self.is_over_bound() {
            self.counters.kept.drains.add_shared(1);
            if matches!(on, On::Nothing) {
                self.set_due();
            } else if self.is_cooling() {
                self.drain_earlier(&mut None);
            } else {
                self.drain(&mut None);
            }
        }
        // In a callback of a stream no call of the device is made.
        if !matches!(on, On::Nothing) {
            self.make_way(false, &mut None);
        }
        Ok(block)
    }

    /// Frees a block behind all that it has to wait for. Whether and where it waits.
    pub(super) fn free_behind(
        &self,
        asker: &Asker<D>,
        handle: Handle,
        note: Option<&Note<D>>,
    ) -> Result<Waits, PoolError<D::Error>> {
        let home = self.shared.space_of(handle)?;
        let key = note.and_then(|note| note.key);
        if !self.has_fences() {
            if let Some(key) = key
                && self.shelve(asker, home, handle, key)?
            {
                return Ok(Waits::Nowhere);
            }
            // One queue: what is freed is behind its work, and what comes next too.
            self.shared.free_in(home, handle).map_err(not_freed)?;
            return Ok(Waits::Nowhere);
        }
        let mut graphs = note.map_or(Vec::new(), |note| note.graphs.clone());
        if let Asker::Captured { graph, key } = asker {
            let only_its_own = graphs.iter().all(|other| other == graph)
                && note.is_none_or(Note::is_of_one_stream);
            if only_its_own && self.space_of_graph(*graph, *key)? == home {
                // In the order of the capture's stream, each time that it runs.
                self.shared.free_in(home, handle).map_err(not_freed)?;
                return Ok(Waits::Nowhere);
            }
            if !graphs.contains(graph) && !FORGETS_CAPTURE_USE.is_out() {
                graphs.push(*graph);
            }
        }
        if !graphs.is_empty() {
            let needs = self.needs(asker, home, note)?;
            self.hold(graphs, self.shared.set_aside(handle)?, needs);
            return Ok(Waits::ForGraphs);
        }
        let needs = self.needs(asker, home, note)?;
        if self.is_cooling() {
            self.rest(self.shared.set_aside(handle)?, needs);
            return Ok(Waits::InParcel);
        }
        if needs.is_nothing() {
            if let Some(key) = key
                && self.shelve(asker, home, handle, key)?
            {
                return Ok(Waits::Nowhere);
            }
            self.free_at_home(asker, home, handle)?;
            return Ok(Waits::Nowhere);
        }
        if let Some(source) = needs.is_one_stream()
            && home == HUB
        {
            // The hub remembers by itself what its memory waits for.
            let block = self.shared.set_aside(handle)?;
            self.with_books(|books| {
                self.shared.put_back(block);
                books.stain(block.stretch(self.shared.shape()), source);
            });
            return Ok(Waits::Nowhere);
        }
        self.defer(self.shared.set_aside(handle)?, needs);
        Ok(Waits::InParcel)
    }

    /// Frees a block that waits for nothing but its own space's stream.
    fn free_at_home(
        &self,
        asker: &Asker<D>,
        home: Owner,
        handle: Handle,
    ) -> Result<(), PoolError<D::Error>> {
        if self.is_shared() && asker.number().is_some() && !handle.is_in_span() {
            // While memory is short, what is free lies together.
            return self.with_books(|books| {
                let block = self.shared.take_live(handle)?;
                self.give_to_hub(books, home, self.stretch_of(&block));
                Ok(())
            });
        }
        self.shared.free_in(home, handle).map(|_| ()).map_err(not_freed)
    }

    /// What a block of a space has to wait for beside that space's own stream. Records in streams
    /// that cannot be named later.
    fn needs(
        &self,
        asker: &Asker<D>,
        home: Owner,
        note: Option<&Note<D>>,
    ) -> Result<Needs<D>, PoolError<D::Error>> {
        let mut needs = Needs::nothing();
        let own = self.with_books(|books| books.stream_of(home));
        if let Some(note) = note {
            needs.fences.extend(note.fences.iter().cloned());
            note.uses.iter().filter(|&&number| Some(number) != own).for_each(|&number| {
                needs.add_stream(number);
            });
            needs.all |= note.all;
            for used in &note.raw_uses {
                // Else another thread's, by the same name.
                let same = self.identity_of(&used.handle)? == used.id;
                let fence = if same { self.record_raw(&used.handle, used.id)? } else { None };
                match fence {
                    Some(fence) => needs.fences.push(fence),
                    None => needs.all = true,
                }
            }
        }
        let origin = note.and_then(|note| note.raw_origin);
        match asker {
            Asker::Known { number, .. } => {
                if Some(*number) != own && !FOREIGN_IS_OWNER.is_out() {
                    needs.add_stream(*number);
                }
                needs.all |= origin.is_some();
            }
            Asker::Raw { handle } => {
                let named = (self.device.stream_key(handle), self.identity_of(handle)?);
                // Without identities nothing says that it is the same stream.
                needs.all |= origin.is_some_and(|origin| origin != named || named.1.is_none());
                if !RAW_UNFENCED.is_out() {
                    match self.record_raw(handle, named.1)? {
                        Some(fence) => needs.fences.push(fence),
                        None => needs.all = true,
                    }
                }
            }
            Asker::Nobody if NOBODY_IS_OWNER.is_out() => {}
            Asker::Nobody | Asker::Captured { .. } => needs.all = true,
        }
        Ok(needs)
    }

    pub(super) fn record_use(
        &self,
        handle: Handle,
        on: &On<'_, D::Stream>,
    ) -> Result<(), PoolError<D::Error>> {
        check_not_left()?;
        self.shared.block(handle)?;
        let asker = self.resolve(on)?;
        self.note_use(handle, asker)
    }

    /// Notes that a block is used by an asker.
    pub(super) fn note_use(
        &self,
        handle: Handle,
        asker: Asker<D>,
    ) -> Result<(), PoolError<D::Error>> {
        let home = self.shared.space_of(handle)?;
        let own = self.with_books(|books| books.stream_of(home));
        let noted = match asker {
            _ if FORGETS_USE.is_out() => Some(()),
            Asker::Nobody if !self.has_fences() => Some(()),
            Asker::Nobody => self.notes.change(handle, |note| note.all = true),
            Asker::Known { number, .. } if Some(number) == own && home != CLEAN => Some(()),
            Asker::Known { number, .. } => self.notes.change(handle, |note| {
                if let Err(place) = note.uses.binary_search(&number) {
                    note.uses.insert(place, number);
                }
            }),
            Asker::Raw { handle: stream } => {
                let key = self.device.stream_key(&stream);
                let id = self.identity_of(&stream)?;
                let mut used = Some(RawUse { handle: stream, key, id });
                self.notes.change(handle, |note| {
                    let known = |other: &RawUse<D>| (other.key, other.id) == (key, id);
                    if !note.raw_uses.iter().any(known) {
                        note.raw_uses.extend(used.take());
                    }
                })
            }
            Asker::Captured { .. } if FORGETS_CAPTURE_USE.is_out() => Some(()),
            Asker::Captured { graph, key } => {
                let own = self.space_of_graph(graph, key)? == home;
                self.notes.change(handle, |note| {
                    note.shared_in_graph |= !own;
                    if !note.graphs.contains(&graph) {
                        note.graphs.push(graph);
                    }
                })
            }
        };
        // A free that came between has not seen the note, which must not stay behind.
        if let Err(error) = self.shared.block(handle) {
            self.notes.take(handle);
            return Err(error.into());
        }
        noted.ok_or(PoolError::OutOfHostMemory)
    }
}

fn not_freed<E>(refusal: NotFreed) -> PoolError<E> {
    match refusal {
        NotFreed::Handle(error) => PoolError::Handle(error),
        // Only the caller's own space is named.
        NotFreed::Elsewhere => PoolError::Handle(crate::range::HandleError::Stale),
    }
}
