//! Pages, as the pool maps, moves and unmaps them: through the device, without a pool.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use pool_cuda::pool_core::PoolConfig;
use pool_cuda::pool_core::device::Device as _;
use pool_cuda::{Contents, CudaDevice, CudaPages, CudaRange};

use super::frees::Busy;
use crate::Result;
use crate::figures::Figure;
use crate::rig::{Rig, size};
use crate::timing::{Effort, Samples};

/// What a large program starts with; on a smaller device, the power of two that fits.
const START: u64 = 128 << 30;

/// What a program grows by, and gives back.
const STEP: u64 = 1 << 30;

/// So many of the smallest handles are moved at once.
const MOVED: usize = 64;

/// The driver clears what was given back before anybody has it again, 1.6 ms for a GiB: what a program
/// starts with has been cleared long since.
const PAUSE: Duration = Duration::from_secs(1);

/// What a pool has that is put to sleep.
const SLEPT: u64 = 16 << 30;

/// What stays free for others.
const MARGIN: u64 = 4 << 30;

pub(super) fn figures(rig: &Rig, effort: Effort) -> Result<Vec<Figure>> {
    let device = &rig.device;
    let sizes = device.page_sizes();
    let Some((&page, larger)) = sizes.split_first() else {
        return Err("the device has no pages".into());
    };
    let mut figures = Vec::new();
    let most = rig.free_bytes()?.saturating_sub(MARGIN).min(START);
    let start = 1_u64 << most.max(page).ilog2();
    for &handle in larger.iter().rev() {
        figures.extend(mapped(device, Effort::new(Duration::ZERO), PAUSE, start, handle)?);
    }
    for &handle in sizes.iter().rev() {
        figures.extend(mapped(device, effort, Duration::ZERO, STEP, handle)?);
    }
    figures.extend(moved(device, effort, page)?);
    figures.push(started(rig, start)?);
    figures.extend(slept(rig, most.min(SLEPT))?);
    let elsewhere = rig.pool(PoolConfig::new())?.create_stream()?;
    let busy = Busy { rig, elsewhere: &elsewhere };
    for &handle in sizes.iter().rev() {
        let what =
            format!("{} in handles of {}, unmapped and given back", size(STEP), size(handle));
        let figure = busy.figure(
            &format!("{what} beside 100 ms of work"),
            || Row::new(device, STEP, handle),
            |row| row.end().map(|()| true),
        )?;
        figures.push(figure);
    }
    Ok(figures)
}

/// Handles of one size, in a row.
struct Row<'d> {
    device: &'d CudaDevice,
    range: CudaRange,
    pages: Vec<CudaPages>,
    handle_bytes: u64,
}

impl<'d> Row<'d> {
    /// Addresses, and memory behind all of them.
    fn new(device: &'d CudaDevice, bytes: u64, handle_bytes: u64) -> Result<Self> {
        let range = device.reserve(bytes)?;
        let mut row = Self { device, range, pages: Vec::new(), handle_bytes };
        for _ in 0..bytes / handle_bytes {
            row.pages.push(device.create_pages(handle_bytes)?);
        }
        row.map_at(&row.range)?;
        Ok(row)
    }

    /// Maps all of it from the start of a range on.
    fn map_at(&self, range: &CudaRange) -> Result<()> {
        let handles: Vec<_> = self.pages.iter().collect();
        Ok(self.device.commit(range, 0, &handles)?)
    }

    /// Unmaps all of it.
    fn unmap_from(&self, range: &CudaRange) -> Result<()> {
        let mut offset = 0;
        for pages in &self.pages {
            self.device.decommit(range, offset, pages)?;
            offset += self.handle_bytes;
        }
        Ok(())
    }

    /// Moves all of it back from where it was moved to.
    fn come_back_from(&self, range: &CudaRange) -> Result<()> {
        self.unmap_from(range)?;
        self.map_at(&self.range)
    }

    /// Gives all of it back to the device.
    fn destroy(&mut self) -> Result<()> {
        for pages in self.pages.drain(..) {
            self.device.destroy_pages(pages)?;
        }
        Ok(())
    }

    /// Unmaps it and gives it back, with the addresses.
    fn end(mut self) -> Result<()> {
        self.unmap_from(&self.range)?;
        self.destroy()?;
        Ok(self.device.free(&self.range)?)
    }
}

/// Memory made and mapped, and taken away again.
fn mapped(
    device: &CudaDevice,
    effort: Effort,
    pause: Duration,
    bytes: u64,
    handle: u64,
) -> Result<[Figure; 2]> {
    let mut ends = Vec::new();
    let made = effort.samples(1, || {
        thread::sleep(pause);
        let start = Instant::now();
        let row = Row::new(device, bytes, handle)?;
        let elapsed = start.elapsed();
        let start = Instant::now();
        row.end()?;
        ends.push(start.elapsed());
        Ok(elapsed)
    })?;
    let what = format!("{} in handles of {}", size(bytes), size(handle));
    Ok([
        Figure::ms(format!("{what}, made and mapped"), &made),
        Figure::ms(format!("{what}, unmapped and given back"), &Samples::new(&ends, 1)),
    ])
}

/// The smallest handles, moved to other addresses; and freed there and made anew here.
fn moved(device: &CudaDevice, effort: Effort, page: u64) -> Result<[Figure; 3]> {
    let bytes = page * MOVED as u64;
    let mut row = Row::new(device, bytes, page)?;
    let other = device.reserve(bytes)?;
    let moving = effort.samples(1, || {
        let start = Instant::now();
        row.unmap_from(&row.range)?;
        row.map_at(&other)?;
        let elapsed = start.elapsed();
        row.come_back_from(&other)?;
        Ok(elapsed)
    })?;
    let anew = effort.samples(1, || {
        let start = Instant::now();
        row.unmap_from(&row.range)?;
        row.destroy()?;
        for _ in 0..MOVED {
            row.pages.push(device.create_pages(page)?);
        }
        row.map_at(&other)?;
        let elapsed = start.elapsed();
        row.come_back_from(&other)?;
        Ok(elapsed)
    })?;
    row.end()?;
    device.free(&other)?;
    let what = format!("{MOVED} handles of {}", size(page));
    Ok([
        Figure::us(format!("{what}, moved to other addresses"), &moving),
        Figure::us(format!("{what}, given back and made anew at others"), &anew),
        Figure::ratio(format!("{what}, anew over moved"), &anew, &moving),
    ])
}

/// A pool that starts with so much.
fn started(rig: &Rig, bytes: u64) -> Result<Figure> {
    let samples = Effort::new(Duration::ZERO).samples(1, || {
        thread::sleep(PAUSE);
        let start = Instant::now();
        let pool = rig.pool(PoolConfig::new().initial_bytes(bytes))?;
        let elapsed = start.elapsed();
        let reserved_bytes = pool.stats().reserved_bytes;
        if reserved_bytes == bytes { Ok(elapsed) } else { Err("it starts with less".into()) }
    })?;
    Ok(Figure::ms(format!("a pool that starts with {}", size(bytes)), &samples))
}

/// A pool that sleeps and wakes, with and without its contents, which are looked at after.
fn slept(rig: &Rig, bytes: u64) -> Result<Vec<Figure>> {
    const PARTS: u8 = 16;
    const LOOK: usize = 64 << 20;
    let pool = rig.pool(PoolConfig::new())?;
    let stream = pool.create_stream()?;
    let len = usize::try_from(bytes / u64::from(PARTS))?;
    let mut buffers = Vec::new();
    for mark in 0..PARTS {
        let mut buffer = pool.alloc::<u8>(len, &stream)?;
        buffer.on_mut(&stream)?.fill_bytes(mark + 1)?;
        buffers.push(buffer);
    }
    let mut figures = Vec::new();
    for (contents, what) in [(Contents::Kept, "kept"), (Contents::Discarded, "not kept")] {
        stream.synchronize()?;
        let start = Instant::now();
        // SAFETY: nothing uses the buffers before the pool wakes.
        let gone = unsafe { pool.sleep(contents) }?;
        let falling = Samples::new(&[start.elapsed()], 1);
        let start = Instant::now();
        let back = pool.wake()?;
        let waking = Samples::new(&[start.elapsed()], 1);
        if gone != back || gone < bytes {
            return Err(format!("{gone} bytes went, {back} came").into());
        }
        let what = format!("{} of a pool, contents {what}", size(bytes));
        figures.push(Figure::ms(format!("{what}, falling asleep"), &falling));
        figures.push(Figure::ms(format!("{what}, waking"), &waking));
        if contents == Contents::Kept {
            for (buffer, mark) in buffers.iter().zip(1..) {
                for from in (0..len).step_by(LOOK) {
                    let part = buffer.on(&stream)?.slice(from..len.min(from + LOOK))?;
                    if part.to_vec()?.iter().any(|&byte| byte != mark) {
                        return Err("the contents have changed".into());
                    }
                }
            }
        }
    }
    Ok(figures)
}
