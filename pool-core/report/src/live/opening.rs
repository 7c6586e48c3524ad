//! What a pool had before an event.

use std::collections::BTreeMap;

use pool_core::record::{Event, Inventory, LabelId, NOWHERE, What};

use super::telling::Teller;
use crate::event::Kind;
use crate::history::History;
use crate::stretches::Stretches;

/// Memory and blocks of a pool at a moment, by where they begin.
#[derive(Clone, Debug, Default)]
pub(super) struct Opening {
    memory: Stretches,
    live: Blocks,
    /// Freed, and not free. Of those that were freed before the first event that is known, only what
    /// an event says to be free later.
    waiting: Blocks,
}

type Blocks = BTreeMap<u64, (u64, LabelId)>;

impl Opening {
    /// Before some events, all that there were until the pool had this.
    pub(super) fn before(events: &[Event], now: &Inventory) -> Self {
        let mut opening = Self::default();
        now.memory.iter().for_each(|&(offset_bytes, bytes)| opening.back(offset_bytes, bytes));
        let blocks = now
            .blocks
            .iter()
            .map(|live| (live.block.offset_bytes(), (live.block.size_bytes(), live.label)));
        opening.live = blocks.collect();
        events.iter().rev().for_each(|event| opening.undo(event));
        opening
    }

    fn back(&mut self, offset_bytes: u64, size_bytes: u64) {
        if offset_bytes != NOWHERE {
            self.memory.add(offset_bytes, size_bytes, |_| {});
        }
    }

    fn take_back(&mut self, offset_bytes: u64, size_bytes: u64) {
        if offset_bytes != NOWHERE {
            self.memory.remove(offset_bytes, size_bytes, |_| {});
        }
    }

    fn undo(&mut self, event: &Event) {
        let &Event { what, offset_bytes, size_bytes, label, .. } = event;
        match what {
            What::Allocated { .. } => {
                self.live.remove(&offset_bytes);
            }
            What::Freed { .. } => {
                self.waiting.remove(&offset_bytes);
                self.live.insert(offset_bytes, (size_bytes, label));
            }
            What::Reclaimed => {
                self.waiting.insert(offset_bytes, (size_bytes, label));
            }
            What::Moved { from_bytes } => {
                let block = self.live.remove(&offset_bytes).unwrap_or((size_bytes, label));
                self.live.insert(from_bytes, block);
            }
            What::Grown { .. } | What::Committed { .. } => self.take_back(offset_bytes, size_bytes),
            What::Released { .. } | What::Decommitted { .. } => self.back(offset_bytes, size_bytes),
            _ => {}
        }
    }

    /// After another event.
    pub(super) fn pass(&mut self, event: &Event) {
        let &Event { what, offset_bytes, size_bytes, label, .. } = event;
        match what {
            What::Allocated { .. } => {
                self.waiting.remove(&offset_bytes);
                self.live.insert(offset_bytes, (size_bytes, label));
            }
            What::Freed { waits } => {
                self.live.remove(&offset_bytes);
                if waits {
                    self.waiting.insert(offset_bytes, (size_bytes, label));
                }
            }
            What::Reclaimed => {
                self.waiting.remove(&offset_bytes);
            }
            What::Moved { from_bytes } => {
                let block = self.live.remove(&from_bytes).unwrap_or((size_bytes, label));
                self.live.insert(offset_bytes, block);
            }
            What::Grown { .. } | What::Committed { .. } => self.back(offset_bytes, size_bytes),
            What::Released { .. } | What::Decommitted { .. } => {
                self.take_back(offset_bytes, size_bytes);
            }
            _ => {}
        }
    }

    /// Has a history begin so, at a time.
    pub(super) fn tell(&self, time: u64, teller: &mut Teller<'_>, history: &mut History) {
        for (offset_bytes, bytes) in self.memory.iter() {
            teller.push(time, Kind::Growth, (offset_bytes, bytes), LabelId(0), history);
        }
        for (&offset_bytes, &(bytes, label)) in &self.waiting {
            teller.push(time, Kind::Allocate, (offset_bytes, bytes), label, history);
            teller.push(time, Kind::FreeAsked, (offset_bytes, bytes), label, history);
        }
        for (&offset_bytes, &(bytes, label)) in &self.live {
            teller.push(time, Kind::Allocate, (offset_bytes, bytes), label, history);
        }
    }
}
