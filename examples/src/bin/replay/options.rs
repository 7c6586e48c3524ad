//! The command line.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use bytesize::ByteSize;
use clap::{
    ArgAction, CommandFactory, FromArgMatches, Parser, ValueEnum, error::ErrorKind,
    parser::ValueSource,
};
use pool_core::Placement;
use pool_core::policy::{Handles, Pages, Preallocation, Settings};
use pool_mock::device::Pacing;

use crate::{
    convert::{FormatChoice, Target},
    picture::name_of,
    row,
    watch::Speed,
};

/// The trace that the repository carries.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/multi_stream.csv.gz");

/// Replays what a recorded program allocated and freed, and says how much memory it would have
/// needed.
///
/// A trace is a CSV log of RMM or a memory snapshot of PyTorch (a pickle), plain or gzipped.
/// Sizes are bytes, or numbers with a unit: 24GiB, 1.5MiB, 500MB.
#[derive(Debug, Parser)]
#[command(version)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Options {
    /// The logs to replay; without any, one that the repository carries
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,

    /// Which free block serves a request
    #[arg(long, value_enum, default_value_t)]
    pub(crate) placement: PlacementChoice,

    /// The size of the range; without it, 1.25 times the most that is live at once
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<ByteSize>,

    /// Also find the smallest range that serves every request
    ///
    /// A capacity counts only if 1, 2 and 5 % more serve every request too.
    #[arg(long)]
    pub(crate) find_capacity: bool,

    /// Replay through the shared allocator and its caches, instead of a bare range
    #[arg(long, group = "many")]
    pub(crate) shared: bool,

    /// Replay through a pool, with the trace's own streams, over the simulated device unless --device
    /// names another
    ///
    /// Each stream of the trace is one that the pool owns; a free names the stream that the trace
    /// does. Says how many bytes are needed, what time an operation takes beside --shared, and
    /// what the pool asks of the device when work is queued: a write of each block behind its
    /// allocation, a read before its free, both on the stream that it was allocated on. The
    /// device proves that no two uses of the same bytes can race; if any could, the exit code
    /// is 1.
    #[arg(long, group = "many", conflicts_with_all = ["capacity", "placement"])]
    pub(crate) pool: bool,

    /// With --pool, what the pool is over: sim (the simulated device), cuda, or cuda:N (the CUDA
    /// device with that number, if the program is built with the feature "cuda")
    ///
    /// A CUDA device runs at its own pace, and proves nothing.
    #[arg(long, value_name = "DEVICE", default_value = "sim", requires = "pool")]
    #[arg(value_parser = device)]
    pub(crate) device: DeviceChoice,

    /// With --device cuda, whether a small fill is queued behind each allocation and before each
    /// free, and for each other use: of the block's first 4 KiB at most
    ///
    /// Without them fences are done at once. The time an operation takes is always that of passes
    /// without fills. The simulated device always gets work.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    work: bool,

    /// With --pool, the bytes that the pool reserves, as one arena at its start; without it, the
    /// pool grows by arenas as it needs them
    ///
    /// With --find-capacity the smallest limit is found that serves every request, also with 1, 2
    /// and 5 % more.
    #[arg(long, value_name = "SIZE", requires = "pool")]
    pub(crate) limit: Option<ByteSize>,

    /// With --pool, the configuration of the pool, from a file: a JSON object as --advise prints it
    ///
    /// Values that it does not name are the defaults; names that no value has are refused.
    #[arg(long, value_name = "FILE", requires = "pool", value_parser = config_file)]
    #[arg(conflicts_with_all = ["limit", "cache_bytes", "granule", "shared"])]
    config: Option<Settings>,

    /// With --pool, replay twice: print the configuration that a first run recommends, and why, and
    /// what it saves in a second one
    ///
    /// Each run is three passes of the program on one pool, the cold one and two warm ones. With
    /// --find-capacity, what is reserved is compared with the smallest limit that serves every
    /// request, else with the most that is live at once.
    #[arg(long, requires = "pool", conflicts_with = "shared")]
    pub(crate) advise: bool,

    /// Place each block by a plan that is made of the trace: the largest first, each where nothing
    /// else is for as long as it lives
    ///
    /// Says what the plan needs beside what best fit does (with --find-capacity the smallest range,
    /// else what it reached in a roomy one), what it needs if the program departs from the trace,
    /// and what time an operation takes.
    #[arg(long, conflicts_with_all = ["many", "capacity", "placement"])]
    pub(crate) plan: bool,

    /// Write the trace to a file as the other kind of log, and say what is lost, instead of replaying
    ///
    /// The name says which kind: .csv is RMM's log, .pickle a snapshot that PyTorch's viewers
    /// (`torch.cuda._memory_viz` and the page `memory_viz`) read; with .gz behind it, it is gzipped. To the same kind
    /// nothing is lost: RMM's older logs become its newest form, snapshots of any pickle protocol
    /// one that the viewers take.
    #[arg(long = "convert", value_name = "OUT")]
    #[arg(conflicts_with_all = ["many", "capacity", "placement", "find_capacity", "plan", "granule"])]
    out: Option<PathBuf>,

    /// With --convert, the kind of log, whatever the name of the file
    #[arg(long, value_enum, value_name = "FORMAT", requires = "out")]
    to: Option<FormatChoice>,

    /// Where to write the trace, and as what: `--convert` and `--to`
    #[arg(skip)]
    pub(crate) convert: Option<Target>,

    /// With --plan, how many of a hundred requests depart from the trace: another size, one less, or
    /// one more
    #[arg(long, value_name = "PERCENT", default_value = "1,5,20", requires = "plan")]
    #[arg(value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) perturb: Vec<u32>,

    /// With --plan, chooses the departures
    #[arg(long, default_value_t = 1, requires = "plan")]
    pub(crate) seed: u64,

    /// With --pool, how late the device runs: idle (only when the host waits), lag:N (each stream
    /// lags by N of its own pieces of work), eager, or random:SEED
    #[arg(long, value_name = "PACING", default_value = "idle,lag:64", requires = "pool")]
    #[arg(value_delimiter = ',', value_parser = pacing)]
    pub(crate) pacing: Vec<PacingChoice>,

    /// With --pool, the device makes ranges longer where they are; without it each growth of the pool
    /// is an arena of its own, as on most devices
    #[arg(long, requires = "pool")]
    pub(crate) in_place: bool,

    /// Replay through a pool whose memory comes and goes in pages of 2 MiB, under addresses that stay
    /// (implies --pool)
    ///
    /// With --find-capacity the smallest limit is found in pages.
    #[arg(long, conflicts_with_all = ["capacity", "placement", "shared", "plan", "config"])]
    pub(crate) pages: bool,

    /// With --pool, also replay a generated pipeline, whose blocks are used on streams other than
    /// their own
    #[arg(long, requires = "pool")]
    pub(crate) pipeline: bool,

    /// With --shared or --pool, so many copies of the program at once, each on a thread and a
    /// cache of its own; or "recorded"
    ///
    /// With "recorded" (--pool only), each thread of the trace is a thread of the system; they
    /// take turns, so that the calls are made in the recorded order, each from its own thread.
    ///
    /// Copy i works on shard i modulo the number of shards. Only the time comes from real threads,
    /// which start together. How much is reserved and the smallest capacity come from the copies
    /// in lockstep: one thread takes the first step of each copy, then the second of each, and so
    /// on, which gives the same in every run. What is live, reserved and refused is that of all
    /// copies together; the time is from the first thread's start to the last one's end, over the
    /// operations of one copy.
    #[arg(long, value_name = "N", default_value = "1", requires = "many", value_parser = threads)]
    pub(crate) threads: ThreadsChoice,

    /// With --shared, the most parts that the range is worked on in at once (1 to 32)
    #[arg(long, value_name = "N", default_value_t = 16, requires = "shared")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(crate) shards: u32,

    /// With --shared or --pool, the most free bytes that each cache keeps; 0 for no caches
    #[arg(long, value_name = "SIZE", default_value = "1MiB", requires = "many")]
    cache_bytes: ByteSize,

    /// The unit of sizes and offsets, a power of two from 16 bytes
    #[arg(long, value_name = "SIZE", default_value = "256", value_parser = granule)]
    granule: ByteSize,

    /// Also write a report to look at: one HTML file, which opens in a browser and needs no network
    ///
    /// Of several traces or placements each has its own, whose name says which.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shared", "plan", "advise", "out"])]
    pub(crate) html: Option<PathBuf>,

    /// Replay once, and show it as it runs: the figures, and a map of the addresses by the share that is
    /// taken
    ///
    /// Nothing is timed. q or Ctrl-C ends it; the last figures stay. Where the output is no terminal,
    /// they are written as a line every second. With --pool it runs under the first --pacing.
    #[arg(long, conflicts_with_all = ["shared", "plan", "advise", "out", "find_capacity", "html", "json"])]
    pub(crate) watch: bool,

    /// With --watch, so many operations a second; or "recorded", as the log's times say
    ///
    /// Without it, as fast as they go.
    #[arg(long, value_name = "N", requires = "watch")]
    pub(crate) speed: Option<Speed>,

    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// The command line; the process ends if it is wrong.
    pub(crate) fn read() -> Self {
        // What --pages implies has to be there before it is checked what else needs it.
        let mut arguments: Vec<OsString> = env::args_os().collect();
        if arguments.iter().any(|argument| argument == "--pages")
            && !arguments.iter().any(|argument| argument == "--pool")
        {
            arguments.push("--pool".into());
        }
        let matches = Self::command().get_matches_from(arguments);
        let mut options = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        let refuse = |message: &str| -> ! {
            Self::command().error(ErrorKind::ArgumentConflict, message).exit()
        };
        if let Some(out) = &options.out {
            options.convert = Target::new(out, options.to);
            if options.convert.is_none() {
                refuse(
                    "--convert: a name that ends in .csv, .csv.gz, .pickle or .pickle.gz, or --to",
                );
            }
            if options.traces.len() > 1 {
                refuse("--convert: one trace at a time");
            }
        }
        if options.threads == ThreadsChoice::Recorded && !options.pool {
            refuse("--threads recorded: only with --pool");
        }
        if options.watch {
            let subjects = options.traces().len() + usize::from(options.pipeline);
            if subjects > 1 {
                refuse("--watch: one trace at a time");
            }
            if options.placement.placements().len() > 1 {
                refuse("--watch: one placement at a time");
            }
        }
        let given = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        match options.device {
            DeviceChoice::Simulated if given("work") => refuse("--work: only with --device cuda"),
            DeviceChoice::Simulated => {}
            DeviceChoice::Cuda(_) => {
                for id in ["pacing", "in_place", "advise"] {
                    if given(id) {
                        let name = id.replace('_', "-");
                        refuse(&format!("--{name}: only with --device sim"));
                    }
                }
                if cfg!(not(feature = "cuda")) {
                    refuse("--device cuda: only if the program is built with --features cuda");
                }
            }
        }
        options
    }

    /// Whether a CUDA device gets work.
    #[cfg(feature = "cuda")]
    pub(crate) fn queues_work(&self) -> bool {
        self.work
    }

    /// The paths of the traces to replay.
    pub(crate) fn traces(&self) -> Vec<PathBuf> {
        if self.traces.is_empty() && !self.pipeline {
            vec![BUNDLED.into()]
        } else {
            self.traces.clone()
        }
    }

    /// Where the report of a trace goes, if there is to be one.
    pub(crate) fn picture(&self, trace: &Path, placement: Option<Placement>) -> Option<PathBuf> {
        let html = self.html.as_ref()?;
        let mut name = html.file_stem()?.to_owned();
        if self.traces().len() + usize::from(self.pipeline) > 1 {
            name.push(format!("-{}", name_of(trace)));
        }
        if let Some(placement) = placement.filter(|_| self.placement.placements().len() > 1) {
            name.push(format!("-{}", row::name(placement)));
        }
        if let Some(ending) = html.extension() {
            name.push(".");
            name.push(ending);
        }
        Some(html.with_file_name(name))
    }

    /// How many copies of the program there are.
    pub(crate) fn copies(&self) -> u32 {
        match self.threads {
            ThreadsChoice::Copies(copies) => copies,
            ThreadsChoice::Recorded => 1,
        }
    }

    /// The granule, a power of two.
    pub(crate) fn granule_bytes(&self) -> u64 {
        self.config.map_or(self.granule.as_u64(), |config| config.granule_bytes)
    }

    /// The most free bytes that each cache keeps.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.config.map_or(self.cache_bytes.as_u64(), |config| config.cache_bytes)
    }

    /// What a pool is to be: as the file says, or as the other options do.
    pub(crate) fn settings(&self) -> Settings {
        self.config.unwrap_or_else(|| {
            let limit_bytes = self.limit.map(|limit| limit.as_u64());
            let at_once = limit_bytes.filter(|_| !self.pages);
            Settings {
                preallocation: at_once.map_or(Preallocation::Nothing, Preallocation::Bytes),
                limit_bytes,
                pages: self.pages.then_some(PAGES),
                granule_bytes: self.granule_bytes(),
                cache_bytes: self.cache_bytes(),
                ..Settings::default()
            }
        })
    }
}

/// With --pages every page moves by itself.
const PAGES: Pages = Pages { handles: Handles::Smallest, ..Pages::new() };

/// What `--placement` takes.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum PlacementChoice {
    /// The smallest free block that fits
    #[default]
    BestFit,
    /// The lowest free block that fits
    FirstFit,
    /// Powers of two that merge with their buddies
    Buddy,
    /// Each of them in turn
    All,
}

impl PlacementChoice {
    /// The placements it stands for.
    pub(crate) fn placements(self) -> &'static [Placement] {
        match self {
            Self::BestFit => &[Placement::BestFit],
            Self::FirstFit => &[Placement::FirstFit],
            Self::Buddy => &[Placement::Buddy],
            Self::All => &[Placement::BestFit, Placement::FirstFit, Placement::Buddy],
        }
    }
}

/// What `--threads` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadsChoice {
    /// So many copies of the program, a thread each.
    Copies(u32),
    /// A thread for each of the trace's.
    Recorded,
}

const MOST_COPIES: u32 = 1024;

fn threads(text: &str) -> Result<ThreadsChoice, String> {
    if text == "recorded" {
        return Ok(ThreadsChoice::Recorded);
    }
    let copies = text.parse().ok().filter(|copies| (1..=MOST_COPIES).contains(copies));
    copies
        .map(ThreadsChoice::Copies)
        .ok_or_else(|| format!("a number from 1 to {MOST_COPIES}, or \"recorded\""))
}

/// What `--device` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceChoice {
    Simulated,
    /// The device with this number.
    Cuda(u32),
}

fn device(text: &str) -> Result<DeviceChoice, String> {
    let choice = match text.split_once(':') {
        None if text == "sim" => Some(DeviceChoice::Simulated),
        None if text == "cuda" => Some(DeviceChoice::Cuda(0)),
        Some(("cuda", ordinal)) => ordinal.parse().ok().map(DeviceChoice::Cuda),
        _ => None,
    };
    choice.ok_or_else(|| "sim, cuda or cuda:N".to_owned())
}

/// What `--pacing` takes.
#[derive(Clone, Debug)]
pub(crate) struct PacingChoice {
    /// As the command line spells it.
    pub(crate) name: String,
    pub(crate) pacing: Pacing,
}

fn pacing(text: &str) -> Result<PacingChoice, String> {
    let number = |text: &str| text.parse().ok();
    let pacing = match text.split_once(':') {
        None if text == "idle" => Some(Pacing::Idle),
        None if text == "eager" => Some(Pacing::Eager),
        Some(("lag", items)) => number(items).map(Pacing::Lag),
        Some(("random", seed)) => number(seed).map(Pacing::Random),
        _ => None,
    };
    let choice = |pacing| PacingChoice { name: text.to_owned(), pacing };
    pacing.map(choice).ok_or_else(|| "idle, eager, lag:N or random:SEED".to_owned())
}

fn config_file(path: &str) -> Result<Settings, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let settings: Settings = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let granule_bytes = settings.granule_bytes;
    if granule_bytes.is_power_of_two() && granule_bytes >= LEAST_GRANULE_BYTES {
        Ok(settings)
    } else {
        Err(GRANULE.to_owned())
    }
}

const LEAST_GRANULE_BYTES: u64 = 16;
const GRANULE: &str = "a granule is a power of two from 16 bytes";

fn granule(text: &str) -> Result<ByteSize, String> {
    let granule: ByteSize = text.parse()?;
    if granule.as_u64().is_power_of_two() && granule.as_u64() >= LEAST_GRANULE_BYTES {
        Ok(granule)
    } else {
        Err(GRANULE.to_owned())
    }
}
