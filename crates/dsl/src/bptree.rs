//! DestroyedObjset datasets whose blocks are freed bit by bit (feature `async_destroy`).
//!
//! ```text
//!  destroy ─► entry in the bptree, space moves to $FREE ─► each txg frees some blocks, notes where
//!  it stopped ─► … ─► entry gone ─► last entry gone: no bptree, feature not in use
//! ```
//! What a txg frees and how far it came are stable together, so a crash anywhere only means that the
//! same blocks are freed by the next txg again.
//!
//! (test: `destroyed_datasets_are_freed_in_order_and_leave_nothing`)

use std::sync::Arc;

use dmu::{DestroyedObjset, Dnode, DnodeSpec, Remains, SpaceDelta, SyncRead, Tx};
use env::{boxed, impatient};
use ondisk::bptree::{BptreeEntryPhys, BptreePhys};
use ondisk::mos::directory;
use ondisk::{Blkptr, ObjectType};
use units::{ObjectId, Txg};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::features::ASYNC_DESTROY;
use crate::space::{Imbalance, add};
use crate::{Bpobj, Dsl, DslError};

const BLOCK_BYTES: u32 = 128 << 10;
/// What a bookmark names instead of the objset.
const DESTROYED_OBJSET: u64 = u64::MAX;
const ENTRY_BYTES: u64 = size_of::<BptreeEntryPhys>() as u64;

impl Dsl {
    /// Whether blocks of destroyed datasets wait to be freed.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn has_destroyed(&self) -> Result<bool, DslError> {
        // The tree's object is not opened, because a sync may free that object meanwhile.
        Ok(self.directory.lookup_u64(directory::BPTREE_OBJ.as_bytes()).await?.is_some()
            || self.has_deleted_clones().await?
            || !self.free_list_is_empty().await?)
    }

    /// Whether destroyed datasets may be freed bit by bit.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn frees_later(&self) -> Result<bool, DslError> {
        Ok(self.feature_count(&ASYNC_DESTROY).await?.is_some())
    }

    /// Hands an objset's blocks born after a txg over to be freed; `space` is theirs.
    pub(crate) async fn add_destroyed(
        &self,
        tx: &Tx,
        root: Blkptr,
        born_after: u64,
        space: SpaceDelta,
    ) -> Result<(), DslError> {
        let mut entry = BptreeEntryPhys::new_zeroed();
        entry.bp = root;
        entry.birth_txg = U64::new(born_after);
        match impatient(self.append_destroyed(tx, &entry, space)).await {
            Err(error) if error.is_loss() && SyncRead::FreeList.goes_on() => {
                self.abandon_destroyed(tx, &error).await?;
                self.append_destroyed(tx, &entry, space).await
            }
            added => added,
        }
    }

    async fn append_destroyed(
        &self,
        tx: &Tx,
        entry: &BptreeEntryPhys,
        space: SpaceDelta,
    ) -> Result<(), DslError> {
        let dnode = match self.bptree().await? {
            Some(dnode) => dnode,
            None => self.create_bptree(tx).await?,
        };
        let mut phys = decode(&dnode)?;
        dnode.write(tx, phys.end.get() * ENTRY_BYTES, entry.as_bytes()).await?;
        phys.end = U64::new(phys.end.get() + 1);
        store(tx, &dnode, phys, space)?;
        self.add_freeing_space(tx, space).await
    }

    /// Removes a bptree that cannot be read. The space of the datasets in the bptree is never freed,
    /// and is counted as leaked.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn abandon_destroyed(&self, tx: &Tx, cause: &DslError) -> Result<(), DslError> {
        let Some(dnode) = self.bptree().await? else { return Ok(()) };
        let lost = decode(&dnode).and_then(|phys| left_of(&phys)).unwrap_or_default();
        tracing::error!(%cause, bytes = lost.used, "the list of destroyed datasets is lost: what they had is leaked");
        self.add_freeing_space(tx, lost.negated()).await?;
        self.add_leaked_space(tx, lost).await?;
        self.remove_bptree(tx, &dnode).await
    }

    async fn remove_bptree(&self, tx: &Tx, dnode: &Dnode) -> Result<(), DslError> {
        self.count_feature(tx, &ASYNC_DESTROY, -1).await?;
        self.directory.remove(tx, directory::BPTREE_OBJ.as_bytes()).await?;
        Ok(self.mos.free_object(tx, dnode.object()).await?)
    }

    /// The destroyed dataset that is freed next, if there is one.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn next_destroyed(&self) -> Result<Option<DestroyedObjset>, DslError> {
        let Some(dnode) = self.bptree().await? else { return Ok(None) };
        let phys = decode(&dnode)?;
        if phys.begin == phys.end {
            return Ok(None);
        }
        let entry = read_entry(&dnode, phys.begin.get()).await?;
        let [objset, object, _, block] = entry.bookmark.map(U64::get);
        let from = (objset != 0).then_some(Remains { object, block });
        Ok(Some(DestroyedObjset { root: entry.bp, born_after: Txg::new(entry.birth_txg.get()), from }))
    }

    /// Blocks of the next destroyed objset are freed, `space` in all; `next`: where to go on, if it is not done.
    ///
    /// # Errors
    /// Damage, and those of changing the MOS.
    #[boxed]
    pub async fn note_freed(
        &self,
        tx: &Tx,
        space: SpaceDelta,
        next: Option<Remains>,
    ) -> Result<(), DslError> {
        let dnode = self.bptree().await?.ok_or(DslError::damaged(ObjectId::new(0), "no bptree"))?;
        let mut phys = decode(&dnode)?;
        let at = phys.begin.get();
        if let Some(Remains { object, block }) = next {
            let mut entry = read_entry(&dnode, at).await?;
            entry.bookmark = [DESTROYED_OBJSET, object, 0, block].map(U64::new);
            dnode.write(tx, at * ENTRY_BYTES, entry.as_bytes()).await?;
        } else {
            phys.begin = U64::new(at + 1);
        }
        // Sums that older software kept may be wrong. The remainder after everything is freed is
        // space whose blocks could not be found.
        let left = left_of(&phys)?;
        let done = phys.begin == phys.end;
        let space = least(space, left);
        let gone = if done { left } else { space };
        store(tx, &dnode, phys, gone.negated())?;
        self.add_freeing_space(tx, gone.negated()).await?;
        if done {
            let mut lost = left;
            lost += space.negated();
            self.add_leaked_space(tx, lost).await?;
            self.remove_bptree(tx, &dnode).await?;
        }
        Ok(())
    }

    /// Takes up to `limit` blocks off the list of those that wait to be freed one by one.
    ///
    /// # Errors
    /// Damage, and those of changing the MOS.
    #[boxed]
    pub async fn take_from_free_list(&self, tx: &Tx, limit: usize) -> Result<Vec<Blkptr>, DslError> {
        if self.free_list_is_empty().await? {
            return Ok(Vec::new());
        }
        let list = Bpobj::open(&self.mos, self.directory_object(directory::FREE_BPOBJ).await?).await?;
        let taken = list.take(tx, limit).await?;
        let mut space = SpaceDelta::default();
        taken.iter().for_each(|bp| space.add(self.mos.zio(), bp));
        let lost = list.take_lost();
        space += lost;
        self.add_freeing_space(tx, space.negated()).await?;
        self.add_leaked_space(tx, lost).await?;
        Ok(taken)
    }

    async fn free_list_is_empty(&self) -> Result<bool, DslError> {
        match self.directory.lookup_u64(directory::FREE_BPOBJ.as_bytes()).await? {
            Some(object) => Ok(Bpobj::open(&self.mos, ObjectId::new(object)).await?.is_empty()),
            None => Ok(true),
        }
    }

    async fn bptree(&self) -> Result<Option<Arc<Dnode>>, DslError> {
        match self.directory.lookup_u64(directory::BPTREE_OBJ.as_bytes()).await? {
            Some(object) => Ok(Some(self.mos.hold(ObjectId::new(object)).await?)),
            None => Ok(None),
        }
    }

    async fn create_bptree(&self, tx: &Tx) -> Result<Arc<Dnode>, DslError> {
        let kind = ObjectType::OTN_UINT64_METADATA;
        let spec = DnodeSpec::new(kind, BLOCK_BYTES).with_bonus(kind, size_of::<BptreePhys>() as u16);
        let dnode = self.mos.allocate(tx, &spec).await?;
        self.directory.add_u64(tx, directory::BPTREE_OBJ.as_bytes(), dnode.object().get()).await?;
        self.count_feature(tx, &ASYNC_DESTROY, 1).await?;
        Ok(dnode)
    }
}

fn decode(dnode: &Dnode) -> Result<BptreePhys, DslError> {
    let damaged = DslError::damaged(dnode.object(), "bptree");
    let phys = BptreePhys::decode(&dnode.bonus()).map_err(|_| damaged.clone())?;
    if phys.begin.get() > phys.end.get() || phys.end.get() > 1 << 40 { Err(damaged) } else { Ok(phys) }
}

/// Space that still waits to be freed.
fn left_of(phys: &BptreePhys) -> Result<SpaceDelta, DslError> {
    let signed = |n: U64| i64::try_from(n.get()).map_err(|_| DslError::damaged(ObjectId::new(0), "bptree"));
    Ok(SpaceDelta {
        used: signed(phys.bytes)?,
        compressed: signed(phys.compressed)?,
        uncompressed: signed(phys.uncompressed)?,
    })
}

fn least(a: SpaceDelta, b: SpaceDelta) -> SpaceDelta {
    SpaceDelta {
        used: a.used.min(b.used),
        compressed: a.compressed.min(b.compressed),
        uncompressed: a.uncompressed.min(b.uncompressed),
    }
}

/// Stores the header, with so much more space to be freed.
fn store(tx: &Tx, dnode: &Dnode, mut phys: BptreePhys, space: SpaceDelta) -> Result<(), DslError> {
    add(&mut phys.bytes, space.used)
        .and_then(|()| add(&mut phys.compressed, space.compressed))
        .and_then(|()| add(&mut phys.uncompressed, space.uncompressed))
        .map_err(|Imbalance| Imbalance.of(dnode.object()))?;
    Ok(dnode.set_bonus(tx, dnode.bonus_type(), phys.as_bytes())?)
}

async fn read_entry(dnode: &Dnode, index: u64) -> Result<BptreeEntryPhys, DslError> {
    let mut bytes = [0; size_of::<BptreeEntryPhys>()];
    dnode.read(index * ENTRY_BYTES, &mut bytes).await?;
    BptreeEntryPhys::read_from_bytes(&bytes)
        .map_err(|_| DslError::damaged(dnode.object(), "entry of the bptree"))
}
