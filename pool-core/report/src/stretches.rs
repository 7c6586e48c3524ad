//! A set of addresses, as stretches that do not touch each other.

use std::collections::BTreeMap;

/// What a stretch of a set became: the set is told of as what left it and what came to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A stretch of so many bytes is there now.
    Came(u64),
    /// A stretch of so many bytes is there no more.
    Left(u64),
}

/// Start and end of each stretch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretches(BTreeMap<u64, u64>);

impl Stretches {
    /// Adds addresses, some of which may be there. How many are new. Logarithmic in the stretches,
    /// and linear in those that it joins.
    pub(crate) fn add(&mut self, address: u64, bytes: u64, mut told: impl FnMut(Change)) -> u64 {
        let (mut start, mut end) = (address, address.saturating_add(bytes));
        if start == end {
            return 0;
        }
        let mut fresh = end - start;
        // From the highest that begins at or before the end, down to the first that ends before.
        while let Some((&from, &to)) = self.0.range(..=end).next_back() {
            if to < start {
                break;
            }
            let common = to.min(address.saturating_add(bytes)).saturating_sub(from.max(address));
            fresh -= common;
            if from <= start && to >= end {
                return 0;
            }
            self.0.remove(&from);
            told(Change::Left(to - from));
            start = start.min(from);
            end = end.max(to);
        }
        self.0.insert(start, end);
        told(Change::Came(end - start));
        fresh
    }

    /// Takes addresses out, some of which may not be there. How many were. As [`add`](Self::add).
    pub(crate) fn remove(&mut self, address: u64, bytes: u64, mut told: impl FnMut(Change)) -> u64 {
        let end = address.saturating_add(bytes);
        let mut gone = 0;
        while let Some((&from, &to)) = self.0.range(..end).next_back() {
            if to <= address || address == end {
                break;
            }
            self.0.remove(&from);
            told(Change::Left(to - from));
            gone += to.min(end) - from.max(address);
            for (start, end) in [(from, address), (end, to)] {
                if start < end {
                    self.0.insert(start, end);
                    told(Change::Came(end - start));
                }
            }
        }
        gone
    }

    /// Start and length of what is missing of some addresses, the last first.
    pub(crate) fn gaps(&self, address: u64, bytes: u64) -> Vec<(u64, u64)> {
        let mut end = address.saturating_add(bytes);
        let mut gaps = Vec::new();
        for (&from, &to) in self.0.range(..end).rev() {
            if to <= address {
                break;
            }
            if to < end {
                gaps.push((to, end - to));
            }
            end = from;
        }
        if address < end {
            gaps.push((address, end - address));
        }
        gaps
    }

    /// Start and length of each stretch, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(start, end)| (*start, end - start))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is added or taken out: whether, where, how much.
    fn deeds() -> impl Strategy<Value = Vec<(bool, u64, u64)>> {
        prop::collection::vec((any::<bool>(), 0_u64..60, 0_u64..12), 0..60)
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_addresses(deeds in deeds()) {
            let mut stretches = Stretches::default();
            let mut set = [false; 72];
            // The lengths that it told of.
            let mut lengths: Vec<u64> = Vec::new();
            for (adds, address, bytes) in deeds {
                let mut told = |change| match change {
                    Change::Came(length) => lengths.push(length),
                    Change::Left(length) => {
                        let index = lengths.iter().position(|other| *other == length).unwrap();
                        lengths.swap_remove(index);
                    }
                };
                let part = usize::try_from(address).unwrap()..usize::try_from(address + bytes).unwrap();
                let expected = set[part.clone()].iter().filter(|is| **is != adds).count() as u64;
                if adds {
                    let missing: u64 = stretches.gaps(address, bytes).iter().map(|gap| gap.1).sum();
                    prop_assert_eq!(missing, expected);
                    for (start, length) in stretches.gaps(address, bytes) {
                        let gap = usize::try_from(start).unwrap()..usize::try_from(start + length).unwrap();
                        prop_assert!(set[gap].iter().all(|is| !is));
                    }
                }
                let changed = if adds {
                    stretches.add(address, bytes, &mut told)
                } else {
                    stretches.remove(address, bytes, &mut told)
                };
                prop_assert_eq!(changed, expected);
                set[part].fill(adds);

                let mut runs: Vec<(u64, u64)> = Vec::new();
                for (address, _) in set.iter().enumerate().filter(|(_, is)| **is) {
                    let address = address as u64;
                    match runs.last_mut() {
                        Some((start, length)) if *start + *length == address => *length += 1,
                        _ => runs.push((address, 1)),
                    }
                }
                prop_assert_eq!(stretches.iter().collect::<Vec<_>>(), runs.clone());
                let mut expected: Vec<u64> = runs.iter().map(|run| run.1).collect();
                expected.sort_unstable();
                lengths.sort_unstable();
                prop_assert_eq!(&lengths, &expected);
            }
        }
    }
}
