//! Growth before memory is needed, and the preallocation that is left for later.

use super::Pool;
use super::arenas::{Kind, WINDOW_BYTES};
use super::books::Books;
use super::error::PoolError;
use super::grow::Wanted;
use super::inner::{Failed, Inner, keep};
use super::policy::Way;
use crate::device::Device;
use crate::threads::{HUB, Threads};

/// What a [`warm`](Pool::warm) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warmed {
    /// Taken from the device by this call.
    pub reserved_bytes: u64,
    /// What is left to take.
    pub left_bytes: u64,
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Grows if most of what there is is in use: at a tick, or by the way, in a call that is no hit
    /// anyway, unless there is a thread that ticks. One thread at a time, and no other waits for it.
    pub(super) fn grow_ahead(&self, by_the_way: bool, failure: &mut Option<Failed<D>>) {
        let used_bytes = self.shared.used_bytes();
        let wanted = self.with_books(|books| {
            let is_others = by_the_way && books.keepers > 0;
            if is_others { None } else { books.wanted_ahead(used_bytes) }
        });
        let Some(bytes) = wanted else { return };
        // Pages are put where they are needed.
        if !self.may_grow() || self.is_paged() {
            return;
        }
        let me = T::thread_number();
        if !self.begin_growth(me) {
            return;
        }
        let least_bytes = bytes.min(WINDOW_BYTES);
        let wanted = Wanted { bytes, least_bytes, kind: Kind::Step, is_needed: false };
        let mut refused = None;
        let before = self.before_growth();
        let order = self.with_books(|books| books.growth.order);
        let grown = order.into_iter().any(|way| match way {
            Way::InPlace => self.extend_by(wanted, &mut refused),
            Way::Overflow => self.add_arenas_down_from(wanted, HUB, &mut refused),
            Way::Migration | Way::Never => false,
        });
        self.end_growth(me);
        if grown {
            self.note_growth(&before, None);
            self.counters.growths_ahead.add_shared(1);
        } else {
            // A device that has no more is not asked again before something has changed.
            self.with_books(|books| books.refused_ahead_at = books.reserved_bytes);
        }
        if self.is_poisoned()
            && let Some(refused) = refused
        {
            keep(failure, refused);
        }
    }

    /// Takes a part of what is left of the preallocation.
    fn warm(&self, most_bytes: u64) -> Result<Warmed, PoolError<D::Error>> {
        self.check_alive()?;
        if self.is_asleep() {
            return Err(PoolError::Asleep);
        }
        let me = T::thread_number();
        if !self.begin_growth(me) {
            return Ok(self.warmed(0));
        }
        let bytes = self.with_books(|books| {
            let most = self.most_bytes(books).unwrap_or(u64::MAX);
            books.left_to_warm_bytes.min(most.saturating_sub(books.reserved_bytes))
        });
        let part_bytes = bytes.min(most_bytes.max(WINDOW_BYTES)).min(self.most_range_bytes());
        let wanted = Wanted::exactly(part_bytes, Kind::Base);
        let mut failure = None;
        let taken = part_bytes > 0
            && if self.is_paged() {
                self.map_ahead(part_bytes, &mut failure)
            } else {
                self.extend_by(wanted, &mut failure)
                    || failure.is_none() && self.add_arenas_down_from(wanted, HUB, &mut failure)
            };
        self.end_growth(me);
        let reserved_bytes = if taken { part_bytes } else { 0 };
        self.with_books(|books| {
            // What there is no room for is not left for later, unless a capture is in the way.
            let in_vain = !taken && failure.is_none() && !books.is_capturing();
            books.left_to_warm_bytes = if in_vain { 0 } else { bytes - reserved_bytes };
        });
        self.counters.kept.initial_bytes.add_shared(reserved_bytes);
        match failure {
            Some(failed) if !taken => Err(failed.into()),
            _ => Ok(self.warmed(reserved_bytes)),
        }
    }

    fn warmed(&self, reserved_bytes: u64) -> Warmed {
        let left_bytes = self.with_books(|books| books.left_to_warm_bytes);
        Warmed { reserved_bytes, left_bytes }
    }
}

impl<D: Device> Books<D> {
    /// How much to grow by before it is needed; none if it is not time, or the limit has no room.
    fn wanted_ahead(&self, used_bytes: u64) -> Option<u64> {
        let ahead = self.growth.ahead?;
        let reserved_bytes = self.reserved_bytes;
        let is_due = |bytes: u64| {
            let percent = u128::from(ahead.from_percent.max(1));
            u128::from(bytes) * 100 >= u128::from(reserved_bytes) * percent
        };
        let is_off =
            self.is_below_floor || reserved_bytes == 0 || reserved_bytes == self.refused_ahead_at;
        // What only waits is waited for before the pool grows.
        if is_off || !is_due(used_bytes) || !is_due(used_bytes.saturating_sub(self.deferred().1)) {
            return None;
        }
        let step_bytes = self.growth.step_bytes(reserved_bytes, 0);
        let bytes = step_bytes.min(ahead.most_bytes).min(self.room_bytes());
        // Less than that is no growth.
        (bytes >= WINDOW_BYTES).then_some(bytes)
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Takes the next part of a preallocation that was [left for
    /// later](crate::PoolConfig::warms_later), of at most `most_bytes` (and at least 2 MiB), and
    /// returns: a program calls it as often as it likes, from any thread, and serves requests
    /// meanwhile.
    ///
    /// On a device that can make a range longer all parts are one arena; else each is one, so that no
    /// block is larger than a part.
    ///
    /// # Errors
    ///
    /// [`PoolError::Device`] if the device refuses: as much is left as before.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// let config = PoolConfig::new().initial_bytes(1 << 30).warms_later(true);
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), config)?;
    /// assert_eq!(pool.stats().reserved_bytes, 0);
    /// while pool.warm(256 << 20)?.left_bytes > 0 {}
    /// assert_eq!(pool.stats().reserved_bytes, 1 << 30);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn warm(&self, most_bytes: u64) -> Result<Warmed, PoolError<D::Error>> {
        self.inner().warm(most_bytes)
    }
}
