//! What labels and the meta-objset say of the pool as a whole.

use std::collections::BTreeSet;

use dmu::zap::{Zap, ZapSpec, ZapValue, int_name};
use ondisk::{NvList, ObjectType};
use units::{Guid, ObjectId, Txg};
use vdev::{Bias, Leaf, NodeKind, PoolConfig, PoolState, SplitNote, Top, VdevTree};

use dmu::{Dnode, DnodeSpec, Tx};
use dsl::Dsl;
use dsl::features::{ALLOCATION_CLASSES, DRAID, EMBEDDED_DATA, HOLE_BIRTH, LZ4_COMPRESS, VDEV_ZAPS_V2};
use ondisk::mos::vdev_zap::ALLOCATION_BIAS;
use zio::PointerForms;

use crate::{Pool, PoolError};

/// Version of a pool with feature flags.
pub(crate) const POOL_VERSION: u64 = 5000;
/// Data block of the object that holds the configuration.
pub(crate) const CONFIG_BLOCK_BYTES: u32 = 16 << 10;

/// Who runs this program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// `gethostid(2)`; 0 when it has none.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The user as whom it runs.
    pub uid: u32,
    /// That user's group.
    pub gid: u32,
}

/// The owner of the root directory of a new file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootOwner {
    /// User, who also gets what makers of datasets are granted.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl From<&Host> for RootOwner {
    fn from(host: &Host) -> Self {
        Self { uid: host.uid, gid: host.gid }
    }
}

impl Pool {
    /// The whole configuration, as cache files of OpenZFS have it.
    #[must_use]
    pub fn configuration(&self) -> NvList {
        self.config.lock().at(self.gate.synced_txg()).mos(&self.vdevs)
    }
}

/// The configuration of an open pool; everything but its vdevs.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// What labels and the meta-objset say.
    pool: PoolConfig,
    /// The name of the pool here, where labels keep another name.
    temporary_name: Option<String>,
}

impl Config {
    /// That of a pool made, or imported, under this name on this host.
    pub fn new(name: &str, host: &Host) -> Self {
        Self {
            pool: PoolConfig {
                version: POOL_VERSION,
                name: name.into(),
                state: PoolState::Active,
                txg: Txg::ZERO,
                errata: 0,
                comment: None,
                compatibility: None,
                hostid: host.id,
                hostname: host.name.clone(),
                features_for_read: NvList::new(),
                split: None,
            },
            temporary_name: None,
        }
    }

    /// The pool has this name as long as it is open; labels keep theirs.
    #[must_use]
    pub fn called(mut self, name: &str) -> Self {
        self.temporary_name = Some(name.to_owned()).filter(|name| *name != self.pool.name);
        self
    }

    /// Keeps what an imported pool says of itself that is not this host's to say.
    pub fn adopt(&mut self, found: &PoolConfig) {
        self.pool.version = found.version;
        self.pool.errata = found.errata;
        self.pool.comment.clone_from(&found.comment);
        self.pool.compatibility.clone_from(&found.compatibility);
        self.pool.features_for_read = found.features_for_read.clone();
        // That it was split off another pool is said until it is imported.
        self.pool.split = found.split.clone().filter(|split| matches!(split, SplitNote::Leaving(_)));
    }

    /// Notes the features without which not even the meta-objset can be read.
    pub fn set_features(&mut self, features: &[&str]) {
        self.pool.features_for_read = NvList::new();
        for feature in features {
            self.pool.features_for_read.add_flag(feature);
        }
    }

    /// The pool's version: 5000, or what an old pool was made with.
    pub fn version(&self) -> u64 {
        self.pool.version
    }

    /// The name of the pool here.
    pub fn name(&self) -> &str {
        self.temporary_name.as_deref().unwrap_or(&self.pool.name)
    }

    /// True if labels keep another name.
    pub fn has_temporary_name(&self) -> bool {
        self.temporary_name.is_some()
    }

    pub fn comment(&self) -> Option<&str> {
        self.pool.comment.as_deref()
    }

    pub fn set_comment(&mut self, comment: Option<String>) {
        self.pool.comment = comment;
    }

    pub fn compatibility(&self) -> Option<&str> {
        self.pool.compatibility.as_deref()
    }

    pub fn set_compatibility(&mut self, files: Option<String>) {
        self.pool.compatibility = files;
    }

    pub fn split(&self) -> Option<SplitNote> {
        self.pool.split.clone()
    }

    pub fn set_split(&mut self, split: Option<SplitNote>) {
        self.pool.split = split;
    }

    pub fn set_state(&mut self, state: PoolState) {
        self.pool.state = state;
    }

    /// As written in `txg`.
    pub fn at(&self, txg: Txg) -> PoolConfig {
        PoolConfig { txg, ..self.pool.clone() }
    }
}

/// Stores the configuration in the meta-objset, in the object that the directory calls `config`.
pub(crate) async fn store(dsl: &Dsl, tx: &Tx, config: &Config, vdevs: &VdevTree) -> Result<(), PoolError> {
    let packed = config.at(tx.txg()).mos(vdevs);
    let known = dsl.directory().lookup_u64(b"config").await?;
    let dnode = match known {
        Some(object) => dsl.mos().hold(ObjectId::new(object)).await?,
        None => {
            let spec = DnodeSpec::new(ObjectType::PACKED_NVLIST, CONFIG_BLOCK_BYTES)
                .with_bonus(ObjectType::PACKED_NVLIST_SIZE, 8);
            let dnode = dsl.mos().allocate(tx, &spec).await?;
            dsl.directory().add_u64(tx, b"config", dnode.object().get()).await?;
            dnode
        }
    };
    store_packed(&dnode, tx, &packed).await
}

/// Writes a packed list to its object.
pub(crate) async fn store_packed(dnode: &Dnode, tx: &Tx, list: &NvList) -> Result<(), PoolError> {
    let packed = list.encode();
    dnode.write(tx, 0, &packed).await?;
    Ok(dnode.set_bonus(tx, ObjectType::PACKED_NVLIST_SIZE, &(packed.len() as u64).to_le_bytes())?)
}

/// Reads the configuration back.
pub(crate) async fn load(dsl: &Dsl) -> Result<NvList, PoolError> {
    load_packed(dsl, dsl.directory_object("config").await?).await
}

/// Reads a packed list from its object.
pub(crate) async fn load_packed(dsl: &Dsl, object: ObjectId) -> Result<NvList, PoolError> {
    let damaged = |what: &str| PoolError::Damaged { object, what: what.into() };
    let dnode = dsl.mos().hold(object).await?;
    let bonus = dnode.bonus();
    let size = bonus.get(..8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    let size = size.ok_or_else(|| damaged("size of a packed list"))?;
    let packed = dnode.read_first(size).await?;
    NvList::decode(&packed).map_err(|e| damaged(&e.to_string()))
}

/// What block pointers may be in a pool with these features.
pub(crate) async fn pointer_forms(dsl: &Dsl) -> Result<PointerForms, PoolError> {
    let enabled = async |feature| Ok::<_, PoolError>(dsl.feature_count(feature).await?.is_some());
    Ok(PointerForms {
        embedded: enabled(&EMBEDDED_DATA).await?,
        hole_births: enabled(&HOLE_BIRTH).await?,
        no_lz4: !enabled(&LZ4_COMPRESS).await?,
    })
}

/// Gives the pool's vdevs, and with the feature `vdev_zaps_v2` their root, objects for properties of their own, and lists these objects, as
/// OpenZFS does (`vdev_zap_map`); vdevs that have theirs already keep them.
pub(crate) async fn make_vdev_zaps(dsl: &Dsl, tx: &Tx, vdevs: &VdevTree) -> Result<(), PoolError> {
    if !dsl.has_features().await? {
        return Ok(());
    }
    let map = match dsl.directory().lookup_u64(VDEV_ZAP_MAP).await? {
        Some(object) => ObjectId::new(object),
        None => {
            let map = new_zap(dsl, tx).await?.object();
            dsl.directory().add_u64(tx, VDEV_ZAP_MAP, map.get()).await?;
            map
        }
    };
    let map = Zap::hold(dsl.mos(), map).await?;
    if vdevs.root().root_zap == 0
        && let Some(count) = dsl.feature_count(&VDEV_ZAPS_V2).await?
    {
        let zap = make_vdev_zap(dsl, tx, &map).await?;
        vdevs.set_root(|root| root.root_zap = zap.get());
        if count == 0 {
            dsl.count_feature(tx, &VDEV_ZAPS_V2, 1).await?;
        }
    }
    for top in vdevs.tops() {
        if top.config().top_zap == 0 {
            let zap = make_vdev_zap(dsl, tx, &map).await?;
            top.set_config(|config| config.top_zap = zap.get());
        }
        for leaf in top.leaves() {
            if leaf.config().leaf_zap == 0 {
                let zap = make_vdev_zap(dsl, tx, &map).await?;
                leaf.set_config(|config| config.leaf_zap = zap.get());
            }
        }
    }
    Ok(())
}

/// Takes away the object for the properties of a leaf that leaves the pool.
pub(crate) async fn forget_leaf_zap(dsl: &Dsl, tx: &Tx, leaf: &Leaf) -> Result<(), PoolError> {
    forget_vdev_zap(dsl, tx, leaf.config().leaf_zap).await?;
    leaf.set_config(|config| config.leaf_zap = 0);
    Ok(())
}

/// Takes away the object for the properties of a vdev; of 0 there is none.
pub(crate) async fn forget_vdev_zap(dsl: &Dsl, tx: &Tx, object: u64) -> Result<(), PoolError> {
    if object == 0 {
        return Ok(());
    }
    if let Some(map) = dsl.directory().lookup_u64(VDEV_ZAP_MAP).await? {
        let map = Zap::hold(dsl.mos(), ObjectId::new(map)).await?;
        map.remove(tx, int_name(object).as_bytes()).await?;
    }
    Ok(dsl.mos().free_object(tx, ObjectId::new(object)).await?)
}

/// Takes away the objects for the properties of vdevs that the pool does not have.
pub(crate) async fn forget_other_zaps(dsl: &Dsl, tx: &Tx, vdevs: &VdevTree) -> Result<(), PoolError> {
    let Some(map) = dsl.directory().lookup_u64(VDEV_ZAP_MAP).await? else { return Ok(()) };
    let mut own = BTreeSet::from([vdevs.root().root_zap]);
    own.extend(vdevs.tops().iter().map(|top| top.config().top_zap));
    own.extend(vdevs.leaves().iter().map(|leaf| leaf.config().leaf_zap));
    let listed = Zap::hold(dsl.mos(), ObjectId::new(map)).await?.all().await?;
    for zap in listed.iter().filter_map(|entry| entry.value.as_u64()).filter(|zap| !own.contains(zap)) {
        forget_vdev_zap(dsl, tx, zap).await?;
    }
    Ok(())
}

/// Notes that the pool has such a vdev, and in its ZAP what it is for.
pub(crate) async fn note_kind(dsl: &Dsl, tx: &Tx, top: &Top) -> Result<(), PoolError> {
    if let NodeKind::Draid(_) = top.kind() {
        dsl.count_feature(tx, &DRAID, 1).await?;
    }
    let bias = top.config().bias;
    let Some(name) = bias.name() else { return Ok(()) };
    let zap = Zap::hold(dsl.mos(), ObjectId::new(top.config().top_zap)).await?;
    zap.add(tx, ALLOCATION_BIAS.as_bytes(), &ZapValue::text(name)).await?;
    if bias != Bias::Log {
        dsl.count_feature(tx, &ALLOCATION_CLASSES, 1).await?;
    }
    Ok(())
}

/// Finds in each vdev's ZAP what it is for.
pub(crate) async fn load_biases(dsl: &Dsl, vdevs: &VdevTree) -> Result<(), PoolError> {
    for top in vdevs.tops().iter().filter(|top| top.config().top_zap != 0) {
        let object = ObjectId::new(top.config().top_zap);
        let stored = Zap::hold(dsl.mos(), object).await?.lookup(ALLOCATION_BIAS.as_bytes()).await?;
        let Some(name) = stored else { continue };
        let bias = name.as_text().and_then(Bias::from_name);
        let what = || "what the vdev is for".to_owned();
        let bias = bias.ok_or_else(|| PoolError::Damaged { object, what: what() })?;
        if bias != top.config().bias {
            top.set_config(|config| config.bias = bias);
        }
    }
    Ok(())
}

async fn make_vdev_zap(dsl: &Dsl, tx: &Tx, map: &Zap) -> Result<ObjectId, PoolError> {
    let zap = new_zap(dsl, tx).await?.object();
    map.add_u64(tx, int_name(zap.get()).as_bytes(), zap.get()).await?;
    Ok(zap)
}

async fn new_zap(dsl: &Dsl, tx: &Tx) -> Result<Zap, PoolError> {
    Ok(Zap::create(dsl.mos(), tx, &ZapSpec::new(ObjectType::OTN_ZAP_METADATA)).await?)
}

const VDEV_ZAP_MAP: &[u8] = b"com.delphix:vdev_zap_map";

/// A pool's guid, as its root vdev's.
pub(crate) fn pool_guid(vdevs: &VdevTree) -> Guid {
    vdevs.root().guid
}
