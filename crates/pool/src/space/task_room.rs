//! Room for changes of the meta-objset that make it grow: without it a txg could not be made stable any more, nor what
//! frees be done.
//!
//! Whoever destroys, sets limits or looks after devices is not asked: half of what the pool keeps back is for them.
//! (test: `a_pool_full_of_snapshots_can_be_emptied`)

use dsl::{DatasetName, DslError};
use units::ObjectId;

use crate::{Pool, PoolError};

/// Copies of all that is in the meta-objset.
pub(crate) const COPIES: u64 = 3;
/// What a dataset that comes takes at most, in bytes: its objset, its ZAPs, and what points to them, three times.
pub(crate) const DATASET_BYTES: u64 = 256 << 10;

impl Pool {
    /// Whether a change that makes the meta-objset grow by so much at most leaves what is kept for those who free.
    ///
    /// # Errors
    /// [`DslError::NoSpace`] of `name`.
    pub(crate) fn check_task_room(&self, name: &str, coming_bytes: u64) -> Result<(), DslError> {
        match self.space.has_task_room(coming_bytes) {
            true => Ok(()),
            false => Err(DslError::NoSpace { name: name.to_owned() }),
        }
    }

    /// What a snapshot of a head takes at most: the head gets a new list of what died, with a line for each snapshot that
    /// the old one has one for.
    ///
    /// # Errors
    /// Those of reading the meta-objset.
    pub(crate) async fn snapshot_bytes(&self, head: &DatasetName) -> Result<u64, PoolError> {
        let deadlist = ObjectId::new(self.dsl.dataset(head.dataset).await?.deadlist.get());
        let list = self.dsl.mos().hold(deadlist).await?;
        Ok(DATASET_BYTES.saturating_add(list.used_bytes()))
    }
}
