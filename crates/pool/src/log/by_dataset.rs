//! What each dataset had its log do: counters, and recordings.

use units::ObjsetId;
use zil::{ActiveRecording, ZilStats};

use crate::Pool;

/// What the log of one dataset had to do since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedLog {
    /// The objset of the dataset, whatever its name.
    pub objset: ObjsetId,
    /// Its full name now.
    pub name: String,
    /// The counters of its log.
    pub stats: ZilStats,
}

impl Pool {
    /// What the log of each of its datasets had to do, of those that have one open.
    #[must_use]
    pub fn dataset_logs(&self) -> Vec<CountedLog> {
        let of_each = self.open_datasets().into_iter().filter_map(|dataset| {
            let name = dataset.name();
            Some(CountedLog { objset: name.objset(), name: name.name, stats: dataset.log()?.stats() })
        });
        of_each.collect()
    }

    /// Records what commits of its datasets wait for, one by one, until what this gives is asked for that or dropped: so
    /// many commits at most. None where somebody else does.
    #[must_use]
    pub fn record_log(&self, commits_max: usize) -> Option<ActiveRecording> {
        self.log_store.recorder.begin(self.env.now(), commits_max)
    }
}
