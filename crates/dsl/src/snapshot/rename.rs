//! Renaming snapshots: another name in their head's ZAP.

use std::time::Duration;

use dmu::Tx;
use env::boxed;

use crate::names::split;
use crate::{DatasetName, Dsl, DslError};

impl Dsl {
    /// Whether a snapshot can be given another name in the same dataset.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], [`DslError::BadName`], [`DslError::Exists`], [`DslError::NoRename`], and those of
    /// reading the MOS.
    #[boxed]
    pub async fn check_rename_snapshot(&self, name: &str, new_name: &str) -> Result<(), DslError> {
        let refuse = |why| DslError::NoRename { name: name.to_owned(), why };
        let (of, _) = split(name);
        let (new_of, new) = split(new_name);
        let new = new.ok_or(refuse("its new name is none of a snapshot"))?;
        if of != new_of {
            return Err(refuse("snapshots must be part of same dataset"));
        }
        self.resolve(name).await?;
        self.check_new_snapshot_name(&self.resolve(of).await?, new).await
    }

    /// Gives a snapshot another name, as [`Dsl::check_rename_snapshot`] approves of.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn rename_snapshot(
        &self,
        tx: &Tx,
        name: &str,
        new_name: &str,
        now: Duration,
    ) -> Result<DatasetName, DslError> {
        let snapshot = self.resolve(name).await?;
        let (of, old) = split(name);
        let (_, new) = split(new_name);
        let head = self.resolve(of).await?;
        let names = self.zap(self.dataset(head.dataset).await?.snapshot_names.get()).await?;
        names.remove(tx, old.unwrap_or_default().as_bytes()).await?;
        names.add_u64(tx, new.unwrap_or_default().as_bytes(), snapshot.dataset.get()).await?;
        let head = self.loaded_dataset(head.dataset).await?;
        self.note_snapshots_changed(tx, &head, now).await?;
        Ok(DatasetName { name: new_name.to_owned(), ..snapshot })
    }
}
