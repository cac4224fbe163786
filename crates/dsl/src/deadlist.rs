//! Deadlists: per dataset, the blocks it no longer refers to that its snapshots still do.
//!
//! ```text
//!  ZAP, bonus: space totals      key (hex): a snapshot's txg ─► bpobj of blocks born after it
//! ```
//! Without snapshots of their own, datasets have one key, 0, and an empty list under it. Filling
//! lists comes with snapshots.

use dmu::zap::{Zap, ZapSpec, int_name};
use dmu::{DnodeSpec, Tx};
use ondisk::ObjectType;
use ondisk::dsl::DSL_DEADLIST_BYTES;
use units::ObjectId;

use crate::{Bpobj, Dsl, DslError};

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

    /// Frees a deadlist whose lists are empty, as those of a dataset without snapshots are. A
    /// list that several deadlists share (`shared`: the pool's empty bpobj) stays; the answer
    /// says how often it was let go.
    pub(crate) async fn free_empty_deadlist(
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
