//! One block is moved: copied in its stream, behind all that uses it, and known in its new place.

use super::Outcome;
use super::plan::{Move, Plan};
use crate::device::{Call, Device};
use crate::pool::asker::Asker;
use crate::pool::inner::{Failed, Inner, keep};
use crate::pool::movable::Copied;
use crate::pool::notes::Note;
use crate::pool::notice::Notice;
use crate::pool::sources::joined_epoch;
use crate::range::Block;
use crate::threads::Threads;

impl<D: Device, T: Threads> Inner<D, T> {
    /// Moves the blocks of a plan, one after the other, as far as that succeeds.
    pub(super) fn carry_out(&self, plan: &mut Plan<D>, failure: &mut Option<Failed<D>>) -> Outcome {
        for step in &mut plan.moves {
            let outcome = self.relocate(step).unwrap_or_else(|failed| {
                keep(failure, failed);
                Outcome::Failed
            });
            if outcome != Outcome::Done {
                return outcome;
            }
        }
        Outcome::Done
    }

    /// Moves a block. Its stream stays until it is there.
    fn relocate(&self, step: &mut Move<D>) -> Result<Outcome, Failed<D>> {
        let Some(handle) = self.begin_use(step.home) else {
            return Ok(Outcome::Fixed(step.movable));
        };
        let copied = self.copy_behind(step, handle);
        let outcome = match copied {
            Ok(true) => Ok(self.settle_in(step)),
            Ok(false) => Ok(Outcome::Fixed(step.movable)),
            Err(failed) => Err(failed),
        };
        self.end_use(step.home);
        outcome
    }

    /// Queues the copy of a block in its stream, behind all uses of the block and its new place.
    /// False if something stands in the way.
    fn copy_behind(&self, step: &Move<D>, handle: D::Stream) -> Result<bool, Failed<D>> {
        if self.is_captured(&handle)? {
            return Ok(false);
        }
        let stream = handle.clone();
        let asker = Asker::Known { number: step.home, space: Some(step.space), handle };
        let mut joined = self.joined_by(&asker);
        for &(source, epoch) in &step.waits {
            if epoch >= joined_epoch(&joined, source)
                && !self.wait_for_source(&asker, &mut joined, source, epoch)?
            {
                return Ok(false);
            }
        }
        if let Some(note) = self.notes.copy(step.block.handle())
            && (note.is_binding() || !self.wait_for_unnamed(&stream, &note)?)
        {
            return Ok(false);
        }
        let from = (step.from.range(), step.block.offset_bytes() - step.from.origin_bytes);
        let target_bytes = self.shared.shape().bytes(step.target.start.into());
        let to = (step.to.range(), target_bytes - step.to.origin_bytes);
        self.counters.copies.add_shared(1);
        self.call(Call::Copy, |device| device.copy(&stream, from, to, step.block.size_bytes()))?;
        Ok(true)
    }

    /// Has a stream wait for uses of a block that have no number: by streams that are gone, and by
    /// such as the pool does not know. False if one of those cannot be recorded in.
    fn wait_for_unnamed(&self, stream: &D::Stream, note: &Note<D>) -> Result<bool, Failed<D>> {
        for used in &note.raw_uses {
            // Else it is another thread's, by the same name.
            let same = self.identity_of(&used.handle)? == used.id;
            let fence = if same { self.record_raw(&used.handle, used.id)? } else { None };
            let Some(fence) = fence else { return Ok(false) };
            self.wait(stream, &fence)?;
        }
        note.fences.iter().try_for_each(|fence| self.wait(stream, fence))?;
        Ok(true)
    }

    /// Has a block that was copied be the one in the new place: it is of its stream's own space
    /// there, and nothing else is known of it, for that stream has waited for all other uses.
    fn settle_in(&self, step: &mut Move<D>) -> Outcome {
        let old = step.block.handle();
        let (outcome, note) = self.with_books(|books| {
            // The copy writes there, and so all that comes next waits for it, whatever that is.
            books.stain(step.target, step.home);
            let Some(block) = self.shared.give_live(step.space, step.target) else {
                return (Outcome::Failed, None);
            };
            if !self.hand_tag_on(&step.block, &block) || self.shared.take_lent_live(old).is_err() {
                // Or the program has freed it, by the handle of its block.
                let note = self.notes.take(block.handle());
                let taken = self.shared.take_lent_live(block.handle());
                debug_assert!(taken.is_ok(), "a block that was made just now is gone");
                return (Outcome::Failed, note);
            }
            books.stains.remove(step.target);
            self.hand_label_on(old, block.handle());
            step.is_done = true;
            let epoch = books.sources.epoch(step.home);
            if let Some(entry) = books.movables.get_mut(step.movable) {
                entry.block = block;
                entry.copied = Some(Copied { stream: step.home, epoch });
            }
            (Outcome::Done, self.notes.take(old))
        });
        // Its fences are given back with no lock held.
        drop(note);
        if step.is_done {
            self.counters.migrated_bytes.add_shared(step.block.size_bytes());
            self.notice(Notice::Moved {
                from_bytes: step.block.offset_bytes(),
                offset_bytes: self.shared.shape().bytes(step.target.start.into()),
                size_bytes: step.block.size_bytes(),
            });
        }
        outcome
    }

    /// Charges to whom the old block is charged. False for want of memory on the host.
    fn hand_tag_on(&self, old: &Block, new: &Block) -> bool {
        let tag = self.notes.look(old.handle(), |note| note.tag).flatten();
        tag.is_none() || self.notes.change(new.handle(), |note| note.tag = tag).is_some()
    }
}
