//! Where room is made for a request, so that the fewest bytes are copied.

use alloc::vec::Vec;

use super::fit::{Holes, Wanted};
use crate::range::Stretch;

/// Steps of the search for places: for one set of candidates beyond a step for each of them, and
/// in all.
const MOST_STEPS_OF_WINDOW: u32 = 1 << 13;
const MOST_STEPS: u32 = 1 << 18;

/// Sums of lengths that are looked at for one window.
const MOST_SUMS: usize = 64;

/// A block that may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) stretch: Stretch,
    /// In granules.
    pub(super) align: u64,
}

/// What is to be moved where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// What is free then, of the length that was needed.
    pub(super) window: Stretch,
    /// The candidates that lie there, by their places in the list, and where each begins then.
    pub(super) moves: Vec<(usize, u32)>,
}

/// Windows that have the same candidates in them, whole or in part.
struct Windows {
    /// Where the first and the last of them begin.
    from: u64,
    to: u64,
    /// Where the candidate before theirs ends, or the stretch begins.
    edge: u64,
    /// Those in them: from one to another, and the granules of all.
    first: usize,
    end: usize,
    granules: u64,
}

/// Chooses the window whose candidates have the fewest granules together, of all those that have
/// nothing in them but free runs and candidates, and whose candidates have a place each in the free
/// memory outside; of several one with the fewest candidates, and of those the lowest. None if
/// there is no such window, or one is free as it is. Runs and candidates lie in order, each in one
/// arena.
///
/// No other window needs fewer bytes, as long as there are steps for the search of places, and all
/// candidates can begin anywhere: see [`Windows::starts`].
///
/// Linear in runs and candidates, but for a sort and for the search, which is bounded.
pub(super) fn choose(
    need: u64,
    arenas: &[Stretch],
    runs: &[Stretch],
    candidates: &[Candidate],
) -> Option<Choice> {
    if need == 0 {
        return None;
    }
    let mut windows = windows(need, arenas, runs, candidates);
    windows.sort_by_key(|windows| (windows.granules, windows.end - windows.first, windows.from));
    if windows.first()?.granules == 0 {
        return None;
    }
    let mut holes = Holes::default();
    for run in runs {
        holes.add(run.start.into(), run.len);
    }
    let free_granules: u64 = runs.iter().map(|run| run.len).sum();
    let mut steps = MOST_STEPS;
    windows.iter().find_map(|windows| {
        let inside = &candidates[windows.first..windows.end];
        if steps == 0 || windows.granules > free_granules {
            return None;
        }
        let wanted: Vec<Wanted> =
            inside.iter().map(|one| Wanted { len: one.stretch.len, align: one.align }).collect();
        let mut left = MOST_STEPS_OF_WINDOW.saturating_add(inside.len() as u32).min(steps);
        steps -= left;
        let placed = windows.starts(inside).into_iter().find_map(|start| {
            let starts = place_outside(start, start + need, runs, &mut holes, &wanted, &mut left)?;
            Some((start, starts))
        });
        steps += left;
        let (start, starts) = placed?;
        let moves = (windows.first..windows.end).zip(starts.into_iter().map(|at| at as u32));
        let window = Stretch { start: start as u32, len: need };
        Some(Choice { window, moves: moves.collect() })
    })
}

/// Finds a place for each block in the free memory outside a window.
fn place_outside(
    start: u64,
    end: u64,
    runs: &[Stretch],
    holes: &mut Holes,
    wanted: &[Wanted],
    steps: &mut u32,
) -> Option<Vec<u64>> {
    let first = runs.partition_point(|run| run.end() <= start);
    let inside = runs[first..].iter().take_while(|run| u64::from(run.start) < end);
    for run in inside.clone() {
        holes.remove(run.start.into(), run.len);
        holes.add(run.start.into(), start.saturating_sub(run.start.into()));
        holes.add(end, run.end().saturating_sub(end));
    }
    let starts = holes.place(wanted, steps);
    for run in inside {
        holes.remove(run.start.into(), start.saturating_sub(run.start.into()));
        holes.remove(end, run.end().saturating_sub(end));
        holes.add(run.start.into(), run.len);
    }
    starts
}

impl Windows {
    /// Where those begin that have to be looked at. The further up one begins, the more is free
    /// below, and the less above; but below only what takes up a sum of candidates' lengths is of
    /// use. So the first is looked at, which leaves the most above, and for each such sum the first
    /// that leaves that much below.
    fn starts(&self, inside: &[Candidate]) -> Vec<u64> {
        let mut sums: Vec<u64> = alloc::vec![0];
        for one in inside {
            for place in 0..sums.len() {
                let sum = sums[place] + one.stretch.len;
                if sums.len() < MOST_SUMS && self.edge + sum <= self.to && !sums.contains(&sum) {
                    sums.push(sum);
                }
            }
        }
        let mut starts: Vec<u64> =
            sums.into_iter().map(|sum| self.from.max(self.edge + sum)).collect();
        starts.sort_unstable();
        starts.dedup();
        starts
    }
}

/// All windows of a length, from low to high: what is in them changes where their start passes the
/// end of a candidate, and where their end passes a start.
fn windows(
    need: u64,
    arenas: &[Stretch],
    runs: &[Stretch],
    candidates: &[Candidate],
) -> Vec<Windows> {
    let mut windows = Vec::new();
    let (mut next_run, mut next) = (0, 0);
    while let Some((start, end, first)) =
        loose_stretch(arenas, runs, candidates, &mut next_run, &mut next)
    {
        let inside = |place: usize| Some(candidates.get(place)?.stretch).filter(|_| place < next);
        let (mut at, mut edge, mut granules) = (start, start, 0);
        let (mut first, mut last) = (first, first);
        while at + need <= end {
            while let Some(entered) = inside(last).filter(|one| u64::from(one.start) < at + need) {
                granules += entered.len;
                last += 1;
            }
            while let Some(passed) = inside(first).filter(|one| one.end() <= at) {
                granules -= passed.len;
                edge = passed.end();
                first += 1;
            }
            let enters = inside(last).map(|one| u64::from(one.start) + 1 - need);
            let passes = inside(first).map(|one| one.end());
            let beyond = end - need + 1;
            let to = beyond.min(enters.unwrap_or(beyond)).min(passes.unwrap_or(beyond));
            windows.push(Windows { from: at, to: to - 1, edge, first, end: last, granules });
            at = to;
        }
    }
    windows
}

/// The next stretch of an arena without anything in it but runs and candidates: where it begins
/// and ends, and its first candidate; the last is before the next one of all.
fn loose_stretch(
    arenas: &[Stretch],
    runs: &[Stretch],
    candidates: &[Candidate],
    next_run: &mut usize,
    next: &mut usize,
) -> Option<(u64, u64, usize)> {
    let first = *next;
    let mut span: Option<(u64, u64)> = None;
    loop {
        let run = runs.get(*next_run).copied();
        let candidate = candidates.get(*next).map(|candidate| candidate.stretch);
        let is_run = match (run, candidate) {
            (Some(run), Some(candidate)) => run.start < candidate.start,
            (run, _) => run.is_some(),
        };
        let Some(piece) = (if is_run { run } else { candidate }) else { break };
        let start = u64::from(piece.start);
        if let Some((_, end)) = span
            && (start != end || arenas.binary_search_by_key(&piece.start, |a| a.start).is_ok())
        {
            break;
        }
        *(if is_run { &mut *next_run } else { &mut *next }) += 1;
        span = Some((span.map_or(start, |(first, _)| first), piece.end()));
    }
    span.map(|(start, end)| (start, end, first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::migrate::fit::tests::fits;

    /// What a granule has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Is {
        Free,
        Fixed,
        Of(usize),
    }

    /// A row of granules, in arenas.
    struct Layout {
        arenas: Vec<Stretch>,
        row: Vec<Is>,
        runs: Vec<Stretch>,
        candidates: Vec<Candidate>,
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, below: u64) -> u64 {
            self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (self.0 >> 33) % below
        }
    }

    fn layout(random: &mut Random, most_len: u64) -> Layout {
        let mut layout = Layout {
            arenas: Vec::new(),
            row: Vec::new(),
            runs: Vec::new(),
            candidates: Vec::new(),
        };
        for _ in 0..=random.below(3) {
            let first = layout.row.len();
            let mut was_free = false;
            for _ in 0..=random.below(10) {
                let start = layout.row.len() as u32;
                let len = 1 + random.below(most_len);
                let stretch = Stretch { start, len };
                let is = match random.below(5) {
                    0 | 1 if !was_free => {
                        layout.runs.push(stretch);
                        Is::Free
                    }
                    2 => Is::Fixed,
                    _ => {
                        layout.candidates.push(Candidate { stretch, align: 1 });
                        Is::Of(layout.candidates.len() - 1)
                    }
                };
                was_free = is == Is::Free;
                layout.row.extend((0..len).map(|_| is));
            }
            let len = (layout.row.len() - first) as u64;
            layout.arenas.push(Stretch { start: first as u32, len });
        }
        layout
    }

    impl Layout {
        /// What has to be copied at least: of every window, wherever it begins.
        fn fewest(&self, need: u64) -> Option<u64> {
            let every = self.arenas.iter().flat_map(|arena| {
                let end = u64::from(arena.start) + arena.len;
                (arena.start.into()..end).filter(move |start| start + need <= end)
            });
            every.filter_map(|start| self.cost(start as usize, (start + need) as usize)).min()
        }

        /// What has to be copied for a window; none if it cannot be.
        fn cost(&self, start: usize, end: usize) -> Option<u64> {
            let mut inside: Vec<usize> = Vec::new();
            for is in &self.row[start..end] {
                match is {
                    Is::Free => {}
                    Is::Fixed => return None,
                    Is::Of(one) if inside.last() == Some(one) => {}
                    Is::Of(one) => inside.push(*one),
                }
            }
            let lens: Vec<u64> =
                inside.iter().map(|&one| self.candidates[one].stretch.len).collect();
            let mut holes = Vec::new();
            for run in &self.runs {
                // Before the window, and behind it.
                let (first, last) = (run.start as usize, run.end() as usize);
                holes.push(last.min(start).saturating_sub(first) as u64);
                holes.push(last.saturating_sub(first.max(end)) as u64);
            }
            holes.retain(|&len| len > 0);
            fits(&mut holes, &lens).then(|| lens.iter().sum())
        }

        fn check(&self, need: u64, choice: &Choice) -> u64 {
            let (start, end) = (choice.window.start as usize, choice.window.end() as usize);
            assert_eq!(choice.window.len, need);
            let mut row = self.row.clone();
            let mut copied = 0;
            for &(one, to) in &choice.moves {
                let Candidate { stretch, align } = self.candidates[one];
                assert_eq!(u64::from(to) % align, 0);
                let target = to as usize..to as usize + stretch.len as usize;
                assert!(!target.clone().any(|granule| (start..end).contains(&granule)));
                let target = &mut row[target];
                assert!(target.iter().all(|is| *is == Is::Free), "a target that is not free");
                target.fill(Is::Fixed);
                copied += stretch.len;
            }
            for &(one, _) in &choice.moves {
                // What it had is free only now: no target lies there.
                let from = self.candidates[one].stretch;
                row[from.start as usize..from.end() as usize].fill(Is::Free);
            }
            assert!(row[start..end].iter().all(|is| *is == Is::Free), "something is in the way");
            copied
        }
    }

    #[test]
    fn no_window_needs_fewer_bytes() {
        let mut random = Random(3);
        let (mut chosen, mut impossible, mut free) = (0, 0, 0);
        for turn in 0..6000 {
            let layout = layout(&mut random, 3 + turn % 8);
            let need = 1 + random.below(16);
            let Layout { arenas, runs, candidates, .. } = &layout;
            let fewest = layout.fewest(need);
            match choose(need, arenas, runs, candidates) {
                Some(choice) => {
                    assert_eq!(Some(layout.check(need, &choice)), fewest, "{:?}", layout.row);
                    chosen += 1;
                }
                None if fewest == Some(0) => free += 1,
                None => {
                    assert_eq!(fewest, None, "{need} in {:?}", layout.row);
                    impossible += 1;
                }
            }
        }
        assert!(chosen > 500 && impossible > 500 && free > 500, "{chosen} {impossible} {free}");
    }

    #[test]
    fn aligned_blocks_stay_aligned() {
        let mut random = Random(4);
        let mut chosen = 0;
        for _ in 0..3000 {
            let mut layout = layout(&mut random, 6);
            for candidate in &mut layout.candidates {
                candidate.align = 1 << random.below(4);
            }
            let need = 1 + random.below(16);
            let Layout { arenas, runs, candidates, .. } = &layout;
            if let Some(choice) = choose(need, arenas, runs, candidates) {
                assert!(Some(layout.check(need, &choice)) >= layout.fewest(need));
                chosen += 1;
            }
        }
        assert!(chosen > 200, "{chosen}");
    }
}
