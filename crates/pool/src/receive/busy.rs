//! Datasets that are busy because a stream is being received into them.
//!
//! A receive lasts as long as its stream, and does not hold the pool's turn during that time.
//! Operations that would make the rest of the stream useless are refused: the dataset is not
//! destroyed, renamed, rolled back or promoted. The part of an interrupted stream that is kept
//! ([`ReceiveOrder::resumable`](super::ReceiveOrder)) prevents only snapshots, as long as no
//! receive continues it.

use std::sync::Arc;

use dsl::DatasetName;
use env::boxed;
use ondisk::dsl::dataset_flags;

use crate::{Pool, PoolError};

impl Pool {
    /// True if a stream is being received into a head, or into the hidden dataset below the head.
    async fn is_receiving(&self, head: &DatasetName) -> Result<bool, PoolError> {
        let into = [Some(head.clone()), self.dsl.receiving_below(head).await?];
        let datasets = self.datasets.read();
        let is_receiving =
            |into: DatasetName| datasets.get(&into.objset()).is_some_and(|open| open.is_receiving());
        Ok(into.into_iter().flatten().any(is_receiving))
    }

    /// # Errors
    /// [`PoolError::Busy`] while a stream is being received into the head; or when the meta-objset
    /// cannot be read.
    pub(crate) async fn check_not_receiving(&self, head: &DatasetName) -> Result<(), PoolError> {
        match self.is_receiving(head).await? {
            true => Err(PoolError::Busy { objset: head.objset() }),
            false => Ok(()),
        }
    }

    /// Returns a dataset and all datasets below it, parents first. Partially received datasets, and
    /// the datasets below them, are left out. `zfs snapshot -r` makes snapshots of the returned
    /// datasets.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; or when the meta-objset cannot be read.
    #[boxed]
    pub async fn whole_datasets(&self, root: &str) -> Result<Vec<String>, PoolError> {
        let _view = self.view().await;
        let (mut whole, mut left_out): (_, Vec<String>) = (Vec::new(), Vec::new());
        for dataset in self.dsl.list(root).await? {
            let is_part =
                self.dsl.dataset(dataset.dataset).await?.flags.get() & dataset_flags::INCONSISTENT != 0;
            let is_below =
                |part: &String| dataset.name.strip_prefix(part).is_some_and(|rest| rest.starts_with('/'));
            let list = if is_part || left_out.iter().any(is_below) { &mut left_out } else { &mut whole };
            list.push(dataset.name);
        }
        Ok(whole)
    }

    /// Returns the first of these heads into which a stream is being received.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; or when the meta-objset cannot be read.
    #[boxed]
    pub async fn find_receiving(&self, heads: &[String]) -> Result<Option<String>, PoolError> {
        for name in heads {
            let head = self.dsl.resolve(name).await?;
            if self.is_receiving(&head).await? {
                return Ok(Some(head.name));
            }
        }
        Ok(None)
    }

    /// Destroys the kept part of a stream in the hidden dataset below a head. That dataset is a
    /// clone of a snapshot of the head, and prevents the destruction of the snapshot.
    ///
    /// # Errors
    /// [`PoolError::Busy`] while a stream is being received into that dataset; or the errors of the
    /// destroy.
    #[boxed]
    pub async fn destroy_part_below(self: &Arc<Self>, head: &str) -> Result<(), PoolError> {
        let head = self.dsl.resolve(head).await?;
        match self.dsl.receiving_below(&head).await? {
            Some(part) => self.destroy_filesystem(&part.name).await,
            None => Ok(()),
        }
    }
}
