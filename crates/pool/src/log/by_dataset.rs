//! What each dataset had its log do.

use units::ObjsetId;
use zil::ZilStats;

use crate::Pool;

/// What a dataset had its log do since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetLogStats {
    /// Its number, whatever its name.
    pub objset: ObjsetId,
    /// Its full name now.
    pub name: String,
    /// The counters of its log.
    pub stats: ZilStats,
}

impl Pool {
    /// What open datasets had their logs do, of those whose logs were asked for anything.
    #[must_use]
    pub fn log_stats_by_dataset(&self) -> Vec<DatasetLogStats> {
        let of_each = self.open_datasets().into_iter().filter_map(|dataset| {
            let stats = dataset.log()?.stats();
            let name = dataset.name();
            (stats.commits > 0).then(|| DatasetLogStats { objset: name.objset(), name: name.name, stats })
        });
        of_each.collect()
    }
}
