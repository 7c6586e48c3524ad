//! One trace on pools.

use core::error::Error;
use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use pool_core::policy::Preallocation;
use pool_core::{Device, Pool, PoolError, RangeConfig, SharedAllocator, SharedConfig};
use pool_mock::{
    Trace,
    replay::{
        Best, Cached, Cost, Pipeline, Pooled, Program, Script, pass_pooled_together, pass_together,
        smallest_that_serves,
    },
};

use crate::{
    job::JobError,
    machine::Machine,
    options::{Options, ThreadsChoice},
    pool_row::{AtSmallest, Memory, PoolRow, Spent, Time},
    progress::Progress,
    row::human,
};

/// A limit in pages is so many of these.
const PAGE_BYTES: u64 = 2 << 20;

/// The least memory that a simulated device has.
const LEAST_DEVICE_BYTES: u64 = 1 << 30;

/// The passes that the device's calls are counted in, by name.
const PASSES: [&str; PASS_COUNT as usize] = ["cold", "warm"];
const PASS_COUNT: u32 = 2;

/// What is to be replayed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Subject<'a> {
    /// A log.
    Trace(&'a PathBuf),
    /// A generated program.
    Pipeline,
}

impl<'a> Subject<'a> {
    /// What it is called.
    pub(crate) fn path(self) -> &'a Path {
        match self {
            Self::Trace(path) => path,
            Self::Pipeline => Path::new("pipeline"),
        }
    }

    /// Makes it ready.
    pub(crate) fn read(self, options: &Options) -> Result<PoolJob, Box<dyn Error>> {
        let (one, script, trace) = match self {
            Self::Trace(path) => {
                let trace = Trace::open(path)?;
                let script = Script::new(&trace, options.granule_bytes());
                (Program::of(&trace), Some(script), Some(trace))
            }
            Self::Pipeline => (Pipeline::default().program(), None, None),
        };
        let all = match options.threads {
            ThreadsChoice::Copies(copies) => one.copies(copies).ok_or(JobError::TooManyBlocks)?,
            ThreadsChoice::Recorded => one.clone(),
        };
        let oddities = trace.as_ref().map(|trace| trace.report().to_string()).unwrap_or_default();
        // Only a report looks at it again.
        let trace = trace.filter(|_| options.html.is_some());
        let path = self.path().display().to_string();
        Ok(PoolJob { path, one, all, script, trace, oddities })
    }
}

/// A program that is replayed on pools.
#[derive(Debug)]
pub(crate) struct PoolJob {
    pub(crate) path: String,
    /// One copy.
    one: Program,
    /// All copies, or the program with its own threads.
    pub(crate) all: Program,
    /// For the shared allocator, which has no streams.
    script: Option<Script>,
    /// For a report.
    pub(crate) trace: Option<Trace>,
    oddities: String,
}

impl PoolJob {
    /// Whether it is of a log, and not generated.
    pub(crate) fn is_recorded(&self) -> bool {
        self.script.is_some()
    }

    /// All replays.
    pub(crate) fn run<M: Machine>(
        &self,
        machine: &M,
        options: &Options,
        progress: &Progress,
    ) -> Result<PoolRow, Box<dyn Error>> {
        progress.show(&format!("{}: replaying", self.path));
        let peak_live_bytes = self.all.peak_live_bytes(options.granule_bytes());
        let mut spent = Vec::new();
        for (way, name) in machine.ways().iter().enumerate() {
            let device = machine.working(way, self.most_bytes(options));
            self.work(machine, device, options, name, &mut spent)?;
        }
        let (peak_reserved_bytes, failures) = self.growth(machine, options)?;
        let time = match options.threads {
            ThreadsChoice::Copies(_) => self.time(machine, options)?,
            // To take turns takes longer than to allocate.
            ThreadsChoice::Recorded => None,
        };
        let min_limit_bytes = self.min_limit(machine, &self.all, options, progress)?;
        let at_smallest = self.at_smallest(machine, options, min_limit_bytes)?;
        let memory = Memory {
            peak_reserved_bytes,
            min_limit_bytes,
            unmoved_limit_bytes: self.unmoved(machine, options, progress)?,
        };
        Ok(PoolRow {
            trace: self.path.clone(),
            operations: self.all.operations(),
            frees: self.all.frees(),
            streams: self.all.streams(),
            threads: self.all.threads(),
            limit_bytes: options.settings().limit_bytes,
            peak_live_bytes,
            memory,
            time,
            failures: spent.iter().map(|spent| spent.failures).fold(failures, u64::max),
            device: spent,
            at_smallest,
            oddities: self.oddities.clone(),
        })
    }

    /// What the pool asks of a device, pass by pass on one pool.
    fn work<M: Machine>(
        &self,
        machine: &M,
        device: M::Device,
        options: &Options,
        name: &str,
        spent: &mut Vec<Spent>,
    ) -> Result<(), Box<dyn Error>> {
        let pool = pool(device, options, None)?;
        let mut pooled = Pooled::<_, M::Work>::working(&pool, &self.all)?;
        let mut before = pool.stats();
        let mut passes = PASSES.iter();
        let requests = (self.all.operations() - self.all.frees()) as u64;
        pooled.passes(PASS_COUNT, |failures| {
            let after = pool.stats();
            let cost = Cost::between(&before, &after);
            spent.push(Spent {
                pacing: name.to_owned(),
                pass: passes.next().unwrap_or(&""),
                hits: requests.saturating_sub(failures + cost.growths + cost.steals + cost.waits()),
                cost,
                failures,
                violations: Vec::new(),
            });
            before = after;
        })?;
        pool.verify()?;
        if let Some(last) = spent.last_mut() {
            last.violations = machine.violations(pool.device());
        }
        Ok(())
    }

    /// The most bytes reserved at once, and how many requests were refused.
    fn growth<M: Machine>(
        &self,
        machine: &M,
        options: &Options,
    ) -> Result<(u64, u64), Box<dyn Error>> {
        let pool = pool(machine.silent(self.most_bytes(options)), options, None)?;
        let failures = Pooled::new(&pool, &self.all)?.pass()?;
        pool.verify()?;
        Ok((pool.stats().peak_reserved_bytes, failures))
    }

    /// The smallest limit that serves a program, if it is asked for.
    pub(crate) fn min_limit<M: Machine>(
        &self,
        machine: &M,
        program: &Program,
        options: &Options,
        progress: &Progress,
    ) -> Result<Option<u64>, Box<dyn Error>> {
        if !options.find_capacity {
            return Ok(None);
        }
        let unit_bytes = if options.pages { PAGE_BYTES } else { options.granule_bytes() };
        let peak_units = program.peak_live_bytes(options.granule_bytes()).div_ceil(unit_bytes);
        let found = smallest_that_serves(peak_units, |units| {
            let bytes = units.saturating_mul(unit_bytes);
            progress.show(&format!("{}: trying {}", self.path, human(bytes)));
            let pool = pool(machine.silent(self.most_bytes(options)), options, Some(bytes))?;
            Ok::<_, Box<dyn Error>>(Pooled::new(&pool, program)?.serves()?)
        })?;
        Ok(found.map(|units| units * unit_bytes))
    }

    /// A pass at the smallest limit, if memory is in pages: what it asks of the device, and its time.
    fn at_smallest<M: Machine>(
        &self,
        machine: &M,
        options: &Options,
        limit_bytes: Option<u64>,
    ) -> Result<Option<AtSmallest>, Box<dyn Error>> {
        let Some(limit_bytes) = limit_bytes.filter(|_| options.pages) else { return Ok(None) };
        let device = machine.silent(self.most_bytes(options));
        let pool = pool(device, options, Some(limit_bytes))?;
        let mut pooled = Pooled::new(&pool, &self.all)?;
        let (before, start) = (pool.stats(), Instant::now());
        pooled.pass()?;
        let nanoseconds = start.elapsed().as_secs_f64() * 1e9;
        let cost = Cost::between(&before, &pool.stats());
        let operations = u32::try_from(self.all.operations().max(1)).unwrap_or(u32::MAX);
        let ns_per_operation = nanoseconds / f64::from(operations);
        let paging_ns_per_operation = cost.paging_ns(self.all.operations());
        let moved_pages = cost.moved_pages;
        Ok(Some(AtSmallest { cost, ns_per_operation, paging_ns_per_operation, moved_pages }))
    }

    /// What pools would need that keep to one stream each.
    fn unmoved<M: Machine>(
        &self,
        machine: &M,
        options: &Options,
        progress: &Progress,
    ) -> Result<Option<u64>, Box<dyn Error>> {
        let mut sum_bytes = 0;
        for stream in 0..self.one.streams() {
            let program = self.one.on_stream(stream);
            match self.min_limit(machine, &program, options, progress)? {
                Some(bytes) => sum_bytes += bytes,
                None => return Ok(None),
            }
        }
        Ok(Some(sum_bytes * u64::from(options.copies())))
    }

    /// The time on a pool and on a shared allocator, a pass of each in turn.
    fn time<M: Machine>(
        &self,
        machine: &M,
        options: &Options,
    ) -> Result<Option<Time>, Box<dyn Error>> {
        let Some(script) = &self.script else { return Ok(None) };
        let copies = options.copies();
        let all = script.copies(copies).ok_or(JobError::TooManyBlocks)?;
        // Room for either, so that requests are timed, and no growth.
        let room_bytes = self.all.peak_live_bytes(options.granule_bytes()).saturating_mul(2);
        let (mut on_pool, mut on_shared) = (Best::default(), Best::default());
        let mut timed_calls = 0;
        while !(on_pool.is_settled() && on_shared.is_settled()) {
            let mut settings = options.settings();
            if settings.preallocation == Preallocation::Nothing {
                let bytes = room_bytes.min(machine.room_bytes());
                settings.preallocation = Preallocation::Bytes(bytes);
            }
            let device = machine.silent(self.most_bytes(options));
            let pool = Pool::new(device, settings.into())?;
            let pooled = (0..copies).map(|_| Pooled::new(&pool, &self.one));
            on_pool.add(pass_pooled_together(pooled.collect::<Result<_, _>>()?)?);
            timed_calls = pool.stats().calls.total();
            let range = RangeConfig::new(room_bytes)
                .granule_bytes(options.granule_bytes())
                .expect_blocks(all.peak_live_blocks().saturating_mul(2));
            let shared = SharedAllocator::new(
                SharedConfig::new(range).shards(options.shards).cache_bytes(options.cache_bytes()),
            )?;
            let mut caches = Cached::copies(&shared, copies, options.shards);
            on_shared.add(pass_together(script, &mut caches).map_err(JobError::Threads)?);
        }
        let operations = self.one.operations();
        Ok(on_pool.ns_per_operation(operations).zip(on_shared.ns_per_operation(operations)).map(
            |(ns_per_operation, shared_ns_per_operation)| Time {
                ns_per_operation,
                shared_ns_per_operation,
                timed_calls,
            },
        ))
    }

    /// Memory for all that could be reserved.
    pub(crate) fn most_bytes(&self, options: &Options) -> u64 {
        let peak_bytes = self.all.peak_live_bytes(options.granule_bytes());
        let settings = options.settings();
        let start_bytes = match settings.preallocation {
            Preallocation::Bytes(bytes) | Preallocation::OnDemand { base_bytes: bytes } => bytes,
            _ => 0,
        };
        peak_bytes
            .saturating_mul(4)
            .max(start_bytes)
            .max(settings.limit_bytes.unwrap_or(LEAST_DEVICE_BYTES))
    }
}

/// A pool; with a limit of its own, one that reserves it at its start, unless it is in pages.
pub(crate) fn pool<D: Device>(
    device: D,
    options: &Options,
    limit_bytes: Option<u64>,
) -> Result<Pool<D>, PoolError<D::Error>> {
    let mut settings = options.settings();
    if let Some(bytes) = limit_bytes {
        settings.limit_bytes = limit_bytes;
        if !options.pages {
            settings.preallocation = Preallocation::Bytes(bytes);
        }
    }
    Pool::new(device, settings.into())
}
