//! In which order a scrub goes through datasets, so that shared blocks are read once.
//!
//! ```text
//!   $ORIGIN ◄─ s1 ◄─ s2 ◄─ head          s1: all blocks
//!                └◄─ c1 ◄─ clone         s2: those born after s1 … head: those born after s2
//! ```
//! A block belongs to the first dataset in its line that has it, and was born after that one's
//! predecessor. A dataset is ready when its predecessor is done; that is also what the format's
//! queue holds, as OpenZFS adds the successors of what it takes from there.

use std::collections::BTreeSet;
use std::sync::Arc;

use dmu::zap::Zap;
use ondisk::dsl::DslDatasetPhys;
use units::ObjectId;

use crate::{Pool, PoolError};

impl Pool {
    /// The datasets that begin a line of their own.
    pub(super) async fn first_datasets(&self) -> Result<BTreeSet<ObjectId>, PoolError> {
        let all = self.all_datasets().await?;
        Ok(all.iter().filter(|(_, phys)| !follows(phys, &all)).map(|(object, _)| *object).collect())
    }

    /// Datasets not visited whose predecessor is, or that have none.
    pub(super) async fn unvisited(
        &self,
        visited: &BTreeSet<ObjectId>,
    ) -> Result<BTreeSet<ObjectId>, PoolError> {
        let all = self.all_datasets().await?;
        let is_ready = |(object, phys): &&(ObjectId, DslDatasetPhys)| {
            let before = ObjectId::new(phys.prev_snapshot.get());
            !visited.contains(object) && (visited.contains(&before) || !follows(phys, &all))
        };
        Ok(all.iter().filter(is_ready).map(|(object, _)| *object).collect())
    }

    /// What comes directly after a dataset: the next snapshot or the head, and clones.
    pub(super) async fn successors(&self, phys: &DslDatasetPhys) -> Result<Vec<ObjectId>, PoolError> {
        let mut next = Vec::new();
        if phys.next_snapshot.get() != 0 {
            next.push(ObjectId::new(phys.next_snapshot.get()));
        }
        if phys.next_clones.get() != 0 {
            let clones = Zap::hold(&self.mos, ObjectId::new(phys.next_clones.get())).await?;
            next.extend(
                clones.all().await?.iter().filter_map(|entry| entry.value.as_u64()).map(ObjectId::new),
            );
        }
        Ok(next)
    }

    /// All that come before these datasets; nothing comes before one that has been destroyed.
    pub(super) async fn ancestors(&self, of: &BTreeSet<ObjectId>) -> BTreeSet<ObjectId> {
        let mut found = BTreeSet::new();
        for object in of {
            let mut at = *object;
            while let Ok(phys) = self.dsl.dataset(at).await
                && phys.prev_snapshot.get() != 0
                && found.insert(ObjectId::new(phys.prev_snapshot.get()))
            {
                at = ObjectId::new(phys.prev_snapshot.get());
            }
        }
        found
    }

    async fn all_datasets(&self) -> Result<Vec<(ObjectId, DslDatasetPhys)>, PoolError> {
        let mut all = Vec::new();
        let dsl = Arc::clone(&self.dsl);
        for head in dsl.list(&self.name()).await? {
            let snapshots = dsl.snapshots(&head).await?;
            for dataset in snapshots.iter().chain([&head]) {
                all.push((dataset.dataset, dsl.dataset(dataset.dataset).await?));
            }
        }
        Ok(all)
    }
}

/// Whether a dataset's predecessor is one that users see.
fn follows(phys: &DslDatasetPhys, all: &[(ObjectId, DslDatasetPhys)]) -> bool {
    all.iter().any(|(object, _)| object.get() == phys.prev_snapshot.get())
}
