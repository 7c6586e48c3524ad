//! Growth when a request needs it: which way, by how much, and by one thread at a time.

use core::num::NonZeroUsize;

use super::arenas::{Kind, WINDOW_BYTES};
use super::asker::Asker;
use super::books::Books;
use super::help::Plea;
use super::inner::Inner;
use super::policy::{Growth, Preallocation, Steps, Way};
use crate::device::{Capabilities, Device};
use crate::range::Placement;
use crate::sync::{nap, pause};
use crate::threads::{HUB, Threads};

/// How often a thread looks whether another's growth is over before it naps in between.
const SHORT_PAUSES: u32 = 1 << 10;

/// After how many naps it waits no longer: seconds, as a driver may take for a call; and where it
/// may well be in the midst of that call itself, as threads have no numbers, a tenth of a second.
const MOST_NAPS: u32 = 1 << 11;
const MOST_BLIND_NAPS: u32 = 1 << 7;

/// How much more is wanted, and at least needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) bytes: u64,
    pub(super) least_bytes: u64,
    pub(super) kind: Kind,
    /// Whether somebody waits for it: then what others of a budget have borrowed is called in.
    pub(super) is_needed: bool,
}

impl Wanted {
    /// So many bytes, no less.
    pub(super) fn exactly(bytes: u64, kind: Kind) -> Self {
        Self { bytes, least_bytes: bytes, kind, is_needed: true }
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Has more room for a request, in the ways of the policy, in its order.
    pub(super) fn make_room(&self, plea: &mut Plea<'_, D>) -> bool {
        let order = self.with_books(|books| books.growth.order);
        if self.is_paged() {
            return order.contains(&Way::Overflow) && self.grow_by_pages(plea, false);
        }
        order.into_iter().any(|way| match way {
            Way::Migration => self.migrate(plea),
            way => self.grow_by(way, plea),
        })
    }

    /// Takes more from the device, in the ways of the policy.
    pub(super) fn grow(&self, plea: &mut Plea<'_, D>) -> bool {
        let order = self.with_books(|books| books.growth.order);
        order.into_iter().any(|way| self.grow_by(way, plea))
    }

    /// Takes more from the device in one way, as much as the policy says, and less if it refuses, down
    /// to what the request needs.
    fn grow_by(&self, way: Way, plea: &mut Plea<'_, D>) -> bool {
        let can = match way {
            // The largest buddy of an arena is where the arena begins.
            Way::InPlace => self.capabilities.contains(Capabilities::EXTEND) && !self.rounds(),
            Way::Overflow => true,
            Way::Migration | Way::Never => false,
        };
        if !can || !self.may_grow() {
            return false;
        }
        let Some(need_bytes) = self.need_of(plea) else { return false };
        let me = T::thread_number();
        if self.await_growth(me) {
            plea.again = true;
            return true;
        }
        let before = self.before_growth();
        let grown = match way {
            Way::InPlace => self.grow_in_place(plea, need_bytes),
            _ => self.overflow(plea, need_bytes),
        };
        self.end_growth(me);
        if grown {
            self.note_growth(&before, Some(need_bytes));
            let used_bytes = self.shared.used_bytes().saturating_add(need_bytes);
            self.with_books(|books| books.decline.note_growth(used_bytes, books.reserved_bytes));
        }
        grown
    }

    /// Whether the device would give memory now, as far as captures go.
    pub(super) fn may_grow(&self) -> bool {
        !self.is_asleep()
            && (!self.is_capturing() || self.capabilities.contains(Capabilities::GROWS_IN_CAPTURE))
    }

    /// Another arena.
    fn overflow(&self, plea: &mut Plea<'_, D>, need_bytes: u64) -> bool {
        let wanted = self.with_books(|books| books.next_step(need_bytes));
        let space = match plea.asker {
            // Memory that nothing was ever queued for.
            Asker::Captured { .. } | Asker::Nobody => plea.space,
            Asker::Known { .. } | Asker::Raw { .. } => HUB,
        };
        self.add_arenas_down_from(wanted, space, &mut plea.failure)
    }

    /// An arena that is longer than it was, where the device can do that: for who can wait for
    /// what lies before the new part.
    fn grow_in_place(&self, plea: &mut Plea<'_, D>, need_bytes: u64) -> bool {
        if plea.asker.waits().is_none() {
            return false;
        }
        let wanted = self.with_books(|books| books.next_step(need_bytes));
        self.extend_by(wanted, &mut plea.failure)
    }

    /// Whether every block is a buddy, aligned to its size.
    pub(super) fn rounds(&self) -> bool {
        self.reuse.placement == Placement::Buddy
    }

    /// Bytes of an arena that certainly holds a request.
    pub(super) fn need_of(&self, plea: &Plea<'_, D>) -> Option<u64> {
        let granule = self.shared.shape().bytes(1);
        let size_bytes = plea.request.size_bytes.checked_next_multiple_of(granule)?;
        if self.rounds() {
            let buddy_bytes =
                size_bytes.max(plea.request.align_bytes).checked_next_power_of_two()?;
            // Before the first one in an arena something may be lost, though no more than a window.
            let askew = self.with_books(|books| books.is_askew);
            let lost_bytes = if askew { buddy_bytes.min(WINDOW_BYTES) } else { 0 };
            return buddy_bytes.checked_add(lost_bytes);
        }
        // The range may begin anywhere, unless its address says otherwise.
        let slack = plea.request.align_bytes.max(1) - 1;
        let slack = if slack < granule { 0 } else { slack };
        let misaligned = self.with_books(|books| books.is_misaligned);
        let slack = slack + if misaligned { granule } else { 0 };
        size_bytes.checked_add(slack)
    }

    /// Waits for an arena that another thread is getting, which may be enough for this one too.
    /// If there is none (false), this thread is one from now on that others wait for. So does one
    /// that is called in the midst of its own call, and one that has waited for long: it may have
    /// been called in the midst of the other's.
    pub(super) fn await_growth(&self, me: Option<NonZeroUsize>) -> bool {
        let naps = if me.is_some() { MOST_NAPS } else { MOST_BLIND_NAPS };
        for pauses in 0..SHORT_PAUSES + naps {
            let mine = self.with_books(|books| {
                let inside = me.is_some() && books.growers.contains(&me);
                let nobody = books.growers.is_empty();
                let mine = inside || (nobody && pauses == 0);
                if mine {
                    books.growers.push(me);
                }
                (mine || nobody).then_some(mine)
            });
            match mine {
                Some(mine) => return !mine,
                None if pauses < SHORT_PAUSES => pause(),
                None => nap(),
            }
        }
        self.with_books(|books| books.growers.push(me));
        false
    }

    /// As [`await_growth`](Self::await_growth) without the wait: false if another thread grows.
    pub(super) fn begin_growth(&self, me: Option<NonZeroUsize>) -> bool {
        self.with_books(|books| {
            let nobody = books.growers.is_empty();
            if nobody {
                books.growers.push(me);
            }
            nobody
        })
    }

    /// Says that what [`await_growth`](Self::await_growth) began is over.
    pub(super) fn end_growth(&self, me: Option<NonZeroUsize>) {
        self.with_books(|books| {
            if let Some(place) = books.growers.iter().position(|&grower| grower == me) {
                books.growers.swap_remove(place);
            }
        });
    }
}

impl<D: Device> Books<D> {
    /// How much to take for a request that needs so much.
    fn next_step(&self, need_bytes: u64) -> Wanted {
        let step_bytes = self.growth.step_bytes(self.reserved_bytes, need_bytes);
        let base_bytes = match self.preallocation {
            Preallocation::OnDemand { base_bytes } if self.arenas.len() == 0 => base_bytes,
            _ => 0,
        };
        let (bytes, kind) = if base_bytes >= step_bytes.max(need_bytes) {
            (base_bytes, Kind::Base)
        } else if need_bytes > step_bytes {
            (need_bytes, if base_bytes > 0 { Kind::Base } else { Kind::Single })
        } else {
            (step_bytes, if base_bytes > 0 { Kind::Base } else { Kind::Step })
        };
        Wanted { bytes, least_bytes: need_bytes, kind, is_needed: true }
    }
}

impl Growth {
    /// How much is taken at a time, whatever a request needs beyond it.
    pub(super) fn step_bytes(&self, reserved_bytes: u64, need_bytes: u64) -> u64 {
        // In less no span has a place.
        let floor_bytes = self.floor_bytes.max(WINDOW_BYTES);
        let ceiling_bytes = self.ceiling_bytes.max(floor_bytes);
        match self.steps {
            Steps::Fixed => floor_bytes,
            Steps::Doubling => reserved_bytes.clamp(floor_bytes, ceiling_bytes),
            Steps::AsRequested => need_bytes
                .checked_next_multiple_of(WINDOW_BYTES)
                .unwrap_or(need_bytes)
                .clamp(floor_bytes, ceiling_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn steps_keep_to_floor_and_ceiling() {
        let growth = Growth { floor_bytes: 8 * MIB, ceiling_bytes: 100 * MIB, ..Growth::new() };
        let step = |steps, reserved, need| {
            Growth { steps, ..growth }.step_bytes(reserved * MIB, need) / MIB
        };
        assert_eq!([0, 50, 500].map(|reserved| step(Steps::Fixed, reserved, MIB)), [8; 3]);
        let doubled = [0, 50, 500].map(|reserved| step(Steps::Doubling, reserved, MIB));
        assert_eq!(doubled, [8, 50, 100]);
        let asked = [1, 8 * MIB + 1, 500 * MIB].map(|need| step(Steps::AsRequested, 0, need));
        assert_eq!(asked, [8, 10, 100]);
        let crossed = Growth { ceiling_bytes: 0, ..growth };
        assert_eq!(crossed.step_bytes(0, 0), 8 * MIB);
    }
}
