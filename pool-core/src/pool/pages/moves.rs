//! When pages are moved though new ones could be had: where the pool has much more than is in use, so
//! that what it lacks is a place, and not memory.

use core::time::Duration;

use crate::device::Device;
use crate::pool::books::Books;
use crate::pool::help::Plea;
use crate::pool::inner::Inner;
use crate::threads::Threads;

/// So large a part of what was in use lately, at most, a pool grows beyond it while pages could be moved.
const PART_BEYOND_USE: u64 = 10;

/// So many handles are moved at once, at most, and one more each [`PERIOD_OF_ONE`]. A move takes a driver
/// some tens of microseconds: so moves take less than a 200th of a program's time in the long run.
const MOST_MOVES: u32 = 256;

const PERIOD_OF_ONE: Duration = Duration::from_millis(8);

/// How many handles may still be moved. Where the device has no clock, no more than there are at first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moves {
    left: u32,
    /// Up to when they were counted.
    counted: Duration,
}

impl Moves {
    pub(super) fn new() -> Self {
        Self { left: MOST_MOVES, counted: Duration::ZERO }
    }

    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// Counts those that there are by now.
    pub(super) fn count(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.counted).as_nanos();
        let more = u32::try_from(passed / PERIOD_OF_ONE.as_nanos()).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(more).min(MOST_MOVES);
        self.counted += PERIOD_OF_ONE * more;
    }

    /// Notes that handles were moved.
    pub(super) fn spend(&mut self, handles: usize) {
        self.left = self.left.saturating_sub(u32::try_from(handles).unwrap_or(u32::MAX));
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// How many handles may be moved for a request, though there is room for new ones. None where there
    /// is a limit: what it allows is there to be used up, and places that are torn cost some of it.
    pub(super) fn moves_first(&self, books: &Books<D>, plea: &Plea<'_, D>) -> usize {
        let Some(paging) = &books.paging else { return 0 };
        if plea.is_first || books.is_capturing() || self.most_bytes(books).is_some() {
            return 0;
        }
        let size_bytes = plea.request.size_bytes;
        let used_bytes = self.shared.used_bytes().saturating_add(size_bytes);
        let most_bytes = used_bytes.max(books.recent.most_bytes());
        let enough_bytes = most_bytes.saturating_add(most_bytes / PART_BEYOND_USE);
        let grown_bytes = books.reserved_bytes.saturating_add(size_bytes);
        if grown_bytes > enough_bytes { paging.moves.left() as usize } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_come_again_with_time() {
        let mut moves = Moves::new();
        let second = Duration::from_secs(1);
        moves.spend(MOST_MOVES as usize - 1);
        assert_eq!(moves.left(), 1);
        moves.spend(7);
        assert_eq!(moves.left(), 0);
        moves.count(second);
        assert_eq!(moves.left(), 125);
        // No time is counted twice, or lost in small steps.
        moves.count(second);
        assert_eq!(moves.left(), 125);
        for step in 0..=1000 {
            moves.count(second + step * Duration::from_millis(1));
        }
        assert_eq!(moves.left(), 250);
        // A long time gives no more than there are at first, and a clock that is set back takes none.
        moves.count(Duration::MAX / 2);
        assert_eq!(moves.left(), MOST_MOVES);
        moves.count(Duration::ZERO);
        assert_eq!(moves.left(), MOST_MOVES);
    }
}
