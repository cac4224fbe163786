//! Datasets that are busy because a stream is being received into them.
//!
//! A receive takes as long as its stream does, and nobody has the pool's turn meanwhile. What would make the rest of the
//! stream useless (the dataset destroyed, renamed, rolled back, or promoted) is refused. A part of a stream that is kept
//! ([`ReceiveOrder::resumable`](super::ReceiveOrder)), and into which nothing is being received, keeps nobody from
//! anything but a snapshot.

use std::sync::Arc;

use dsl::DatasetName;
use ondisk::dsl::dataset_flags;

use crate::{Pool, PoolError};

impl Pool {
    /// Whether a stream is being received into a head, or into the hidden dataset below the head.
    async fn is_receiving(&self, head: &DatasetName) -> Result<bool, PoolError> {
        let into = [Some(head.clone()), self.dsl.receiving_below(head).await?];
        let datasets = self.datasets.read();
        let is_receiving =
            |into: DatasetName| datasets.get(&into.objset()).is_some_and(|open| open.is_receiving());
        Ok(into.into_iter().flatten().any(is_receiving))
    }

    /// # Errors
    /// [`PoolError::Busy`] while a stream is being received into a head; those of reading the meta-objset.
    pub(crate) async fn check_not_receiving(&self, head: &DatasetName) -> Result<(), PoolError> {
        match self.is_receiving(head).await? {
            true => Err(PoolError::Busy { objset: head.objset() }),
            false => Ok(()),
        }
    }

    /// A dataset and all below it, parents first, but what was received in part only, and what is below that: these are what
    /// `zfs snapshot -r` makes snapshots of.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; those of reading the meta-objset.
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

    /// The first of these heads into which a stream is being received.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; those of reading the meta-objset.
    pub async fn find_receiving(&self, heads: &[String]) -> Result<Option<String>, PoolError> {
        for name in heads {
            let head = self.dsl.resolve(name).await?;
            if self.is_receiving(&head).await? {
                return Ok(Some(head.name));
            }
        }
        Ok(None)
    }

    /// Destroys what is kept of a stream in a hidden dataset below a head: a clone of one of the head's snapshots, and so in
    /// the way of who wants to destroy these.
    ///
    /// # Errors
    /// [`PoolError::Busy`] while it is being received into; those of destroying.
    pub async fn destroy_part_below(self: &Arc<Self>, head: &str) -> Result<(), PoolError> {
        let head = self.dsl.resolve(head).await?;
        match self.dsl.receiving_below(&head).await? {
            Some(part) => self.destroy_filesystem(&part.name).await,
            None => Ok(()),
        }
    }
}
