//! What a new pool's meta-objset holds.

use std::sync::Arc;

use dmu::zap::Zap;
use dmu::{DnodeSpec, Objset, Tx};
use ondisk::ObjectType;
use ondisk::dsl::DslDatasetPhys;
use units::{ObjectId, SECTOR_BYTES};
use zerocopy::IntoBytes;

use crate::dataset::Birth;
use crate::dir::add_signed;
use crate::features::DIRECTORY;
use crate::{Dsl, DslError};

/// Version of a pool with feature flags.
const POOL_VERSION: u64 = 5000;
/// The group in which the origin snapshot is said to have been made: before every other.
const ORIGIN_TXG: u64 = 1;
const ORIGIN: &str = "$ORIGIN";

impl Dsl {
    /// Fills an empty meta-objset with what every pool has: the object directory, feature
    /// tables, the root directory with `$MOS`, `$FREE` and `$ORIGIN` below it, and the root
    /// dataset, which like every dataset starts as a clone of the empty `$ORIGIN@$ORIGIN`.
    /// `births` names the datasets to be made: `$ORIGIN`, its snapshot, the root.
    ///
    /// # Errors
    /// When there is no room.
    pub async fn format(mos: Arc<Objset>, tx: &Tx, births: [Birth; 3]) -> Result<Self, DslError> {
        let spec = DnodeSpec::new(ObjectType::OBJECT_DIRECTORY, SECTOR_BYTES as u32);
        let dnode = mos.allocate_at(tx, DIRECTORY, &spec).await?;
        let directory = Zap::format(dnode, tx, births[0].guid, 0, 0).await?;
        let mut dsl = Self { mos, directory, root_dir: ObjectId::new(0) };
        let now = births[2].now_secs;
        let root = dsl.create_dir(tx, None, "", now).await?;
        dsl.root_dir = root;
        dsl.directory.add_u64(tx, b"root_dataset", root.get()).await?;
        dsl.create_dir(tx, Some(root), "$MOS", now).await?;
        dsl.create_dir(tx, Some(root), "$FREE", now).await?;
        for name in ["free_bpobj", "sync_bplist"] {
            let list = dsl.create_bpobj(tx).await?;
            dsl.directory.add_u64(tx, name.as_bytes(), list.get()).await?;
        }
        dsl.format_features(tx).await?;
        dsl.directory.add_u64(tx, b"creation_version", POOL_VERSION).await?;
        dsl.directory.add_u64(tx, b"deflate", 1).await?;
        let origin = dsl.format_origin(tx, root, births[0], births[1]).await?;
        dsl.create_head(tx, root, Some(origin), births[2]).await?;
        Ok(dsl)
    }

    /// `$ORIGIN` and its snapshot, both empty.
    async fn format_origin(&self, tx: &Tx, root: ObjectId, head: Birth, snap: Birth) -> Result<ObjectId, DslError> {
        let dir = self.create_dir(tx, Some(root), ORIGIN, head.now_secs).await?;
        let dataset = self.create_head(tx, dir, None, head).await?;
        let mut phys = self.dataset(dataset).await?;
        let snapshot = self.snapshot_empty(tx, &phys, snap).await?;
        let names = ObjectId::new(phys.snapnames_zap_object.get());
        self.zap(names).await?.add_u64(tx, ORIGIN.as_bytes(), snapshot.get()).await?;
        phys.creation_txg = ORIGIN_TXG.into();
        phys.prev_snap_object = snapshot.get().into();
        phys.prev_snap_txg = ORIGIN_TXG.into();
        phys.deadlist_object = self.create_deadlist(tx, true).await?.get().into();
        self.mos.hold(dataset).await?.set_bonus(tx, ObjectType::DSL_DATASET, phys.as_bytes())?;
        self.update_dataset(tx, snapshot, |phys| phys.next_snap_object = dataset.get().into()).await?;
        Ok(snapshot)
    }

    /// The snapshot takes over the deadlist of its dataset, and is known to it as a child.
    async fn snapshot_empty(&self, tx: &Tx, of: &DslDatasetPhys, birth: Birth) -> Result<ObjectId, DslError> {
        let spec = DnodeSpec::new(ObjectType::DSL_DATASET, 0)
            .with_bonus(ObjectType::DSL_DATASET, size_of::<DslDatasetPhys>() as u16);
        let dnode = self.mos.allocate(tx, &spec).await?;
        let mut phys = *of;
        phys.snapnames_zap_object = 0.into();
        phys.creation_txg = ORIGIN_TXG.into();
        phys.guid = birth.guid.into();
        phys.fsid_guid = (birth.fsid >> 8).into();
        add_signed(&mut phys.num_children, 1);
        dnode.set_bonus(tx, ObjectType::DSL_DATASET, phys.as_bytes())?;
        Ok(dnode.object())
    }

    /// The snapshot that new datasets are clones of.
    pub(crate) async fn origin_snapshot(&self) -> Result<ObjectId, DslError> {
        let map = ObjectId::new(self.dir(self.root_dir).await?.child_dir_zap_object.get());
        let missing = || DslError::Damaged { object: map, what: "no $ORIGIN".into() };
        let dir = self.zap(map).await?.lookup_u64(ORIGIN.as_bytes()).await?.ok_or_else(missing)?;
        let head = ObjectId::new(self.dir(ObjectId::new(dir)).await?.head_dataset_object.get());
        let snapshot = self.dataset(head).await?.prev_snap_object.get();
        if snapshot == 0 { Err(missing()) } else { Ok(ObjectId::new(snapshot)) }
    }

    /// The directory that the meta-objset's own space is counted in.
    ///
    /// # Errors
    /// When the pool has none.
    pub async fn mos_dir(&self) -> Result<ObjectId, DslError> {
        let map = ObjectId::new(self.dir(self.root_dir).await?.child_dir_zap_object.get());
        let missing = || DslError::Damaged { object: map, what: "no $MOS".into() };
        let dir = self.zap(map).await?.lookup_u64(b"$MOS").await?.ok_or_else(missing)?;
        Ok(ObjectId::new(dir))
    }

    /// Counts a change of the meta-objset's own space.
    ///
    /// # Errors
    /// When its directory cannot be read.
    pub async fn add_mos_space(&self, tx: &Tx, delta: dmu::SpaceDelta) -> Result<(), DslError> {
        self.add_space(tx, self.mos_dir().await?, crate::dir::UsedBy::Head, delta).await
    }
}
