//! Maps of kept space: what the pool has freed and its checkpoint still needs, one map for each top-level vdev.
//!
//! ```text
//!  a vdev's ZAP ─ "com.delphix:pool_checkpoint_sm" ─► space map: entries "free", anywhere on the vdev
//! ```
//! Each entry is still "allocated" in its metaslab's own map. A vdev of which nothing was kept has no such map.
//!
//! ```text
//!  checkpoint ─► frees of older blocks are appended …  ─► discard: entries freed from the map's end, a block a txg
//! ```
//! The map is taken apart from its end, so that its beginning says at any time what is still to be freed.
//! (test: `a_power_cut_while_a_checkpoint_is_discarded_leaks_nothing`)

use std::sync::Arc;

use dmu::Dnode;
use dmu::zap::Zap;
use dsl::Dsl;
use env::boxed;
use metaslab::{Change, ChangeKind};
use ondisk::mos::vdev_zap::POOL_CHECKPOINT_SM;
use units::{ObjectId, VdevId};
use vdev::Top;
use zio::Zio;

use super::object::{self, Region};
use super::{At, SpaceMaps};
use crate::PoolError;

/// Data block of a map of kept space. As many entries as one holds are freed in a txg.
const BLOCK_BYTES: u32 = 1 << ondisk::space_map::SPACE_MAP_BLOCK_SHIFT;

impl SpaceMaps {
    /// Finds a vdev's map of kept space, and has the allocator know what it tells; all its other maps are loaded.
    pub(super) async fn load_kept(&self, dsl: &Dsl, zio: &Zio, top: &Top) -> Result<(), PoolError> {
        let zap = ObjectId::new(top.config().top_zap);
        if zap.get() == 0 {
            return Ok(());
        }
        let found = Zap::hold(dsl.mos(), zap).await?.lookup_u64(POOL_CHECKPOINT_SM.as_bytes()).await?;
        let Some(object) = found else { return Ok(()) };
        let dnode = dsl.mos().hold(ObjectId::new(object)).await?;
        let runs = frees(&dnode, self.whole(top.id()), object::read(&dnode).await?)?;
        zio.with_allocator(|allocator| allocator.load_kept(top.id(), &runs))
            .map_err(|source| PoolError::SpaceMap { vdev: top.id(), source })?;
        self.with_vdev(top.id(), |maps| maps.kept = Some(dnode));
        Ok(())
    }

    /// Appends what the txg kept since this was last called.
    pub(super) async fn record_kept(&self, at: &At<'_>) -> Result<(), PoolError> {
        let kept = at.zio.with_allocator(|allocator| allocator.take_kept(at.tx.txg()));
        for (vdev, runs) in kept {
            let known = self.with_vdev(vdev, |maps| maps.kept.clone());
            let dnode = match known {
                Some(dnode) => dnode,
                None => self.make_kept(at, vdev).await?,
            };
            object::append_frees(at.dsl, at.tx, &dnode, self.whole(vdev), &runs).await?;
        }
        Ok(())
    }

    async fn make_kept(&self, at: &At<'_>, vdev: VdevId) -> Result<Arc<Dnode>, PoolError> {
        let dnode = object::create(at.dsl, at.tx, BLOCK_BYTES).await?;
        let zap = self.top_zap(at, vdev).await?;
        zap.add_u64(at.tx, POOL_CHECKPOINT_SM.as_bytes(), dnode.object().get()).await?;
        self.with_vdev(vdev, |maps| maps.kept = Some(Arc::clone(&dnode)));
        Ok(dnode)
    }

    /// Frees in this txg what the last block of one map tells; a map that is empty then goes. Says whether there
    /// are maps left.
    ///
    /// # Errors
    /// When the map cannot be read, or is damaged: nothing has changed then.
    #[boxed]
    pub async fn release_some(&self, at: &At<'_>) -> Result<bool, PoolError> {
        let first = || self.vdevs.lock().iter().find_map(|(&id, maps)| Some((id, maps.kept.clone()?)));
        let Some((vdev, dnode)) = first() else { return Ok(false) };
        let (start, entries) = object::read_last_block(&dnode).await?;
        let runs = frees(&dnode, self.whole(vdev), entries)?;
        at.zio
            .with_allocator(|allocator| allocator.release(at.tx.txg(), vdev, &runs))
            .map_err(|source| PoolError::SpaceMap { vdev, source })?;
        at.tx.note_change();
        if start == 0 {
            self.top_zap(at, vdev).await?.remove(at.tx, POOL_CHECKPOINT_SM.as_bytes()).await?;
            object::remove(at.dsl, at.tx, dnode.object()).await?;
            self.with_vdev(vdev, |maps| maps.kept = None);
        } else {
            object::truncate_frees(at.tx, &dnode, start, &runs).await?;
        }
        Ok(first().is_some())
    }

    async fn top_zap(&self, at: &At<'_>, vdev: VdevId) -> Result<Zap, PoolError> {
        let zap = ObjectId::new(at.vdevs.top(vdev)?.config().top_zap);
        Ok(Zap::hold(at.dsl.mos(), zap).await?)
    }

    /// What the entries of a vdev's map of kept space are about.
    fn whole(&self, vdev: VdevId) -> Region {
        self.with_vdev(vdev, |maps| Region { start: 0, ashift: maps.ashift, named: None })
    }
}

/// The entries as the allocator takes them.
fn frees(dnode: &Dnode, region: Region, runs: Vec<ondisk::space_map::Run>) -> Result<Vec<Change>, PoolError> {
    let what = || PoolError::Damaged { object: dnode.object(), what: "entry of a map of kept space".into() };
    let free = |run| region.change(run).filter(|change| change.kind == ChangeKind::Free);
    runs.iter().map(|run| free(run).ok_or_else(what)).collect()
}
