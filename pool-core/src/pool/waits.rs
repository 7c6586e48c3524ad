//! Waits on the host: what is done when nothing else helps, and on request.

use alloc::vec::Vec;

use super::books::Books;
use super::fence::Shared;
use super::help::Plea;
use super::inner::{Failed, Inner, keep};
use crate::device::Device;
use crate::threads::Threads;

impl<D: Device, T: Threads> Inner<D, T> {
    /// Waits on the host for what frees most, until the request is served. False if there was
    /// nothing to wait for.
    pub(super) fn wait_for_enough(&self, plea: &mut Plea<'_, D>) -> bool {
        self.close(|_| true, &mut plea.failure);
        self.fence_hub(&mut plea.failure);
        let mut progress = false;
        // Each round has one wait less before it, but for those that other threads add.
        let rounds = self.with_books(|books| books.closed.len() + books.sources.iter().count());
        for _ in 0..=rounds {
            let Some(fences) = self.with_books(|books| self.best_wait(books)) else { break };
            for fence in &fences {
                let waited = self.wait_on_host(fence);
                if plea.note(waited) != Some(true) {
                    return progress;
                }
                self.settle(core::slice::from_ref(fence));
            }
            progress = true;
            self.gather(plea);
            let waits = plea.asker.waits().is_some();
            self.take_from_hub(plea, waits);
            if self.fits(plea) || self.is_paged() && self.grow_by_pages(plea, false) {
                break;
            }
        }
        progress
    }

    /// Whether the asker's space could serve the request now.
    fn fits(&self, plea: &Plea<'_, D>) -> bool {
        let align = plea.request.align_bytes.saturating_sub(self.shared.shape().bytes(1));
        let need = plea.request.size_bytes.saturating_add(align);
        self.shared.largest_in(plea.space) >= need
    }

    /// The fences whose wait frees the most bytes for each of them.
    fn best_wait(&self, books: &Books<D>) -> Option<Vec<Shared<D>>> {
        let parcels = books.closed.iter().map(|parcel| (&parcel.fences, parcel.size_bytes));
        let shape = self.shared.shape();
        let stained = books.stains.by_source().into_iter().filter_map(|(source, granules)| {
            Some((&books.sources.get(source)?.fences, shape.bytes(granules)))
        });
        parcels
            .chain(stained)
            .filter(|(fences, _)| !fences.is_empty())
            .max_by_key(|(fences, bytes)| bytes / fences.len() as u64)
            .map(|(fences, _)| fences.clone())
    }

    /// Waits on the host for all closed parcels.
    pub(super) fn wait_for_parcels(&self, failure: &mut Option<Failed<D>>) {
        let fences = self.with_books(|books| {
            books.closed.iter().flat_map(|parcel| parcel.fences.clone()).collect()
        });
        self.wait_for(fences, failure);
    }

    /// Waits on the host for all fences that the hub's memory waits for.
    pub(super) fn wait_for_hub(&self, failure: &mut Option<Failed<D>>) {
        let fences = self.with_books(|books| {
            let sources = books.sources.iter();
            sources.flat_map(|(_, source)| source.fences.clone()).collect()
        });
        self.wait_for(fences, failure);
    }

    pub(super) fn wait_for(&self, fences: Vec<Shared<D>>, failure: &mut Option<Failed<D>>) {
        for fence in fences {
            match self.wait_on_host(&fence) {
                Ok(true) => self.settle(core::slice::from_ref(&fence)),
                Ok(false) => return,
                Err(failed) => keep(failure, failed),
            }
        }
    }
}
