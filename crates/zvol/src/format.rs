//! A new volume.

use std::sync::Arc;

use dmu::zap::{Zap, ZapSpec};
use dmu::{DnodeSpec, Objset, Tx};
use env::boxed;
use ondisk::ObjectType;

use crate::ZvolError;
use crate::volume::{DATA, FACTS, SIZE, Volume};

/// Largest size of a volume, in bytes: offsets are signed where systems hand them on.
pub const VOLUME_BYTES_MAX: u64 = i64::MAX as u64;

/// What a volume is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Its size: some blocks, and no more than [`VOLUME_BYTES_MAX`] bytes.
    pub size_bytes: u64,
    /// Its unit of storage (`volblocksize`): a power of two from 512 bytes to 16 MiB. More than 128 KiB need the feature
    /// `large_blocks`.
    pub block_bytes: u32,
}

impl VolumeSpec {
    /// Whether a volume can have this size.
    ///
    /// # Errors
    /// [`ZvolError::Size`].
    pub const fn check(&self) -> Result<(), ZvolError> {
        let Self { size_bytes, block_bytes } = *self;
        let is_fine =
            size_bytes > 0 && size_bytes <= VOLUME_BYTES_MAX && size_bytes.is_multiple_of(block_bytes as u64);
        if is_fine { Ok(()) } else { Err(ZvolError::Size { size_bytes, block_bytes }) }
    }
}

impl Volume {
    /// Makes the objects of a volume in an objset that has none, as OpenZFS's `zvol_create_cb` leaves them.
    ///
    /// # Errors
    /// [`ZvolError::Size`]; those of changing the objset.
    #[boxed]
    pub async fn format(objset: &Arc<Objset>, tx: &Tx, spec: &VolumeSpec) -> Result<(), ZvolError> {
        spec.check()?;
        objset.allocate_at(tx, DATA, &DnodeSpec::new(ObjectType::ZVOL, spec.block_bytes)).await?;
        let facts = Zap::create_at(objset, tx, FACTS, &ZapSpec::new(ObjectType::ZVOL_PROP)).await?;
        Ok(facts.add_u64(tx, SIZE, spec.size_bytes).await?)
    }
}
