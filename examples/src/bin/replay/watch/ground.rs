//! The addresses of a moment, and what is taken of them.

/// Arenas and what lies in them, where they begin and their sizes, each in the order of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ground {
    pub(super) arenas: Vec<(u64, u64)>,
    /// Blocks that are live or wait.
    pub(super) taken: Vec<(u64, u64)>,
}

impl Ground {
    /// The bytes of all arenas.
    pub(super) fn bytes(&self) -> u128 {
        self.arenas.iter().map(|(_, bytes)| u128::from(*bytes)).sum()
    }

    /// The longest stretch of an arena that nothing is in.
    pub(super) fn largest_hole(&self) -> u64 {
        let holes = self.arenas.iter().map(|arena| {
            let (mut free_from, mut largest) = (0, 0);
            for (start, end) in self.within(*arena) {
                largest = largest.max(start.saturating_sub(free_from));
                free_from = free_from.max(end);
            }
            largest.max(arena.1 - free_from)
        });
        holes.max().unwrap_or(0)
    }

    /// How much of each of so many equal shares of the addresses is taken, in 256ths of it: rounded, but
    /// 0 and 256 only if it is nothing and all. Fewer shares, if there are fewer bytes.
    ///
    /// # Complexity
    ///
    /// Linear in what is taken, the shares, and the arenas times a logarithm.
    pub(super) fn shares(&self, count: usize) -> Vec<u32> {
        let bytes = self.bytes();
        let count = (count as u128).min(bytes);
        if count == 0 {
            return Vec::new();
        }
        let begin = |share: u128| share * bytes / count;
        let mut taken = vec![0_u128; usize::try_from(count).unwrap_or(0)];
        let mut before = 0;
        for arena in &self.arenas {
            for (start, end) in self.within(*arena) {
                let (mut from, end) = (before + u128::from(start), before + u128::from(end));
                // The first share that ends behind it; where a share begins is rounded down.
                let mut share = from * count / bytes;
                while begin(share + 1) <= from {
                    share += 1;
                }
                while from < end {
                    let part_end = end.min(begin(share + 1));
                    taken[usize::try_from(share).unwrap_or(0)] += part_end - from;
                    (from, share) = (part_end, share + 1);
                }
            }
            before += u128::from(arena.1);
        }
        let shares = (0..count).zip(taken).map(|(share, taken)| {
            let size = begin(share + 1) - begin(share);
            match taken.min(size) {
                0 => 0,
                taken if taken == size => 256,
                taken => u32::try_from(taken * 256 / size).unwrap_or(0).clamp(1, 255),
            }
        });
        shares.collect()
    }

    /// What is taken of an arena: from and to which of its bytes.
    fn within(&self, (arena, bytes): (u64, u64)) -> impl Iterator<Item = (u64, u64)> {
        let arena_end = arena.saturating_add(bytes);
        let first = self.taken.partition_point(|(start, _)| *start < arena);
        let taken = self.taken[first..].iter().take_while(move |(start, _)| *start < arena_end);
        taken.map(move |(start, bytes)| {
            (start - arena, start.saturating_add(*bytes).min(arena_end) - arena)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_parts_of_all_arenas() {
        let ground =
            Ground { arenas: vec![(100, 40), (1000, 60)], taken: vec![(100, 15), (1030, 30)] };
        assert_eq!(ground.bytes(), 100);
        assert_eq!(ground.shares(10), [256, 128, 0, 0, 0, 0, 0, 256, 256, 256]);
        assert_eq!(ground.shares(1), [115]);
        assert_eq!(ground.largest_hole(), 30);
    }

    #[test]
    fn nothing_has_no_shares_and_little_has_few() {
        assert!(Ground::default().shares(10).is_empty());
        assert_eq!(Ground::default().largest_hole(), 0);
        let ground = Ground { arenas: vec![(0, 3)], taken: vec![(1, 1)] };
        assert_eq!(ground.shares(10), [0, 256, 0]);
        assert!(ground.shares(0).is_empty());
        assert_eq!(ground.largest_hole(), 1);
    }

    #[test]
    fn a_little_is_not_nothing_and_almost_all_is_not_all() {
        let ground = Ground { arenas: vec![(0, 4000)], taken: vec![(5, 1), (2000, 1999)] };
        assert_eq!(ground.shares(2), [1, 255]);
    }

    #[test]
    fn the_longest_addresses_overflow_nothing() {
        let all = (0, u64::MAX);
        let ground = Ground { arenas: vec![all, all], taken: vec![(1, u64::MAX)] };
        // The first byte of each arena is free.
        assert_eq!(ground.shares(3), [255, 255, 256]);
        assert_eq!(ground.largest_hole(), 1);
    }

    #[test]
    fn shares_add_up_to_what_a_map_of_every_byte_has() {
        let mut rng = fastrand::Rng::with_seed(9);
        for _ in 0..200 {
            let (mut arenas, mut taken, mut map, mut at) = (vec![], vec![], vec![], 0);
            for _ in 0..rng.usize(1..4) {
                at += rng.u64(1..50);
                let start = at;
                for _ in 0..rng.usize(0..8) {
                    for is_taken in [false, true] {
                        let bytes = rng.u64(1..20);
                        if is_taken {
                            taken.push((at, bytes));
                        }
                        map.extend((0..bytes).map(|_| is_taken));
                        at += bytes;
                    }
                }
                arenas.push((start, at - start));
            }
            let ground = Ground { arenas, taken };
            let count = rng.usize(1..30).min(map.len());
            let expected: Vec<u32> = (0..count)
                .map(|share| {
                    let part = &map[share * map.len() / count..(share + 1) * map.len() / count];
                    let taken = part.iter().filter(|is_taken| **is_taken).count();
                    let share = u32::try_from(taken * 256 / part.len()).unwrap();
                    if taken == 0 { 0 } else { share.max(1) }
                })
                .collect();
            assert_eq!(ground.shares(count), expected, "{ground:?}");
        }
    }
}
