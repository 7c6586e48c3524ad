//! The slow model: a map of every granule, and what follows from it.

use std::collections::BTreeMap;

use pool_core::{Handle, Options, Placement};

/// A stretch of granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stretch {
    /// The first granule.
    pub start: u64,
    /// How many granules.
    pub granules: u64,
}

impl Stretch {
    /// The first granule behind it.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::oracle::Stretch;
    ///
    /// assert_eq!(Stretch { start: 3, granules: 4 }.end(), 7);
    /// ```
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.start + self.granules
    }

    fn contains(&self, granule: u64) -> bool {
        self.start <= granule && granule < self.end()
    }

    /// Whether `granules` at an aligned start lie inside.
    fn holds_aligned(&self, granules: u64, align: u64) -> bool {
        self.start
            .checked_next_multiple_of(align)
            .and_then(|start| start.checked_add(granules))
            .is_some_and(|end| end <= self.end())
    }
}

/// A request in granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Size, rounded up.
    pub granules: u64,
    /// Alignment, at least 1.
    pub align: u64,
    /// The options.
    pub options: Options,
    /// Free blocks of more granules than this serve only whole ([`Options::LIMIT_SPLIT`]).
    pub split_limit: u64,
}

impl Demand {
    fn runs_only(&self) -> bool {
        self.options.intersects(Options::OUTSIDE_SPANS | Options::LIMIT_SPLIT)
    }

    /// Whether the split limit lets `block` serve `taken` granules.
    fn may_split(&self, block: &Stretch, taken: u64) -> bool {
        !self.options.contains(Options::LIMIT_SPLIT)
            || block.granules <= self.split_limit
            || block.granules == taken
    }
}

/// What the range owes a request in its present state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It must be served.
    Must,
    /// It may be served or refused: a place exists, but it is not promised.
    May,
    /// No place exists.
    Cannot,
}

/// A live block of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) handle: Handle,
    pub(crate) place: Stretch,
}

/// A map of every granule, the live blocks, and the spans as the range lists them.
#[derive(Clone, Debug)]
pub struct Model {
    placement: Placement,
    /// Whether each granule is taken.
    taken: Vec<bool>,
    live: Vec<Live>,
    /// Index into `live` by first granule.
    by_start: BTreeMap<u64, usize>,
    spans: Vec<Stretch>,
    peak_granules: u64,
    live_granules: u64,
    free: FreeBlocks,
}

/// The free blocks that follow from the map.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeBlocks {
    /// Maximal runs outside the spans that hold a live block. Empty under buddy placement.
    pub(crate) runs: Vec<Stretch>,
    /// Maximal runs outside all spans. Empty under buddy placement.
    pub(crate) narrow_runs: Vec<Stretch>,
    /// Maximal free buddies inside spans that hold a live block; under buddy placement of the
    /// whole range.
    pub(crate) buddies: Vec<Stretch>,
    /// The spans that hold a live block.
    pub(crate) walls: Vec<Stretch>,
    /// What `blocks()` has to list: narrow runs and the buddies of all spans, in address order.
    pub(crate) pieces: Vec<Stretch>,
}

impl FreeBlocks {
    pub(crate) fn largest(&self) -> u64 {
        self.runs.iter().chain(&self.buddies).map(|block| block.granules).max().unwrap_or(0)
    }

    /// All free blocks, runs first.
    pub(crate) fn all(&self) -> Vec<Stretch> {
        self.runs.iter().chain(&self.buddies).copied().collect()
    }
}

impl Model {
    /// An empty range of `granules`.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Options, Placement};
    /// use pool_mock::oracle::{Demand, Model, Promise};
    ///
    /// let model = Model::new(10, Placement::Buddy);
    /// let mut demand =
    ///     Demand { granules: 8, align: 1, options: Options::empty(), split_limit: 0 };
    /// assert_eq!(model.promise(&demand), Promise::Must);
    /// demand.granules = 9;
    /// assert_eq!(model.promise(&demand), Promise::Cannot);
    /// ```
    #[must_use]
    pub fn new(granules: u32, placement: Placement) -> Self {
        let mut model = Self {
            placement,
            taken: vec![false; granules as usize],
            live: Vec::new(),
            by_start: BTreeMap::new(),
            spans: Vec::new(),
            peak_granules: 0,
            live_granules: 0,
            free: FreeBlocks::default(),
        };
        model.refresh();
        model
    }

    /// The same range with nothing in it.
    pub(crate) fn emptied(&self) -> Self {
        let mut empty = Self {
            taken: vec![false; self.taken.len()],
            live: Vec::new(),
            by_start: BTreeMap::new(),
            spans: Vec::new(),
            free: FreeBlocks::default(),
            ..*self
        };
        empty.refresh();
        empty
    }

    pub(crate) fn granules(&self) -> u64 {
        self.taken.len() as u64
    }

    pub(crate) fn live(&self) -> &[Live] {
        &self.live
    }

    pub(crate) fn spans(&self) -> &[Stretch] {
        &self.spans
    }

    pub(crate) fn free(&self) -> &FreeBlocks {
        &self.free
    }

    pub(crate) fn live_granules(&self) -> u64 {
        self.live_granules
    }

    pub(crate) fn peak_granules(&self) -> u64 {
        self.peak_granules
    }

    /// The live blocks in address order.
    pub(crate) fn live_by_address(&self) -> impl Iterator<Item = Live> + '_ {
        self.by_start.values().map(|&index| self.live[index])
    }

    pub(crate) fn all_free(&self, place: &Stretch) -> bool {
        place.end() <= self.granules() && self.slice(place).iter().all(|taken| !taken)
    }

    /// The span that holds a granule.
    pub(crate) fn span_at(&self, granule: u64) -> Option<Stretch> {
        self.spans.iter().copied().find(|span| span.contains(granule))
    }

    pub(crate) fn is_buddy(&self) -> bool {
        self.placement == Placement::Buddy
    }

    /// Adds a live block; the caller has seen that its granules are free.
    pub(crate) fn insert(&mut self, handle: Handle, place: Stretch) {
        self.mark(&place, true);
        self.by_start.insert(place.start, self.live.len());
        self.live.push(Live { handle, place });
        self.count(place.granules, 0);
    }

    /// Takes out the live block of an index; the last one takes its index.
    pub(crate) fn remove(&mut self, index: usize) -> Live {
        let gone = self.live.swap_remove(index);
        self.by_start.remove(&gone.place.start);
        if let Some(moved) = self.live.get(index) {
            self.by_start.insert(moved.place.start, index);
        }
        self.mark(&gone.place, false);
        self.count(0, gone.place.granules);
        gone
    }

    /// Gives a live block another length.
    pub(crate) fn set_length(&mut self, live: usize, granules: u64) {
        let old = self.live[live].place;
        self.mark(&old, false);
        let new = Stretch { granules, ..old };
        self.mark(&new, true);
        self.live[live].place = new;
        self.count(new.granules, old.granules);
    }

    pub(crate) fn set_granules(&mut self, granules: u64) {
        self.taken.resize(index(granules), false);
    }

    pub(crate) fn set_spans(&mut self, spans: Vec<Stretch>) {
        self.spans = spans;
    }

    fn count(&mut self, more: u64, less: u64) {
        self.live_granules = self.live_granules + more - less;
        self.peak_granules = self.peak_granules.max(self.live_granules);
    }

    fn slice(&self, place: &Stretch) -> &[bool] {
        &self.taken[index(place.start)..index(place.end())]
    }

    fn mark(&mut self, place: &Stretch, taken: bool) {
        self.taken[index(place.start)..index(place.end())].fill(taken);
    }

    /// Free granules from `start` on, an empty span counting as free.
    pub(crate) fn free_after(&self, start: u64) -> u64 {
        self.free.runs.iter().find(|run| run.start == start).map_or(0, |run| run.granules)
    }

    /// Free granules at the end of the range.
    pub(crate) fn free_tail(&self) -> u64 {
        let in_span = self.spans.iter().rev().find(|span| !self.all_free(span));
        let floor = index(in_span.map_or(0, Stretch::end));
        self.taken[floor..].iter().rev().take_while(|taken| !**taken).count() as u64
    }

    /// The most granules that the buddy block at `place` inside `home` can have where it lies.
    pub(crate) fn most_buddy(&self, place: &Stretch, home: &Stretch) -> u64 {
        let mut most = place.granules;
        while place.start.is_multiple_of(2 * most) && place.start + 2 * most <= home.end() {
            let right = Stretch { start: place.start + most, granules: most };
            if !self.all_free(&right) {
                break;
            }
            most *= 2;
        }
        most
    }

    /// Derives the free blocks anew after a change.
    pub(crate) fn refresh(&mut self) {
        let mut free = FreeBlocks::default();
        if self.is_buddy() {
            for root in roots(self.granules()) {
                self.split_free(root, &mut free.buddies);
            }
            free.pieces.clone_from(&free.buddies);
        } else {
            let mut wall = 0;
            let mut narrow_wall = 0;
            let spans = self.spans.iter();
            for span in spans {
                self.push_runs(narrow_wall, span.start, &mut free.narrow_runs);
                narrow_wall = span.end();
                if !self.all_free(span) {
                    self.push_runs(wall, span.start, &mut free.runs);
                    wall = span.end();
                    free.walls.push(*span);
                    self.split_free(*span, &mut free.buddies);
                }
            }
            self.push_runs(wall, self.granules(), &mut free.runs);
            self.push_runs(narrow_wall, self.granules(), &mut free.narrow_runs);
            free.pieces.clone_from(&free.narrow_runs);
            free.pieces.extend_from_slice(&free.buddies);
            free.pieces.extend(self.spans.iter().filter(|span| self.all_free(span)));
            free.pieces.sort_unstable();
        }
        self.free = free;
    }

    /// Appends the maximal free runs of `[start, end)`.
    fn push_runs(&self, start: u64, end: u64, out: &mut Vec<Stretch>) {
        let mut open = None;
        for granule in start..end {
            if self.taken[index(granule)] {
                if let Some(first) = open.take() {
                    out.push(Stretch { start: first, granules: granule - first });
                }
            } else if open.is_none() {
                open = Some(granule);
            }
        }
        if let Some(first) = open {
            out.push(Stretch { start: first, granules: end - first });
        }
    }

    /// Appends the maximal free buddies of a buddy.
    fn split_free(&self, buddy: Stretch, out: &mut Vec<Stretch>) {
        if self.all_free(&buddy) {
            out.push(buddy);
        } else if buddy.granules > 1 && !self.slice(&buddy).iter().all(|taken| *taken) {
            let half = buddy.granules / 2;
            self.split_free(Stretch { start: buddy.start, granules: half }, out);
            self.split_free(Stretch { start: buddy.start + half, granules: half }, out);
        }
    }

    /// What the range owes a request.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Options, Placement};
    /// use pool_mock::oracle::{Demand, Model, Promise};
    ///
    /// let model = Model::new(100, Placement::BestFit);
    /// let all = Demand { granules: 100, align: 1, options: Options::empty(), split_limit: 0 };
    /// assert_eq!(model.promise(&all), Promise::Must);
    /// // Offset zero has every alignment, but 100 + 63 granules are nowhere.
    /// assert_eq!(model.promise(&Demand { align: 64, ..all }), Promise::May);
    /// ```
    #[must_use]
    pub fn promise(&self, demand: &Demand) -> Promise {
        let mut best = Promise::Cannot;
        let mut note = |promised: bool, possible: bool| {
            if promised {
                best = Promise::Must;
            } else if possible && best == Promise::Cannot {
                best = Promise::May;
            }
        };
        for run in &self.free.runs {
            note(run_promised(run, demand), run_possible(run, demand));
        }
        // An empty span that is not dissolved yet may leave a run short enough to be split.
        for run in &self.free.narrow_runs {
            note(false, run_possible(run, demand));
        }
        if self.is_buddy() || !demand.runs_only() {
            for buddy in &self.free.buddies {
                let possible = buddy_possible(buddy, demand);
                note(possible && self.buddy_promised(buddy, demand), possible);
            }
        }
        best
    }

    fn buddy_promised(&self, buddy: &Stretch, demand: &Demand) -> bool {
        if demand.align == 1 {
            return true;
        }
        if self.is_buddy() {
            // The promise is for the rounded order, which is aligned to itself.
            let over_limit = demand.options.contains(Options::LIMIT_SPLIT)
                && buddy.granules > demand.split_limit;
            !over_limit && demand.align <= buddy.granules
        } else {
            demand.granules.saturating_add(demand.align - 1) <= buddy.granules
        }
    }
}

fn run_promised(run: &Stretch, demand: &Demand) -> bool {
    let padded = demand.granules.saturating_add(demand.align - 1);
    if demand.options.contains(Options::LIMIT_SPLIT) && run.granules > demand.split_limit {
        return demand.align == 1 && run.granules == demand.granules;
    }
    run.granules >= padded
}

fn run_possible(run: &Stretch, demand: &Demand) -> bool {
    demand.may_split(run, demand.granules) && run.holds_aligned(demand.granules, demand.align)
}

fn buddy_possible(buddy: &Stretch, demand: &Demand) -> bool {
    demand.granules.checked_next_power_of_two().is_some_and(|rounded| {
        demand.may_split(buddy, rounded) && buddy.holds_aligned(rounded, demand.align)
    })
}

/// A granule as an index into the map, which is never so large.
fn index(granule: u64) -> usize {
    usize::try_from(granule).unwrap_or(usize::MAX)
}

/// A capacity as naturally aligned powers of two, from offset zero on.
fn roots(granules: u64) -> Vec<Stretch> {
    let mut start = 0;
    let mut roots = Vec::new();
    while start < granules {
        let size = 1 << (granules - start).ilog2();
        roots.push(Stretch { start, granules: size });
        start += size;
    }
    roots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(bits: u64) -> Handle {
        Handle::from_raw(1 << 33 | bits).unwrap()
    }

    fn stretch(start: u64, granules: u64) -> Stretch {
        Stretch { start, granules }
    }

    fn demand(granules: u64, align: u64) -> Demand {
        Demand { granules, align, options: Options::empty(), split_limit: 0 }
    }

    #[test]
    fn runs_are_maximal_and_spans_are_walls_while_they_hold_a_block() {
        let mut model = Model::new(300, Placement::BestFit);
        model.set_spans(vec![stretch(64, 64)]);
        model.refresh();
        assert_eq!(model.free().runs, [stretch(0, 300)]);
        assert_eq!(model.free().narrow_runs, [stretch(0, 64), stretch(128, 172)]);
        assert_eq!(model.free().pieces, [stretch(0, 64), stretch(64, 64), stretch(128, 172)]);
        model.insert(handle(1), stretch(64, 4));
        model.refresh();
        assert_eq!(model.free().runs, [stretch(0, 64), stretch(128, 172)]);
        let buddies = [stretch(68, 4), stretch(72, 8), stretch(80, 16), stretch(96, 32)];
        assert_eq!(model.free().buddies, buddies);
        model.remove(0);
        model.refresh();
        assert_eq!(model.free().largest(), 300);
    }

    #[test]
    fn roots_of_an_odd_capacity_descend() {
        assert_eq!(roots(11), [stretch(0, 8), stretch(8, 2), stretch(10, 1)]);
    }

    #[test]
    fn a_split_limit_takes_a_run_out_of_the_promise() {
        let model = Model::new(100, Placement::BestFit);
        let limited = |granules, split_limit| Demand {
            options: Options::LIMIT_SPLIT,
            split_limit,
            ..demand(granules, 1)
        };
        assert_eq!(model.promise(&limited(50, 99)), Promise::Cannot);
        assert_eq!(model.promise(&limited(50, 100)), Promise::Must);
        assert_eq!(model.promise(&limited(100, 1)), Promise::Must);
    }

    #[test]
    fn a_buddy_block_grows_only_as_the_left_child() {
        let mut model = Model::new(8, Placement::Buddy);
        model.insert(handle(1), stretch(2, 2));
        model.refresh();
        assert_eq!(model.most_buddy(&stretch(2, 2), &stretch(0, 8)), 2);
        assert_eq!(model.promise(&demand(4, 1)), Promise::Must);
        assert_eq!(model.promise(&demand(4, 8)), Promise::Cannot);
        model.remove(0);
        model.insert(handle(2), stretch(0, 1));
        assert_eq!(model.most_buddy(&stretch(0, 1), &stretch(0, 8)), 8);
    }
}
