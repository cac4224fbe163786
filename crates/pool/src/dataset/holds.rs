//! Holds on snapshots.

use std::sync::Arc;

use dsl::TemporaryHold;
use env::boxed;

use crate::space::task_room::DATASET_BYTES;
use crate::{Pool, PoolError};

impl Pool {
    /// Holds snapshots under a tag, so that they cannot be destroyed: all of them or none.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`], [`dsl::DslError::TagExists`], [`dsl::DslError::BadName`] of the tag,
    /// [`dsl::DslError::NoSpace`].
    #[boxed]
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
    #[boxed]
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

    /// Releases the temporary holds that a crash left, and destroys the snapshots that only these holds
    /// kept. A hold that cannot be released stays, and the import continues.
    pub(crate) async fn release_temporary_holds(self: &Arc<Self>) -> Result<(), PoolError> {
        let holds = match self.dsl.temporary_holds().await {
            Ok(holds) => holds,
            Err(error) => {
                tracing::warn!(%error, "the list of temporary holds cannot be read: the holds stay");
                return Ok(());
            }
        };
        for hold in holds {
            let snapshot = hold.snapshot.get();
            match self.release_temporary_hold(hold).await {
                Ok(()) => tracing::info!(snapshot, "a temporary hold is released"),
                Err(error) => tracing::warn!(snapshot, %error, "a temporary hold stays"),
            }
        }
        Ok(())
    }

    async fn release_temporary_hold(self: &Arc<Self>, hold: TemporaryHold) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            let tags = pool.dsl.holds(hold.snapshot).await?;
            if !tags.iter().any(|(tag, _)| *tag == hold.tag) {
                return Ok(pool.dsl.forget_temporary_hold(&tx, &hold).await?);
            }
            let _nobody_opens_it = pool.keep_out_of_deferred(hold.snapshot).await?;
            pool.note_event(&tx, "release", None, &format!("tag={}", hold.tag)).await?;
            Ok(pool.dsl.release(&tx, hold.snapshot, &hold.tag, pool.env.wall_clock()).await?)
        })
        .await
    }

    /// Tags on a snapshot, by name, and when each was put there, in seconds since 1970.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; when it cannot be read.
    #[boxed]
    pub async fn holds(&self, snapshot: &str) -> Result<Vec<(String, u64)>, PoolError> {
        Ok(self.dsl.holds(self.dsl.resolve(snapshot).await?.dataset).await?)
    }
}
