//! Replays recorded allocation logs and says what range each would have needed.
//!
//! `replay --help` lists the options. The exit code is 0 if every trace was read and every
//! request served, else 1 (2 for a wrong command line).

mod advice_row;
mod advice_table;
mod advise;
mod bare;
mod books;
mod convert;
#[cfg(feature = "cuda")]
mod cuda;
mod job;
mod machine;
mod options;
mod picture;
mod plan;
mod plan_table;
mod pool;
mod pool_row;
mod pool_table;
mod progress;
mod row;
mod shared;
mod simulated;
mod table;
mod watch;

use core::error::Error;
use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use pool_mock::{Trace, replay::Script};

use self::{
    convert::Target,
    job::Job,
    machine::Machine,
    options::{DeviceChoice, Options},
    pool::{PoolJob, Subject},
    progress::Progress,
    simulated::Simulated,
};

fn main() -> ExitCode {
    let options = Options::read();
    let ran = if let Some(target) = &options.convert {
        convert(&options, target)
    } else if options.plan {
        plan(&options)
    } else if options.advise {
        advise(&options)
    } else if options.pool {
        on_the_device(&options)
    } else if options.watch {
        watch(&options)
    } else {
        run(&options)
    };
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader of our output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: cannot write the output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Replays all traces; false if any was damaged or any request refused.
fn run(options: &Options) -> io::Result<bool> {
    let traces = options.traces();
    let placements = options.placement.placements();
    let progress = Progress::new(traces.len() * placements.len());
    let mut out = io::stdout().lock();
    let mut rows = Vec::new();
    let mut all_well = true;
    for path in &traces {
        progress.show(&format!("reading {}", path.display()));
        let read = Trace::open(path).map(|trace| {
            let script = Script::new(&trace, options.granule_bytes());
            (trace, script)
        });
        let (trace, script) = match read {
            Ok(read) => read,
            Err(error) => {
                all_well = false;
                complain(&progress, path, &error);
                progress.advance(placements.len());
                continue;
            }
        };
        for placement in placements {
            let job = Job { path, trace: &trace, script: &script, placement: *placement, options };
            match job.run(&progress) {
                Ok(row) => {
                    all_well &= row.failures == 0;
                    if options.json {
                        progress.suspend(|| writeln!(out, "{}", row.json()))?;
                    }
                    rows.push(row);
                    let drawn =
                        options.picture(path, Some(*placement)).map(|out| job.picture(&out));
                    if let Some(Err(error)) = drawn {
                        all_well = false;
                        complain(&progress, path, &*error);
                    }
                }
                Err(error) => {
                    all_well = false;
                    complain(&progress, path, &error);
                }
            }
            progress.advance(1);
        }
    }
    progress.finish();
    if !options.json && !rows.is_empty() {
        writeln!(out, "{}", table::of(&rows))?;
    }
    Ok(all_well)
}

/// Writes the trace in another format; false if it is damaged or cannot be written.
fn convert(options: &Options, target: &Target) -> io::Result<bool> {
    let progress = Progress::new(0);
    let mut all_well = true;
    for path in &options.traces() {
        match convert::run(path, target, &progress) {
            Ok(report) => {
                let text = if options.json { report.json() } else { report.text() };
                progress.suspend(|| writeln!(io::stdout(), "{text}"))?;
            }
            Err(error) => {
                all_well = false;
                complain(&progress, path, &error);
            }
        }
    }
    progress.finish();
    Ok(all_well)
}

/// Replays a trace to be looked on at; false if it was damaged or any request refused.
fn watch(options: &Options) -> io::Result<bool> {
    let progress = Progress::new(0);
    let mut all_well = true;
    for path in &options.traces() {
        progress.show(&format!("reading {}", path.display()));
        for placement in options.placement.placements() {
            let watched = Trace::open(path).map_err(Into::into).and_then(|trace| {
                let script = &Script::new(&trace, options.granule_bytes());
                let job = Job { path, trace: &trace, script, placement: *placement, options };
                job.watch(&progress)
            });
            all_well &= well(watched, path, &progress)?;
        }
    }
    progress.finish();
    Ok(all_well)
}

/// Replays all traces by plans of themselves; false if any was damaged or any request refused.
fn plan(options: &Options) -> io::Result<bool> {
    let traces = options.traces();
    let progress = Progress::new(traces.len());
    let mut out = io::stdout().lock();
    let mut rows = Vec::new();
    let mut all_well = true;
    for path in &traces {
        progress.show(&format!("planning {}", path.display()));
        match plan::row(path, options, &progress) {
            Ok(row) => {
                if options.json {
                    progress.suspend(|| writeln!(out, "{}", row.json()))?;
                }
                rows.push(row);
            }
            Err(error) => {
                all_well = false;
                complain(&progress, path, &*error);
            }
        }
        progress.advance(1);
    }
    progress.finish();
    if !options.json && !rows.is_empty() {
        writeln!(out, "{}", plan_table::of(&rows))?;
    }
    Ok(all_well)
}

/// Replays all traces on pools over the device that is asked for; false as below, or if there is no
/// such device.
fn on_the_device(options: &Options) -> io::Result<bool> {
    match options.device {
        DeviceChoice::Simulated => run_on_pools(&Simulated(options), options),
        #[cfg(feature = "cuda")]
        DeviceChoice::Cuda(ordinal) if options.queues_work() => {
            on_cuda::<cuda::filled::Filled>(ordinal, options)
        }
        #[cfg(feature = "cuda")]
        DeviceChoice::Cuda(ordinal) => on_cuda::<pool_mock::replay::Idle>(ordinal, options),
        // The command line refuses it.
        #[cfg(not(feature = "cuda"))]
        DeviceChoice::Cuda(_) => Ok(false),
    }
}

/// Replays all traces on pools over a CUDA device; false as below, or if there is no such device.
#[cfg(feature = "cuda")]
fn on_cuda<W>(ordinal: u32, options: &Options) -> io::Result<bool>
where
    W: pool_mock::replay::Work<pool_cuda::CudaDevice> + Send,
{
    match cuda::Cuda::<W>::open(ordinal) {
        Ok(machine) => run_on_pools(&machine, options),
        Err(error) => {
            eprintln!("replay: {error}");
            Ok(false)
        }
    }
}

/// Replays all traces on pools; false if any was damaged, any request refused, or if any two uses
/// of the same bytes could have raced.
fn run_on_pools(machine: &impl Machine, options: &Options) -> io::Result<bool> {
    let mut rows = Vec::new();
    let all_well = on_pools(options, |job, progress, out| {
        if options.watch {
            return job.watch(machine, options, progress);
        }
        let row = job.run(machine, options, progress)?;
        if let Some(out) = options.picture(Path::new(&job.path), None) {
            job.picture(machine, options, &out)?;
        }
        if options.json {
            progress.suspend(|| writeln!(out, "{}", row.json()))?;
        }
        let is_well = row.is_well();
        rows.push(row);
        Ok(is_well)
    })?;
    if !options.json && !rows.is_empty() {
        writeln!(io::stdout(), "{}", pool_table::of(&rows))?;
    }
    Ok(all_well)
}

/// Replays all traces twice, under a configuration and under the one that the first run
/// recommends; false as above.
fn advise(options: &Options) -> io::Result<bool> {
    let mut rows = Vec::new();
    let all_well = on_pools(options, |job, progress, out| {
        let row = job.advise(options, progress)?;
        let text = if options.json { row.json() } else { row.text() };
        progress.suspend(|| writeln!(out, "{text}"))?;
        let is_well = row.is_well();
        rows.push(row);
        Ok(is_well)
    })?;
    if !options.json && !rows.is_empty() {
        writeln!(io::stdout(), "{}", advice_table::of(&rows))?;
    }
    Ok(all_well)
}

/// Does something with each trace that is to be replayed on pools; false if any was damaged, or
/// not well.
fn on_pools(
    options: &Options,
    mut each: impl FnMut(&PoolJob, &Progress, &mut dyn Write) -> Result<bool, Box<dyn Error>>,
) -> io::Result<bool> {
    let traces = options.traces();
    let progress = Progress::new(traces.len() + usize::from(options.pipeline));
    let mut out = io::stdout().lock();
    let mut all_well = true;
    let subjects = traces.iter().map(Subject::Trace);
    for subject in subjects.chain(options.pipeline.then_some(Subject::Pipeline)) {
        progress.show(&format!("reading {}", subject.path().display()));
        let done = subject.read(options).and_then(|job| each(&job, &progress, &mut out));
        all_well &= well(done, subject.path(), &progress)?;
        progress.advance(1);
    }
    progress.finish();
    Ok(all_well)
}

/// Whether all is well with a trace. It is not if there was an error, which is told, unless it is that
/// the reader of our output has gone.
fn well(done: Result<bool, Box<dyn Error>>, path: &Path, progress: &Progress) -> io::Result<bool> {
    let error = match done {
        Ok(is_well) => return Ok(is_well),
        Err(error) => error,
    };
    match error.downcast::<io::Error>() {
        Ok(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(*error),
        Ok(error) => complain(progress, path, &*error),
        Err(error) => complain(progress, path, &*error),
    }
    Ok(false)
}

fn complain(progress: &Progress, path: &Path, error: &dyn core::error::Error) {
    progress.suspend(|| eprintln!("replay: {}: {error}", path.display()));
}
