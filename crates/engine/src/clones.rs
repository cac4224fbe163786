//! Clones: datasets that begin as a snapshot is.

use crate::create::dataset_props;
use crate::lineage::Lineage;
use crate::props::Occasion;
use crate::{Holder, names, refusal, volumes};
use control::{DatasetClone, DatasetKind, DatasetPromote, Failure, FailureKind};

impl Holder {
    pub(super) async fn clone_dataset(&self, call: DatasetClone) -> Result<(), Failure> {
        let name = call.name.as_str();
        let cannot = |reason: &str| Failure::cannot(FailureKind::Invalid, "create", name, reason);
        let held = self.pool_for_new(name)?;
        if names::pool_of(&call.snapshot) != names::pool_of(name) {
            return Err(cannot("source and target pools differ"));
        }
        self.dataset(&held, &call.snapshot).await?;
        let kind = self.nature_of(&held, names::head_of(&call.snapshot)).await.kind;
        // What can be settled only once was settled in the snapshot.
        let mut props = dataset_props(&call.props, kind, Occasion::Later, &cannot)?;
        self.settle_auto(&held, &call.snapshot, &mut props).await?;
        volumes::check_copied(&props).map_err(|reason| cannot(&reason))?;
        if call.maker.is_some() && kind == DatasetKind::Filesystem {
            self.distrust_files(&held, name, &mut props).await?;
        }
        let maker = call.maker.as_ref();
        self.check_place_of_new(&held, maker, (name, call.parents), kind, &props).await?;
        if !self.make_way(&held, name, call.parents, maker).await? {
            return Ok(());
        }
        let maker = maker.map_or(self.host().uid, |maker| maker.uid);
        let made = held.pool.clone_snapshot_by(call.snapshot, name.to_owned(), props, maker).await;
        made.map_err(|e| refusal::pool("create", name, &e))?;
        self.mount_new(&held, name, call.maker.is_some()).await
    }

    pub(super) async fn promote(&self, call: DatasetPromote) -> Result<(), Failure> {
        let held = self.pool_of(&call.name)?;
        check_promotion(&self.lineage(&held).await?, &call.name)?;
        let promoted = held.pool.promote(call.name.clone()).await;
        promoted.map_err(|e| refusal::pool("promote", &call.name, &e))
    }
}

/// Whether a dataset can change places with its origin's.
///
/// # Errors
/// When it is not there or no clone, or has a snapshot of a name that it would take over.
pub fn check_promotion(lineage: &Lineage, name: &str) -> Result<(), Failure> {
    if !lineage.has(name) {
        return Err(Failure::no_such_dataset(name));
    }
    let refuse = |kind, reason: &str| Err(Failure::cannot(kind, "promote", name, reason));
    let Some(origin) = lineage.origin_of(name) else {
        return refuse(FailureKind::Invalid, "not a cloned filesystem");
    };
    match lineage.promotion_conflict(name) {
        Some(last) => {
            let reason = format!("conflicting snapshot '{last}' from parent '{}'", origin.name);
            refuse(FailureKind::Exists, &reason)
        }
        None => Ok(()),
    }
}
