//! Renaming datasets, and moving what is mounted with them.

use crate::names;
use crate::{Held, Holder, refusal};
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
        let below = self.dataset_names(&held, name).await?;
        self.refuse_receiving(&held, "rename", &below).await?;
        let mounted = if call.keep_mounted { Vec::new() } else { self.mounted_below(name) };
        if !mounted.is_empty() {
            self.mounts.unmount_below(name, call.force)?;
        }
        let renamed = held.pool.rename_dataset(name, new).await;
        let now = if renamed.is_ok() { new } else { name };
        let remounted = self.mount_again(&held, &mounted, name, now).await;
        renamed.map_err(|e| refusal::pool("rename", name, &e))?;
        tracing::info!(name, new, "renamed");
        remounted
    }

    fn mounted_below(&self, root: &str) -> Vec<String> {
        let all = self.mounts.list().into_iter().map(|mount| mount.dataset);
        all.filter(|dataset| names::is_within(dataset, root)).collect()
    }

    /// What was mounted is mounted again, where it is to be under its name of now.
    async fn mount_again(&self, held: &Held, were: &[String], old: &str, now: &str) -> Result<(), Failure> {
        for dataset in were {
            let dataset = format!("{now}{}", &dataset[old.len()..]);
            self.mount_along(held, &dataset).await?;
        }
        Ok(())
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
