//! Memory out of the hub: chosen, waited for as its stains say, and only then given.

use alloc::vec::Vec;

use super::asker::Asker;
use super::books::Books;
use super::fence::Shared;
use super::help::Plea;
use super::inner::{Failed, Inner, keep};
use super::sabotage::{
    FENCES_LATE, FORGETS_GIVEN, IGNORES_HUB_FENCES, JOINS_EARLY, LATE_EPOCH, STEALS_UNFENCED,
};
use super::sources::{Joined, join, joined_epoch};
use super::stains::Stain;
use crate::device::Device;
use crate::range::{AllocError, Block, Handle, Stretch};
use crate::threads::{HUB, Owner, Threads};

/// Stretches that are looked at for one that need not be waited for, or can be.
const MOST_PASSED_OVER: usize = 64;

/// Sources that cannot be waited for, which a search does without before it takes what needs no wait.
const MOST_REFUSING: usize = 16;

/// Fences, and the epoch of a source that they are behind.
type Before<D> = (u64, Vec<Shared<D>>);

/// A source that has to be waited for, for all that it freed up to an epoch.
pub(super) type Need = (u32, u64);

/// Why a stream did not wait for what memory was used by.
#[derive(Clone, Copy)]
enum Unready {
    /// In this source nothing can be recorded now, as where it is captured.
    Source(u32),
    /// The stream itself cannot wait.
    Asker,
}

/// What one who looks for memory may wait for.
struct Patience {
    may_wait: bool,
    /// Sources that nothing could be recorded in.
    refusing: Vec<u32>,
}

impl Patience {
    fn new(may_wait: bool) -> Self {
        Self { may_wait, refusing: Vec::new() }
    }

    /// Whether these can be waited for.
    fn bears(&self, needs: &[Need]) -> bool {
        let refuses = |(source, _): &Need| self.refusing.contains(source);
        needs.is_empty() || (self.may_wait && !needs.iter().any(refuses))
    }

    /// A wait was in vain: what else there is may do.
    fn lose(&mut self, unready: Unready) {
        match unready {
            Unready::Source(source) if self.refusing.len() < MOST_REFUSING => {
                self.refusing.push(source);
            }
            Unready::Source(_) | Unready::Asker => self.may_wait = false,
        }
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Moves a stretch of the hub that serves the request to the asker's space, once the asker's
    /// stream has waited for what it was used by. False if there is none, or it cannot wait.
    pub(super) fn take_from_hub(&self, plea: &mut Plea<'_, D>, may_wait: bool) -> bool {
        if plea.space == HUB {
            return true;
        }
        let taken = self.take_chosen(plea, may_wait);
        if taken && self.is_asker_alone(plea) {
            self.take_rest(plea);
        }
        taken
    }

    /// Whether the asker's stream gets all there is.
    fn is_asker_alone(&self, plea: &Plea<'_, D>) -> bool {
        plea.asker.number().is_some() && self.with_books(|books| self.is_alone(books, plea.space))
    }

    /// Moves what else of the hub needs no wait to the asker's space: that is looked at first, and
    /// would cut what is large though there is something in the hub that fits better.
    fn take_rest(&self, plea: &mut Plea<'_, D>) {
        loop {
            let longest = self.shared.use_of(HUB).longest_run_bytes;
            if longest == 0 || !self.take_portion(plea, longest, 1, false) {
                break;
            }
        }
    }

    fn take_chosen(&self, plea: &mut Plea<'_, D>, may_wait: bool) -> bool {
        let alone = self.is_asker_alone(plea);
        let longest = self.shared.use_of(HUB).longest_run_bytes;
        let portions = self.portions(plea, longest, alone);
        portions.into_iter().any(|(size_bytes, align_bytes)| {
            self.take_portion(plea, size_bytes, align_bytes, may_wait)
        })
    }

    /// Moves a stretch of a size to the asker's space: one that needs no wait, or can be waited for.
    /// False if there is none.
    fn take_portion(
        &self,
        plea: &mut Plea<'_, D>,
        size_bytes: u64,
        align_bytes: u64,
        may_wait: bool,
    ) -> bool {
        let mut patience = Patience::new(may_wait);
        while let Some((stretch, needs)) = self.with_books(|books| {
            let chosen = self.choose_in_hub(books, plea, size_bytes, align_bytes, &patience)?;
            books.in_transit_bytes += self.shared.shape().bytes(chosen.0.len);
            Some(chosen)
        }) {
            if FENCES_LATE.is_out() && !needs.is_empty() {
                self.give_to_asker(plea, stretch, true);
                let _ = self.wait_for_sources(plea, &needs);
                return true;
            }
            let waited =
                if STEALS_UNFENCED.is_out() { Ok(()) } else { self.wait_for_sources(plea, &needs) };
            let given = self.give_to_asker(plea, stretch, waited.is_ok());
            match waited {
                Ok(()) => return given,
                Err(unready) => patience.lose(unready),
            }
        }
        false
    }

    /// Chooses a free stretch of the hub: of some that do, the one that fits best and can be waited
    /// for.
    fn choose_in_hub(
        &self,
        books: &Books<D>,
        plea: &Plea<'_, D>,
        size_bytes: u64,
        align_bytes: u64,
        patience: &Patience,
    ) -> Option<(Stretch, Vec<Need>)> {
        let mut passed_over: Vec<Stretch> = Vec::new();
        let mut chosen = None;
        while passed_over.len() < MOST_PASSED_OVER
            && let Some(stretch) = match plea.request.place_bytes() {
                Some(place) => self.shared.take_lent_at(place, size_bytes),
                None => self.shared.take_lent(size_bytes, align_bytes),
            }
        {
            let needs = Self::needs_of(books, plea.asker.number(), &plea.joined, stretch);
            if patience.bears(&needs) {
                chosen = Some((stretch, needs));
                break;
            }
            passed_over.push(stretch);
            self.pass_over_rest(books, stretch, &needs, &mut passed_over);
        }
        for stretch in passed_over {
            // They were lent whole just now: that takes no metadata.
            self.shared.give(HUB, stretch);
        }
        chosen
    }

    /// Gives a stretch out of this thread's hands to the asker's space, or back to the hub, where
    /// it is as it was.
    fn give_to_asker(&self, plea: &Plea<'_, D>, stretch: Stretch, ready: bool) -> bool {
        self.with_books(|books| {
            books.in_transit_bytes -= self.shared.shape().bytes(stretch.len);
            // The stream may have been retired meanwhile, and its space be another's.
            let held = match plea.asker {
                Asker::Known { number, .. } => books.stream_of(plea.space) == Some(*number),
                _ => true,
            };
            let given = ready && held && self.shared.give(plea.space, stretch);
            if given {
                books.given += u64::from(!FORGETS_GIVEN.is_out());
                books.stains.remove(stretch);
            } else {
                // It was lent whole just now: that takes no metadata.
                self.shared.give(HUB, stretch);
            }
            given
        })
    }

    /// Serves a request from the hub itself, once the asker's stream has waited for what the block
    /// was used by: by the best that needs no wait, or can be waited for.
    pub(super) fn allocate_from_hub(
        &self,
        plea: &mut Plea<'_, D>,
        may_wait: bool,
    ) -> Result<Option<Block>, AllocError> {
        let mut patience = Patience::new(may_wait);
        while let Some((block, needs)) =
            self.with_books(|books| self.choose_block(books, plea, &patience))?
        {
            if needs.is_empty() {
                return Ok(Some(block));
            }
            let waited =
                if STEALS_UNFENCED.is_out() { Ok(()) } else { self.wait_for_sources(plea, &needs) };
            match waited {
                Ok(()) => {
                    self.with_books(|books| books.stains.remove(self.stretch_of(&block)));
                    return Ok(Some(block));
                }
                Err(unready) => {
                    self.undo(block.handle());
                    patience.lose(unready);
                }
            }
        }
        Ok(None)
    }

    /// Takes a block of the hub, with what is still to be waited for.
    fn choose_block(
        &self,
        books: &mut Books<D>,
        plea: &Plea<'_, D>,
        patience: &Patience,
    ) -> Result<Option<(Block, Vec<Need>)>, AllocError> {
        let (mut passed_over, mut rest) = (Vec::new(), Vec::new());
        let chosen = loop {
            let block = match self.shared.allocate_past_caches(HUB, &plea.request) {
                Ok(block) => block,
                Err(AllocError::OutOfMemory { .. }) => break Ok(None),
                Err(error) => break Err(error),
            };
            let stretch = self.stretch_of(&block);
            let needs = Self::needs_of(books, plea.asker.number(), &plea.joined, stretch);
            if needs.is_empty() {
                books.stains.remove(stretch);
            }
            if patience.bears(&needs) {
                break Ok(Some((block, needs)));
            }
            passed_over.push(block);
            if passed_over.len() == MOST_PASSED_OVER {
                break Ok(None);
            }
            self.pass_over_rest(books, stretch, &needs, &mut rest);
        };
        for block in passed_over {
            self.undo(block.handle());
        }
        for stretch in rest {
            // As it was lent.
            self.shared.give(HUB, stretch);
        }
        chosen
    }

    /// Takes what lies around a stretch that is passed over, and waits for the same: who looks for
    /// little would else meet it piece by piece, and find nothing behind it.
    fn pass_over_rest(
        &self,
        books: &Books<D>,
        stretch: Stretch,
        needs: &[Need],
        passed_over: &mut Vec<Stretch>,
    ) {
        if self.rounds() {
            return;
        }
        let shape = self.shared.shape();
        for (extent, stain) in books.stains.around(stretch) {
            if !needs.iter().any(|&(source, _)| source == stain.source) {
                continue;
            }
            let before = u64::from(extent.start)..stretch.start.into();
            let behind = stretch.end()..extent.end();
            for part in [before, behind].into_iter().filter(|part| !part.is_empty()) {
                let (place, len) = (shape.bytes(part.start), shape.bytes(part.end - part.start));
                passed_over.extend(self.shared.take_lent_at(place, len));
            }
        }
    }

    /// Takes a block of the hub back that nobody was given: its stains are still there.
    fn undo(&self, handle: Handle) {
        if let Ok(block) = self.shared.set_aside(handle) {
            self.shared.put_back(block);
        }
    }

    /// Where a block lies.
    pub(super) fn stretch_of(&self, block: &Block) -> Stretch {
        self.shared.shape().stretch(block.offset_bytes(), block.size_bytes())
    }

    /// What a stream, by its number and what it has waited for, or who has none, has to wait for
    /// before it may use a stretch of the hub.
    pub(super) fn needs_of(
        books: &Books<D>,
        own: Option<u32>,
        joined: &Joined,
        stretch: Stretch,
    ) -> Vec<Need> {
        let mut needs: Vec<Need> = Vec::new();
        if IGNORES_HUB_FENCES.is_out() {
            return needs;
        }
        for stain in books.stains.of(stretch) {
            if Some(stain.source) == own
                || books.sources.is_done(&stain)
                || stain.epoch < joined_epoch(joined, stain.source)
            {
                continue;
            }
            add_need(&mut needs, &stain);
        }
        needs
    }

    /// Has the asker's stream wait for sources. If it cannot, or one of them cannot be recorded now,
    /// what was waited for by then is noted nevertheless.
    fn wait_for_sources(&self, plea: &mut Plea<'_, D>, needs: &[Need]) -> Result<(), Unready> {
        for &(source, epoch) in needs {
            let fences = self.fences_of(source, epoch);
            let before = plea.note(fences).flatten().ok_or(Unready::Source(source))?;
            let waited = self.wait_behind(plea.asker, &mut plea.joined, source, before);
            if plea.note(waited) != Some(true) {
                return Err(Unready::Asker);
            }
        }
        Ok(())
    }

    /// The same for one of them; false if that cannot be.
    pub(super) fn wait_for_source(
        &self,
        asker: &Asker<D>,
        joined: &mut Joined,
        source: u32,
        epoch: u64,
    ) -> Result<bool, Failed<D>> {
        match self.fences_of(source, epoch)? {
            Some(before) => self.wait_behind(asker, joined, source, before),
            None => Ok(false),
        }
    }

    fn wait_behind(
        &self,
        asker: &Asker<D>,
        joined: &mut Joined,
        source: u32,
        (recorded, fences): Before<D>,
    ) -> Result<bool, Failed<D>> {
        if JOINS_EARLY.is_out() {
            self.note_joined(asker, joined, source, recorded);
        }
        let waited = self.wait_as(asker, &fences)?;
        if waited {
            self.note_joined(asker, joined, source, recorded);
        }
        Ok(waited)
    }

    /// Has an asker's stream wait for fences; false if it cannot.
    pub(super) fn wait_as(
        &self,
        asker: &Asker<D>,
        fences: &[Shared<D>],
    ) -> Result<bool, Failed<D>> {
        match asker {
            Asker::Known { number, .. } => self.wait_in(*number, fences),
            Asker::Raw { handle } => {
                fences.iter().try_for_each(|fence| self.wait(handle, fence))?;
                Ok(true)
            }
            Asker::Nobody | Asker::Captured { .. } => Ok(false),
        }
    }

    /// What an asker's stream has waited for.
    pub(super) fn joined_by(&self, asker: &Asker<D>) -> Joined {
        self.with_books(|books| {
            let known = asker.number().and_then(|number| books.streams.get(&number));
            known.map_or(Joined::new(), |known| known.joined.clone())
        })
    }

    /// Notes that the asker's stream has waited for a source, up to an epoch.
    fn note_joined(&self, asker: &Asker<D>, joined: &mut Joined, source: u32, epoch: u64) {
        join(joined, source, epoch);
        if let Some(number) = asker.number() {
            self.with_books(|books| {
                if let Some(known) = books.streams.get_mut(&number) {
                    // What is gone and done needs no memory.
                    known.joined.retain(|&(source, _)| books.sources.get(source).is_some());
                    join(&mut known.joined, source, epoch);
                }
            });
        }
    }

    /// Fences behind all that a source freed up to an epoch: those that there are, or one that is
    /// recorded now. Before which epoch they are, and they; none if nothing can be recorded.
    pub(super) fn fences_of(
        &self,
        source: u32,
        epoch: u64,
    ) -> Result<Option<Before<D>>, Failed<D>> {
        // What is freed from here on has this epoch, and is not behind the fence for it.
        let known = self.with_books(|books| {
            let Some(known) = books.sources.get_mut(source) else {
                return Ok((u64::MAX, Vec::new()));
            };
            if !known.is_stream || (known.recorded > epoch && !known.fences.is_empty()) {
                return Ok((known.recorded, known.fences.clone()));
            }
            known.epoch += 1;
            Err(known.epoch)
        });
        let recorded = match known {
            Ok(fences) => return Ok(Some(fences)),
            Err(recorded) => recorded,
        };
        let Some(fence) = self.record_in(source)? else { return Ok(None) };
        self.with_books(|books| {
            let earlier = books.sources.note(source, recorded, fence.clone());
            books.garbage.extend(earlier);
        });
        let recorded = if LATE_EPOCH.is_out() { u64::MAX } else { recorded };
        Ok(Some((recorded, alloc::vec![fence])))
    }

    /// Serves a small request from whatever span has room, whosever it is, once the asker's stream
    /// has waited for that one: what is left when all else was tried.
    pub(super) fn allocate_crumb(&self, plea: &mut Plea<'_, D>) -> Option<Block> {
        if !self.shared.is_small(&plea.request) {
            return None;
        }
        let spaces: Vec<Owner> = self.with_books(|books| books.gatherable().collect());
        spaces.into_iter().find_map(|space| {
            let (block, need) = self.with_books(|books| {
                let block = self.shared.allocate_past_caches(space, &plea.request).ok()?;
                let source = books.source_of(space).filter(|&source| {
                    Some(source) != plea.asker.number() && books.sources.get(source).is_some()
                });
                Some((block, source.map(|source| (source, books.sources.epoch(source)))))
            })?;
            let ready = need.is_none_or(|need| self.wait_for_sources(plea, &[need]).is_ok());
            if !ready {
                self.undo(block.handle());
            }
            ready.then_some(block)
        })
    }

    /// Records fences behind all that the hub's memory waits for, so that they can be asked for
    /// or waited for. False if nothing was recorded.
    pub(super) fn fence_hub(&self, failure: &mut Option<Failed<D>>) -> bool {
        let stained = self.with_books(|books| {
            let mut newest: Vec<Need> = Vec::new();
            for (_, stain) in books.stains.all() {
                add_need(&mut newest, &stain);
            }
            newest.retain(|&(source, epoch)| {
                books
                    .sources
                    .get(source)
                    .is_some_and(|known| known.is_stream && known.recorded <= epoch)
            });
            newest
        });
        let mut recorded = false;
        for (source, epoch) in stained {
            match self.fences_of(source, epoch) {
                Ok(fences) => recorded |= fences.is_some(),
                Err(failed) => keep(failure, failed),
            }
        }
        recorded
    }
}

/// Adds what a stain waits for.
fn add_need(needs: &mut Vec<Need>, stain: &Stain) {
    add_source(needs, (stain.source, stain.epoch));
}

/// Adds what has to be waited for: of each source the latest.
pub(super) fn add_source(needs: &mut Vec<Need>, need: Need) {
    match needs.iter_mut().find(|(source, _)| *source == need.0) {
        Some((_, epoch)) => *epoch = (*epoch).max(need.1),
        None => needs.push(need),
    }
}
