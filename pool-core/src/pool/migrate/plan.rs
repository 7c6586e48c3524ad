//! What is to be moved where, taken in hand, and put down again.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::choose::{Candidate, Choice, choose};
use crate::device::Device;
use crate::pool::arenas::Arena;
use crate::pool::books::Books;
use crate::pool::hub::{Need, add_source};
use crate::pool::inner::Inner;
use crate::pool::movable::{Entry, Hand, Movable};
use crate::range::{Block, Stretch};
use crate::threads::{HUB, Owner, Threads};

/// What is in a thread's hands to make room in one place.
pub(super) struct Plan<D: Device> {
    /// The free parts of the window.
    free: Vec<Stretch>,
    pub(super) moves: Vec<Move<D>>,
}

/// A block that is to be moved.
pub(super) struct Move<D: Device> {
    pub(super) movable: Movable,
    pub(super) block: Block,
    pub(super) from: Arc<Arena<D>>,
    /// The block's own stream, in which it is copied, and that stream's space, to which it goes.
    pub(super) home: u32,
    pub(super) space: Owner,
    /// Where it goes, which is free and in hand.
    pub(super) target: Stretch,
    pub(super) to: Arc<Arena<D>>,
    /// What the stream has to wait for: who used the target, and who else used the block.
    pub(super) waits: Vec<Need>,
    /// Whether it was moved: then what is in hand is where it was.
    pub(super) is_done: bool,
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Chooses where to make room of so many granules, and takes all that it takes in hand: the
    /// free parts of the window, a free place for each block in it, and the blocks, which nobody can
    /// guard or free meanwhile. None if that is not worth while or cannot be done: all is as before.
    pub(super) fn plan(
        &self,
        books: &mut Books<D>,
        need: u64,
        fixed: &[Movable],
    ) -> Option<Plan<D>> {
        let mut runs = Vec::new();
        self.shared.take_all_lent(&mut runs);
        runs.sort_unstable_by_key(|run| run.start);
        let mut cuts = Vec::new();
        let plan = self.plan_over(books, need, fixed, &runs, &mut cuts);
        let mut kept: Vec<Stretch> = plan.iter().flat_map(Plan::kept).collect();
        kept.sort_unstable_by_key(|part| part.start);
        cuts.sort_unstable();
        for part in parts(&runs, &cuts) {
            if kept.binary_search_by_key(&part.start, |kept| kept.start).is_err() {
                // It is lent by itself, and so goes back without metadata.
                self.shared.give(HUB, part);
            }
        }
        let kept_granules: u64 = kept.iter().map(|part| part.len).sum();
        books.in_transit_bytes += self.shared.shape().bytes(kept_granules);
        for step in plan.iter().flat_map(|plan| &plan.moves) {
            if let Some(entry) = books.movables.get_mut(step.movable) {
                entry.in_hand = Some(Hand(T::thread_number()));
            }
        }
        plan
    }

    /// The same, when all free memory is in hand, of which nothing is given back. It may be cut on
    /// the way, also if nothing comes of it.
    fn plan_over(
        &self,
        books: &Books<D>,
        need: u64,
        fixed: &[Movable],
        runs: &[Stretch],
        cuts: &mut Vec<u32>,
    ) -> Option<Plan<D>> {
        let mut lens: Vec<u64> = runs.iter().map(|run| run.len).collect();
        if !books.usual.has_unusable(need, &mut lens, books.growth.migrate_from_percent) {
            return None;
        }
        let shape = self.shared.shape();
        let mut movables: Vec<(Candidate, Movable, &Entry)> = books
            .movables
            .iter()
            .filter(|(movable, entry)| !fixed.contains(movable) && self.is_loose(books, entry))
            .map(|(movable, entry)| {
                let stretch = self.stretch_of(&entry.block);
                let align = (entry.align_bytes >> shape.granule_shift).max(1);
                (Candidate { stretch, align }, movable, entry)
            })
            .collect();
        movables.sort_unstable_by_key(|(candidate, _, _)| candidate.stretch.start);
        let candidates: Vec<Candidate> = movables.iter().map(|&(one, _, _)| one).collect();
        let arenas: Vec<Stretch> = books.arenas.iter().map(|arena| arena.stretch).collect();
        let Choice { window, moves } = choose(need, &arenas, runs, &candidates)?;
        let moves = moves.into_iter().map(|(place, start)| {
            let (candidate, movable, entry) = movables.get(place)?;
            let target = Stretch { start, len: candidate.stretch.len };
            self.step(books, *movable, entry, target)
        });
        let moves: Vec<Move<D>> = moves.collect::<Option<_>>()?;
        let free = runs.iter().filter_map(|&run| overlap(run, window)).collect();
        let plan = Plan { free, moves };
        let is_cut = plan.kept().all(|part| {
            let end = u64::from(part.start) + part.len;
            self.cut(part.start.into(), runs, cuts) && self.cut(end, runs, cuts)
        });
        is_cut.then_some(plan)
    }

    /// Whether a buffer can be moved now, as far as can be seen here.
    fn is_loose(&self, books: &Books<D>, entry: &Entry) -> bool {
        let handle = entry.block.handle();
        entry.guards == 0
            && entry.in_hand.is_none()
            && !handle.is_in_span()
            && self.shared.block(handle).is_ok()
            && entry
                .home
                .and_then(|home| books.streams.get(&home))
                .is_some_and(|known| !known.retiring && known.space.is_some())
            && self.notes.look(handle, |note| !note.is_binding()).unwrap_or(true)
    }

    /// A block on its way to a target.
    fn step(
        &self,
        books: &Books<D>,
        movable: Movable,
        entry: &Entry,
        target: Stretch,
    ) -> Option<Move<D>> {
        let home = entry.home?;
        let known = books.streams.get(&home)?;
        let mut waits = Self::needs_of(books, Some(home), &known.joined, target);
        // All that was queued under guards that are not held any more is behind this.
        self.notes.look(entry.block.handle(), |note| {
            for &user in note.uses.iter().filter(|&&user| user != home) {
                add_source(&mut waits, (user, books.sources.epoch(user)));
            }
        });
        let target_bytes = self.shared.shape().bytes(target.start.into());
        Some(Move {
            movable,
            block: entry.block,
            from: books.arenas.at(entry.block.offset_bytes())?.clone(),
            home,
            space: known.space?,
            target,
            to: books.arenas.at(target_bytes)?.clone(),
            waits,
            is_done: false,
        })
    }

    /// Cuts the run in hand that has a granule and the one before it. False for want of metadata.
    fn cut(&self, at: u64, runs: &[Stretch], cuts: &mut Vec<u32>) -> bool {
        let before = runs.partition_point(|run| u64::from(run.start) < at).checked_sub(1);
        let is_inside = before.is_some_and(|place| at < runs[place].end());
        if !is_inside || cuts.contains(&(at as u32)) {
            return true;
        }
        let is_cut = self.shared.split_lent(at as u32);
        cuts.extend(is_cut.then_some(at as u32));
        is_cut
    }

    /// Puts everything down that is in hand: what is free now goes back to the hub, and the blocks
    /// are anybody's again.
    pub(super) fn put_down(&self, books: &mut Books<D>, plan: Plan<D>) {
        let mut granules: u64 = plan.free.iter().map(|part| part.len).sum();
        for part in plan.free {
            self.shared.give(HUB, part);
        }
        for step in plan.moves {
            granules += step.target.len;
            if step.is_done {
                let from = self.stretch_of(&step.block);
                if self.shared.give(HUB, from) {
                    books.stain(from, step.home);
                } else {
                    // It was of that space, or lent whole: either has a spare node for it.
                    let returned = self.shared.give(step.space, from);
                    debug_assert!(returned, "a stretch is nobody's");
                }
            } else {
                self.shared.give(HUB, step.target);
            }
            if let Some(entry) = books.movables.get_mut(step.movable) {
                entry.in_hand = None;
            }
        }
        books.in_transit_bytes -= self.shared.shape().bytes(granules);
    }
}

impl<D: Device> Plan<D> {
    /// What is kept in hand of the free memory.
    fn kept(&self) -> impl Iterator<Item = Stretch> + '_ {
        self.free.iter().copied().chain(self.moves.iter().map(|step| step.target))
    }
}

/// What two stretches have both.
fn overlap(one: Stretch, other: Stretch) -> Option<Stretch> {
    let start = one.start.max(other.start);
    let len = one.end().min(other.end()).checked_sub(start.into())?;
    (len > 0).then_some(Stretch { start, len })
}

/// The parts of runs that were cut, each cut inside one; both in order.
fn parts<'a>(runs: &'a [Stretch], cuts: &'a [u32]) -> impl Iterator<Item = Stretch> + 'a {
    runs.iter().flat_map(move |run| {
        let first = cuts.partition_point(|&cut| cut <= run.start);
        let inside = &cuts[first..];
        let inside = &inside[..inside.partition_point(|&cut| u64::from(cut) < run.end())];
        let starts = core::iter::once(run.start).chain(inside.iter().copied());
        let ends = inside.iter().map(|&cut| u64::from(cut)).chain(core::iter::once(run.end()));
        starts.zip(ends).map(|(start, end)| Stretch { start, len: end - u64::from(start) })
    })
}
