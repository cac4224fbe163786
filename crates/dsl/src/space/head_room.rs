//! Room of a head that is asked for again and again: looked up once, then told without waiting.

use std::sync::Arc;

use env::boxed;
use units::ObjectId;

use crate::dataset::Dataset;
use crate::space::available::available;
use crate::{DatasetName, Dsl, DslError, PoolSpace};

/// A head, and the pool's root, whose room is the whole pool's. As of the newest change: of a txg
/// that is being synced, part may be counted already.
#[derive(Clone)]
pub struct HeadRoom {
    head: Arc<Dataset>,
    root: Arc<Dataset>,
}

impl Dsl {
    /// The room of a head.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn head_room(&self, dataset: &DatasetName) -> Result<HeadRoom, DslError> {
        let root = ObjectId::new(self.dir(self.root).await?.head_dataset.get());
        Ok(HeadRoom {
            head: self.loaded_dataset(dataset.dataset).await?,
            root: self.loaded_dataset(root).await?,
        })
    }
}

impl HeadRoom {
    /// As [`Dsl::available`].
    #[must_use]
    pub fn available(&self, pool: &PoolSpace) -> u64 {
        available(&self.head, pool)
    }

    /// What the pool has left, whatever quotas of the head or what lies between say.
    #[must_use]
    pub fn of_pool(&self, pool: &PoolSpace) -> u64 {
        available(&self.root, pool)
    }

    /// Bytes that it refers to.
    #[must_use]
    pub fn referenced_bytes(&self) -> u64 {
        self.head.phys().referenced_bytes.get()
    }
}
