//! Deadlists: per dataset, the blocks it no longer refers to that its snapshots still do.
//!
//! ```text
//!  ZAP, bonus: space totals      key (hex): a snapshot's txg ─► bpobj of blocks born after it
//! ```
//! A block goes on the list with the greatest key below its birth. Without snapshots of their own,
//! datasets have one key, 0, and an empty list under it. Lists that are still empty may be one and
//! the same object (feature `empty_bpobj`), which is replaced before anything is put on it. Before
//! pool version 26 a deadlist was a single bpobj.

use std::collections::BTreeMap;

use dmu::zap::{Zap, ZapSpec, int_name};
use dmu::{DnodeSpec, SpaceDelta, Tx};
use ondisk::dsl::{DSL_DEADLIST_BYTES, DslDeadlistPhys};
use ondisk::{Blkptr, ObjectType};
use units::{ObjectId, Txg};
use zerocopy::IntoBytes;

use crate::features::EMPTY_BPOBJ;
use crate::space::{Imbalance, add};
use crate::{Bpobj, Dsl, DslError};

const EMPTY_BPOBJ_ENTRY: &[u8] = b"empty_bpobj";

/// Block size of a deadlist's bpobjs.
pub(crate) const BPOBJ_BLOCK_BYTES: u32 = 128 << 10;

impl Dsl {
    /// A new, empty deadlist.
    pub(crate) async fn create_deadlist(&self, tx: &Tx) -> Result<Zap, DslError> {
        let dnode = DnodeSpec::new(ObjectType::DEADLIST, 0)
            .with_bonus(ObjectType::DEADLIST_HDR, DSL_DEADLIST_BYTES as u16);
        Ok(Zap::create(&self.mos, tx, &ZapSpec::from(dnode)).await?)
    }

    /// Gives a deadlist a list for blocks born after `txg`.
    pub(crate) async fn add_deadlist_key(&self, tx: &Tx, deadlist: &Zap, txg: u64) -> Result<(), DslError> {
        let list = Bpobj::create(&self.mos, tx, BPOBJ_BLOCK_BYTES).await?;
        Ok(deadlist.add_u64(tx, int_name(txg).as_bytes(), list.object().get()).await?)
    }

    /// The deadlist of a clone: the keys of its origin's deadlist below `until`, with empty
    /// lists.
    pub(crate) async fn clone_deadlist(
        &self,
        tx: &Tx,
        of: ObjectId,
        until: u64,
    ) -> Result<ObjectId, DslError> {
        let keys = keys(&self.zap(of.get()).await?).await?;
        let clone = self.create_deadlist(tx).await?;
        for (txg, _) in keys.into_iter().filter(|(txg, _)| *txg < until) {
            self.add_deadlist_key(tx, &clone, txg).await?;
        }
        Ok(clone.object())
    }

    /// Puts blocks on a deadlist.
    pub(crate) async fn add_to_deadlist(
        &self,
        tx: &Tx,
        deadlist: ObjectId,
        bps: &[Blkptr],
    ) -> Result<(), DslError> {
        if self.mos.hold(deadlist).await?.object_type() == ObjectType::BPOBJ {
            return self.bpobj_append(tx, deadlist, bps).await;
        }
        let zap = self.zap(deadlist.get()).await?;
        let keys = keys(&zap).await?;
        let mut by_key: BTreeMap<usize, Vec<Blkptr>> = BTreeMap::new();
        for bp in bps {
            let above = keys.partition_point(|(txg, _)| *txg < bp.birth().get());
            let key = above.checked_sub(1).ok_or(DslError::damaged(deadlist, "no key below a birth"))?;
            by_key.entry(key).or_default().push(*bp);
        }
        for (key, bps) in by_key {
            let (txg, list) = keys[key];
            let list = self.own_list(tx, &zap, txg, list).await?;
            list.append(tx, &bps).await?;
        }
        self.count_in_deadlist(tx, deadlist, bps).await
    }

    /// The list under a key, no longer shared with others.
    async fn own_list(&self, tx: &Tx, deadlist: &Zap, txg: u64, list: ObjectId) -> Result<Bpobj, DslError> {
        if self.empty_bpobj().await? != Some(list) {
            return Bpobj::open(&self.mos, list).await;
        }
        let own = Bpobj::create(&self.mos, tx, BPOBJ_BLOCK_BYTES).await?;
        deadlist.update_u64(tx, int_name(txg).as_bytes(), own.object().get()).await?;
        self.release_empty_bpobj(tx, 1).await?;
        Ok(own)
    }

    async fn count_in_deadlist(&self, tx: &Tx, deadlist: ObjectId, bps: &[Blkptr]) -> Result<(), DslError> {
        let mut space = SpaceDelta::default();
        bps.iter().for_each(|bp| space.add(self.mos.zio(), bp));
        let dnode = self.mos.hold(deadlist).await?;
        let mut phys = DslDeadlistPhys::decode(&dnode.bonus())
            .map_err(|_| DslError::damaged(deadlist, "short deadlist"))?;
        add(&mut phys.used, space.used)
            .and_then(|()| add(&mut phys.compressed, space.compressed))
            .and_then(|()| add(&mut phys.uncompressed, space.uncompressed))
            .map_err(|Imbalance| Imbalance.of(deadlist))?;
        Ok(dnode.set_bonus(tx, ObjectType::DEADLIST_HDR, phys.as_bytes())?)
    }

    /// Space of the blocks on a deadlist; with `born`, of those born no later than that.
    pub(crate) async fn deadlist_bytes(
        &self,
        deadlist: ObjectId,
        born: Option<Txg>,
    ) -> Result<u64, DslError> {
        let dnode = self.mos.hold(deadlist).await?;
        let is_old = dnode.object_type() == ObjectType::BPOBJ;
        let bytes = match born {
            None if is_old => Bpobj::open(&self.mos, deadlist).await?.space().used,
            None => {
                let phys = DslDeadlistPhys::decode(&dnode.bonus());
                return Ok(phys.map_err(|_| DslError::damaged(deadlist, "short deadlist"))?.used.get());
            }
            Some(born) if is_old => {
                let mut space = SpaceDelta::default();
                for bp in self.bpobj_entries(deadlist).await?.iter().filter(|bp| bp.birth() <= born) {
                    space.add(self.mos.zio(), bp);
                }
                space.used
            }
            Some(born) => {
                let mut used = 0_i64;
                let keys = keys(&self.zap(deadlist.get()).await?).await?;
                // The list under a key has what was born after it.
                for (_, list) in keys.into_iter().filter(|(key, _)| *key < born.get()) {
                    used = used.saturating_add(Bpobj::open(&self.mos, list).await?.space().used);
                }
                used
            }
        };
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// The list that empty lists share, if there is one.
    async fn empty_bpobj(&self) -> Result<Option<ObjectId>, DslError> {
        Ok(self.directory.lookup_u64(EMPTY_BPOBJ_ENTRY).await?.map(ObjectId::new))
    }

    /// So many lists are no longer the shared empty one, which goes with its last user.
    async fn release_empty_bpobj(&self, tx: &Tx, users: i64) -> Result<(), DslError> {
        let Some(shared) = self.empty_bpobj().await?.filter(|_| users > 0) else {
            return Ok(());
        };
        self.count_feature(tx, &EMPTY_BPOBJ, -users).await?;
        if self.feature_count(&EMPTY_BPOBJ).await? == Some(0) {
            self.directory.remove(tx, EMPTY_BPOBJ_ENTRY).await?;
            Bpobj::open(&self.mos, shared).await?.free(tx).await?;
        }
        Ok(())
    }

    /// Frees a deadlist whose lists are empty, as those of a dataset without snapshots are.
    pub(crate) async fn free_deadlist(&self, tx: &Tx, deadlist: ObjectId) -> Result<(), DslError> {
        if self.mos.hold(deadlist).await?.object_type() == ObjectType::BPOBJ {
            return Bpobj::open(&self.mos, deadlist).await?.free(tx).await;
        }
        let shared = self.empty_bpobj().await?;
        let let_go = self.free_empty_deadlist(tx, deadlist, shared).await?;
        self.release_empty_bpobj(tx, let_go).await
    }

    /// Frees a deadlist and its lists; blocks on them stay as they are.
    pub(crate) async fn discard_deadlist(&self, tx: &Tx, deadlist: ObjectId) -> Result<(), DslError> {
        let shared = self.empty_bpobj().await?;
        let mut let_go = 0;
        for (_, list) in keys(&self.zap(deadlist.get()).await?).await? {
            if Some(list) == shared {
                let_go += 1;
            } else {
                Bpobj::open(&self.mos, list).await?.discard(tx).await?;
            }
        }
        self.mos.free_object(tx, deadlist).await?;
        self.release_empty_bpobj(tx, let_go).await
    }

    /// Frees a deadlist whose lists are empty, as those of a dataset without snapshots are. A
    /// list that several deadlists share (`shared`: the pool's empty bpobj) stays; the answer
    /// says how often it was let go.
    async fn free_empty_deadlist(
        &self,
        tx: &Tx,
        deadlist: ObjectId,
        shared: Option<ObjectId>,
    ) -> Result<i64, DslError> {
        let mut let_go = 0;
        for (_, object) in keys(&self.zap(deadlist.get()).await?).await? {
            if Some(object) == shared {
                let_go += 1;
                continue;
            }
            let list = Bpobj::open(&self.mos, object).await?;
            if !list.is_empty() {
                return Err(DslError::damaged(object, "deadlist with blocks of a dataset without snapshots"));
            }
            list.free(tx).await?;
        }
        self.mos.free_object(tx, deadlist).await?;
        Ok(let_go)
    }
}

/// Keys and their lists, by key.
async fn keys(deadlist: &Zap) -> Result<Vec<(u64, ObjectId)>, DslError> {
    let damaged = || DslError::damaged(deadlist.object(), "deadlist entry");
    let mut keys = Vec::new();
    for entry in deadlist.all().await? {
        let name = std::str::from_utf8(&entry.name).map_err(|_| damaged())?;
        let txg = u64::from_str_radix(name, 16).map_err(|_| damaged())?;
        keys.push((txg, ObjectId::new(entry.value.as_u64().ok_or_else(damaged)?)));
    }
    keys.sort_unstable();
    Ok(keys)
}
