//! Idle memory that goes back by itself, at ticks.

use core::time::Duration;

use super::arenas::{Arena, Claim, Kind};
use super::gather::Gathered;
use super::inner::{Failed, Inner};
use super::pages::{Amount, Paging};
use super::policy::Idle;
use super::stats::nanoseconds;
use crate::device::Device;
use crate::threads::Threads;

impl<D: Device, T: Threads> Inner<D, T> {
    /// Gives back what is idle and above the watermark, as far as it is due. Memory that the pool
    /// had before anyone asked stays.
    pub(super) fn give_back_idle(&self, now: Option<Duration>, failure: &mut Option<Failed<D>>) {
        self.fence_leaving(failure);
        self.release_leaving(failure);
        let policy = self.with_books(|books| books.reclaim);
        let Some(watermark_bytes) = policy.watermark_bytes else { return };
        let high_bytes = self.shared.take_high_bytes();
        let used_bytes = self.shared.used_bytes();
        let time = match policy.decay.map(|decay| decay.period) {
            None => None,
            Some(idle @ Idle::Requests(requests)) => {
                Some(((idle, requests), self.shared.stats().work.operations / 2))
            }
            // Without a clock nothing is ever seen to be idle for a time.
            Some(idle @ Idle::For(period)) => match now {
                Some(now) => Some(((idle, nanoseconds(period)), nanoseconds(now))),
                None => return,
            },
        };
        let (due_bytes, single_bytes, length) = self.with_books(|books| {
            let bytes_of = |kind: Kind| -> u64 {
                let arenas = books.arenas.iter().filter(|arena| arena.kind == kind);
                arenas.map(|arena| arena.size_bytes).sum()
            };
            let base_bytes = match books.paging {
                Some(_) => self.counters.kept.initial_bytes.get(),
                None => bytes_of(Kind::Base),
            };
            let keep_bytes = watermark_bytes.max(base_bytes);
            let leaving = books.arenas.iter().filter(|arena| arena.claim == Claim::Leaving);
            let leaving_bytes: u64 = leaving.map(|arena| arena.size_bytes).sum();
            let reserved_bytes = books.reserved_bytes - leaving_bytes;
            let surplus_bytes = reserved_bytes.saturating_sub(keep_bytes.max(used_bytes));
            let single_bytes = bytes_of(Kind::Single).min(surplus_bytes);
            let Some((period, now)) = time else {
                books.decline.look_at_once();
                return (surplus_bytes, single_bytes, LOOKS);
            };
            let steps = books.arenas.iter().filter(|arena| arena.kind != Kind::Base);
            let pages = books.paging.as_ref().map(Paging::page_bytes);
            let step_bytes = steps.map(|arena| arena.size_bytes).chain(pages).min().unwrap_or(0);
            let bounds = (keep_bytes, step_bytes);
            let due_bytes = books.decline.look(period, now, high_bytes, reserved_bytes, bounds);
            (due_bytes, single_bytes, period.1)
        });
        if self.is_paged() {
            self.decay_pages(due_bytes, length, failure);
            return;
        }
        let is_due = |arena: &Arena<D>, gone_bytes: u64| match arena.kind {
            Kind::Base | Kind::Pages => false,
            Kind::Step => arena.size_bytes <= due_bytes.saturating_sub(gone_bytes),
            // It served a request that few others are like: that is idle at once.
            Kind::Single => {
                arena.size_bytes <= due_bytes.max(single_bytes).saturating_sub(gone_bytes)
            }
        };
        let is_worth_it = self.with_books(|books| {
            !books.is_capturing()
                && books.decline.is_awake()
                && books
                    .arenas
                    .iter()
                    .any(|arena| arena.claim == Claim::Nothing && is_due(arena, 0))
        });
        if !is_worth_it {
            return;
        }
        self.flush();
        self.gather_all(failure, true, Gathered::All);
        // What it waits for is seen now, or at a later tick; until then nobody uses it.
        let leaving_bytes = self.see_off(is_due);
        self.with_books(|books| books.decline.note(length, leaving_bytes));
        if leaving_bytes > 0 {
            self.fence_hub(failure);
            self.poll(failure);
            self.release_leaving(failure);
        }
    }

    /// The same in pages: those whose work is done go at once.
    fn decay_pages(&self, due_bytes: u64, length: u64, failure: &mut Option<Failed<D>>) {
        let is_worth_it =
            self.with_books(|books| !books.is_capturing() && books.decline.is_awake());
        if due_bytes == 0 || !is_worth_it {
            return;
        }
        self.bring_together(failure);
        let released_bytes = self.release_pages(Amount::AtMost(due_bytes), false, failure);
        self.with_books(|books| books.decline.note(length, released_bytes));
    }
}

/// The period, in ticks, where there is none.
const LOOKS: u64 = 64;
