//! A replay to look on at while it runs.

mod figures;
mod frame;
mod ground;
mod pace;
mod screen;
mod view;

use core::error::Error;
use std::path::Path;

use pool_core::{Device, OffsetAllocator, Pool};
use pool_mock::replay::{Observer, Pooled, Sight, observe, roomy_capacity};

pub(crate) use self::pace::Speed;
use self::{
    figures::{Figures, OfPool},
    ground::Ground,
    pace::Pace,
    view::{Look, View},
};
use crate::{
    books::Books,
    job::{Job, JobError},
    machine::Machine,
    options::Options,
    picture::name_of,
    pool::{PoolJob, pool},
    progress::Progress,
    row,
};

impl Job<'_> {
    /// Replays once, to be looked on at; whether nothing was refused.
    pub(crate) fn watch(&self, progress: &Progress) -> Result<bool, Box<dyn Error>> {
        let capacity_bytes = self.capacity_bytes(roomy_capacity(self.script));
        let mut range = OffsetAllocator::new(&self.range_config(capacity_bytes, self.script))
            .map_err(JobError::Config)?;
        let pace = Pace::new(self.options.speed, Some(self.path), 1)?;
        let title = format!("{}, {}", name_of(self.path), row::name(self.placement));
        progress.suspend(|| {
            let view = View::open(&title, pace, self.script.operations())?;
            let capacity_bytes = range.capacity_bytes();
            let scene = OnRange { books: Books::default(), capacity_bytes };
            let mut watcher = Watcher { view, scene };
            observe(self.script, &mut range, &mut watcher);
            range.verify().map_err(JobError::Damaged)?;
            let (is_well, look) = (watcher.scene.books.refused == 0, watcher.scene.look());
            watcher.view.close(look)?;
            Ok(is_well)
        })
    }
}

impl PoolJob {
    /// Replays once on a pool, with work, to be looked on at; whether nothing was refused, and no two
    /// uses could race.
    pub(crate) fn watch<M: Machine>(
        &self,
        machine: &M,
        options: &Options,
        progress: &Progress,
    ) -> Result<bool, Box<dyn Error>> {
        let path = Path::new(&self.path);
        let pace = Pace::new(options.speed, self.is_recorded().then_some(path), options.copies())?;
        let pool = pool(machine.working(0, self.most_bytes(options)), options, None)?;
        let mut pooled = Pooled::<_, M::Work>::working(&pool, &self.all)?;
        let title = format!("{}, on a pool", name_of(path));
        progress.suspend(|| {
            let view = View::open(&title, pace, self.all.calls().len())?;
            let scene = OnPool { books: Books::default(), pool: &pool };
            let mut watcher = Watcher { view, scene };
            pooled.observe(&mut watcher)?;
            pool.verify()?;
            let (mut is_well, look) = (watcher.scene.books.refused == 0, watcher.scene.look());
            watcher.view.close(look)?;
            for violation in machine.violations(pool.device()) {
                is_well = false;
                eprintln!("replay: {}: {violation}", self.path);
            }
            Ok(is_well)
        })
    }
}

/// What is seen of a replay.
trait Scene {
    /// A call was made.
    fn see(&mut self, sight: Sight);

    /// What there is to show now.
    fn look(&self) -> Look;
}

/// Looks on at a replay, and shows it.
struct Watcher<S> {
    view: View,
    scene: S,
}

impl<S: Scene> Observer for Watcher<S> {
    fn see(&mut self, call: usize, sight: Sight) {
        self.scene.see(sight);
        self.view.after(call, || self.scene.look());
    }

    fn is_done(&self) -> bool {
        self.view.is_done()
    }
}

/// One range: an arena that is there from the start, and defers nothing.
struct OnRange {
    books: Books,
    capacity_bytes: u64,
}

impl Scene for OnRange {
    fn see(&mut self, sight: Sight) {
        self.books.count(sight);
    }

    fn look(&self) -> Look {
        let arenas = vec![(0, self.capacity_bytes)];
        let ground = Ground { arenas, taken: self.books.taken() };
        let figures = Figures {
            live_bytes: self.books.live_bytes,
            reserved_bytes: self.capacity_bytes,
            free_bytes: self.capacity_bytes.saturating_sub(self.books.live_bytes),
            largest_free_bytes: Some(ground.largest_hole()),
            failures: self.books.refused,
            ..Figures::default()
        };
        (figures, ground)
    }
}

/// A pool.
struct OnPool<'p, D: Device> {
    books: Books,
    pool: &'p Pool<D>,
}

impl<D: Device> Scene for OnPool<'_, D> {
    fn see(&mut self, sight: Sight) {
        self.books.see(self.pool, sight);
    }

    fn look(&self) -> Look {
        let stats = self.pool.stats();
        let ground = Ground { arenas: self.books.arenas(), taken: self.books.taken() };
        let unused_bytes = stats.free_bytes.saturating_add(stats.cached_bytes);
        // An arena that went back is still on the map, until another lies there.
        let largest_bytes = ground.largest_hole().min(unused_bytes);
        let calls = &stats.calls;
        let waits = calls.device_waits + calls.host_waits;
        let (requests, refused) = (self.books.requests, self.books.refused);
        let figures = Figures {
            live_bytes: stats.live_bytes,
            reserved_bytes: stats.reserved_bytes,
            free_bytes: stats.free_bytes,
            largest_free_bytes: (calls.creations == 0).then_some(largest_bytes),
            failures: refused,
            pool: Some(OfPool {
                deferred_bytes: stats.deferred_bytes,
                cached_bytes: stats.cached_bytes,
                requests,
                hits: requests.saturating_sub(refused + stats.growths + stats.steals + waits),
                growths: stats.growths,
                waits,
            }),
            ..Figures::default()
        };
        (figures, ground)
    }
}
