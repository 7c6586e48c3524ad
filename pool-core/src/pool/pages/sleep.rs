//! Sleep and wake: all memory goes back to the device while the addresses stay, and comes again.

use alloc::vec::Vec;

use super::carry::Row;
use super::table::Held;
use crate::device::{Call, Device, Failure};
use crate::pool::Pool;
use crate::pool::error::{DeviceError, PoolError};
use crate::pool::inner::{Failed, Inner};
use crate::threads::Threads;

/// What is done with bytes of a range, from an offset on and so many.
type Step<'a, D> = &'a mut dyn FnMut(
    &D,
    &<D as Device>::Range,
    u64,
    u64,
) -> Result<(), Failure<<D as Device>::Error>>;

/// Pages of a pool that sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asleep {
    page: u32,
    pub(super) count: u32,
    /// Whether they have memory again, but not yet what was in it.
    pub(super) is_mapped: bool,
}

impl<D: Device, T: Threads> Inner<D, T> {
    fn fall_asleep(&self, save: Step<'_, D>) -> Result<u64, PoolError<D::Error>> {
        self.check_alive()?;
        if !self.is_paged() {
            return Err(PoolError::NoPages);
        }
        let capture = self.with_books(|books| books.captures.first().map(|known| known.graph));
        if let Some(graph) = capture {
            return Err(PoolError::Captured(graph));
        }
        // What holds no block is not worth keeping.
        let mut failure = None;
        let trimmed = self.trim(0, true, &mut failure);
        if let Some(failed) = failure {
            return Err(failed.into());
        }
        // From here on no call begins, so that nobody gets what has no memory.
        self.set_asleep(true);
        let mut gone_bytes = trimmed.released_bytes;
        let slept = self.unmap_all(save, &mut gone_bytes);
        let is_awake = self.with_books(|books| {
            books.paging.as_ref().is_none_or(|paging| paging.asleep.is_empty())
        });
        if is_awake && slept.is_err() {
            // Nothing is gone.
            self.set_asleep(false);
        }
        slept?;
        Ok(gone_bytes)
    }

    /// Takes the memory from behind all that is live, handle by handle.
    fn unmap_all(&self, save: Step<'_, D>, gone_bytes: &mut u64) -> Result<(), Failed<D>> {
        if !self.wait_for_all() {
            let call = Call::Synchronize;
            return Err(DeviceError { call, failure: Failure::Unsupported(call) });
        }
        while let Some((page, held)) = self.with_books(|books| {
            let paging = books.paging.as_mut()?;
            let page = *paging.mapped.last_key_value()?.0;
            Some((page, paging.take(page)?))
        }) {
            let saved = self.step_at(page, held.count, save);
            let unmapped = saved.and_then(|()| self.unmap(page, &held));
            let is_gone = matches!(unmapped, Ok(true));
            let count = held.count;
            let gone = self.with_books(|books| {
                let paging = books.paging.as_mut()?;
                paging.unclaim(&(page..page + count));
                if is_gone {
                    paging.asleep.push(Asleep { page, count, is_mapped: false });
                    *gone_bytes += u64::from(count) * paging.page_bytes;
                    return Some(held);
                }
                paging.enter(page, held);
                None
            });
            let Some(held) = gone else {
                return match unmapped {
                    Err(failed) => Err(failed),
                    // A capture began.
                    Ok(_) => Err(DeviceError {
                        call: Call::Decommit,
                        failure: Failure::Unsupported(Call::Decommit),
                    }),
                };
            };
            // One that the device does not take cannot be named again: it is as gone.
            self.destroy(held, &mut None);
        }
        Ok(())
    }

    fn step_at(&self, page: u32, count: u32, step: Step<'_, D>) -> Result<(), Failed<D>> {
        let Some((range, offset_bytes)) = self.range_at(page) else { return Ok(()) };
        let page_bytes =
            self.with_books(|books| books.paging.as_ref().map_or(0, |it| it.page_bytes));
        let size_bytes = u64::from(count) * page_bytes;
        self.call(Call::Copy, |device| step(device, &range, offset_bytes, size_bytes))
    }

    fn wake_up(&self, restore: Step<'_, D>) -> Result<u64, PoolError<D::Error>> {
        if !self.is_asleep() {
            self.check_alive()?;
            return Ok(0);
        }
        let before = self.with_books(|books| books.reserved_bytes);
        while let Some(pages) = self.with_books(|books| {
            books.paging.as_ref().and_then(|paging| paging.asleep.last().copied())
        }) {
            if !pages.is_mapped {
                self.map_again(pages)?;
            }
            self.step_at(pages.page, pages.count, restore)?;
            self.with_books(|books| books.paging.as_mut().map(|paging| paging.asleep.pop()));
        }
        self.set_asleep(false);
        Ok(self.with_books(|books| books.reserved_bytes).saturating_sub(before))
    }

    /// Puts memory behind pages again.
    fn map_again(&self, pages: Asleep) -> Result<(), PoolError<D::Error>> {
        let Asleep { page, count, .. } = pages;
        let mut failure = None;
        let mut row = Row { pages: page..page + count, handles: Vec::new() };
        for size in self.sizes_of(count) {
            match self.create(size, &mut failure) {
                Some(held) => row.handles.push(held),
                None => break,
            }
        }
        let made: u32 = row.handles.iter().map(|held: &Held<D>| held.count).sum();
        if made < count || !self.map(&row, &mut failure) {
            for held in row.handles {
                self.destroy(held, &mut failure);
            }
            return Err(failure.map_or(PoolError::Asleep, PoolError::from));
        }
        self.with_books(|books| {
            let Some(paging) = &mut books.paging else { return };
            let mut at = page;
            for held in row.handles {
                let next = at + held.count;
                paging.enter(at, held);
                at = next;
            }
            if let Some(last) = paging.asleep.last_mut() {
                last.is_mapped = true;
            }
        });
        Ok(())
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Gives all memory back to the device while the addresses stay, those of live blocks too: for a
    /// program that leaves the device to others for a while. The host waits for all work of the
    /// device. Of each handle that holds a block `save` is told first, with the range, the offset and the
    /// size in bytes, so that it can copy what is there; without need it does nothing. The bytes
    /// that went back.
    ///
    /// Until it [wakes](Self::wake) every other call of the pool is refused, and nothing may use its
    /// blocks. No call may be under way on another thread.
    ///
    /// # Errors
    ///
    /// - [`PoolError::NoPages`] if the pool's memory is not in pages, [`PoolError::Captured`] during
    ///   a capture; nothing has happened.
    /// - [`PoolError::Device`] with the call, or what `save` failed with, as [`Call::Copy`]. The
    ///   pool sleeps as far as it came, if it is anywhere: it wakes as if all had succeeded.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig, PoolError, policy::Pages};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let config = PoolConfig::new().pages(Pages::default());
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), config)?;
    /// let stream = pool.create_stream()?;
    /// let block = pool.allocate_on(stream, 16 << 20)?;
    /// let mut saved = Vec::new();
    /// pool.sleep(|_device, _range, offset_bytes, size_bytes| {
    ///     saved.push((offset_bytes, size_bytes)); // … and the bytes themselves
    ///     Ok(())
    /// })?;
    /// assert_eq!(pool.stats().reserved_bytes, 0);
    /// assert!(matches!(pool.allocate_on(stream, 1), Err(PoolError::Asleep)));
    /// pool.wake(|_device, _range, _offset_bytes, _size_bytes| Ok(()))?;
    /// pool.free_on(stream, block.handle())?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn sleep(
        &self,
        mut save: impl FnMut(&D, &D::Range, u64, u64) -> Result<(), Failure<D::Error>>,
    ) -> Result<u64, PoolError<D::Error>> {
        self.inner().fall_asleep(&mut save)
    }

    /// Has memory behind all blocks again that were live when the pool went to [sleep](Self::sleep).
    /// `restore` is told of every part, to copy back what was there. The bytes that came. A pool that
    /// is awake stays so.
    ///
    /// # Errors
    ///
    /// - [`PoolError::Device`] with the call, or what `restore` failed with, as [`Call::Copy`];
    ///   [`PoolError::Asleep`] if the limit has no room. The pool sleeps on, and what came so far is
    ///   there: another call does the rest.
    ///
    /// # Example
    ///
    /// See [`sleep`](Self::sleep).
    pub fn wake(
        &self,
        mut restore: impl FnMut(&D, &D::Range, u64, u64) -> Result<(), Failure<D::Error>>,
    ) -> Result<u64, PoolError<D::Error>> {
        self.inner().wake_up(&mut restore)
    }
}
