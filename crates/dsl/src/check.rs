//! Is there room?

use std::sync::Arc;

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
    /// Bytes changed in memory and not yet on disk, all datasets together, an upper estimate.
    pub inflight_bytes: u64,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceVerdict {
    /// It fits.
    Fits,
    /// A quota or refquota is used up.
    QuotaExceeded,
    /// The pool is full.
    NoSpace,
}

impl Dsl {
    /// Bytes that can still be written to a dataset: what the pool has, less what quotas forbid,
    /// plus what is reserved for it and not used.
    ///
    /// # Errors
    /// Those of reading the MOS.
    pub async fn available(&self, dataset: ObjectId, pool: &PoolSpace) -> Result<u64, DslError> {
        Ok(available(&*self.loaded_dataset(dataset).await?, pool))
    }

    /// Whether a change that writes about `write_bytes` may begin. As in OpenZFS, quotas are
    /// checked against what is used already: the change that crosses one still goes through.
    /// `frees`: it gives back more than it takes in the end.
    ///
    /// # Errors
    /// Those of reading the MOS.
    pub async fn check_space(
        &self,
        dataset: ObjectId,
        write_bytes: u64,
        frees: bool,
        pool: &PoolSpace,
    ) -> Result<SpaceVerdict, DslError> {
        let dataset = self.loaded_dataset(dataset).await?;
        let inflight = pool.inflight_bytes;
        if !frees && over_quota(&dataset, inflight) {
            return Ok(SpaceVerdict::QuotaExceeded);
        }
        let used = dataset.dir().ancestry().last().map_or(0, |root| root.phys().used_bytes.get());
        let needed = used.saturating_add(inflight).saturating_add(write_bytes);
        if needed > pool.usable_bytes && !covered(&dataset, write_bytes) {
            return Ok(SpaceVerdict::NoSpace);
        }
        Ok(SpaceVerdict::Fits)
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

/// Whether any quota that counts for a dataset is used up, on disk or, by more than 1/32, with
/// what is on its way there.
fn over_quota(dataset: &Dataset, inflight: u64) -> bool {
    let full = |used: u64, quota: u64| {
        quota != 0 && (used >= quota || used.saturating_add(inflight) >= quota.saturating_add(quota >> 5))
    };
    let over = |dir: Arc<Dir>| full(dir.phys().used_bytes.get(), dir.phys().quota.get());
    full(dataset.phys().referenced_bytes.get(), dataset.refquota()) || dataset.dir().ancestry().any(over)
}

/// Whether a write is paid for already: reserved here and not used.
fn covered(dataset: &Dataset, write_bytes: u64) -> bool {
    let refreserved = dataset.refreservation().saturating_sub(dataset.phys().unique_bytes.get());
    let reserved = dataset.dir().ancestry().map(|dir| {
        let phys = dir.phys();
        phys.reserved.get().saturating_sub(phys.used_bytes.get())
    });
    reserved.chain([refreserved]).max().unwrap_or(0) >= write_bytes.max(1)
}
