//! Hits while the pool records. They are the same as without, each followed by a note: a pool that
//! records is not quiet, so that calls come here by the way on which they look for what is no hit.

use super::event::{Refused, Served, What};
use crate::device::Device;
use crate::pool::error::PoolError;
use crate::pool::inner::{CLEAN, Inner};
use crate::pool::stream::On;
use crate::range::{Block, Handle, HandleError, Request};
use crate::threads::{NotFreed, Owner, Threads};

impl<D: Device, T: Threads> Inner<D, T> {
    /// A block that [`allocate_on`](crate::Pool::allocate_on) would find without help, while the pool
    /// records; none too if it does not.
    #[cold]
    #[inline(never)]
    pub(in crate::pool) fn hit_recorded(
        &self,
        on: &On<'_, D::Stream>,
        request: &Request,
    ) -> Option<Block> {
        if !self.is_recording() || !self.is_calm() {
            return None;
        }
        let (space, stream) = match on {
            On::Stream(id) if self.knows(*id) => (Owner(id.space), id.number),
            On::Nothing => (CLEAN, 0),
            _ => return None,
        };
        let (block, served) = match self.shared.hit_in(space, request) {
            Some(block) => (block.block(self.shared.shape()), Served::AtOnce),
            // What names no stream goes on to where its help begins.
            None if stream == 0 => return None,
            None => (self.shared.allocate_in(space, request).ok()?, Served::BySearch),
        };
        self.recorder.get()?.note_allocated(&self.shared, &block, stream, served);
        Some(block)
    }

    /// A free that [`free_on`](crate::Pool::free_on) would do without help, while the pool records.
    #[cold]
    #[inline(never)]
    pub(in crate::pool) fn free_recorded(
        &self,
        on: &On<'_, D::Stream>,
        handle: Handle,
    ) -> Result<Option<Block>, HandleError> {
        if !self.is_recording() || !self.is_calm_for_frees() {
            return Ok(None);
        }
        let Some(recorder) = self.recorder.get() else { return Ok(None) };
        let On::Stream(id) = on else { return Ok(None) };
        if !self.knows(*id) || self.notes.may_have(handle) {
            return Ok(None);
        }
        let asked = recorder.now();
        let block = match self.shared.free_hit(Owner(id.space), handle) {
            Some(block) => {
                // As in `free_on`.
                if self.notes.may_have(handle) {
                    self.notes.take(handle);
                }
                block.block(self.shared.shape())
            }
            None => match self.shared.free_in(Owner(id.space), handle) {
                Ok(block) => block,
                Err(NotFreed::Handle(error)) => return Err(error),
                Err(NotFreed::Elsewhere) => return Ok(None),
            },
        };
        recorder.note_freed(&self.shared, &block, id.number, false, asked);
        Ok(Some(block))
    }

    /// Notes what came of a request that needed help.
    pub(in crate::pool) fn note_served(
        &self,
        on: &On<'_, D::Stream>,
        request: &Request,
        result: &Result<Block, PoolError<D::Error>>,
    ) {
        let Some(recorder) = self.recorder.get() else { return };
        let stream = self.number_of(on);
        let why = match result {
            Ok(block) => {
                recorder.note_allocated(&self.shared, block, stream, Served::ByHelp);
                return;
            }
            Err(PoolError::OutOfMemory { .. }) => Refused::OutOfMemory,
            Err(PoolError::Quota { .. }) => Refused::Quota,
            Err(_) => Refused::Other,
        };
        recorder.note(&self.shared, What::Refused(why), 0, request.size_bytes, stream);
    }

    /// Notes a free that was asked for at a time, and whether the block waits.
    pub(in crate::pool) fn note_free(
        &self,
        on: &On<'_, D::Stream>,
        block: &Block,
        waits: bool,
        asked: u64,
    ) {
        if let Some(recorder) = self.recorder.get() {
            recorder.note_freed(&self.shared, block, self.number_of(on), waits, asked);
        }
    }

    /// The number of the stream that a call names, if the pool knows it.
    fn number_of(&self, on: &On<'_, D::Stream>) -> u32 {
        match on {
            On::Stream(id) => id.number,
            On::Raw(handle) => self.find(handle).map_or(0, |(number, _)| number),
            On::Nothing => 0,
        }
    }
}
