//! A log of one kind made into one of the other.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use flate2::{Compression, write::GzEncoder};
use pool_mock::log::{Conversion, ConvertError, Format, convert};
use serde::Serialize;

use crate::progress::Progress;

/// What `--to` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatChoice {
    /// RMM's CSV log
    Rmm,
    /// PyTorch's memory snapshot
    Snapshot,
}

/// Where a converted log goes, and as what.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    path: PathBuf,
    format: Format,
    zipped: bool,
}

impl Target {
    /// By the name of the file, unless the format is given; `None` if neither tells.
    pub(crate) fn new(path: &Path, choice: Option<FormatChoice>) -> Option<Self> {
        let name = path.file_name()?.to_str().unwrap_or("").to_ascii_lowercase();
        let (plain, zipped) = match name.strip_suffix(".gz") {
            Some(plain) => (plain, true),
            None => (&name[..], false),
        };
        let by_name = match plain.rsplit_once('.').map(|(_, extension)| extension) {
            Some("csv") => Some(Format::Rmm),
            Some("pickle" | "pkl") => Some(Format::Snapshot),
            _ => None,
        };
        let format = match choice {
            None => by_name?,
            Some(FormatChoice::Rmm) => Format::Rmm,
            Some(FormatChoice::Snapshot) => Format::Snapshot,
        };
        Some(Self { path: path.to_owned(), format, zipped })
    }
}

/// Why a log is not converted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    #[error("it is the file to be written")]
    SameFile,
    #[error("{} cannot be written: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Convert(#[from] ConvertError),
}

/// What a conversion did.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    trace: String,
    written: String,
    bytes: u64,
    entries: u64,
    lost: Vec<String>,
    oddities: String,
}

impl Report {
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        let Self { trace, written, bytes, entries, .. } = self;
        let size = crate::row::human(*bytes);
        let mut text = format!("{trace}: {entries} entries, written to {written} ({size})");
        for lost in &self.lost {
            text.push_str("\n  lost: ");
            text.push_str(lost);
        }
        for odd in self.oddities.lines() {
            text.push_str("\n  odd: ");
            text.push_str(odd);
        }
        text
    }
}

/// Converts the log at `from`.
pub(crate) fn run(from: &Path, target: &Target, progress: &Progress) -> Result<Report, Error> {
    let Target { path, format, zipped } = target;
    let source = File::open(from).map_err(Error::Open)?;
    let same =
        |a: io::Result<PathBuf>, b: io::Result<PathBuf>| matches!((a, b), (Ok(a), Ok(b)) if a == b);
    if same(fs::canonicalize(from), fs::canonicalize(path)) {
        return Err(Error::SameFile);
    }
    progress.show(&format!("converting {}", from.display()));
    let create = |source| Error::Create { path: path.clone(), source };
    let file = BufWriter::new(File::create(path).map_err(create)?);
    let converted = if *zipped {
        let mut encoder = BufWriter::new(GzEncoder::new(file, Compression::default()));
        convert(source, &mut encoder, *format).and_then(|conversion| {
            let encoder = encoder.into_inner().map_err(io::IntoInnerError::into_error)?;
            encoder.finish()?.flush()?;
            Ok(conversion)
        })
    } else {
        convert(source, file, *format)
    };
    let Conversion { entries, lost, report } = converted.inspect_err(|_| {
        // Half a log is worse than none; if it cannot be removed, the error is told anyway.
        let _ = fs::remove_file(path);
    })?;
    Ok(Report {
        trace: from.display().to_string(),
        written: path.display().to_string(),
        bytes: fs::metadata(path).map_or(0, |file| file.len()),
        entries,
        lost: lost.iter().map(ToString::to_string).collect(),
        oddities: report.to_string(),
    })
}
