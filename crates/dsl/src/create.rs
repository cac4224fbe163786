//! Making dirs and datasets.

use std::sync::Arc;

use dmu::zap::{NORM_TOUPPER, Zap, ZapSpec, int_name};
use dmu::{DnodeSpec, Tx};
use env::boxed;
use ondisk::ObjectType;
use ondisk::dsl::{DSL_DATASET_BYTES, DSL_DIR_BYTES, DslDatasetPhys, DslDirPhys, dataset_flags, dir_flags};
use units::{ObjectId, TXG_INITIAL};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use crate::counts::Counted;
use crate::dataset::Dataset;
use crate::dir::Dir;
use crate::features::feature;
use crate::tree::named_objects;
use crate::{DatasetName, Dsl, DslError, check_dataset_name};

/// What a dataset gets from outside when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    /// A random number: its name for good.
    pub guid: u64,
    /// A random number, of which 56 bits are used: its name for NFS and the like.
    pub fsid: u64,
    /// Now, in seconds since 1970.
    pub now_secs: u64,
}

impl Birth {
    /// A dataset's numbers, as far as they follow from its birth.
    pub(crate) fn phys(&self, dir: ObjectId, tx: &Tx) -> DslDatasetPhys {
        // What the pool begins with is older than its first txg, so that all blocks are
        // younger than the origin snapshot.
        let txg = if tx.txg() == TXG_INITIAL { 1 } else { tx.txg().get() };
        DslDatasetPhys {
            dir: U64::new(dir.get()),
            creation_time: U64::new(self.now_secs),
            creation_txg: U64::new(txg),
            guid: U64::new(self.guid.max(1)),
            fsid_guid: U64::new((self.fsid >> 8).max(1)),
            flags: U64::new(dataset_flags::UNIQUE_ACCURATE),
            ..DslDatasetPhys::default()
        }
    }
}

impl Dsl {
    /// Makes a file system or volume without contents; its objset is the caller's business.
    ///
    /// # Errors
    /// [`DslError::BadName`], [`DslError::Exists`], [`DslError::NoSuchDataset`] of the parent,
    /// and those of changing the MOS.
    #[boxed]
    pub async fn create_dataset(&self, tx: &Tx, name: &str, birth: Birth) -> Result<DatasetName, DslError> {
        self.create_from(tx, name, &self.origin().await?, birth).await
    }

    /// Makes a file system or volume that begins with what a snapshot has, and shares that with it. Its objset still
    /// has the header of the snapshot's log, which the caller takes out.
    ///
    /// # Errors
    /// As [`Dsl::create_dataset`]; [`DslError::BadName`] when `origin` is no snapshot; [`DslError::TryAgain`] when it
    /// was made in this txg.
    #[boxed]
    pub async fn clone_snapshot(
        &self,
        tx: &Tx,
        origin: &DatasetName,
        name: &str,
        birth: Birth,
    ) -> Result<DatasetName, DslError> {
        if !origin.is_snapshot() {
            return Err(DslError::BadName { name: origin.name.clone(), why: "it is no snapshot" });
        }
        let of = self.loaded_dataset(origin.dataset).await?;
        if of.phys().creation_txg.get() >= tx.txg().get() {
            // Blocks born in this txg would be taken for the snapshot's.
            return Err(DslError::TryAgain { name: origin.name.clone() });
        }
        self.create_from(tx, name, &of, birth).await
    }

    /// Makes a dataset that begins with what a snapshot has.
    async fn create_from(
        &self,
        tx: &Tx,
        name: &str,
        origin: &Arc<Dataset>,
        birth: Birth,
    ) -> Result<DatasetName, DslError> {
        check_dataset_name(name)?;
        let exists = || DslError::Exists { name: name.to_owned() };
        let (parent, component) = name.rsplit_once('/').ok_or_else(exists)?;
        let parent = self.resolve(parent).await?;
        if self.child(parent.dir, component).await?.is_some() {
            return Err(exists());
        }
        let dir = self.create_dir(tx, Some(parent.dir), component, birth.now_secs).await?;
        self.count(tx, &self.loaded_dir(parent.dir).await?, Counted::Filesystems, 1).await?;
        let dataset = self.create_head(tx, dir, origin, birth).await?;
        self.count_from_birth(tx, dir).await?;
        Ok(DatasetName { name: name.to_owned(), dir, dataset })
    }

    /// Makes a dir, and its ZAPs; links it to its parent.
    pub(crate) async fn create_dir(
        &self,
        tx: &Tx,
        parent: Option<ObjectId>,
        component: &str,
        now_secs: u64,
    ) -> Result<ObjectId, DslError> {
        let spec =
            DnodeSpec::new(ObjectType::DSL_DIR, 0).with_bonus(ObjectType::DSL_DIR, DSL_DIR_BYTES as u16);
        let dnode = self.mos.allocate(tx, &spec).await?;
        if let Some(parent) = parent {
            let map = self.zap(self.dir(parent).await?.child_dirs.get()).await?;
            map.add_u64(tx, component.as_bytes(), dnode.object().get()).await?;
        }
        let props = self.create_zap(tx, ObjectType::DSL_PROPS).await?;
        let child_dirs = self.create_zap(tx, ObjectType::DSL_DIR_CHILD_MAP).await?;
        let phys = DslDirPhys {
            creation_time: U64::new(now_secs),
            parent: U64::new(parent.map_or(0, ObjectId::get)),
            child_dirs: U64::new(child_dirs.get()),
            props: U64::new(props.get()),
            flags: U64::new(dir_flags::USED_BREAKDOWN),
            ..DslDirPhys::default()
        };
        dnode.set_bonus(tx, ObjectType::DSL_DIR, phys.as_bytes())?;
        Ok(dnode.object())
    }

    /// Makes the object of a dataset.
    pub(crate) async fn create_dataset_object(
        &self,
        tx: &Tx,
        phys: &DslDatasetPhys,
    ) -> Result<ObjectId, DslError> {
        let spec = DnodeSpec::new(ObjectType::DSL_DATASET, 0)
            .with_bonus(ObjectType::DSL_DATASET, DSL_DATASET_BYTES as u16);
        let dnode = self.mos.allocate(tx, &spec).await?;
        dnode.set_bonus(tx, ObjectType::DSL_DATASET, phys.as_bytes())?;
        Ok(dnode.object())
    }

    /// A ZAP for the names of a head's snapshots. Names that differ in case only hash alike, so
    /// that lookups may ignore case.
    pub(crate) async fn create_snapshot_names(&self, tx: &Tx) -> Result<ObjectId, DslError> {
        let spec = ZapSpec { normflags: NORM_TOUPPER, ..ZapSpec::new(ObjectType::DSL_DS_SNAP_MAP) };
        Ok(Zap::create(&self.mos, tx, &spec).await?.object())
    }

    /// Makes the head of a dir that has none yet: a clone of the snapshot `origin`.
    pub(crate) async fn create_head(
        &self,
        tx: &Tx,
        dir: ObjectId,
        origin: &Arc<Dataset>,
        birth: Birth,
    ) -> Result<ObjectId, DslError> {
        let from = origin.phys();
        let inherited = dataset_flags::INCONSISTENT | dataset_flags::CI_DATASET;
        let head_of_origin = ObjectId::new(origin.dir().phys().head_dataset.get());
        let deadlist = ObjectId::new(self.dataset(head_of_origin).await?.deadlist.get());
        let mut phys = birth.phys(dir, tx);
        phys.prev_snapshot = U64::new(origin.object().get());
        phys.prev_snapshot_txg = from.creation_txg;
        phys.referenced_bytes = from.referenced_bytes;
        phys.compressed_bytes = from.compressed_bytes;
        phys.uncompressed_bytes = from.uncompressed_bytes;
        phys.bp = from.bp;
        phys.flags = U64::new(phys.flags.get() | from.flags.get() & inherited);
        phys.snapshot_names = U64::new(self.create_snapshot_names(tx).await?.get());
        phys.deadlist =
            U64::new(self.clone_deadlist(tx, deadlist, from.creation_txg.get()).await?.object().get());
        let object = self.create_dataset_object(tx, &phys).await?;
        let dir = self.loaded_dir(dir).await?;
        self.link_head(tx, &dir, origin, object).await?;
        self.inherit_features(tx, origin, object).await?;
        Ok(object)
    }

    /// Notes the new head in its dir, in the origin snapshot and in the origin's dir.
    async fn link_head(
        &self,
        tx: &Tx,
        dir: &Dir,
        origin: &Dataset,
        object: ObjectId,
    ) -> Result<(), DslError> {
        dir.change(tx, |phys| {
            phys.head_dataset = U64::new(object.get());
            phys.origin = U64::new(origin.object().get());
        })?;
        let next_clones = origin.phys().next_clones.get();
        let next_clones = self.add_to_clones(tx, next_clones, ObjectType::NEXT_CLONES, object).await?;
        origin.change(tx, |phys| {
            phys.children = U64::new(phys.children.get().saturating_add(1));
            phys.next_clones = U64::new(next_clones.get());
        })?;
        self.add_clone_to_dir(tx, origin.dir(), object).await
    }

    /// Notes in a dir that the head in another one is a clone of a snapshot in it.
    pub(crate) async fn add_clone_to_dir(&self, tx: &Tx, dir: &Dir, head: ObjectId) -> Result<(), DslError> {
        let clones = dir.phys().clones.get();
        let clones = self.add_to_clones(tx, clones, ObjectType::DSL_CLONES, head).await?;
        dir.change(tx, |phys| phys.clones = U64::new(clones.get()))
    }

    /// Adds to a list of clones, which is made when it is needed first (`list` is 0).
    pub(crate) async fn add_to_clones(
        &self,
        tx: &Tx,
        list: u64,
        object_type: ObjectType,
        object: ObjectId,
    ) -> Result<ObjectId, DslError> {
        let zap = match list {
            0 => Zap::create(&self.mos, tx, &ZapSpec::new(object_type)).await?,
            list => self.zap(list).await?,
        };
        zap.add_u64(tx, int_name(object.get()).as_bytes(), object.get()).await?;
        Ok(zap.object())
    }

    /// Takes one off a list of clones.
    pub(crate) async fn remove_from_clones(
        &self,
        tx: &Tx,
        list: u64,
        object: ObjectId,
    ) -> Result<(), DslError> {
        Ok(self.zap(list).await?.remove(tx, int_name(object.get()).as_bytes()).await?)
    }

    /// What is on a list of clones; 0: none.
    pub(crate) async fn clones_on(&self, list: u64) -> Result<Vec<ObjectId>, DslError> {
        match list {
            0 => Ok(Vec::new()),
            list => {
                Ok(named_objects(&self.zap(list).await?).await?.into_iter().map(|(_, clone)| clone).collect())
            }
        }
    }

    /// A clone or snapshot uses the features that the blocks of what it is made of use.
    pub(crate) async fn inherit_features(
        &self,
        tx: &Tx,
        origin: &Dataset,
        object: ObjectId,
    ) -> Result<(), DslError> {
        for name in self.dataset_fields(origin.dnode()).await? {
            if let Some(feature) = feature(&name).filter(|feature| feature.per_dataset) {
                self.take_over_feature(tx, origin, object, feature).await?;
            }
        }
        Ok(())
    }
}
