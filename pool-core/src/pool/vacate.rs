//! Arenas that are vacated: what is free in them serves nobody any more, and they go back once that
//! is all of them. So a program that never stops allocating does not keep them.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::arenas::Claim;
use super::books::Books;
use super::inner::{Failed, Inner, keep};
use crate::device::Device;
use crate::range::Stretch;
use crate::threads::{HUB, Owner, Threads};

/// An arena that is vacated.
#[derive(Clone, Copy, Debug)]
struct Vacated {
    origin_bytes: u64,
    size_bytes: u64,
    stretch: Stretch,
    /// What of it is withheld.
    granules: u64,
}

impl Vacated {
    fn is_whole(&self) -> bool {
        self.granules == self.stretch.len
    }

    fn has(&self, part: Stretch) -> bool {
        let behind = u64::from(self.stretch.start) + self.stretch.len;
        part.start >= self.stretch.start && u64::from(part.start) < behind
    }
}

/// The arenas that are vacated, and the space that has what is withheld: no stream ever had it, so
/// that nobody comes late and takes from it.
#[derive(Debug, Default)]
pub(crate) struct Vacating {
    space: Option<Owner>,
    arenas: Vec<Vacated>,
    /// Calls under pressure.
    calls: u64,
}

impl Vacating {
    /// Nothing is vacated; what will be is withheld in a space.
    pub(crate) fn with_space(space: Owner) -> Self {
        Self { space: Some(space), ..Self::default() }
    }

    pub(crate) fn space(&self) -> Option<Owner> {
        self.space
    }

    /// Granules that are withheld.
    pub(crate) fn granules(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.granules).sum()
    }

    /// Counts a call under pressure: its number.
    pub(crate) fn count_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// An arena is the device's again: another may lie where it was.
    pub(crate) fn forget(&mut self, origin_bytes: u64) {
        self.arenas.retain(|arena| arena.origin_bytes != origin_bytes);
    }

    /// Whether the arena that begins there is vacated.
    pub(crate) fn has(&self, origin_bytes: u64) -> bool {
        self.arenas.iter().any(|arena| arena.origin_bytes == origin_bytes)
    }

    /// Whether there is an arena of which nothing is in use.
    pub(crate) fn is_any_whole(&self) -> bool {
        self.arenas.iter().any(Vacated::is_whole)
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Takes what is free in vacated arenas out of the hub. It keeps its stains: who waits for what
    /// is known when the arena goes.
    pub(super) fn withhold(&self, books: &mut Books<D>) {
        let Some(space) = books.vacating.space.filter(|_| !books.vacating.arenas.is_empty()) else {
            return;
        };
        for arena in &mut books.vacating.arenas {
            if arena.is_whole() {
                continue;
            }
            let mut runs = Vec::new();
            self.shared.take_free_of(arena.stretch, &mut runs);
            for run in runs {
                if self.shared.give(space, run) {
                    arena.granules += run.len;
                } else {
                    // It was lent whole just now: that takes no metadata.
                    self.shared.give(HUB, run);
                }
            }
        }
    }

    /// Begins to vacate arenas, as many as are owed and not vacated yet: those of which least is in
    /// use. Never more than was borrowed: of what is guaranteed nothing is withheld.
    pub(super) fn vacate_more(&self) {
        let Some(space) = self.with_books(|books| books.vacating.space) else { return };
        if self.shared.make_space(space, &self.shared_config).is_err() {
            // Arenas go back only when they happen to be idle.
            return;
        }
        self.with_books(|books| {
            let Some(seat) = &self.seat else { return };
            let (owed, borrowed) = seat.owed();
            let vacating: u64 = books.vacating.arenas.iter().map(|arena| arena.size_bytes).sum();
            let mut missing = owed.saturating_sub(vacating);
            let mut room = borrowed.saturating_sub(vacating);
            let known = &books.vacating.arenas;
            let others = books.arenas.iter().filter(|arena| {
                arena.claim == Claim::Nothing
                    && known.iter().all(|vacated| vacated.origin_bytes != arena.origin_bytes)
            });
            let mut others: Vec<_> = others
                .map(|arena| (self.shared.free_bytes_of(arena.stretch), arena.clone()))
                .collect();
            others.sort_by_key(|(free, arena)| {
                (arena.size_bytes.saturating_sub(*free), Reverse(arena.origin_bytes))
            });
            for (_, arena) in others {
                if missing == 0 {
                    break;
                }
                if arena.size_bytes > room || books.vacating.arenas.try_reserve(1).is_err() {
                    continue;
                }
                room -= arena.size_bytes;
                missing = missing.saturating_sub(arena.size_bytes);
                books.vacating.arenas.push(Vacated {
                    origin_bytes: arena.origin_bytes,
                    size_bytes: arena.size_bytes,
                    stretch: arena.stretch,
                    granules: 0,
                });
            }
            self.withhold(books);
        });
    }

    /// Gives vacated arenas back that are withheld whole and wait for nothing.
    pub(super) fn release_vacated(&self, failure: &mut Option<Failed<D>>) {
        loop {
            let taken = self.with_books(|books| {
                if books.is_capturing() {
                    return None;
                }
                let place = books.vacating.arenas.iter().position(|vacated| {
                    vacated.is_whole()
                        && books.arenas.at(vacated.origin_bytes).is_some_and(|arena| {
                            arena.claim == Claim::Nothing
                                && arena.stretch == vacated.stretch
                                && Self::is_clean(books, arena)
                        })
                })?;
                let vacated = books.vacating.arenas.swap_remove(place);
                self.put_withheld_back(books, |part| vacated.has(part));
                let arena = books.arenas.at(vacated.origin_bytes)?.clone();
                if !self.shared.take_arena(arena.stretch) {
                    return None;
                }
                books.stains.remove(arena.stretch);
                books.arenas.replace(arena.claimed(Claim::Gone));
                Some(arena)
            });
            let Some(arena) = taken else { return };
            if !self.give_arena_back(&arena, failure) {
                return;
            }
        }
    }

    /// Waits on the host for the work that a vacated arena waits for, of which nothing is in use.
    pub(super) fn wait_for_vacated(&self, failure: &mut Option<Failed<D>>) {
        let needs = self.with_books(|books| {
            let whole = books.vacating.arenas.iter().find(|vacated| vacated.is_whole());
            let stains = whole.into_iter().flat_map(|vacated| books.stains.of(vacated.stretch));
            let pending = stains.filter(|stain| !books.sources.is_done(stain));
            pending.map(|stain| (stain.source, stain.epoch)).collect::<Vec<_>>()
        });
        for (source, epoch) in needs {
            match self.fences_of(source, epoch) {
                Ok(Some((_, fences))) => self.wait_for(fences, failure),
                Ok(None) => {}
                Err(failed) => keep(failure, failed),
            }
        }
    }

    /// Lets everybody have again what was withheld.
    pub(super) fn end_vacating(&self) {
        self.with_books(|books| {
            if !books.vacating.arenas.is_empty() {
                self.put_withheld_back(books, |_| true);
                books.vacating.arenas.clear();
            }
            books.vacating.calls = 0;
        });
    }

    /// Bytes that are free and nobody gets.
    pub(super) fn withheld_bytes(&self) -> u64 {
        let space = self.with_books(|books| books.vacating.space);
        space.map_or(0, |space| self.shared.use_of(space).owned_bytes)
    }

    /// The largest request that would be served now, for whichever stream.
    pub(super) fn largest_free_bytes(&self) -> u64 {
        if self.withheld_bytes() == 0 {
            return self.shared.largest_free_bytes();
        }
        self.flush();
        let spaces = self.with_books(|books| books.gatherable().collect::<Vec<_>>());
        let spaces = spaces.into_iter().chain([HUB]);
        spaces.map(|space| self.shared.largest_in(space)).max().unwrap_or(0)
    }

    /// Puts parts of what is withheld back into the hub.
    fn put_withheld_back(&self, books: &mut Books<D>, wanted: impl Fn(Stretch) -> bool) {
        let Some(space) = books.vacating.space else { return };
        let mut runs = Vec::new();
        self.shared.take_all(space, &mut runs);
        for run in runs {
            if !wanted(run) && self.shared.give(space, run) {
                continue;
            }
            self.shared.give(HUB, run);
            if let Some(arena) = books.vacating.arenas.iter_mut().find(|arena| arena.has(run)) {
                arena.granules = arena.granules.saturating_sub(run.len);
            }
        }
    }
}
