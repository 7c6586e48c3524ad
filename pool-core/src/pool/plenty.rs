//! Whether a pool that cannot grow has more than it needs.

/// Requests in a row for which half has to be enough.
const WINDOW: u32 = 1 << 16;

/// From this part on that is used there is not plenty any more.
const MOST_USED_PERCENT: u64 = 60;

/// What a pool that cannot grow has learnt of what it needs.
///
/// Memory that lies together serves whoever comes, so that no limit is reached early; streams that
/// have some to themselves are served at once, and wait less. So until it is seen that half of the
/// memory is enough, it lies together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plenty {
    is_there: bool,
    requests: u32,
    most_used: u64,
}

impl Plenty {
    /// Looks at what is used, in bytes, at a request that is no hit. Whether there is plenty.
    pub(crate) fn review(&mut self, used: u64, reserved: u64) -> bool {
        self.most_used = self.most_used.max(used);
        if self.is_there {
            if u128::from(used) * 100 >= u128::from(reserved) * u128::from(MOST_USED_PERCENT) {
                *self = Self { is_there: false, requests: 0, most_used: used };
            }
        } else {
            self.requests += 1;
            if self.requests >= WINDOW {
                let is_there = self.most_used <= reserved / 2;
                *self = Self { is_there, requests: 0, most_used: used };
            }
        }
        self.is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_must_be_enough_for_long_and_more_ends_it_at_once() {
        let mut plenty = Plenty::default();
        assert!((1..WINDOW).all(|_| !plenty.review(50, 100)));
        assert!(plenty.review(50, 100));
        assert!(plenty.review(59, 100));
        assert!(!plenty.review(60, 100));
        // One request of more than half in the window, and it begins anew.
        assert!((0..WINDOW).all(|request| !plenty.review(if request == 7 { 51 } else { 0 }, 100)));
        assert!(!plenty.review(0, 100));
    }
}
