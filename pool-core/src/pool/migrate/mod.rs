//! Blocks that may be moved are copied together, so that a request has room.
//!
//! | module | its one job |
//! | --- | --- |
//! | `usual` | whether so much of what is free is of no use that it is worth while |
//! | `choose`, `fit` | where room is made, and where what lies there goes |
//! | `plan` | all that under the lock of the books: what is taken in hand, and how it goes back |
//! | `relocate` | one block: copied behind its uses, and known in its new place |
//!
//! Everything free is put together in the hub. A window is chosen, and a free place for each block
//! in it; the window's free memory, those places and the blocks are in this thread's hands from then
//! on. Each block is copied in its own stream, once that has waited for whatever else used the block
//! or its new place; there it lives on, in its stream's space. Where it was waits for that stream
//! alone. Then everything goes back to the hub, from which the request is served as always.
//!
//! A block goes to a place that was free, and in one piece: until its copy is queued nothing is
//! changed that could not be left as it is, whichever call fails, and no call is needed to undo
//! anything. To let blocks slide into free memory beside them, part by part, would make room where no
//! hole is as long as any block; but after a call that failed half-way no place would have all of
//! such a block.

mod choose;
mod fit;
mod plan;
mod relocate;
mod usual;

pub(super) use usual::Usual;

use alloc::vec::Vec;

use super::gather::Gathered;
use super::help::Plea;
use super::inner::Inner;
use super::movable::Movable;
use super::policy::Way;
use crate::device::{Capabilities, Device};
use crate::range::{Need, Request};
use crate::threads::Threads;

/// How often another plan is made when a block turns out to be one that cannot be moved.
const MOST_PLANS: u32 = 4;

/// What came of a plan, or of a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// A block cannot be moved now.
    Fixed(Movable),
    /// A call of the device failed, or the host has no memory.
    Failed,
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Notes what a request that is no hit is for.
    pub(super) fn note_usual(&self, request: &Request) {
        if let Ok(need) = Need::of(request, self.shared.shape()) {
            self.with_books(|books| books.usual.note(need.len));
        }
    }

    /// Makes room for a request that fits nowhere, by moving blocks together that may be moved: if
    /// the order of growth has migration, and so much of what is free serves no usual request that
    /// it is worth while. False if there is no more room than before.
    pub(super) fn migrate(&self, plea: &mut Plea<'_, D>) -> bool {
        if !self.may_migrate() {
            return false;
        }
        let Ok(need) = Need::of(&plea.request, self.shared.shape()) else { return false };
        self.gather_all(&mut plea.failure, true, Gathered::All);
        let mut fixed: Vec<Movable> = Vec::new();
        for _ in 0..MOST_PLANS {
            // Of this length a run serves the request wherever it begins.
            let plan = self.with_books(|books| self.plan(books, need.sure_len(), &fixed));
            let Some(mut plan) = plan else { return false };
            let outcome = self.carry_out(&mut plan, &mut plea.failure);
            self.with_books(|books| self.put_down(books, plan));
            match outcome {
                Outcome::Done => {
                    self.counters.migrations.add_shared(1);
                    return true;
                }
                Outcome::Fixed(movable) => fixed.push(movable),
                Outcome::Failed => return false,
            }
        }
        false
    }

    fn may_migrate(&self) -> bool {
        let able = Capabilities::COPY.union(Capabilities::FENCES);
        // Buddies go only where they are aligned to their size.
        self.capabilities.contains(able)
            && !self.rounds()
            && self.with_books(|books| {
                books.growth.order.contains(&Way::Migration)
                    && !books.movables.is_empty()
                    && !books.is_capturing()
            })
    }
}
