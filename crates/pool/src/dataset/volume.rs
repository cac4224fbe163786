//! Volumes: reading them, and replay of their logs.
//!
//! ```text
//!  objset of kind "volume" ─┬─ object 1   its bytes, in blocks of volblocksize
//!                           └─ object 2   ZAP: "size" ─► bytes
//! ```
//! Bytes are those of the last synced txg; a log that waits for its replay is not in them. An import for writing
//! replays it ([`Pool::replay_logs`]); of a pool imported for reading only, [`Pool::log_waits`] says so.

mod replay;

use std::sync::Arc;

use dmu::zap::Zap;
use dmu::{Dnode, Objset, SeekTo};
use ondisk::objset::ObjsetType;
use units::ObjectId;

use crate::{Pool, PoolError};

pub(crate) use replay::VolumeReplay;

const DATA: ObjectId = ObjectId::new(1);
const FACTS: ObjectId = ObjectId::new(2);
const SIZE: &[u8] = b"size";

/// A volume, or what a snapshot holds of one.
pub struct Volume {
    data: Arc<Dnode>,
    size_bytes: u64,
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
        Ok(Volume { size_bytes: size_of(name, &objset).await?, data: objset.hold(DATA).await? })
    }
}

async fn size_of(name: &str, objset: &Arc<Objset>) -> Result<u64, PoolError> {
    let size = Zap::hold(objset, FACTS).await?.lookup_u64(SIZE).await?;
    size.ok_or_else(|| PoolError::DamagedVolume { name: name.to_owned(), what: "no size" })
}

impl Volume {
    /// Its size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Its unit of storage (`volblocksize`).
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.data.block_bytes()
    }

    /// Fills `into` from byte `offset`; returns how many bytes there were before the end.
    ///
    /// # Errors
    /// When a block cannot be read.
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, PoolError> {
        let there = self.size_bytes.saturating_sub(offset).min(into.len() as u64) as usize;
        self.data.read(offset, &mut into[..there]).await?;
        Ok(there)
    }

    /// The first byte at or after `offset` that is stored, or that is not; `None` when there is
    /// none.
    ///
    /// # Errors
    /// When an indirect block cannot be read.
    pub async fn seek(&self, offset: u64, to: SeekTo) -> Result<Option<u64>, PoolError> {
        Ok(self.data.seek(offset, to).await?.filter(|&found| found < self.size_bytes))
    }
}

#[cfg(test)]
mod tests;
