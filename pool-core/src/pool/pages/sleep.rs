//! A pool that sleeps: its memory is the device's again, while its addresses and blocks stay.

use alloc::vec::Vec;
use core::ops::Range;

use super::carry::Row;
use super::table::{Held, Paging};
use crate::device::{Call, Device, Failure};
use crate::pool::Pool;
use crate::pool::books::Books;
use crate::pool::error::{DeviceError, PoolError};
use crate::pool::inner::{Failed, Inner, keep};
use crate::range::PartKind;
use crate::sync::{nap, pause};
use crate::threads::Threads;

/// How often a call looks whether others have let go of the pages that they have in hand, and after how
/// many looks it takes its time.
const MOST_LOOKS: u32 = 4000;
const QUICK_LOOKS: u32 = 1000;

/// What a pool that sleeps remembers.
#[derive(Debug, Default)]
pub(crate) struct Asleep {
    /// Where handles were, by their first pages, and how many pages they had.
    handles: Vec<(u32, u32)>,
    /// What was live, in bytes from the beginning of the range.
    contents: Vec<Range<u64>>,
}

/// Handles that a thread has in hand, by the pages that they were behind.
type Taken<D> = Vec<(u32, Held<D>)>;

impl Asleep {
    /// Pages that have no memory though nothing else says so.
    pub(super) fn pages(&self) -> u64 {
        self.handles.iter().map(|&(_, count)| u64::from(count)).sum()
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Puts a pool [in pages](crate::policy::Pages) to sleep: once the host has seen all work of the
    /// device done, all its memory goes back to the device. Addresses, blocks and handles stay. Until the
    /// pool [wakes](Self::wake) it gives out nothing, and no work may use its memory; blocks may be freed.
    ///
    /// Before that, whatever is live is shown to `save`, in rows of bytes: the range, where in it the row
    /// begins, and how long it is. What `save` keeps, `wake` can put back. It is called with no lock held,
    /// and has to have done its work when it returns.
    ///
    /// Gives the bytes that went back; none if the pool sleeps already, or has nothing.
    ///
    /// # Errors
    ///
    /// [`PoolError::Unsupported`] if the pool is not in pages, [`PoolError::Captured`] during a capture,
    /// [`PoolError::Busy`], and [`PoolError::Device`] from `save` or the device: the pool is awake then.
    /// But if the device refuses after some of the memory has gone, the pool sleeps, without the rest;
    /// `wake` brings back what is gone, and to sleep again goes on with it.
    ///
    /// # Complexity
    ///
    /// Two calls of the device for each handle of memory.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::policy::{Pages, Settings};
    /// use pool_core::{Pool, PoolConfig, PoolError};
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let settings = Settings { pages: Some(Pages::default()), ..Settings::default() };
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), settings.into())?;
    /// let stream = pool.create_stream()?;
    /// let block = pool.allocate_on(stream, 3 << 20)?;
    ///
    /// let mut saved = 0;
    /// pool.sleep(|_, _, size_bytes| Ok(saved += size_bytes))?;
    /// assert_eq!((saved >= 3 << 20, pool.stats().reserved_bytes), (true, 0));
    /// assert!(matches!(pool.allocate_on(stream, 4096), Err(PoolError::Asleep)));
    ///
    /// pool.wake(|_, _, size_bytes| Ok(saved -= size_bytes))?;
    /// assert_eq!((saved, pool.stats().reserved_bytes), (0, 4 << 20));
    /// pool.free_on(stream, block.handle())?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn sleep(
        &self,
        save: impl FnMut(&D::Range, u64, u64) -> Result<(), Failure<D::Error>>,
    ) -> Result<u64, PoolError<D::Error>> {
        let inner = self.inner();
        inner.check_alive()?;
        if !inner.is_paged() {
            return Err(PoolError::Unsupported(Call::Decommit));
        }
        inner.alone_with_pages(|| inner.fall_asleep(save))
    }

    /// Wakes a pool that [sleeps](Self::sleep): it has as much memory as before, at the same addresses.
    /// Then each row of bytes that was live when it fell asleep is shown to `restore`, which has to have
    /// done its work when it returns.
    ///
    /// Gives the bytes that the device gave; none if the pool is awake.
    ///
    /// # Errors
    ///
    /// [`PoolError::Device`] if the device, or `restore`, refuses, [`PoolError::Limit`] if a limit or a
    /// budget does, [`PoolError::Captured`] during a capture, [`PoolError::Busy`]: the pool sleeps on, and
    /// keeps what it has got until then; to wake again goes on with it.
    ///
    /// # Complexity
    ///
    /// One call of the device for each handle of memory, and one for each row of them.
    ///
    /// # Example
    ///
    /// See [`sleep`](Self::sleep).
    pub fn wake(
        &self,
        restore: impl FnMut(&D::Range, u64, u64) -> Result<(), Failure<D::Error>>,
    ) -> Result<u64, PoolError<D::Error>> {
        let inner = self.inner();
        inner.check_alive()?;
        if !inner.is_asleep() {
            return Ok(0);
        }
        inner.alone_with_pages(|| inner.wake_up(restore))
    }

    /// Whether the pool [sleeps](Self::sleep).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// assert!(!pool.is_asleep());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.inner().is_asleep()
    }
}

/// A call of the program's that failed, or one of the device's that it made.
fn failed_in<E>(call: Call) -> impl FnOnce(Failure<E>) -> PoolError<E> {
    move |failure| DeviceError { call, failure }.into()
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Does something while no other thread gets pages, or does the like.
    fn alone_with_pages<R>(
        &self,
        work: impl FnOnce() -> Result<R, PoolError<D::Error>>,
    ) -> Result<R, PoolError<D::Error>> {
        let me = T::thread_number();
        while self.await_growth(me) {}
        // The wait may have been in vain.
        let is_alone = self.with_books(|books| {
            let was = books.paging.as_mut().map(|it| core::mem::replace(&mut it.is_turning, true));
            was == Some(false)
        });
        let result = if is_alone { work() } else { Err(PoolError::Busy) };
        if is_alone {
            self.with_books(|books| {
                books.paging.iter_mut().for_each(|paging| paging.is_turning = false);
            });
        }
        self.end_growth(me);
        result
    }

    /// Refuses during a capture.
    fn check_no_capture(&self) -> Result<(), PoolError<D::Error>> {
        let graph = self.with_books(|books| books.open_capture());
        graph.map_or(Ok(()), |graph| Err(PoolError::Captured(graph)))
    }

    /// Why something was refused for which no call of the device failed.
    fn refusal(&self, otherwise: PoolError<D::Error>) -> PoolError<D::Error> {
        self.check_no_capture().err().unwrap_or(otherwise)
    }

    /// Takes all handles in hand, with no capture under way, once nobody else has one.
    fn take_all_pages(&self) -> Result<Taken<D>, PoolError<D::Error>> {
        for looks in 0..MOST_LOOKS {
            self.keep_leaving();
            let taken = self.with_books(|books| {
                if let Some(graph) = books.open_capture() {
                    return Some(Err(PoolError::Captured(graph)));
                }
                let is_free =
                    |paging: &&mut Paging<D>| !paging.is_busy() && paging.leaving.is_empty();
                let paging = books.paging.as_mut().filter(is_free)?;
                let mapped = core::mem::take(&mut paging.mapped);
                paging.in_hand += mapped.values().map(|held| u64::from(held.count)).sum::<u64>();
                Some(Ok(mapped.into_iter().collect()))
            });
            match taken {
                Some(taken) => return taken,
                None if looks < QUICK_LOOKS => pause(),
                None => nap(),
            }
        }
        Err(PoolError::Busy)
    }

    fn put_pages_back(&self, handles: impl IntoIterator<Item = (u32, Held<D>)>) {
        self.with_books(|books| {
            if let Some(paging) = &mut books.paging {
                handles.into_iter().for_each(|(page, held)| paging.enter(page, held));
            }
        });
    }

    fn fall_asleep(
        &self,
        save: impl FnMut(&D::Range, u64, u64) -> Result<(), Failure<D::Error>>,
    ) -> Result<u64, PoolError<D::Error>> {
        // One that a failure has left half asleep has saved what there was.
        let was_asleep = self.is_asleep();
        self.set_asleep(true);
        let awake = |error| {
            self.set_asleep(was_asleep);
            Err(error)
        };
        // What is queued is behind everything that was given out until now.
        if !self.wait_for_all() {
            return awake(self.refusal(PoolError::Busy));
        }
        let handles = match self.take_all_pages() {
            Ok(handles) => handles,
            Err(error) => return awake(error),
        };
        if !was_asleep && let Err(error) = self.save_contents(&handles, save) {
            self.put_pages_back(handles);
            return awake(error);
        }
        let mut released_bytes = self.release_spare(0, &mut None);
        let mut handles = handles.into_iter();
        while let Some((page, held)) = handles.next() {
            let mut failure = None;
            match self.unmap(page, &held) {
                Ok(true) => {
                    self.with_books(|books| {
                        if let Some(paging) = &mut books.paging {
                            paging.asleep.handles.push((page, held.count));
                        }
                    });
                    released_bytes += self.bytes_of(&held);
                    // One that the device does not take cannot be named again.
                    self.destroy(held, &mut failure);
                }
                refused => {
                    if let Err(failed) = refused {
                        keep(&mut failure, failed);
                    }
                    self.put_pages_back([(page, held)].into_iter().chain(handles));
                    if !was_asleep && self.with_books(|books| asleep_pages(books) == 0) {
                        self.be_awake();
                    }
                    let refused = || self.refusal(PoolError::Busy);
                    return Err(failure.map_or_else(refused, PoolError::from));
                }
            }
        }
        Ok(released_bytes)
    }

    /// Shows what is live to whoever saves it, and remembers what that was.
    fn save_contents(
        &self,
        handles: &[(u32, Held<D>)],
        mut save: impl FnMut(&D::Range, u64, u64) -> Result<(), Failure<D::Error>>,
    ) -> Result<(), PoolError<D::Error>> {
        let Some((range, rows)) = self.with_books(|books| {
            let paging = books.paging.as_ref()?;
            Some((paging.range.clone(), self.rows_of_contents(paging, handles)))
        }) else {
            return Ok(());
        };
        for row in &rows {
            save(&range, row.start, row.end - row.start).map_err(failed_in(Call::Copy))?;
        }
        self.with_books(|books| {
            if let Some(paging) = &mut books.paging {
                paging.asleep.contents = rows;
            }
        });
        Ok(())
    }

    /// The bytes of handles, but for what is free for all, in rows.
    fn rows_of_contents(&self, paging: &Paging<D>, handles: &[(u32, Held<D>)]) -> Vec<Range<u64>> {
        let shape = self.shared.shape();
        let start = paging.grid.start;
        let offset = |granule: u64| shape.bytes(granule - start);
        let mut free: Vec<Range<u64>> = Vec::new();
        self.shared.walk(paging.keeper, |part| {
            if part.kind == PartKind::Free {
                free.push(offset(part.stretch.start.into())..offset(part.stretch.end()));
            }
        });
        free.sort_unstable_by_key(|row| row.start);
        let mut rows: Vec<Range<u64>> = Vec::new();
        for (page, held) in handles {
            let (mut at, end) = (paging.offset_of(*page), paging.offset_of(page + held.count));
            let first = free.partition_point(|row| row.end <= at);
            for gap in free[first..].iter().take_while(|row| row.start < end) {
                add(&mut rows, at..gap.start.max(at));
                at = gap.end.min(end);
            }
            add(&mut rows, at..end);
        }
        rows
    }

    fn wake_up(
        &self,
        mut restore: impl FnMut(&D::Range, u64, u64) -> Result<(), Failure<D::Error>>,
    ) -> Result<u64, PoolError<D::Error>> {
        self.check_no_capture()?;
        if !self.is_asleep() {
            // Another call was first.
            return Ok(0);
        }
        // They would be in the way of a limit.
        self.release_spare(0, &mut None);
        let mut woken_bytes = 0;
        while let Some(row) = self.with_books(next_row) {
            let mut failure = None;
            let Some(bytes) = self.map_anew(&row, &mut failure) else {
                let refused = || self.refusal(PoolError::Limit);
                return Err(failure.map_or_else(refused, PoolError::from));
            };
            woken_bytes += bytes;
        }
        let Some((range, contents)) = self.with_books(|books| {
            let paging = books.paging.as_mut()?;
            Some((paging.range.clone(), paging.asleep.contents.clone()))
        }) else {
            return Ok(woken_bytes);
        };
        for row in contents {
            restore(&range, row.start, row.end - row.start).map_err(failed_in(Call::Copy))?;
        }
        self.be_awake();
        Ok(woken_bytes)
    }

    /// Ends the sleep, when nothing is gone any more.
    fn be_awake(&self) {
        self.with_books(|books| {
            if let Some(paging) = &mut books.paging {
                paging.asleep = Asleep::default();
            }
        });
        self.set_asleep(false);
    }

    /// Puts new handles where a row of them was: their bytes. None if there are none: then all is as it
    /// was.
    fn map_anew(&self, row: &[(u32, u32)], failure: &mut Option<Failed<D>>) -> Option<u64> {
        let (&(first, _), &(last, count)) = (row.first()?, row.last()?);
        let mut anew = Row { pages: first..last + count, handles: Vec::new() };
        for &(_, count) in row {
            match self.create(count, failure) {
                Some(held) => anew.handles.push(held),
                None => break,
            }
        }
        if anew.handles.len() < row.len() || !self.map(&anew, failure) {
            for held in anew.handles {
                self.destroy(held, &mut None);
            }
            return None;
        }
        self.with_books(|books| {
            let paging = books.paging.as_mut()?;
            let asleep = &mut paging.asleep.handles;
            asleep.truncate(asleep.len() - row.len());
            for (&(page, _), held) in row.iter().zip(anew.handles) {
                paging.enter(page, held);
            }
            Some(u64::from(anew.pages.end - anew.pages.start) * paging.page_bytes)
        })
    }
}

fn asleep_pages<D: Device>(books: &mut Books<D>) -> u64 {
    books.paging.as_ref().map_or(0, |paging| paging.asleep.pages())
}

/// Adds bytes to rows, to the last one if they follow it.
fn add(rows: &mut Vec<Range<u64>>, bytes: Range<u64>) {
    if bytes.is_empty() {
        return;
    }
    match rows.last_mut().filter(|last| last.end == bytes.start) {
        Some(last) => last.end = bytes.end,
        None => rows.push(bytes),
    }
}

/// Most handles that are mapped by one call.
const MOST_IN_ROW: usize = 64;

/// The last handles that have no memory, as many as follow each other; in the order of their pages.
fn next_row<D: Device>(books: &mut Books<D>) -> Option<Vec<(u32, u32)>> {
    let paging = books.paging.as_mut()?;
    let asleep = &mut paging.asleep.handles;
    asleep.sort_unstable();
    let mut first = asleep.len().checked_sub(1)?;
    while first > 0
        && asleep.len() - first < MOST_IN_ROW
        && asleep[first - 1].0 + asleep[first - 1].1 == asleep[first].0
    {
        first -= 1;
    }
    Some(asleep[first..].to_vec())
}
