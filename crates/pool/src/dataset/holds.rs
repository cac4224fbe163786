//! Holds on snapshots.

use std::sync::Arc;

use crate::space::task_room::DATASET_BYTES;
use crate::{Pool, PoolError};

impl Pool {
    /// Holds snapshots under a tag, so that they cannot be destroyed: all of them or none.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`], [`dsl::DslError::TagExists`], [`dsl::DslError::BadName`] of the tag,
    /// [`dsl::DslError::NoSpace`].
    pub async fn hold(self: &Arc<Self>, tag: String, names: Vec<String>) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            let mut found = Vec::with_capacity(names.len());
            for name in &names {
                let snapshot = pool.dsl.resolve(name).await?;
                pool.dsl.check_hold(&snapshot, &tag).await?;
                pool.check_task_room(name, DATASET_BYTES)?;
                found.push(snapshot);
            }
            for snapshot in found {
                pool.dsl.hold(&tx, snapshot.dataset, &tag, pool.env.wall_clock()).await?;
                pool.note_event(&tx, "hold", Some(&snapshot), &format!("tag={tag} temp=0 refs=1")).await?;
            }
            Ok(())
        })
        .await
    }

    /// Takes holds of this tag away from snapshots: all of them or none. Those that were only waiting for that to be
    /// destroyed go.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`], [`dsl::DslError::NoSuchTag`]; [`PoolError::Busy`] when one that would go is read.
    pub async fn release(self: &Arc<Self>, tag: String, names: Vec<String>) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            let mut found = Vec::with_capacity(names.len());
            for name in &names {
                let snapshot = pool.dsl.resolve(name).await?;
                pool.dsl.check_release(&snapshot, &tag).await?;
                found.push((pool.keep_out_of_deferred(snapshot.dataset).await?, snapshot));
            }
            for (_nobody_opens_it, snapshot) in found {
                pool.note_event(&tx, "release", Some(&snapshot), &format!("tag={tag}")).await?;
                pool.dsl.release(&tx, snapshot.dataset, &tag, pool.env.wall_clock()).await?;
            }
            Ok(())
        })
        .await
    }

    /// Tags on a snapshot, by name, and when each was put there, in seconds since 1970.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; when it cannot be read.
    pub async fn holds(&self, snapshot: &str) -> Result<Vec<(String, u64)>, PoolError> {
        Ok(self.dsl.holds(self.dsl.resolve(snapshot).await?.dataset).await?)
    }
}
