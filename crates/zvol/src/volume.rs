//! A volume that is open.

use std::sync::Arc;

use dmu::zap::Zap;
use dmu::{Dnode, Objset, SeekTo};
use units::ObjectId;

use crate::ZvolError;

/// The object that has a volume's bytes.
pub const DATA: ObjectId = ObjectId::new(1);
const FACTS: ObjectId = ObjectId::new(2);
const SIZE: &[u8] = b"size";

/// A volume, or what a snapshot holds of one. It is read as its objset is: one opened for looking only shows the
/// bytes of the last synced txg, and a log that waits for its replay is not in them.
pub struct Volume {
    pub(crate) objset: Arc<Objset>,
    pub(crate) data: Arc<Dnode>,
    pub(crate) size_bytes: u64,
}

impl Volume {
    /// The volume whose objects are in `objset`.
    ///
    /// # Errors
    /// [`ZvolError::Damaged`]; when its objects cannot be read.
    pub async fn open(objset: &Arc<Objset>) -> Result<Self, ZvolError> {
        let size = Zap::hold(objset, FACTS).await?.lookup_u64(SIZE).await?;
        let size_bytes = size.ok_or(ZvolError::Damaged { objset: objset.id(), what: "no size" })?;
        Ok(Self { objset: Arc::clone(objset), data: objset.hold(DATA).await?, size_bytes })
    }

    /// Its size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Its unit of storage (`volblocksize`), in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.data.block_bytes()
    }

    /// Fills `into` from byte `offset`; returns how many bytes there were before the end.
    ///
    /// # Errors
    /// When a block cannot be read.
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, ZvolError> {
        let there = self.size_bytes.saturating_sub(offset).min(into.len() as u64) as usize;
        self.data.read(offset, &mut into[..there]).await?;
        Ok(there)
    }

    /// The first byte at or after `offset` that is stored, or that is not; `None` when there is
    /// none.
    ///
    /// # Errors
    /// When an indirect block cannot be read.
    pub async fn seek(&self, offset: u64, to: SeekTo) -> Result<Option<u64>, ZvolError> {
        Ok(self.data.seek(offset, to).await?.filter(|&found| found < self.size_bytes))
    }
}
