//! So many bytes of idle arenas, and no more than it takes.

use alloc::vec::Vec;

use super::gather::Gathered;
use super::inner::{Failed, Inner};
use super::pages::{Amount, Paging};
use crate::device::Device;
use crate::threads::{HUB, Threads};

impl<D: Device, T: Threads> Inner<D, T> {
    /// Gives idle arenas back that wait for nothing, as they lie in the hub now, until so many bytes
    /// have gone: of those that are enough the smallest, else the largest. How many have gone.
    pub(super) fn release_bytes(&self, bytes: u64, failure: &mut Option<Failed<D>>) -> u64 {
        let mut released = 0;
        while released < bytes {
            let missing = bytes - released;
            let taken = self.with_books(|books| {
                let mut arenas: Vec<_> = books.arenas.iter().cloned().collect();
                arenas.sort_by_key(|arena| {
                    let size = arena.size_bytes;
                    (size < missing, if size < missing { u64::MAX - size } else { size })
                });
                self.take_idle(books, arenas)
            });
            let Some(arena) = taken else { break };
            if !self.give_arena_back(&arena, failure) {
                break;
            }
            released += arena.size_bytes;
        }
        if released < bytes {
            released += self.release_pages(Amount::AtMost(bytes - released), false, failure);
        }
        if released < bytes {
            // The last of it is less than a handle: then more goes.
            released += self.release_pages(Amount::AtLeast(bytes - released), false, failure);
        }
        released
    }

    /// Puts all that is free together in the hub, and takes back what is done: then every idle arena
    /// is found there. The host waits for nothing, as at a [`trim`](crate::Pool::trim).
    pub(super) fn bring_together(&self, failure: &mut Option<Failed<D>>) {
        self.close(|_| true, failure);
        self.poll(failure);
        self.flush();
        self.gather_all(failure, true, Gathered::All);
        self.fence_hub(failure);
        self.poll(failure);
    }

    /// Whether what is free, or waits to be, is as much as the smallest arena: else none is idle.
    pub(super) fn may_have_idle(&self) -> bool {
        self.smallest_arena().is_some_and(|smallest| self.free_bytes_anywhere() >= smallest)
    }

    /// Whether a free run of the hub is as long as the smallest arena: else none lies idle there.
    pub(super) fn has_arena_in_hub(&self) -> bool {
        let longest = self.shared.use_of(HUB).longest_run_bytes;
        self.smallest_arena().is_some_and(|smallest| longest >= smallest)
    }

    /// Bytes of the smallest arena that are managed, or of a page.
    fn smallest_arena(&self) -> Option<u64> {
        let shape = self.shared.shape();
        self.with_books(|books| {
            let arenas = books.arenas.iter().map(|arena| shape.bytes(arena.stretch.len));
            arenas.chain(books.paging.as_ref().map(Paging::page_bytes)).min()
        })
    }
}
