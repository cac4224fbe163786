//! What the daemon knows of its pools, as metrics that Prometheus and whatever reads its formats collect.
//!
//! ```text
//!  Looked (what the daemon answers to questions) ─► daemon, pool, scan, vdev, log, dataset: tables of families
//!                                                         └─► Text: names, units, labels, escaping ─► an HTTP body
//! ```
//! Pure functions from answers to text: nothing is registered, counted or kept here. All counters are the engine's own, and one
//! that goes back, as those of a pool do that is opened anew, is what collectors take for a restart.
//!
//! Invariants
//! - No two samples of a body have the same name and labels: a collector would refuse all of it.
//!   (test: `no_two_samples_have_the_same_name_and_labels`)
//! - Who names pools, files and datasets cannot break a line out of its label.
//!   (test: `names_of_devices_cannot_break_out_of_their_labels`)
//!
//! Formats, and why none of the crates for them writes this: docs/decisions/2026-11-26-watching.md.
#![forbid(unsafe_code)]

mod buckets;
mod daemon;
mod dataset;
mod family;
mod log;
mod name;
mod pool;
mod scan;
mod text;
mod vdev;

pub use text::Format;

use control::{DaemonStatus, DatasetInfo, LogFacts, LogUsers, PoolInfo};
use text::Text;

/// What the daemon answered, all at about the same moment.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// Who answered.
    pub daemon: DaemonStatus,
    /// Open pools.
    pub pools: Vec<PoolLook>,
    /// Datasets; none unless they were asked for, for there may be many thousands.
    pub datasets: Vec<DatasetInfo>,
}

/// An open pool.
#[derive(Clone, Debug)]
pub struct PoolLook {
    /// The pool and its vdevs.
    pub pool: PoolInfo,
    /// What its intent logs had to do; none when it was closed between the two questions.
    pub logs: Option<LogFacts>,
    /// Who uses them; nobody unless that was asked for, for there may be as many as datasets.
    pub users: LogUsers,
}

/// The body of an answer.
#[must_use]
pub fn body(looked: &Looked, format: Format) -> String {
    let mut text = Text::new(format);
    daemon::write(&mut text, &looked.daemon);
    pool::write(&mut text, &looked.pools);
    scan::write(&mut text, &looked.pools);
    vdev::write(&mut text, &looked.pools);
    log::write(&mut text, &looked.pools);
    dataset::write(&mut text, &looked.datasets, &looked.pools);
    text.finish()
}

#[cfg(test)]
mod tests;
