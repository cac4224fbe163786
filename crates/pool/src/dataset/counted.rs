//! What was counted of each open dataset.

use dmu::{Dnode, UseCounts};
use units::ObjsetId;
use zil::ZilStats;

use crate::Pool;

/// An open dataset that is no snapshot, and what was counted since it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedDataset {
    /// Its objset, whatever its name.
    pub objset: ObjsetId,
    /// Its full name now.
    pub name: String,
    /// What clients did.
    pub uses: UseCounts,
    /// What its log had to do; none where it has no log open.
    pub log: Option<ZilStats>,
}

impl Pool {
    /// What was counted of each dataset that is open.
    #[must_use]
    pub fn counted_datasets(&self) -> Vec<CountedDataset> {
        let counted = self.open_datasets().into_iter().filter_map(|dataset| {
            let name = dataset.name();
            (!name.name.contains('@')).then(|| CountedDataset {
                objset: name.objset(),
                uses: dataset.objset.uses().counts(),
                log: dataset.log().map(|log| log.stats()),
                name: name.name,
            })
        });
        counted.collect()
    }

    /// The memory of all objects that are known to be in memory, in bytes: their own structures,
    /// without blocks.
    #[must_use]
    pub fn object_bytes(&self) -> u64 {
        let datasets = self.open_datasets();
        let objsets = datasets.iter().map(|dataset| &dataset.objset).chain([&self.mos]);
        let known: usize = objsets.map(|objset| objset.objects_known()).sum();
        (known * size_of::<Dnode>()) as u64
    }
}
