//! What is to be done so that a request has room: taken, under the lock, out of everybody's way.

use alloc::vec::Vec;
use core::ops::Range;

use super::table::{Held, Paging};
use super::window::{Holes, Need, Place, Window};
use crate::device::Device;
use crate::pool::asker::Asker;
use crate::pool::books::{Books, Holder};
use crate::pool::help::Plea;
use crate::pool::hub::{Need as Wait, add_source};
use crate::pool::inner::{CLEAN, Inner};
use crate::pool::policy::Preallocation;
use crate::pool::sources::Joined;
use crate::range::{PartKind, Stretch};
use crate::threads::{HUB, Owner, Threads};

/// What is made use of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// What holds no block and no work, as far as it may be moved, and new memory for the rest.
    Idle,
    /// New memory, and more than a request needs where that is for all.
    More,
    /// New memory, as much as it needs.
    New,
    /// What the pool has.
    Old,
}

/// What is to be done.
pub(super) struct Draft<D: Device> {
    /// The bare pages that get memory, in rows.
    pub(super) rows: Vec<Range<u32>>,
    /// Who gets it; none: the space that keeps the addresses.
    pub(super) grant: Option<Grant>,
    /// Where the block is to lie, in granules, if it is to have that place and no other.
    pub(super) place: Option<u64>,
    /// Handles that are to serve elsewhere, by their first pages.
    pub(super) victims: Victims<D>,
    /// Whether it is for what comes later: then few calls count for more than what handles waste.
    pub(super) is_ahead: bool,
}

/// A space that gets memory, past that which keeps the addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) space: Owner,
    /// Whose it is.
    pub(super) holder: Holder,
    /// Granules at the beginning that stay apart from what lies behind them.
    pub(super) apart: u64,
}

/// Handles that hold no block, and are about to be taken away from where they are.
pub(super) struct Victims<D: Device> {
    /// By their first pages.
    pub(super) handles: Vec<(u32, Held<D>)>,
    /// What has to be done before they are.
    pub(super) waits: Vec<Wait>,
    /// The stream whose space they were free in; none: the hub's, which remembers by itself.
    pub(super) source: Option<u32>,
}

impl<D: Device> Victims<D> {
    pub(super) fn none() -> Self {
        Self { handles: Vec::new(), waits: Vec::new(), source: None }
    }

    /// Those that something is said of, and the others.
    pub(super) fn divide(self, mut is_one: impl FnMut(&Held<D>) -> bool) -> (Self, Self) {
        let Self { handles, waits, source } = self;
        let (ones, others) = handles.into_iter().partition(|(_, held)| is_one(held));
        (
            Self { handles: ones, waits: waits.clone(), source },
            Self { handles: others, waits, source },
        )
    }
}

/// A handle that could be taken away.
pub(super) struct Candidate {
    pub(super) page: u32,
    pub(super) count: u32,
    stretch: Stretch,
    pub(super) waits: Vec<Wait>,
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// What is to be done for a request, of what there may be. None if that does not do.
    pub(super) fn draft(&self, plea: &Plea<'_, D>, means: Means) -> Option<Draft<D>> {
        self.with_books(|books| {
            let is_idle = means == Means::Idle;
            let most_moves = if is_idle { self.moves_first(books, plea) } else { usize::MAX };
            if most_moves == 0 {
                return None;
            }
            let room_bytes = if means == Means::Old { 0 } else { self.room_bytes(books) };
            let paging = books.paging.as_ref()?;
            let room = room_bytes / paging.page_bytes + paging.spare_pages();
            let extra =
                if means == Means::More { Self::extra_pages(books, plea, room)? } else { 0 };
            // One that cannot wait gets what nothing was queued for, in its own space; during a
            // capture a wait may be in vain.
            let space = match plea.asker {
                Asker::Captured { .. } | Asker::Nobody => Some(plea.space),
                Asker::Known { number, space: Some(own), .. } if books.is_capturing() => {
                    // It may have been retired meanwhile.
                    Some(*own).filter(|&own| books.stream_of(own) == Some(*number))
                }
                _ if books.is_capturing() => Some(CLEAN),
                Asker::Known { .. } | Asker::Raw { .. } => None,
            };
            let space = space.filter(|_| paging.keeper == HUB);
            let grant = space.map(|space| Grant { space, holder: books.holder(space), apart: 0 });
            let grant = grant.filter(|grant| grant.holder != Holder::Nobody);
            let is_clean = grant.is_some();
            let holes = self.holes(paging, is_clean);
            if plea.is_first
                && !books.is_capturing()
                && let Some((window, grant)) = self.window_behind(books, plea, &holes, room)
            {
                return Some(self.claim(books, window, Some(grant), &[]));
            }
            for need in self.needs_of_request(plea, is_clean) {
                let mut places = holes.places(&paging.grid, need);
                // What a search did not find among what is free, it does not find now.
                places.retain(|place| place.new > 0 || !(need.is_span || plea.has_missed));
                let beyond = |room: u64, place: &Place| u64::from(place.new).saturating_sub(room);
                // Where pages are moved first, new ones are spared, though there is room for them.
                let spared_room = if is_idle { 0 } else { room };
                let mut candidates = Vec::new();
                if places.first().is_some_and(|first| beyond(spared_room, first) > 0)
                    && !books.is_capturing()
                {
                    let free = if is_clean { self.holes(paging, false) } else { Holes::default() };
                    candidates = Self::candidates(books, if is_clean { &free } else { &holes });
                    // Nobody needs wait for what waits for none, or for the asker alone.
                    candidates
                        .retain(|one| !is_idle || paging.keeper != HUB || one.waits.is_empty());
                    candidates.truncate(most_moves);
                }
                if is_idle && candidates.is_empty() {
                    return None;
                }
                for place in places {
                    let (missing, wish) = (beyond(room, &place), beyond(spared_room, &place));
                    let window = holes.window(&paging.grid, need, &place, extra);
                    if let Some(chosen) = chosen(&candidates, &window, missing, wish)
                        && !(is_idle && chosen.is_empty())
                    {
                        let place = (!is_clean && !need.is_span).then_some(window.granules.start);
                        let draft = self.claim(books, window, grant, &chosen);
                        return Some(Draft { place, ..draft });
                    }
                }
            }
            None
        })
    }

    /// What is to be done so that so many bytes of addresses get memory.
    pub(super) fn draft_ahead(&self, books: &mut Books<D>, bytes: u64) -> Option<Draft<D>> {
        let paging = books.paging.as_ref()?;
        let pages =
            bytes.div_ceil(paging.page_bytes).min(self.room_bytes(books) / paging.page_bytes);
        if pages == 0 {
            return None;
        }
        let len = pages.checked_mul(paging.grid.page)?;
        let need = Need { len, align: 1, is_span: false };
        let holes = self.holes(paging, true);
        let place = holes.places(&paging.grid, need).into_iter().next()?;
        let window = holes.window(&paging.grid, need, &place, 0);
        let draft = self.claim(books, window, None, &[]);
        Some(Draft { is_ahead: true, ..draft })
    }

    /// How much more the limit allows, or the quota.
    pub(in crate::pool) fn room_bytes(&self, books: &Books<D>) -> u64 {
        self.most_bytes(books).map_or(u64::MAX, |most| most.saturating_sub(books.reserved_bytes))
    }

    /// The rows of addresses in which a block could be placed, in the space that keeps them.
    fn holes(&self, paging: &Paging<D>, is_clean: bool) -> Holes {
        let mut holes = Holes::default();
        self.shared.walk(paging.keeper, |mut part| {
            if is_clean && part.kind == PartKind::Free {
                part.kind = PartKind::Taken;
            }
            holes.add(&paging.grid, part, &paging.claimed);
        });
        holes
    }

    /// What a request needs, the most wanted first.
    pub(super) fn needs_of_request(&self, plea: &Plea<'_, D>, is_clean: bool) -> Vec<Need> {
        let shape = self.shared.shape();
        let granule = shape.bytes(1);
        let len = plea.request.size_bytes.max(1).div_ceil(granule);
        let align = (plea.request.align_bytes / granule).max(1);
        let mut needs = Vec::new();
        let span = u64::from(shape.span_granules);
        if shape.has_spans() && self.shared.is_small(&plea.request) && align <= span {
            needs.push(Need { len: span, align: span, is_span: true });
        }
        if is_clean && align > 1 {
            // A search finds a place in a run of this length, wherever it begins.
            needs.push(Need { len: len.saturating_add(align - 1), align: 1, is_span: false });
        } else {
            needs.push(Need { len, align, is_span: false });
        }
        needs
    }

    /// Pages that are taken beside those that a request needs: where streams share what there is,
    /// each growth is for all of them.
    fn extra_pages(books: &Books<D>, plea: &Plea<'_, D>, room: u64) -> Option<u64> {
        let paging = books.paging.as_ref()?;
        let held_bytes = paging.held_bytes();
        let base_bytes = match books.preallocation {
            Preallocation::OnDemand { base_bytes } if held_bytes == 0 => base_bytes,
            _ => 0,
        };
        let is_own = paging.keeper != HUB;
        let step_bytes = if is_own || plea.is_first {
            0
        } else {
            let part_bytes = books.reserved_bytes / STEPS_OF_RESERVED;
            books.growth.step_bytes(books.reserved_bytes, 0).min(part_bytes)
        };
        let wanted_bytes = if plea.tight { 0 } else { step_bytes.max(base_bytes) };
        let pages = (wanted_bytes / paging.page_bytes).min(room);
        let need = plea.request.size_bytes.div_ceil(paging.page_bytes);
        Some(pages.saturating_sub(need))
    }

    /// The handles that hold no block, in the order in which they are taken: first those that nobody
    /// has to wait for.
    pub(super) fn candidates(books: &Books<D>, holes: &Holes) -> Vec<Candidate> {
        let Some(paging) = &books.paging else { return Vec::new() };
        let own = books.source_of(paging.keeper).filter(|_| paging.keeper != HUB);
        let own = own.map(|source| (source, books.sources.epoch(source)));
        let mut candidates: Vec<(usize, u64, Candidate)> = Vec::new();
        for run in holes.free() {
            candidates.extend(paging.handles_in(run).map(|(page, count)| {
                let stretch = paging.stretch_of(page, count);
                let waits = match own {
                    Some(wait) => alloc::vec![wait],
                    None => Self::needs_of(books, None, &Joined::new(), stretch),
                };
                (waits.len(), run.len, Candidate { page, count, stretch, waits })
            }));
        }
        candidates.sort_by_key(|&(waits, run_len, _)| (waits, run_len));
        candidates.into_iter().map(|(_, _, candidate)| candidate).collect()
    }

    /// Claims the pages of a window, and takes the victims.
    fn claim(
        &self,
        books: &mut Books<D>,
        window: Window,
        grant: Option<Grant>,
        chosen: &[&Candidate],
    ) -> Draft<D> {
        let victims = self.take_victims(books, chosen);
        if let Some(paging) = &mut books.paging {
            paging.claimed.extend(window.rows.iter().cloned());
        }
        Draft { rows: window.rows, grant, place: None, victims, is_ahead: false }
    }

    /// Takes handles that hold no block: their addresses are bare, and claimed.
    pub(super) fn take_victims(&self, books: &mut Books<D>, chosen: &[&Candidate]) -> Victims<D> {
        let mut victims = Victims::none();
        let keeper = books.paging.as_ref().map_or(HUB, |paging| paging.keeper);
        if keeper != HUB {
            victims.source = books.source_of(keeper);
        }
        let stretches: Vec<Stretch> = chosen.iter().map(|candidate| candidate.stretch).collect();
        let bare = self.shared.make_bare(keeper, &stretches);
        let Some(paging) = &mut books.paging else { return victims };
        for candidate in chosen {
            // A thread of the stream may have been faster.
            if !bare.contains(&candidate.stretch) {
                continue;
            }
            if let Some(held) = paging.take(candidate.page) {
                victims.handles.push((candidate.page, held));
                for &wait in &candidate.waits {
                    add_source(&mut victims.waits, wait);
                }
            }
        }
        victims
    }
}

/// Handles of as many pages as are wished for, none of them in the window; none if so many as are missing
/// are not there.
fn chosen<'a>(
    candidates: &'a [Candidate],
    window: &Window,
    missing: u64,
    wish: u64,
) -> Option<Vec<&'a Candidate>> {
    let mut chosen = Vec::new();
    let mut pages = 0;
    for candidate in candidates {
        if pages >= wish {
            break;
        }
        let count = u64::from(candidate.count);
        // What is left of a handle is no use, so more than was wished for is taken only in need.
        let is_too_large = pages >= missing && pages + count > wish;
        if !is_too_large && !window.overlaps(candidate.stretch) {
            pages += count;
            chosen.push(candidate);
        }
    }
    (pages >= missing).then_some(chosen)
}

/// Where streams share what there is, no growth is more than such a part of it: a small pool stays small.
const STEPS_OF_RESERVED: u64 = 8;
