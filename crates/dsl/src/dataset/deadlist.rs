//! Deadlists: per dataset, the blocks it no longer refers to that its snapshots still do.
//!
//! ```text
//!  ZAP, bonus: space totals      key (hex): a snapshot's txg ─► bpobj of blocks born after it
//! ```
//! A block goes on the list with the greatest key below its birth. Without snapshots of their own,
//! datasets have one key, 0, and an empty list under it. Lists that are still empty may be one and
//! the same object (feature `empty_bpobj`), which is replaced before anything is put on it. Before
//! pool version 26 a deadlist was a single bpobj. What becomes of the lists when a snapshot goes: see `merge`.

pub(crate) mod keys;
mod merge;

use std::collections::BTreeMap;
use std::ops::Range;

use dmu::zap::{Zap, ZapSpec, int_name};
use dmu::{DnodeSpec, SpaceDelta, SyncRead, Tx};
use env::impatient;
use ondisk::dsl::{DSL_DEADLIST_BYTES, DslDeadlistPhys};
use ondisk::{Blkptr, ObjectType};
use units::ObjectId;
use zerocopy::little_endian::U64;
use zerocopy::{FromZeros, IntoBytes};

use self::keys::Keys;
use crate::bpobj::can_lose;
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
        let deadlist = Zap::create(&self.mos, tx, &ZapSpec::from(dnode)).await?;
        // Another may have had its number.
        self.known_keys.put(deadlist.object(), Vec::new());
        Ok(deadlist)
    }

    /// Gives a deadlist empty lists for blocks born after each of these txgs.
    pub(crate) async fn add_deadlist_keys(
        &self,
        tx: &Tx,
        deadlist: &Zap,
        txgs: &[u64],
    ) -> Result<(), DslError> {
        let shared = self.share_empty_bpobj(tx, txgs.len()).await?;
        self.add_keys(tx, deadlist, txgs, shared).await
    }

    async fn add_keys(
        &self,
        tx: &Tx,
        deadlist: &Zap,
        txgs: &[u64],
        shared: Option<ObjectId>,
    ) -> Result<(), DslError> {
        for txg in txgs {
            let list = match shared {
                Some(list) => list,
                None => Bpobj::create(&self.mos, tx, BPOBJ_BLOCK_BYTES).await?.object(),
            };
            deadlist.add_u64(tx, int_name(*txg).as_bytes(), list.get()).await?;
            self.known_keys.set(deadlist.object(), *txg, list);
        }
        Ok(())
    }

    /// Keys of a deadlist and their lists, by key.
    pub(crate) async fn deadlist_keys(&self, deadlist: ObjectId) -> Result<Keys, DslError> {
        let before = match self.known_keys.get(deadlist) {
            Ok(known) => return Ok(known),
            Err(before) => before,
        };
        let keys = read_keys(&self.zap(deadlist.get()).await?).await?;
        Ok(self.known_keys.put_read(before, deadlist, keys))
    }

    /// A deadlist that goes on where another was: its keys below `until`, with empty lists.
    pub(crate) async fn clone_deadlist(&self, tx: &Tx, of: ObjectId, until: u64) -> Result<Zap, DslError> {
        let keys = self.deadlist_keys(of).await?;
        let below = keys.partition_point(|(txg, _)| *txg < until);
        match self.share_empty_bpobj(tx, below).await? {
            Some(shared) if below == keys.len() => self.copy_deadlist(tx, of, &keys, shared).await,
            shared => {
                let clone = self.create_deadlist(tx).await?;
                let txgs: Vec<u64> = keys[..below].iter().map(|(txg, _)| *txg).collect();
                self.add_keys(tx, &clone, &txgs, shared).await?;
                Ok(clone)
            }
        }
    }

    /// The same keys, all with the empty list that is shared.
    async fn copy_deadlist(
        &self,
        tx: &Tx,
        of: ObjectId,
        keys: &[(u64, ObjectId)],
        shared: ObjectId,
    ) -> Result<Zap, DslError> {
        let copy = self.zap(of.get()).await?.copy(&self.mos, tx).await?;
        for (txg, _) in keys.iter().filter(|(_, list)| *list != shared) {
            copy.update_u64(tx, int_name(*txg).as_bytes(), shared.get()).await?;
        }
        let none = DslDeadlistPhys::new_zeroed();
        copy.dnode().set_bonus(tx, ObjectType::DEADLIST_HDR, none.as_bytes())?;
        self.known_keys.put(copy.object(), keys.iter().map(|(txg, _)| (*txg, shared)).collect());
        Ok(copy)
    }

    /// Puts blocks on a deadlist.
    pub(crate) async fn add_to_deadlist(
        &self,
        tx: &Tx,
        deadlist: ObjectId,
        bps: &[Blkptr],
    ) -> Result<(), DslError> {
        if self.is_old_deadlist(deadlist).await? {
            return self.bpobj_append(tx, deadlist, bps).await;
        }
        let zap = self.zap(deadlist.get()).await?;
        let keys = self.deadlist_keys(deadlist).await?;
        let mut by_key: BTreeMap<usize, Vec<Blkptr>> = BTreeMap::new();
        for bp in bps {
            let above = keys.partition_point(|(txg, _)| *txg < bp.birth().get());
            let key = above.checked_sub(1).ok_or(DslError::damaged(deadlist, "no key below a birth"))?;
            by_key.entry(key).or_default().push(*bp);
        }
        for (key, bps) in by_key {
            let (txg, list) = keys[key];
            let appended = impatient(self.append_to(tx, &zap, txg, list, &bps)).await;
            match appended {
                Err(error) if error.is_loss() && SyncRead::DeadlistAdd.goes_on() => {
                    tracing::error!(%error, blocks = bps.len(), "blocks are not put on a damaged deadlist");
                }
                appended => appended?,
            }
        }
        let mut space = SpaceDelta::default();
        bps.iter().for_each(|bp| space.add(self.mos.zio(), bp));
        self.count_in_deadlist(tx, deadlist, space).await
    }

    async fn append_to(
        &self,
        tx: &Tx,
        deadlist: &Zap,
        txg: u64,
        list: ObjectId,
        bps: &[Blkptr],
    ) -> Result<(), DslError> {
        self.own_list(tx, deadlist, txg, list).await?.append(tx, bps).await
    }

    /// The list under a key, no longer shared with others.
    async fn own_list(&self, tx: &Tx, deadlist: &Zap, txg: u64, list: ObjectId) -> Result<Bpobj, DslError> {
        if self.empty_bpobj().await? != Some(list) {
            return Bpobj::open(&self.mos, list).await;
        }
        let own = Bpobj::create(&self.mos, tx, BPOBJ_BLOCK_BYTES).await?;
        deadlist.update_u64(tx, int_name(txg).as_bytes(), own.object().get()).await?;
        self.known_keys.set(deadlist.object(), txg, own.object());
        self.release_empty_bpobj(tx, 1).await?;
        Ok(own)
    }

    /// A deadlist's header comes to tell of more or less.
    pub(crate) async fn count_in_deadlist(
        &self,
        tx: &Tx,
        deadlist: ObjectId,
        space: SpaceDelta,
    ) -> Result<(), DslError> {
        let mut phys = self.deadlist_header(deadlist).await?;
        add(&mut phys.used, space.used)
            .and_then(|()| add(&mut phys.compressed, space.compressed))
            .and_then(|()| add(&mut phys.uncompressed, space.uncompressed))
            .map_err(|Imbalance| Imbalance.of(deadlist))?;
        let dnode = self.mos.hold(deadlist).await?;
        Ok(dnode.set_bonus(tx, ObjectType::DEADLIST_HDR, phys.as_bytes())?)
    }

    /// Space of the blocks on a deadlist that were born after `born.start` and no later than `born.end`, both of
    /// them keys of the list, or ends of time.
    pub(crate) async fn deadlist_space(
        &self,
        deadlist: ObjectId,
        born: Range<u64>,
    ) -> Result<SpaceDelta, DslError> {
        let mut space = SpaceDelta::default();
        if self.is_old_deadlist(deadlist).await? {
            let is_meant = |bp: &&Blkptr| (born.start + 1..=born.end).contains(&bp.birth().get());
            let entries = self.bpobj_entries(deadlist).await?;
            entries.iter().filter(is_meant).for_each(|bp| space.add(self.mos.zio(), bp));
            return Ok(space);
        }
        // The list under a key has what was born after it.
        let keys = self.deadlist_keys(deadlist).await?;
        let empty = self.empty_bpobj().await?;
        for (_, list) in keys.iter().filter(|(key, list)| born.contains(key) && Some(*list) != empty) {
            space += Bpobj::open(&self.mos, *list).await?.space();
        }
        Ok(space)
    }

    /// Space of all blocks on a deadlist.
    pub(crate) async fn deadlist_total(&self, deadlist: ObjectId) -> Result<SpaceDelta, DslError> {
        if self.is_old_deadlist(deadlist).await? {
            return Ok(Bpobj::open(&self.mos, deadlist).await?.space());
        }
        let phys = self.deadlist_header(deadlist).await?;
        let signed = |figure: U64| i64::try_from(figure.get()).map_err(|_| Imbalance.of(deadlist));
        Ok(SpaceDelta {
            used: signed(phys.used)?,
            compressed: signed(phys.compressed)?,
            uncompressed: signed(phys.uncompressed)?,
        })
    }

    /// Whether a deadlist is a single list, as before pool version 26.
    async fn is_old_deadlist(&self, deadlist: ObjectId) -> Result<bool, DslError> {
        Ok(self.mos.hold(deadlist).await?.object_type() == ObjectType::BPOBJ)
    }

    async fn deadlist_header(&self, deadlist: ObjectId) -> Result<DslDeadlistPhys, DslError> {
        let bonus = self.mos.hold(deadlist).await?.bonus();
        DslDeadlistPhys::decode(&bonus).map_err(|_| DslError::damaged(deadlist, "short deadlist"))
    }

    /// The list that empty lists share, if there is one.
    async fn empty_bpobj(&self) -> Result<Option<ObjectId>, DslError> {
        Ok(self.directory.lookup_u64(EMPTY_BPOBJ_ENTRY).await?.map(ObjectId::new))
    }

    /// Whether a list is the one that empty lists share.
    pub(crate) async fn is_shared_empty_bpobj(&self, list: ObjectId) -> Result<bool, DslError> {
        Ok(self.empty_bpobj().await? == Some(list))
    }

    /// So many lists more are to be the shared empty one; none where the pool does not have that.
    async fn share_empty_bpobj(&self, tx: &Tx, users: usize) -> Result<Option<ObjectId>, DslError> {
        if users == 0 || self.feature_count(&EMPTY_BPOBJ).await?.is_none() {
            return Ok(None);
        }
        let shared = match self.empty_bpobj().await? {
            Some(shared) => shared,
            None => {
                let made = Bpobj::create(&self.mos, tx, BPOBJ_BLOCK_BYTES).await?.object();
                self.directory.add_u64(tx, EMPTY_BPOBJ_ENTRY, made.get()).await?;
                made
            }
        };
        self.count_feature(tx, &EMPTY_BPOBJ, users as i64).await?;
        Ok(Some(shared))
    }

    /// So many lists are no longer the shared empty one, which goes with its last user.
    pub(crate) async fn release_empty_bpobj(&self, tx: &Tx, users: i64) -> Result<(), DslError> {
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

    /// Opens a list that was removed from a deadlist. Returns `None` if the list is lost, and the
    /// blocks on it with it.
    pub(crate) async fn open_or_leave(&self, list: ObjectId) -> Result<Option<Bpobj>, DslError> {
        match impatient(Bpobj::open(&self.mos, list)).await {
            Err(error) if can_lose(&error) => {
                tracing::error!(%error, "a damaged list is dropped: its blocks are never freed");
                Ok(None)
            }
            list => Ok(Some(list?)),
        }
    }

    /// Frees a deadlist and its lists; blocks on them stay as they are.
    pub(crate) async fn discard_deadlist(&self, tx: &Tx, deadlist: ObjectId) -> Result<(), DslError> {
        if self.is_old_deadlist(deadlist).await? {
            return Bpobj::open(&self.mos, deadlist).await?.discard(tx).await;
        }
        let shared = self.empty_bpobj().await?;
        let mut let_go = 0;
        let keys = match impatient(self.deadlist_keys(deadlist)).await {
            Err(error) if can_lose(&error) => {
                tracing::error!(%error, "the lists of a damaged deadlist are dropped");
                Keys::default()
            }
            keys => keys?,
        };
        for (_, list) in keys.iter() {
            if Some(*list) == shared {
                let_go += 1;
            } else if let Some(list) = self.open_or_leave(*list).await? {
                list.discard(tx).await?;
            }
        }
        self.mos.free_object(tx, deadlist).await?;
        self.known_keys.forget(deadlist);
        self.release_empty_bpobj(tx, let_go).await
    }
}

/// Keys and their lists, by key.
async fn read_keys(deadlist: &Zap) -> Result<Vec<(u64, ObjectId)>, DslError> {
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
