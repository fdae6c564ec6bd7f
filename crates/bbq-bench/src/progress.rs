//! A progress bar, if standard error is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// The bar disappears when this is dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of so many samples.
    pub(crate) fn new(samples: u64) -> Progress {
        let bar = ProgressBar::new(samples); // draws on standard error, and only on a terminal
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len}, {eta} left  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress(bar)
    }

    pub(crate) fn show(&self, what: String) {
        self.0.set_message(what);
    }

    pub(crate) fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
