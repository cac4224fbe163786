//! The bar of a long copy, on a terminal.

use crate::terminal::plain;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Shorter copies have none.
const PATIENCE: Duration = Duration::from_secs(1);
const TEMPLATE: &str =
    "{msg}{wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta}";

/// Shown on standard error once a copy takes long; never where that is no terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// For a copy that starts now.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Self { bar, started: Instant::now() }
    }

    /// How much there is to copy.
    pub fn expect(&self, bytes: u64) {
        self.bar.set_length(bytes);
    }

    /// So much more is done.
    pub fn add(&self, bytes: u64) {
        if self.bar.is_hidden() && self.started.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(bytes);
    }

    /// Sets the name of the file that is being copied.
    pub fn note(&self, what: &str) {
        self.bar.set_message(format!("{} ", plain(what)));
    }

    /// Starts counting from zero for a new phase.
    pub fn begin_anew(&self) {
        self.bar.reset();
        self.bar.set_length(0);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
