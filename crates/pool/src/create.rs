//! Making a pool.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dmu::{Objset, ObjsetContext, ObjsetProps, Tx, TxgGate};
use dsl::features::{ALLOCATION_CLASSES, DRAID};
use dsl::{Birth, DatasetName, Dsl, Feature, PropValue};
use env::{Env, OpenMode, boxed};
use ondisk::objset::ObjsetType;
use units::{ObjsetId, TXG_INITIAL};
use vdev::{Bias, LabelUse, NewVdev, Top, VdevTree, init_labels, label_use, open_once_free};
use zio::Zio;

use crate::checkpoint::Checkpoint;
use crate::config::{self, Config, RootOwner};
use crate::dataset::files::take_version;
use crate::evacuate::Evacuation;
use crate::import::OpenVdevs;
use crate::memory::MemoryParts;
use crate::pool::Parts;
use crate::shared::brt::Brt;
use crate::shared::ddt::Ddt;
use crate::space::deferred::Deferred;
use crate::space::maps::SpaceMaps;
use crate::{Pool, PoolError, Tuning};

/// A pool to be made.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Its name.
    pub name: String,
    /// The name that labels have, where it is another one: the pool has it when it is opened again.
    pub stored_name: Option<String>,
    /// Its vdevs, logs included, in order.
    pub vdevs: Vec<NewVdev>,
    /// What is set on its root dataset.
    pub root_props: Vec<(String, PropValue)>,
    /// A remark.
    pub comment: Option<String>,
    /// Take devices whose labels say that they are another pool's.
    pub force: bool,
}

impl Pool {
    /// Makes a pool and opens it. Nothing is written before all devices have been looked at.
    ///
    /// # Errors
    /// When a device is in use, too small or cannot be opened, or a write fails.
    #[boxed]
    pub async fn create(env: Arc<dyn Env>, spec: PoolSpec, tuning: Tuning) -> Result<Arc<Self>, PoolError> {
        Self::create_with(env, spec, &dsl::NEW_POOL_FEATURES, tuning).await
    }

    /// The same with these features enabled, and those they need.
    ///
    /// # Errors
    /// As [`Pool::create`].
    #[boxed]
    pub async fn create_with(
        env: Arc<dyn Env>,
        mut spec: PoolSpec,
        features: &[&'static dsl::Feature],
        tuning: Tuning,
    ) -> Result<Arc<Self>, PoolError> {
        let version = take_version(&mut spec.root_props);
        for (name, value) in &spec.root_props {
            dsl::check_new_prop(name, value, features)?;
        }
        check_features(&spec.vdevs, |feature| features.contains(&feature))?;
        check_unused(&env, spec.vdevs.iter().flat_map(|vdev| &vdev.paths), spec.force).await?;
        let vdevs = Arc::new(VdevTree::create(Arc::clone(&env), &spec.vdevs).await?);
        let open = OpenVdevs::new(&vdevs);
        let stored_name = spec.stored_name.as_ref().unwrap_or(&spec.name);
        let mut config = Config::new(stored_name, &tuning.host).called(&spec.name);
        config.set_comment(spec.comment.clone());
        for top in vdevs.tops() {
            init_labels(&vdevs, &top, &config.at(TXG_INITIAL)).await?;
        }
        let zio = Arc::new(Zio::new(Arc::clone(&vdevs), MemoryParts::of(&tuning).cache_bytes));
        let gate = TxgGate::new(TXG_INITIAL.prev(), MemoryParts::of(&tuning).dirty_bytes);
        let context = ObjsetContext {
            id: ObjsetId::MOS,
            zio: Arc::clone(&zio),
            gate: Arc::clone(&gate),
            props: ObjsetProps::mos(),
        };
        let mos = Objset::create(context, ObjsetType::Meta);
        let tx = gate.forming();
        let births = [birth(&env), birth(&env), birth(&env)];
        let dsl = Arc::new(Dsl::format_with(mos, &tx, births, features).await?);
        if let Some(salt) = dsl.checksum_salt().await? {
            zio.set_salt(salt);
        }
        zio.set_pointer_forms(config::pointer_forms(&dsl).await?);
        let space_maps = SpaceMaps::default();
        for top in vdevs.tops() {
            add_to_space(&space_maps, &dsl, &zio, &tx, &top).await?;
        }
        config::make_vdev_zaps(&dsl, &tx, &vdevs).await?;
        for top in vdevs.tops() {
            config::note_kind(&dsl, &tx, &top).await?;
        }
        config.set_features(&dsl.label_features().await?);
        config::store(&dsl, &tx, &config, &vdevs).await?;
        let root = dsl.resolve(&spec.name).await?;
        for (name, value) in &spec.root_props {
            dsl.set_prop(&tx, root.dir, name, value).await?;
        }
        let deferred = Deferred::load(&dsl).await?;
        let env_now = env.wall_clock().as_secs();
        let pool = Self::assemble(Parts {
            env,
            vdevs,
            zio,
            gate,
            dsl,
            config,
            space_maps,
            brt: Brt::default(),
            ddt: Ddt::default(),
            deferred,
            checkpoint: Checkpoint::default(),
            evacuation: Evacuation::default(),
            returned_to: None,
            rewound_to: None,
            tuning,
            read_only: false,
            opened_at: (TXG_INITIAL.prev(), env_now),
            uberblock: None,
            others: Vec::new(),
            replay_watch: None,
        });
        open.into_pool();
        match pool.begin(&root, version).await {
            Ok(()) => Ok(pool),
            Err(error) => {
                pool.abandon().await;
                Err(error)
            }
        }
    }

    /// Creates the contents of the pool in its first txg. After an error, the caller releases all
    /// resources.
    async fn begin(self: &Arc<Self>, root: &DatasetName, version: Option<u64>) -> Result<(), PoolError> {
        let owner = RootOwner::from(&self.tuning.host);
        self.format_dataset(root, owner, version, &self.gate.forming()).await?;
        self.start();
        self.in_sync(|pool, tx| async move { pool.note_version(&tx, "create").await }).await?;
        self.engage_suspension().await?;
        self.tell_opened("pool_create");
        Ok(())
    }
}

/// Special vdevs and draids need their features.
pub(crate) fn check_features(
    vdevs: &[NewVdev],
    is_enabled: impl Fn(&'static Feature) -> bool,
) -> Result<(), PoolError> {
    let is_special = |vdev: &NewVdev| matches!(vdev.bias, Bias::Special | Bias::Dedup);
    for (feature, is_needed) in [
        (&ALLOCATION_CLASSES, vdevs.iter().any(is_special)),
        (&DRAID, vdevs.iter().any(|vdev| vdev.data > 0)),
    ] {
        if is_needed && !is_enabled(feature) {
            return Err(PoolError::NeedsFeature { name: feature.name });
        }
    }
    Ok(())
}

/// Gives a new vdev its metaslabs, and from then on blocks may go there.
async fn add_to_space(
    maps: &SpaceMaps,
    dsl: &Dsl,
    zio: &Zio,
    tx: &Tx,
    top: &Arc<Top>,
) -> Result<(), PoolError> {
    let array = maps.format(dsl.mos(), tx, top).await?;
    top.set_config(|config| config.metaslab_array = array.get());
    Ok(zio.add_vdev(top)?)
}

pub(crate) fn birth(env: &Arc<dyn Env>) -> Birth {
    Birth { guid: env.random_u64(), fsid: env.random_u64(), now_secs: env.wall_clock().as_secs() }
}

/// Says no to devices that carry the labels of a pool, and to one named twice.
pub(crate) async fn check_unused<'a>(
    env: &Arc<dyn Env>,
    paths: impl Iterator<Item = &'a PathBuf>,
    force: bool,
) -> Result<(), PoolError> {
    let mut seen: BTreeSet<&Path> = BTreeSet::new();
    for path in paths {
        let cannot = |source| vdev::VdevError::Open { path: path.clone(), source };
        let device = open_once_free(env, path, OpenMode::ReadWrite).await.map_err(cannot)?;
        let used = Box::new(label_use(env, &device).await.map_err(cannot)?);
        drop(device);
        if !seen.insert(path) {
            return Err(PoolError::DeviceInUse { path: path.clone(), used });
        }
        let taken = matches!(*used, LabelUse::Pool { .. } | LabelUse::Auxiliary(_));
        if taken && !force {
            return Err(PoolError::DeviceInUse { path: path.clone(), used });
        }
    }
    Ok(())
}
