//! Datasets that are volumes: read by name, and open for the replay of their logs.
//!
//! An import for writing replays a volume's log ([`Pool::replay_logs`]); of a pool imported for reading only,
//! [`Pool::log_waits`] says that it waits.

use std::sync::Arc;

use env::BoxFuture;
use journal::Journal;
use ondisk::objset::ObjsetType;
use zil::{Claimed, IntentLog, Live, ReplayStopped};
use zvol::Volume;

use crate::dataset::kind::{Dataset, Terms};
use crate::dataset::open::OpenDataset;
use crate::{Pool, PoolError};

/// A volume that takes part in txgs.
pub(crate) struct LiveVolume {
    volume: Volume,
    journal: Journal,
}

impl LiveVolume {
    /// # Errors
    /// When the volume cannot be read.
    pub async fn open(open: &OpenDataset) -> Result<Self, PoolError> {
        let volume = Volume::open(&open.objset).await?;
        Ok(Self { volume, journal: Journal::new(Arc::clone(&open.objset)) })
    }
}

impl Dataset for LiveVolume {
    fn replay(&self, log: IntentLog<Claimed>) -> BoxFuture<'_, Result<(), Box<ReplayStopped>>> {
        Box::pin(async move {
            let (log, _) = log.replay(&self.volume).await?;
            self.journal.start(log);
            Ok(())
        })
    }

    fn start_log(&self, log: IntentLog<Live>) {
        self.journal.start(log);
    }

    fn get_ready(&self) -> BoxFuture<'_, Result<(), PoolError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Nothing writes to volumes here.
    fn takes_changes(&self) -> bool {
        false
    }

    fn set_terms(&self, _terms: &Terms<'_>) {}

    fn close(&self) -> BoxFuture<'_, Result<(), PoolError>> {
        Box::pin(async {
            match self.journal.log() {
                Some(log) => Ok(log.close().await?),
                None => Ok(()),
            }
        })
    }
}

impl Pool {
    /// The volume of this name, or the snapshot of one, for reading.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; [`PoolError::Encrypted`]; [`PoolError::NotVolume`]; when
    /// it cannot be read.
    pub async fn volume(self: &Arc<Self>, name: &str) -> Result<Volume, PoolError> {
        let objset = self.frozen_objset(name).await?;
        let objset = objset.filter(|objset| objset.kind() == ObjsetType::Zvol);
        let objset = objset.ok_or_else(|| PoolError::NotVolume { name: name.to_owned() })?;
        Ok(Volume::open(&objset).await?)
    }
}

#[cfg(test)]
mod tests;
