//! A progress bar during long work, on a terminal only.

use core::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on the standard error, and beside it what is being done. Where that is no terminal,
/// nothing is shown.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar for so many pieces of work.
    pub(crate) fn new(pieces: usize) -> Self {
        let bar = ProgressBar::new(pieces as u64);
        // The default style if this one is not understood.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Says what is being done.
    pub(crate) fn show(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// One more piece is done.
    pub(crate) fn advance(&self, pieces: usize) {
        self.0.inc(pieces as u64);
    }

    /// Takes the bar away while something else is written.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }

    /// Takes the bar away for good.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
