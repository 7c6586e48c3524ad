//! Free memory that the device keeps for others: idle memory goes back when it has less.

use super::inner::{Failed, Inner, keep};
use crate::device::{Call, Capabilities, Device};
use crate::threads::Threads;

/// The most ticks from one gathering in vain to the next.
const MOST_PAUSES: u32 = 64;

/// When something is tried again that did not help: after one tick, after two, four, and so on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pauses {
    /// After how many the next is due, when one was in vain.
    length: u32,
    left: u32,
}

impl Pauses {
    /// Whether it is to be tried at this tick.
    fn is_over(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return true,
        }
        false
    }

    /// It was in vain.
    fn lengthen(&mut self) {
        self.length = (self.length * 2).clamp(1, MOST_PAUSES);
        self.left = self.length;
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// If the device has less free memory than the floor, gives idle arenas back until it has so
    /// much: those that lie idle in the hub; then, if that is not enough, what is idle once the free
    /// memory of all streams is put together. While that is in vain it is done more and more
    /// rarely, for it costs the streams what they had to themselves.
    pub(super) fn keep_floor(&self, failure: &mut Option<Failed<D>>) {
        let floor_bytes = self.with_books(|books| {
            books.is_below_floor = false;
            books.reclaim.free_floor_bytes
        });
        let Some(floor_bytes) = floor_bytes else { return };
        if !self.capabilities.contains(Capabilities::MEMORY) {
            return;
        }
        let free_bytes = match self.call_outside_captures(Call::Memory, Device::memory) {
            Ok(Some(memory)) => memory.free_bytes,
            Ok(None) => return,
            Err(failed) => {
                keep(failure, failed);
                return;
            }
        };
        let missing = floor_bytes.saturating_sub(free_bytes);
        self.with_books(|books| books.is_below_floor = missing > 0);
        let mut released = self.release_bytes(missing, failure);
        if released < missing {
            if !self.may_have_idle() || !self.with_books(|books| books.floor_pauses.is_over()) {
                return;
            }
            self.bring_together(failure);
            released += self.release_bytes(missing - released, failure);
        }
        self.with_books(|books| {
            if released == 0 && missing > 0 {
                books.floor_pauses.lengthen();
            } else {
                books.floor_pauses = Pauses::default();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_vain_is_done_more_and_more_rarely() {
        let mut pauses = Pauses::default();
        let tried = (0..1000u32).filter(|_| {
            let over = pauses.is_over();
            if over {
                pauses.lengthen();
            }
            over
        });
        let tried: alloc::vec::Vec<u32> = tried.collect();
        assert_eq!(tried[..8], [0, 2, 5, 10, 19, 36, 69, 134]);
        assert!(tried[8..].windows(2).all(|pair| pair[1] - pair[0] == MOST_PAUSES + 1));
    }
}
