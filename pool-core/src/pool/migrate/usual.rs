//! The sizes that are usual, and how much of what is free is of no use for them.

use alloc::vec::Vec;

/// Requests that are remembered.
const MOST: usize = 1024;

/// The sizes of the last requests that were no hit and were served: one that is refused finds what
/// it found before when it is made again.
#[derive(Debug, Default)]
pub(crate) struct Usual {
    /// In granules, in the order of the requests once it is full, from `next` on.
    sizes: Vec<u64>,
    next: usize,
}

impl Usual {
    /// Notes the size of a request, in granules. Without memory for that on the host it does not.
    pub(crate) fn note(&mut self, granules: u64) {
        if let Some(oldest) = self.sizes.get_mut(self.next) {
            *oldest = granules;
        } else if self.sizes.try_reserve(1).is_ok() {
            self.sizes.push(granules);
        } else {
            return;
        }
        self.next = (self.next + 1) % MOST;
    }

    /// Whether more than so many hundredths of the free bytes serve no usual request, of which the
    /// one that is made now is one. A run that is shorter than a request is of no use for it; the
    /// more bytes a request is for, the more it weighs. The runs are given by their lengths, which
    /// are sorted on the way.
    pub(crate) fn has_unusable(&self, now: u64, lens: &mut [u64], percent: u8) -> bool {
        lens.sort_unstable();
        let free: u128 = lens.iter().copied().map(u128::from).sum();
        // Free granules in runs that are shorter than the one at a place.
        let mut shorter: Vec<u128> = Vec::new();
        let mut sum = 0;
        for &len in lens.iter() {
            shorter.push(sum);
            sum += u128::from(len);
        }
        let (mut unusable, mut asked) = (0u128, 0u128);
        for &size in self.sizes.iter().chain([&now]) {
            let place = lens.partition_point(|&len| len < size);
            let useless = shorter.get(place).copied().unwrap_or(free);
            // Lengths and sizes are below 2^33 and there are 2^32 granules: no product wraps.
            unusable += u128::from(size) * useless;
            asked += u128::from(size);
        }
        unusable * 100 > asked * free * u128::from(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: &[u64]) -> Usual {
        let mut usual = Usual::default();
        for &size in sizes {
            usual.note(size);
        }
        usual
    }

    #[test]
    fn what_is_shorter_than_a_request_is_of_no_use_for_it() {
        // 100 granules are free; 40 of them in runs shorter than 30.
        let mut lens = [60, 20, 20];
        assert!(of(&[30]).has_unusable(30, &mut lens, 39));
        assert!(!of(&[30]).has_unusable(30, &mut lens, 40), "more than the share, not as much");
        assert!(!of(&[20]).has_unusable(20, &mut lens, 0));
        assert!(of(&[]).has_unusable(61, &mut lens, 99));
        assert!(!of(&[]).has_unusable(61, &mut lens, 100));
        assert!(!of(&[61]).has_unusable(61, &mut [], 0), "nothing is free");
    }

    #[test]
    fn requests_weigh_by_their_bytes() {
        // Of no use for the one request of 70 is all, for those of 10 nothing.
        let mut lens = [50, 50];
        let usual = of(&[10, 70, 10]);
        assert!(usual.has_unusable(10, &mut lens, 69));
        assert!(!usual.has_unusable(10, &mut lens, 70));
    }

    #[test]
    fn the_last_1024_are_usual() {
        let mut usual = of(&[9]);
        (1..MOST).for_each(|_| usual.note(1));
        assert!(usual.has_unusable(1, &mut [8], 0));
        usual.note(1);
        assert!(!usual.has_unusable(1, &mut [8], 0));
        assert_eq!(usual.sizes.len(), MOST);
    }
}
