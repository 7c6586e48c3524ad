//! A program that can be looked at while it runs: it trains something small on a simulated device, under
//! labels, collects what its pool notes after each step, and writes the page of it.
//!
//! ```text
//! cargo run -p examples --bin live_report --features record -- report.html
//! ```
//!
//! With `--limit MIB` the pool may take so much and no more: where that is too little, the page is written at the
//! moment of the refusal, and the program ends with the error.

use core::error::Error;
use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use clap::Parser;
use pool_core::record::{Clock, RecordConfig};
use pool_core::{Handle, Pool, PoolConfig, Shortage, StreamId};
use pool_mock::device::{Pacing, SimConfig, SimDevice};
use pool_report::live::Collector;

const MIB: u64 = 1 << 20;
const LAYERS: u64 = 12;

/// Trains something small on a simulated device, and writes what its pool did.
#[derive(Debug, Parser)]
struct Options {
    /// The page.
    out: PathBuf,
    /// How often all layers are gone through.
    #[arg(long, default_value_t = 40)]
    steps: u32,
    /// What the pool may take, in MiB.
    #[arg(long, default_value_t = 1024)]
    limit: u64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => {
            println!("wrote {}", options.out.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("live_report: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The pool, as who is asked for help finds it.
#[derive(Default)]
struct Watch {
    pool: OnceLock<Weak<Pool<SimDevice>>>,
    collector: Mutex<Option<Collector>>,
}

impl Watch {
    /// Does something with the pool and its collector. No request is made while that is held, so
    /// nobody who makes one waits for it.
    fn with<R>(&self, work: impl FnOnce(&Pool<SimDevice>, &mut Collector) -> R) -> Option<R> {
        let pool = self.pool.get()?.upgrade()?;
        let mut collector = self.collector.lock().unwrap_or_else(PoisonError::into_inner);
        Some(work(&pool, collector.get_or_insert_with(|| Collector::new(&*pool))))
    }

    /// A request is about to be refused.
    fn note(&self, shortage: &Shortage, out: &Path) {
        let written = self.with(|pool, collector| {
            let title = format!("{} bytes were refused", shortage.size_bytes);
            collector.write_shortage(pool, &title, shortage, File::create(out)?)
        });
        match written {
            Some(Ok(())) => eprintln!("see {}", out.display()),
            Some(Err(error)) => eprintln!("{} cannot be written: {error}", out.display()),
            None => {}
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let watch = Arc::new(Watch::default());
    let (watched, out) = (watch.clone(), options.out.clone());
    let config = PoolConfig::new().limit_bytes(options.limit.saturating_mul(MIB)).on_shortage(
        move |shortage| {
            watched.note(shortage, &out);
            false
        },
    );
    let device = SimDevice::new(SimConfig::new().memory_bytes(4096 * MIB).pacing(Pacing::Idle));
    let pool = Arc::new(Pool::new(device, config)?);
    watch.pool.get_or_init(|| Arc::downgrade(&pool));
    pool.start_recording(&RecordConfig::new(Clock::system()))?;

    let (compute, copies) = (pool.create_stream()?, pool.create_stream()?);
    let weights: Vec<Handle> = {
        let _label = pool.label("weights");
        let layers = (0..LAYERS).map(|_| pool.allocate_on(compute, 16 * MIB));
        layers.map(|block| block.map(|block| block.handle())).collect::<Result<_, _>>()?
    };
    for step in 0..options.steps {
        train(&pool, compute, copies, u64::from(step))?;
        watch.with(|pool, collector| collector.collect(pool));
    }
    weights.into_iter().try_for_each(|handle| pool.free_on(compute, handle).map(drop))?;
    let written = watch.with(|pool, collector| {
        collector.write(pool, "something small is trained", File::create(&options.out)?)
    });
    Ok(written.unwrap_or_else(|| Err(io::Error::other("the pool is gone")))?)
}

/// A step: what each layer keeps on the way forward is given back on the way back.
fn train(
    pool: &Pool<SimDevice>,
    compute: StreamId,
    copies: StreamId,
    step: u64,
) -> Result<(), Box<dyn Error>> {
    let batch = {
        let _label = pool.label("batch");
        pool.allocate_on(copies, 8 * MIB)?.handle()
    };
    let mut kept = Vec::new();
    {
        let _label = pool.label("forward");
        for layer in 0..LAYERS {
            let _label = pool.label(&format!("layer {layer}"));
            // Some batches are longer than others.
            let bytes = (4 + layer) * MIB + (step % 5) * (MIB / 2);
            kept.push(pool.allocate_on(compute, bytes)?.handle());
            let scratch = pool.allocate_on(compute, 2 * MIB)?;
            pool.free_on(compute, scratch.handle())?;
        }
    }
    // The other stream's work has read it by then.
    pool.record_use(batch, compute)?;
    pool.free_on(copies, batch)?;
    let _label = pool.label("backward");
    while let Some(activation) = kept.pop() {
        let gradient = pool.allocate_on(compute, 16 * MIB)?;
        pool.free_on(compute, activation)?;
        pool.free_on(compute, gradient.handle())?;
    }
    // Work is queued without end here: a step lets the device get on with it.
    pool.device().run_all();
    Ok(())
}
