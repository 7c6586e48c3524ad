//! A trace by a plan of itself.

use core::error::Error;
use std::{path::Path, time::Instant};

use pool_core::{Chunked, ConfigError, OffsetAllocator, Placement};
use pool_mock::{
    Trace,
    log::Action,
    replay::{
        Best, Placer, Plan, Planned, Script, Stage, roomy_capacity, smallest_capacity, survey,
    },
};
use serde::Serialize;

use crate::{job::Job, options::Options, progress::Progress};

/// One line of the output. Sizes are over the peak live bytes of the script that was replayed.
#[derive(Debug, Serialize)]
pub(crate) struct PlanRow {
    /// The path given.
    pub(crate) trace: String,
    /// Allocations and frees.
    pub(crate) operations: usize,
    /// The most live at once, each block rounded up to a granule.
    pub(crate) peak_live_bytes: u64,
    pub(crate) streams: usize,
    /// What the plan needs.
    pub(crate) planned_ratio: f64,
    /// What best fit needs.
    pub(crate) best_fit_ratio: f64,
    /// How long it took to plan.
    pub(crate) planning_ms: f64,
    /// Blocks that the plan puts on memory that another stream had last.
    pub(crate) crossings: u64,
    pub(crate) ns_per_operation: Option<f64>,
    pub(crate) best_fit_ns_per_operation: Option<f64>,
    /// With departures.
    pub(crate) perturbed: Vec<Perturbed>,
}

/// A replay that departs from the plan.
#[derive(Debug, Serialize)]
pub(crate) struct Perturbed {
    pub(crate) percent: u32,
    /// What the plan and a range for departures need, over the peak of the perturbed program.
    pub(crate) planned_ratio: f64,
    /// What best fit needs for the perturbed program.
    pub(crate) best_fit_ratio: f64,
    /// The part of the requests that the plan served.
    pub(crate) followed_ratio: f64,
    pub(crate) ns_per_operation: Option<f64>,
}

impl PlanRow {
    /// The row as one line of JSON.
    pub(crate) fn json(&self) -> String {
        // Only maps with odd keys and failing writers make this fail, and there are none.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// All replays of a trace.
pub(crate) fn row(
    path: &Path,
    options: &Options,
    progress: &Progress,
) -> Result<PlanRow, Box<dyn Error>> {
    let trace = Trace::open(path)?;
    let script = Script::new(&trace, options.granule_bytes());
    let placement = Placement::BestFit;
    let job = Job { path, trace: &trace, script: &script, placement, options };
    let start = Instant::now();
    let plan = Plan::of(&script);
    let planning_ms = start.elapsed().as_secs_f64() * 1e3;
    let mut perturbed = Vec::new();
    for &percent in &options.perturb {
        let other = script.perturbed(percent * 10, options.seed);
        let mut planned = planned_for(&plan, &other)?;
        survey(&other, &mut planned);
        let requests = planned.followed() + planned.departed();
        perturbed.push(Perturbed {
            percent,
            planned_ratio: ratio(planned.capacity_granules(), other.peak_live_granules()),
            best_fit_ratio: best_fit_ratio(&job, &other, progress)?,
            followed_ratio: ratio(planned.followed(), requests),
            ns_per_operation: time(&other, || planned_for(&plan, &other))?,
        });
    }
    let streams = streams_of(&trace);
    let mut names = streams.clone();
    names.sort_unstable();
    names.dedup();
    let range = || range(&job, &script, roomy_capacity(&script));
    Ok(PlanRow {
        trace: path.display().to_string(),
        operations: script.operations(),
        peak_live_bytes: script.peak_live_bytes(),
        streams: names.len(),
        planned_ratio: ratio(plan.capacity_granules(), script.peak_live_granules()),
        best_fit_ratio: best_fit_ratio(&job, &script, progress)?,
        planning_ms,
        crossings: plan.crossings(&streams),
        ns_per_operation: time(&script, || planned_for(&plan, &script))?,
        best_fit_ns_per_operation: time(&script, range)?,
        perturbed,
    })
}

/// The stream of each allocation.
fn streams_of(trace: &Trace) -> Vec<u32> {
    let allocations = trace.operations.iter().filter_map(|operation| match operation.action {
        Action::Allocate { .. } => Some(operation.stream.0),
        _ => None,
    });
    allocations.collect()
}

/// A planned allocator with room for every departure.
fn planned_for<'a>(plan: &'a Plan, script: &Script) -> Result<Planned<'a>, ConfigError> {
    Planned::new(plan, script.granule_bytes(), script.peak_live_granules().saturating_mul(2))
}

fn range(
    job: &Job<'_>,
    script: &Script,
    granules: u64,
) -> Result<OffsetAllocator<Chunked>, ConfigError> {
    let capacity_bytes = granules.saturating_mul(script.granule_bytes());
    OffsetAllocator::new(&job.range_config(capacity_bytes, script))
}

/// The smallest range if it is asked for, else how far up a roomy one is used.
fn best_fit_ratio(job: &Job<'_>, script: &Script, progress: &Progress) -> Result<f64, ConfigError> {
    let granules = if job.options.find_capacity {
        smallest_capacity(script, |granules| {
            job.trying(granules, progress);
            range(job, script, granules)
        })?
        .unwrap_or(u64::MAX)
    } else {
        survey(script, &mut range(job, script, roomy_capacity(script))?).peak_reserved_granules
    };
    Ok(ratio(granules, script.peak_live_granules()))
}

/// Nanoseconds an operation in the best of several passes on fresh allocators.
fn time<P: Placer>(
    script: &Script,
    make: impl Fn() -> Result<P, ConfigError>,
) -> Result<Option<f64>, ConfigError> {
    let mut best = Best::default();
    let mut stage = Stage::new(script);
    while !best.is_settled() {
        best.add(stage.pass(&mut make()?));
    }
    Ok(best.ns_per_operation(script.operations()))
}

fn ratio(part: u64, whole: u64) -> f64 {
    crate::row::ratio(part, whole).unwrap_or_default()
}
