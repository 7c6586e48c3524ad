//! A map from stretches of bytes to values.

use core::ops::Range;
use std::collections::BTreeMap;

/// Values of stretches that do not overlap.
#[derive(Clone, Debug)]
pub(super) struct Intervals<V> {
    /// By its start, a stretch's end and value.
    stretches: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for Intervals<V> {
    fn default() -> Self {
        Self { stretches: BTreeMap::new() }
    }
}

impl<V: Clone> Intervals<V> {
    /// Every stretch that has bytes in `bytes`, as long as it is there.
    pub(super) fn overlapping(&self, bytes: Range<u64>) -> impl Iterator<Item = (Range<u64>, &V)> {
        let before = self.stretches.range(..bytes.start).next_back();
        let before = before.filter(|(_, (end, _))| *end > bytes.start && bytes.start < bytes.end);
        let inside = self.stretches.range(bytes.start..bytes.end.max(bytes.start));
        before.into_iter().chain(inside).map(move |(&start, (end, value))| {
            (start.max(bytes.start)..(*end).min(bytes.end), value)
        })
    }

    /// The first bytes of `bytes` that have no value.
    pub(super) fn first_gap(&self, bytes: Range<u64>) -> Option<Range<u64>> {
        let mut at = bytes.start;
        for (stretch, _) in self.overlapping(bytes.clone()) {
            if stretch.start > at {
                return Some(at..stretch.start);
            }
            at = stretch.end;
        }
        (at < bytes.end).then_some(at..bytes.end)
    }

    /// Takes away what has values in `bytes`: its stretches, in order.
    pub(super) fn take(&mut self, bytes: Range<u64>) -> Vec<(Range<u64>, V)> {
        if bytes.is_empty() {
            return Vec::new();
        }
        self.split(bytes.start);
        self.split(bytes.end);
        let mut taken = Vec::new();
        while let Some((&start, _)) = self.stretches.range(bytes.clone()).next() {
            if let Some((end, value)) = self.stretches.remove(&start) {
                taken.push((start..end, value));
            }
        }
        taken
    }

    /// Gives `bytes` a value, over what was there.
    pub(super) fn set(&mut self, bytes: Range<u64>, value: V) {
        self.take(bytes.clone());
        self.put(bytes, value);
    }

    /// Gives bytes that have none a value.
    pub(super) fn put(&mut self, bytes: Range<u64>, value: V) {
        if !bytes.is_empty() {
            self.stretches.insert(bytes.start, (bytes.end, value));
        }
    }

    /// Parts the stretch that goes over a place.
    fn split(&mut self, at: u64) {
        let Some((_, stretch)) = self.stretches.range_mut(..at).next_back() else { return };
        if stretch.0 > at {
            let tail = (stretch.0, stretch.1.clone());
            stretch.0 = at;
            self.stretches.insert(at, tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(map: &Intervals<u32>) -> Vec<(Range<u64>, u32)> {
        map.overlapping(0..u64::MAX).map(|(bytes, &value)| (bytes, value)).collect()
    }

    #[test]
    fn a_new_value_cuts_the_old() {
        let mut map = Intervals::default();
        map.set(0..100, 1);
        map.set(40..60, 2);
        assert_eq!(list(&map), [(0..40, 1), (40..60, 2), (60..100, 1)]);
        assert_eq!(map.take(30..50), [(30..40, 1), (40..50, 2)]);
        assert_eq!(list(&map), [(0..30, 1), (50..60, 2), (60..100, 1)]);
    }

    #[test]
    fn gaps_are_found_at_every_side() {
        let mut map = Intervals::default();
        map.set(10..20, 1);
        map.set(20..30, 2);
        assert_eq!(map.first_gap(10..30), None);
        assert_eq!(map.first_gap(5..30), Some(5..10));
        assert_eq!(map.first_gap(15..40), Some(30..40));
        assert_eq!(map.first_gap(50..60), Some(50..60));
        assert_eq!(map.first_gap(50..50), None);
    }

    #[test]
    fn overlapping_is_clipped() {
        let mut map = Intervals::default();
        map.set(0..100, 7);
        let clipped: Vec<_> = map.overlapping(40..50).collect();
        assert_eq!(clipped, [(40..50, &7)]);
        assert_eq!(map.overlapping(100..200).count(), 0);
        assert_eq!(map.overlapping(50..50).count(), 0);
    }
}
