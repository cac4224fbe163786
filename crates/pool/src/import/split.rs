//! The pool that is split off another, opened for the first time: see [`crate::split`].
//!
//! Its meta-objset is a copy of the other's. In its first txg it takes its name and guid, and loses what the other one's
//! vdevs had there that it has not: objects of leaves and of logs, lists of spares and cache devices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use dmu::Tx;
use env::Env;
use futures::future::join;
use ondisk::config::{
    ASIZE, CHILDREN, DTL, GUID, IS_LOG, METASLAB_ARRAY, METASLAB_SHIFT, VDEV_TOP_ZAP, VDEV_TREE,
};
use ondisk::{NvList, mos};
use units::{Guid, ObjectId};
use vdev::{Candidate, PoolConfig, PoolState, SplitNote};

use super::{AsOf, ImportSpec, assemble, open_tree};
use crate::space::maps::{forget_map, forget_maps_of};
use crate::{Pool, PoolError, Tuning, config};

/// What a pool is split off as.
pub(crate) struct Halving {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: Guid,
    /// The pool that it is split off, whose guid its labels still have.
    pub from: Guid,
    /// What that one is called.
    pub from_name: String,
    /// Its vdevs, under the guid of the other.
    pub vdev_tree: NvList,
    /// Where their devices are.
    pub paths: BTreeMap<Guid, PathBuf>,
    /// What the other pool says of itself.
    pub pool: PoolConfig,
}

/// Opens the devices as a pool of their own, and returns when that is stable.
pub(crate) async fn open_split(
    env: &Arc<dyn Env>,
    halving: &Halving,
    tuning: Tuning,
) -> Result<Arc<Pool>, PoolError> {
    let candidate = Candidate {
        guid: halving.from,
        pool: halving.pool.clone(),
        vdev_tree: halving.vdev_tree.clone(),
        paths: halving.paths.clone(),
        below: BTreeMap::new(),
        auxiliaries: BTreeMap::new(),
        missing_leaves: BTreeSet::new(),
        gone: BTreeSet::new(),
        missing_vdevs: BTreeSet::new(),
        uberblock: None,
        behind: BTreeSet::new(),
        others: Vec::new(),
    };
    let spec = ImportSpec { new_name: Some(halving.name.clone()), ..ImportSpec::default() };
    let opened = open_tree(env, &candidate, &candidate.vdev_tree, None, &spec, &tuning, AsOf::Newest).await?;
    let opened = opened.checked()?;
    let before = opened.config.clone();
    let pool = assemble(Arc::clone(env), opened, &candidate, &spec, tuning).await?;
    pool.vdevs.set_root(|root| (root.guid, root.former_guid) = (halving.guid, Some(halving.from)));
    {
        let mut config = pool.config.lock();
        config.set_state(PoolState::Exported);
        config.set_split(Some(SplitNote::From(halving.from)));
    }
    match pool.begin_as_split(before, halving.from_name.clone()).await {
        Ok(()) => Ok(pool),
        Err(error) => {
            pool.abandon().await;
            Err(error)
        }
    }
}

impl Pool {
    /// The first txg of a pool that was split off: nothing comes before it.
    async fn begin_as_split(self: &Arc<Self>, before: NvList, from: String) -> Result<(), PoolError> {
        self.load_autotrim().await?;
        self.claim_logs(false).await?;
        self.vdevs.mark_all_changed();
        self.space_maps.flush_all_next();
        let first = self.in_sync(move |pool, tx| async move { pool.become_split(&tx, &before, &from).await });
        // The task waits for its turn before there is any.
        join(first, async { self.start() }).await.0
    }

    async fn become_split(self: &Arc<Self>, tx: &Tx, before: &NvList, from: &str) -> Result<(), PoolError> {
        tx.note_change();
        if let Some(tree) = before.get_nvlist(VDEV_TREE) {
            self.forget_left_behind(tx, tree).await?;
        }
        for list in [mos::directory::SPARES, mos::directory::L2CACHE] {
            self.forget_auxiliary_list(tx, list).await?;
        }
        config::make_vdev_zaps(&self.dsl, tx, &self.vdevs).await?;
        config::forget_other_zaps(&self.dsl, tx, &self.vdevs).await?;
        let needed_to_read = self.dsl.label_features().await?;
        self.config.lock().set_features(&needed_to_read);
        self.note_event(tx, "split", None, &format!("from pool {from}")).await?;
        self.store_config(tx).await
    }

    /// Frees objects of vdevs that the other pool has and this one has not.
    async fn forget_left_behind(&self, tx: &Tx, tree: &NvList) -> Result<(), PoolError> {
        let own: BTreeSet<u64> = self.vdevs.leaves().iter().map(|leaf| leaf.guid().get()).collect();
        let mut dtls = Vec::new();
        add_dtls(tree, &own, &mut dtls);
        for dtl in dtls {
            forget_map(&self.dsl, tx, dtl).await?;
        }
        let tops = tree.get_nvlist_array(CHILDREN).unwrap_or_default();
        for log in tops.iter().filter(|top| top.get_u64(IS_LOG) == Some(1)) {
            let number = |name| log.get_u64(name).unwrap_or(0);
            let metaslabs = number(ASIZE).checked_shr(number(METASLAB_SHIFT) as u32).unwrap_or(0);
            let (array, zap) = (number(METASLAB_ARRAY), number(VDEV_TOP_ZAP));
            forget_maps_of(&self.dsl, tx, ObjectId::new(array), metaslabs, zap).await?;
        }
        Ok(())
    }
}

/// The maps of what leaves missed, of all leaves that are not among these.
fn add_dtls(vdev: &NvList, own: &BTreeSet<u64>, out: &mut Vec<ObjectId>) {
    let guid = vdev.get_u64(GUID).unwrap_or(0);
    out.extend(vdev.get_u64(DTL).filter(|_| !own.contains(&guid)).map(ObjectId::new));
    vdev.get_nvlist_array(CHILDREN).unwrap_or_default().iter().for_each(|child| add_dtls(child, own, out));
}
