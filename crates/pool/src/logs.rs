//! Intent logs as they lie on disk, for looking only.

use std::sync::Arc;

use ondisk::zil::ZilHeader;
use units::{ObjsetId, Txg};
use zil::{LogStore, LogWalk};

use crate::{Pool, PoolError};

/// The log of a dataset, as the last synced group left its header.
pub struct DatasetLog {
    /// The dataset.
    pub name: String,
    /// Its objset.
    pub objset: ObjsetId,
    /// Where its log begins, and how far it has been replayed.
    pub header: ZilHeader,
    /// The newest group that is stable: what records of it and older ones say needs no replay.
    pub synced: Txg,
    store: Arc<dyn LogStore>,
}

impl DatasetLog {
    /// A walk along its blocks. It ends where no device answers, as a log does that is given up.
    #[must_use]
    pub fn walk(&self) -> LogWalk<'_> {
        LogWalk::giving_up(self.objset, &self.header, &*self.store)
    }
}

impl Pool {
    /// The logs of all datasets that have one. Of a pool that was exported there are none; of one
    /// that was cut off, and imported for reading only, what an import would claim and replay.
    ///
    /// # Errors
    /// When a dataset cannot be read.
    pub async fn logs(self: &Arc<Self>) -> Result<Vec<DatasetLog>, PoolError> {
        let mut logs = Vec::new();
        for dataset in self.dsl.list(&self.name()).await? {
            let objset = match self.open_frozen(&dataset).await {
                Ok(Some(objset)) => objset,
                Ok(None) | Err(PoolError::Encrypted { .. }) => continue,
                Err(error) => return Err(error),
            };
            let header = objset.zil_header();
            if !header.log.is_hole() {
                logs.push(DatasetLog {
                    name: dataset.name.clone(),
                    objset: objset.id(),
                    header,
                    synced: self.gate.synced_txg(),
                    store: self.log_store.clone(),
                });
            }
        }
        Ok(logs)
    }
}
