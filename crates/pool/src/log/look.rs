//! Intent logs as they lie on disk, for looking only.

use std::sync::Arc;

use dmu::Objset;
use dsl::DatasetName;
use env::boxed;
use ondisk::zil::ZilHeader;
use units::{ObjsetId, Txg};
use zil::{LogStore, LogWalk, WalkedRecord};

use crate::{Pool, PoolError};

/// The log of a dataset, as the last synced txg left its header.
pub struct DatasetLog {
    /// The dataset.
    pub name: String,
    /// Its objset.
    pub objset: ObjsetId,
    /// Where its log begins, and how far it has been replayed.
    pub header: ZilHeader,
    /// The newest txg that is stable: what records of it and older ones say needs no replay.
    pub synced: Txg,
    store: Arc<dyn LogStore>,
}

impl DatasetLog {
    /// A walk along its blocks. It ends where no device answers, as a log does that is given up.
    #[must_use]
    pub fn walk(&self) -> LogWalk<'_> {
        LogWalk::giving_up(self.objset, &self.header, &*self.store)
    }

    /// Whether a record needs no replay: it has been replayed, or its txg was synced.
    #[must_use]
    pub fn is_done(&self, record: &WalkedRecord<'_>) -> bool {
        record.seq().get() <= self.header.replay_seq.get() || record.txg() <= self.synced
    }

    /// Whether any record waits for replay, as far as can be known.
    async fn holds_records(&self) -> bool {
        let mut walk = LogWalk::new(self.objset, &self.header, &*self.store);
        loop {
            match walk.next().await {
                Ok(Some(block)) => {
                    if block
                        .records()
                        .any(|record| record.is_err() || record.is_ok_and(|of| !self.is_done(&of)))
                    {
                        return true;
                    }
                }
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
    }
}

impl Pool {
    /// Whether the log of the dataset called `name` holds what its last synced txg does not, or cannot be read to say
    /// so. In a pool imported for reading only nothing replays it, so this is to be asked before what is read is
    /// taken for the newest. Snapshots have no log.
    ///
    /// # Errors
    /// When the dataset cannot be read.
    #[boxed]
    pub async fn log_waits(self: &Arc<Self>, name: &str) -> Result<bool, PoolError> {
        let dataset = self.dsl.resolve(name).await?;
        if dataset.is_snapshot() {
            return Ok(false);
        }
        let log = self.open_frozen(&dataset).await?.and_then(|objset| self.log_of(&dataset, &objset));
        match log {
            Some(log) => Ok(log.holds_records().await),
            None => Ok(false),
        }
    }

    fn log_of(&self, dataset: &DatasetName, objset: &Objset) -> Option<DatasetLog> {
        let header = objset.zil_header();
        (!header.log.is_hole()).then(|| DatasetLog {
            name: dataset.name.clone(),
            objset: objset.id(),
            header,
            synced: self.gate.synced_txg(),
            store: self.log_store.clone(),
        })
    }

    /// The logs of all datasets that have one. Of a pool that was exported there are none; of one
    /// that was cut off, and imported for reading only, what an import would claim and replay.
    ///
    /// # Errors
    /// When a dataset cannot be read.
    #[boxed]
    pub async fn logs(self: &Arc<Self>) -> Result<Vec<DatasetLog>, PoolError> {
        let mut logs = Vec::new();
        for dataset in self.dsl.list(&self.name()).await? {
            let objset = match self.open_frozen(&dataset).await {
                Ok(Some(objset)) => objset,
                Ok(None) | Err(PoolError::Encrypted { .. }) => continue,
                Err(error) => return Err(error),
            };
            logs.extend(self.log_of(&dataset, &objset));
        }
        Ok(logs)
    }
}
