//! Which parts of the hub's free memory wait for what: intervals, each with the source of its wait.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::range::Stretch;

/// Free memory of the hub that was freed, or gathered, when so many fences of a source had been
/// recorded: any later one is behind its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stain {
    pub(crate) len: u64,
    /// The number of the stream, or of what is left of one.
    pub(crate) source: u32,
    pub(crate) epoch: u64,
}

impl Stain {
    fn is_like(&self, other: &Self) -> bool {
        (self.source, self.epoch) == (other.source, other.epoch)
    }
}

/// The stains of the hub, none over another. What has none is clean.
#[derive(Default)]
pub(crate) struct Stains(BTreeMap<u32, Stain>);

impl Stains {
    /// Stains a stretch, over whatever was there.
    pub(crate) fn add(&mut self, stretch: Stretch, source: u32, epoch: u64) {
        self.remove(stretch);
        let mut start = stretch.start;
        let mut stain = Stain { len: stretch.len, source, epoch };
        if let Some((&first, before)) = self.0.range(..start).next_back()
            && u64::from(first) + before.len == u64::from(start)
            && before.is_like(&stain)
        {
            start = first;
            stain.len += before.len;
            self.0.remove(&first);
        }
        if let Ok(end) = u32::try_from(u64::from(start) + stain.len)
            && let Some(behind) = self.0.get(&end)
            && behind.is_like(&stain)
        {
            stain.len += behind.len;
            self.0.remove(&end);
        }
        self.0.insert(start, stain);
    }

    /// Takes the stains off a stretch.
    pub(crate) fn remove(&mut self, stretch: Stretch) {
        let end = u64::from(stretch.start) + stretch.len;
        while let Some((start, stain)) = self.last_before(end) {
            let stain_end = u64::from(start) + stain.len;
            if stain_end <= stretch.start.into() {
                break;
            }
            self.0.remove(&start);
            if stain_end > end {
                self.0.insert(end as u32, Stain { len: stain_end - end, ..stain });
            }
            if start < stretch.start {
                self.0.insert(start, Stain { len: u64::from(stretch.start - start), ..stain });
            }
        }
    }

    /// The last stain that begins before a granule.
    fn last_before(&self, end: u64) -> Option<(u32, Stain)> {
        let behind = match u32::try_from(end) {
            Ok(end) => self.0.range(..end).next_back(),
            Err(_) => self.0.last_key_value(),
        };
        behind.map(|(&start, &stain)| (start, stain))
    }

    /// The stains of a stretch, from its end to its start.
    pub(crate) fn of(&self, stretch: Stretch) -> impl Iterator<Item = Stain> + '_ {
        self.around(stretch).map(|(_, stain)| stain)
    }

    /// The same, each with all that it covers.
    pub(crate) fn around(&self, stretch: Stretch) -> impl Iterator<Item = (Stretch, Stain)> + '_ {
        let end = u64::from(stretch.start) + stretch.len;
        let last = u32::try_from(end).unwrap_or(u32::MAX);
        // The one that begins at the last granule of all is of a stretch that ends there.
        let all_before = self.0.range(..=last).rev();
        all_before
            .skip_while(move |&(&start, _)| u64::from(start) >= end)
            .take_while(move |&(&start, stain)| {
                u64::from(start) + stain.len > u64::from(stretch.start)
            })
            .map(|(&start, &stain)| (Stretch { start, len: stain.len }, stain))
    }

    /// All stains.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Stretch, Stain)> + '_ {
        self.0.iter().map(|(&start, &stain)| (Stretch { start, len: stain.len }, stain))
    }

    /// Takes the stains off that are no more: those of which this says so.
    pub(crate) fn clear(&mut self, is_done: impl Fn(&Stain) -> bool) {
        self.0.retain(|_, stain| !is_done(stain));
    }

    /// Granules that wait for each source.
    pub(crate) fn by_source(&self) -> Vec<(u32, u64)> {
        let mut sums: Vec<(u32, u64)> = Vec::new();
        for stain in self.0.values() {
            match sums.iter_mut().find(|(source, _)| *source == stain.source) {
                Some((_, sum)) => *sum += stain.len,
                None => sums.push((stain.source, stain.len)),
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// The source of every granule, or zero.
    fn row(stains: &Stains) -> Vec<u32> {
        let mut row = vec![0; 64];
        for (stretch, stain) in stains.all() {
            for granule in u64::from(stretch.start)..u64::from(stretch.start) + stretch.len {
                assert_eq!(row[granule as usize], 0, "one stain over another");
                row[granule as usize] = stain.source;
            }
        }
        row
    }

    #[test]
    fn stains_are_as_a_row_of_granules_has_them() {
        let (mut stains, mut model) = (Stains::default(), vec![0u32; 64]);
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..20_000 {
            let start = draw(64);
            let stretch = Stretch { start: start as u32, len: 1 + draw(64 - start) };
            let source = draw(4) as u32;
            let part = start as usize..(start + stretch.len) as usize;
            if source == 0 {
                stains.remove(stretch);
            } else {
                stains.add(stretch, source, 1);
            }
            model[part.clone()].fill(source);
            assert_eq!(row(&stains), model);
            let mut seen: Vec<u32> = stains.of(stretch).map(|stain| stain.source).collect();
            seen.dedup();
            let mut wanted: Vec<u32> = model[part].to_vec();
            wanted.dedup();
            wanted.retain(|&source| source != 0);
            wanted.reverse();
            assert_eq!(seen.len().min(1), wanted.len().min(1));
            assert!(wanted.iter().all(|source| seen.contains(source)));
        }
    }

    #[test]
    fn the_last_granule_of_all_can_be_stained() {
        let mut stains = Stains::default();
        let last = Stretch { start: u32::MAX, len: 1 };
        stains.add(last, 3, 0);
        assert_eq!(stains.of(last).count(), 1);
        assert_eq!(stains.of(Stretch { start: 0, len: 1 << 32 }).count(), 1);
        stains.remove(Stretch { start: 0, len: 1 << 32 });
        assert_eq!(stains.all().count(), 0);
    }
}
