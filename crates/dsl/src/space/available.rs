//! What a dataset may still take: the pool's room, within quotas, with what is reserved.
//! Whether a change may begin is decided by the pool's `SpaceGuard`, which asks here once a txg.

use std::sync::Arc;

use env::boxed;
use units::ObjectId;

use crate::dataset::Dataset;
use crate::dir::Dir;
use crate::{Dsl, DslError};

/// The pool's space, as far as datasets are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSpace {
    /// What datasets may use in all, used or not: after redundancy, less what waits to be freed
    /// and what is kept back.
    pub usable_bytes: u64,
}

impl Dsl {
    /// Bytes that can still be written to a dataset: what the pool has, less what quotas forbid,
    /// plus what is reserved for it and not used.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn available(&self, dataset: ObjectId, pool: &PoolSpace) -> Result<u64, DslError> {
        Ok(available(&*self.loaded_dataset(dataset).await?, pool))
    }
}

/// See [`Dsl::available`].
pub(crate) fn available(dataset: &Dataset, pool: &PoolSpace) -> u64 {
    let phys = dataset.phys();
    let reserved = dataset.refreservation().saturating_sub(phys.unique_bytes.get());
    let available = below(dataset.dir(), pool, &|_| 0).saturating_add(reserved);
    match dataset.refquota() {
        0 => available,
        quota => available.min(quota.saturating_sub(phys.referenced_bytes.get())),
    }
}

/// Bytes that can still be written below a dir, if `freed` of what it uses itself were free.
pub(crate) fn below(dir: &Arc<Dir>, pool: &PoolSpace, freed: &dyn Fn(&Dir) -> u64) -> u64 {
    let phys = dir.phys();
    let used = phys.used_bytes.get().saturating_sub(freed(dir));
    let quota = if phys.quota.get() == 0 { u64::MAX } else { phys.quota.get() };
    match dir.parent() {
        Some(parent) => {
            let reserved = phys.reserved.get().saturating_sub(used);
            below(&parent, pool, freed).saturating_add(reserved).min(quota.saturating_sub(used))
        }
        None => quota.min(pool.usable_bytes).saturating_sub(used),
    }
}
