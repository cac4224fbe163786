//! Destroying datasets.

use std::sync::Arc;
use std::time::Duration;

use dmu::{SpaceDelta, Tx};
use env::boxed;
use ondisk::ObjectType;
use ondisk::dsl::used;
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::counts::Counted;
use crate::dataset::Dataset;
use crate::features::EXTENSIBLE_DATASET;
use crate::space::signed;
use crate::tree::named_objects;
use crate::{DatasetName, Dsl, DslError};

impl Dsl {
    /// Says whether a dataset can be destroyed: a head that has neither children nor snapshots,
    /// and is not the root.
    ///
    /// # Errors
    /// [`DslError::HasChildren`], [`DslError::HasSnapshots`], [`DslError::InUse`], and those of
    /// reading the MOS.
    #[boxed]
    pub async fn check_removable(&self, name: &DatasetName) -> Result<(), DslError> {
        self.check_removable_but_for(name, None).await
    }

    /// The same where one child, if there is one, is to go first.
    ///
    /// # Errors
    /// As [`Dsl::check_removable`].
    #[boxed]
    pub async fn check_removable_but_for(
        &self,
        name: &DatasetName,
        child: Option<&DatasetName>,
    ) -> Result<(), DslError> {
        let in_use = |why| Err(DslError::InUse { name: name.name.clone(), why });
        let dataset = self.dataset(name.dataset).await?;
        if dataset.is_snapshot() {
            return in_use("it is a snapshot");
        }
        if name.dir == self.root {
            return in_use("it is the pool's root");
        }
        let stays = |dir: ObjectId| child.is_none_or(|child| child.dir != dir);
        if self.child_dirs(name.dir).await?.into_iter().any(|(_, dir)| stays(dir)) {
            return Err(DslError::HasChildren { name: name.name.clone() });
        }
        if !self.snapshots(name).await?.is_empty() {
            return Err(DslError::HasSnapshots { name: name.name.clone() });
        }
        Ok(())
    }

    /// Destroys a dataset that [`Dsl::check_removable`] approves of. Its blocks are freed later
    /// ([`Dsl::take_from_deleted_clones`], [`Dsl::next_destroyed`]); where the pool cannot put that off ([`Dsl::frees_later`]) they are the
    /// caller's to free, in the same txg. A snapshot that it was a clone of and that only waited for that goes with it.
    /// `now` is the time since 1970.
    ///
    /// # Errors
    /// As [`Dsl::check_removable`], and those of changing the MOS.
    #[boxed]
    pub async fn remove_dataset(&self, tx: &Tx, name: &DatasetName, now: Duration) -> Result<(), DslError> {
        self.check_removable(name).await?;
        let dataset = self.loaded_dataset(name.dataset).await?;
        dataset.set_refreservation(tx, 0)?;
        dataset.dir().set_reservation(tx, 0)?;
        let frees_later = self.frees_later().await?;
        let is_listed = frees_later && self.delete_by_livelist(tx, &dataset).await?;
        if frees_later && !is_listed && !dataset.phys().bp.is_hole() {
            let (phys, dir) = (dataset.phys(), dataset.dir().phys());
            let space = SpaceDelta {
                used: signed(dir.used_bytes),
                compressed: signed(dir.compressed_bytes),
                uncompressed: signed(dir.uncompressed_bytes),
            };
            self.add_destroyed(tx, phys.bp, phys.prev_snapshot_txg.get(), space).await?;
        }
        self.destroy_all_bookmarks(tx, &dataset).await?;
        self.drop_livelist(tx, dataset.dir()).await?;
        self.drop_remapped(tx, &dataset).await?;
        self.deactivate_features(tx, dataset.dnode()).await?;
        let origin = self.unlink_head(tx, &dataset).await?;
        // What a clone has let go of its origin's is the origin's still.
        self.discard_deadlist(tx, ObjectId::new(dataset.phys().deadlist.get())).await?;
        give_space_back(tx, &dataset)?;
        self.free_objects(tx, name, &dataset).await?;
        self.forget(name.dir, name.dataset);
        self.destroy_if_deferred(tx, &origin, now).await
    }

    /// Takes a head off the lists of clones of the snapshot that it began from; gives that.
    async fn unlink_head(&self, tx: &Tx, dataset: &Dataset) -> Result<Arc<Dataset>, DslError> {
        let origin = self.before(dataset).await?;
        let origin = origin.ok_or(DslError::damaged(dataset.object(), "dataset without an origin"))?;
        for list in [origin.phys().next_clones.get(), origin.dir().phys().clones.get()] {
            self.remove_from_clones(tx, list, dataset.object()).await?;
        }
        origin.change(tx, |phys| phys.children = U64::new(phys.children.get().saturating_sub(1)))?;
        Ok(origin)
    }

    /// Frees the objects of dataset and dir, and the dir's name.
    async fn free_objects(&self, tx: &Tx, name: &DatasetName, dataset: &Dataset) -> Result<(), DslError> {
        let dir = dataset.dir();
        let (dir_phys, phys) = (dir.phys(), dataset.phys());
        let component = name.name.rsplit('/').next().unwrap_or_default();
        let names = self.dir(ObjectId::new(dir_phys.parent.get())).await?.child_dirs.get();
        self.zap(names).await?.remove(tx, component.as_bytes()).await?;
        if let Some(parent) = dir.parent() {
            self.count(tx, &parent, Counted::Filesystems, -1).await?;
        }
        if dir.dnode().object_type() == ObjectType::OTN_ZAP_METADATA {
            self.count_feature(tx, &EXTENSIBLE_DATASET, -1).await?;
        }
        self.free_permissions(tx, dir_phys.permissions.get()).await?;
        let objects = [
            phys.snapshot_names.get(),
            phys.props.get(),
            phys.user_refs.get(),
            dataset.object().get(),
            dir_phys.child_dirs.get(),
            dir_phys.props.get(),
            dir_phys.clones.get(),
            dir.object().get(),
        ];
        for object in objects.into_iter().filter(|&object| object != 0) {
            self.mos.free_object(tx, ObjectId::new(object)).await?;
        }
        Ok(())
    }

    /// Frees delegated permissions: a ZAP of ZAPs.
    async fn free_permissions(&self, tx: &Tx, permissions: u64) -> Result<(), DslError> {
        if permissions == 0 {
            return Ok(());
        }
        let permissions = self.zap(permissions).await?;
        for (_, object) in named_objects(&permissions).await? {
            self.mos.free_object(tx, object).await?;
        }
        Ok(self.mos.free_object(tx, permissions.object()).await?)
    }
}

/// A dataset and its dir use nothing any more.
fn give_space_back(tx: &Tx, dataset: &Dataset) -> Result<(), DslError> {
    let dir = dataset.dir().phys();
    let all = |counter: U64| signed(counter).wrapping_neg();
    let delta = SpaceDelta {
        used: all(dir.used_bytes),
        compressed: all(dir.compressed_bytes),
        uncompressed: all(dir.uncompressed_bytes),
    };
    dataset.dir().use_space(tx, used::HEAD, delta)
}
