//! The command line.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::Parser;

/// Draws a wall of objects that come and go, without a screen, with all buffers cut from pools.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Options {
    /// Where the last frame is written, as a PNG
    #[arg(default_value = "scene.png")]
    pub(crate) picture: PathBuf,

    /// How many frames are drawn
    #[arg(long, value_name = "COUNT", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) frames: u16,

    /// How many objects are replaced from frame to frame
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pub(crate) changes: usize,

    /// Objects in a row
    #[arg(long, value_name = "COUNT", default_value_t = 14, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) columns: u16,

    /// Rows of objects
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) rows: u16,

    /// The picture's width in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 1400, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) width: u32,

    /// The picture's height in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 800, value_parser = clap::value_parser!(u32).range(1..=8192))]
    pub(crate) height: u32,

    /// Decides which objects there are
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// The most memory for uploads: 2 MiB at least, and what a frame needs. Where it is used up, the
    /// host waits for frames that were submitted
    #[arg(long, value_name = "SIZE", default_value = "8MiB")]
    pub(crate) upload_limit: ByteSize,

    /// Measures, too, what buffers and uploads cost otherwise
    #[arg(long)]
    pub(crate) compare: bool,
}
