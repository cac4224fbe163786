//! Permissions that are delegated, and taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dsl::Permissions;
use env::boxed;

use crate::space::task_room::DATASET_BYTES;
use crate::{Pool, PoolError};

impl Pool {
    /// Grants permissions on a file system or volume.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`], [`dsl::DslError::NoSpace`]; when it cannot be made stable.
    #[boxed]
    pub async fn allow(self: &Arc<Self>, name: String, granted: Permissions) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            let dataset = pool.dsl.resolve(&name).await?;
            pool.check_task_room(&name, DATASET_BYTES)?;
            pool.dsl.allow(&tx, dataset.dir, &granted).await?;
            for (key, names) in &granted {
                for permission in names {
                    let what = format!("{key} {permission}");
                    pool.note_event(&tx, "permission update", Some(&dataset), &what).await?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Takes permissions on a file system or volume back: those that are named of a key, or all of it.
    ///
    /// # Errors
    /// As [`Self::allow`].
    #[boxed]
    pub async fn unallow(
        self: &Arc<Self>,
        name: String,
        taken: BTreeMap<String, Option<BTreeSet<String>>>,
    ) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            let dataset = pool.dsl.resolve(&name).await?;
            pool.dsl.unallow(&tx, dataset.dir, &taken).await?;
            for (key, names) in &taken {
                match names {
                    None => pool.note_event(&tx, "permission who remove", Some(&dataset), key).await?,
                    Some(names) => {
                        for permission in names {
                            let what = format!("{key} {permission}");
                            pool.note_event(&tx, "permission remove", Some(&dataset), &what).await?;
                        }
                    }
                }
            }
            Ok(())
        })
        .await
    }
}
