//! Renaming datasets, and moving what is mounted with them.

use crate::front::UnmountReach;
use crate::taken::{MountPlaces, TakenMount};
use crate::{Held, Holder, names, refusal};
use control::{DatasetRename, Failure, FailureKind};

impl Holder {
    pub(super) async fn rename_dataset(&self, call: DatasetRename) -> Result<(), Failure> {
        if call.name.contains('@') {
            return self.rename_snapshots(&call).await;
        }
        let (name, new) = (call.name.as_str(), call.new_name.as_str());
        let held = self.pool_of(name)?;
        check(&call)?;
        let parent = names::parent_of(new).unwrap_or(new);
        if held.pool.dsl().resolve(parent).await.is_err() {
            if !call.parents {
                let reason = "parent does not exist";
                return Err(Failure::cannot(FailureKind::NoSuchDataset, "create", new, reason));
            }
            self.create_parents(&held, parent, None).await?;
        }
        self.check_parent(&held, "create", new).await?;
        self.check_place_of_renamed(&held, call.maker.as_ref(), name, new).await?;
        let below = self.dataset_names(&held, name).await?;
        self.refuse_receiving(&held, "rename", &below).await?;
        let taken = match call.keep_mounted {
            true => Vec::new(),
            false => self.take(&self.named_below(name), UnmountReach::for_change(call.force)).await?,
        };
        if let Err(error) = held.pool.rename_dataset(name, new).await {
            return Err(self.put_back_after(&taken, refusal::pool("rename", name, &error)).await);
        }
        self.mounts.rename_below(name, new);
        let now: Vec<TakenMount> = taken.iter().map(|one| one.renamed(name, new)).collect();
        if let Err(failure) = self.mount_taken(&held, &now, MountPlaces::Present).await {
            return Err(self.rename_back(&held, &call, &taken, failure).await);
        }
        tracing::info!(name, new, "renamed");
        Ok(())
    }

    /// After a rename whose mounts failed: restores the old name and the old mounts.
    async fn rename_back(
        &self,
        held: &Held,
        call: &DatasetRename,
        taken: &[TakenMount],
        failure: Failure,
    ) -> Failure {
        let (name, new) = (call.name.as_str(), call.new_name.as_str());
        if let Err(error) = held.pool.rename_dataset(new, name).await {
            let stays = refusal::pool("rename", new, &error);
            return stays.stderr.into_iter().fold(failure, Failure::and);
        }
        self.mounts.rename_below(new, name);
        self.put_back_after(taken, failure).await
    }
}

/// What needs no look at the pool.
fn check(call: &DatasetRename) -> Result<(), Failure> {
    let (name, new) = (call.name.as_str(), call.new_name.as_str());
    let to = |reason: &str| Err(Failure::cannot(FailureKind::Invalid, "rename to", new, reason));
    if let Err(error) = names::check_dataset(new) {
        return to(&error.to_string());
    }
    if call.recursive {
        return to("recursive rename must be a snapshot");
    }
    if names::pool_of(name) != names::pool_of(new) || !new.contains('/') || !name.contains('/') {
        return to("datasets must be within same pool");
    }
    if name != new && names::is_within(new, name) {
        return to("New dataset name cannot be a descendant of current dataset name");
    }
    Ok(())
}
