//! Lists of block pointers in the MOS: what waits to be freed.
//!
//! Entries are appended; they are taken from the end. A list may have sublists, which it got when
//! deadlists were merged (`sublists`); their figures are included in its own. They are emptied last to
//! first, and go when they are empty.
//!
//! Invariants
//! - A list gives back what was put in, each entry once (test: `a_bpobj_gives_back_what_it_took`).
//! - Entries in a damaged block, and damaged sublists, are skipped. Their blocks cannot be found
//!   any more, and [`Bpobj::take_lost`] returns the space of these blocks.
//!   (test: `a_damaged_bpobj_gives_what_can_be_read_and_counts_the_rest`)

mod listed;
mod sublists;

use std::sync::Arc;

use dmu::{Dnode, DnodeSpec, Objset, SpaceDelta, SyncRead, Tx};
use env::{boxed, impatient};
use futures::future::BoxFuture;
use ondisk::bpobj::{BPOBJ_BYTES_V1, BPOBJ_BYTES_V2, BpobjPhys};
use ondisk::{BLKPTR_BYTES, Blkptr, ObjectType};
use parking_lot::Mutex;
use units::ObjectId;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use crate::space::{Imbalance, add};
use crate::{Dsl, DslError};

/// How deep lists may lie in lists.
const DEPTH_MAX: usize = 32;
/// Entries read at a time.
const READ_ENTRIES: u64 = 1024;
/// Where in an entry the fill count is; it is not kept.
const FILL_AT: usize = 88;
/// Where in an entry the checksum is; it is not kept.
const CHECKSUM_AT: usize = 96;

/// A list, opened.
pub struct Bpobj {
    mos: Arc<Objset>,
    dnode: Arc<Dnode>,
    /// Length of the bonus buffer: pools without livelists have shorter ones.
    bonus_bytes: usize,
    phys: Mutex<BpobjPhys>,
    /// The space of entries that were skipped because they cannot be read.
    lost: Mutex<SpaceDelta>,
}

impl Bpobj {
    /// A new, empty list.
    ///
    /// # Errors
    /// Those of allocating an object.
    #[boxed]
    pub async fn create(mos: &Arc<Objset>, tx: &Tx, block_bytes: u32) -> Result<Self, DslError> {
        Self::create_with(mos, tx, block_bytes, BPOBJ_BYTES_V2).await
    }

    async fn create_with(
        mos: &Arc<Objset>,
        tx: &Tx,
        block_bytes: u32,
        bonus_bytes: usize,
    ) -> Result<Self, DslError> {
        let spec = DnodeSpec::new(ObjectType::BPOBJ, block_bytes)
            .with_bonus(ObjectType::BPOBJ_HDR, bonus_bytes as u16);
        let dnode = mos.allocate(tx, &spec).await?;
        Self::of(mos, dnode)
    }

    /// The list in this object.
    ///
    /// # Errors
    /// Damage, and those of reading.
    #[boxed]
    pub async fn open(mos: &Arc<Objset>, object: ObjectId) -> Result<Self, DslError> {
        Self::of(mos, mos.hold(object).await?)
    }

    fn of(mos: &Arc<Objset>, dnode: Arc<Dnode>) -> Result<Self, DslError> {
        let object = dnode.object();
        let bonus = dnode.bonus();
        let phys = BpobjPhys::decode(&bonus).map_err(|_| DslError::damaged(object, "short bpobj header"))?;
        let sized = (BPOBJ_BYTES_V1..=size_of::<BpobjPhys>()).contains(&bonus.len());
        if dnode.object_type() != ObjectType::BPOBJ || !sized {
            return Err(DslError::damaged(object, "not a bpobj of pool version 26 or later"));
        }
        if phys.blkptrs.get() > 1 << 48 || phys.subobj_count.get() > 1 << 48 {
            return Err(DslError::damaged(object, "bpobj of impossible length"));
        }
        let bonus_bytes = bonus.len();
        Ok(Self { mos: Arc::clone(mos), dnode, bonus_bytes, phys: Mutex::new(phys), lost: Mutex::default() })
    }

    /// Its object.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.dnode.object()
    }

    /// Space of all entries, of sublists too.
    #[must_use]
    pub fn space(&self) -> SpaceDelta {
        let phys = self.phys.lock();
        SpaceDelta {
            used: phys.bytes.get() as i64,
            compressed: phys.compressed.get() as i64,
            uncompressed: phys.uncompressed.get() as i64,
        }
    }

    /// Whether there are neither entries nor sublists.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let phys = self.phys.lock();
        phys.blkptrs.get() == 0 && phys.subobj_count.get() == 0
    }

    /// Appends entries, which are no holes.
    ///
    /// # Errors
    /// Those of reading and writing.
    #[boxed]
    pub async fn append(&self, tx: &Tx, bps: &[Blkptr]) -> Result<(), DslError> {
        self.append_listed(tx, bps, false).await
    }

    /// Removes up to `limit` entries from the end and returns those of them that can be read. The
    /// list is used up when it is [empty](Self::is_empty).
    ///
    /// # Errors
    /// When the list's own header is damaged, when a device is missing, and when a write fails.
    #[boxed]
    pub async fn take(&self, tx: &Tx, limit: usize) -> Result<Vec<Blkptr>, DslError> {
        let taken = impatient(self.take_at(tx, limit as u64, 0)).await?;
        let space = self.space();
        if self.is_empty() && space != SpaceDelta::default() {
            tracing::error!(list = %self.object(), ?space, "blocks on damaged lists are never freed");
            self.change(tx, |phys| count(phys, space, -1))?;
            *self.lost.lock() += space;
        }
        Ok(taken)
    }

    /// Returns the space of the entries that were skipped since the last call.
    pub fn take_lost(&self) -> SpaceDelta {
        std::mem::take(&mut *self.lost.lock())
    }

    /// Returns the number of the list's own entries in its last block.
    fn in_last_block(&self, have: u64) -> u64 {
        let of_block = (u64::from(self.dnode.block_bytes()) / BLKPTR_BYTES as u64).max(1);
        match have % of_block {
            0 => of_block.min(have),
            rest => rest,
        }
    }

    fn take_at<'a>(
        &'a self,
        tx: &'a Tx,
        limit: u64,
        depth: usize,
    ) -> BoxFuture<'a, Result<Vec<Blkptr>, DslError>> {
        Box::pin(async move {
            if depth > DEPTH_MAX {
                return Err(DslError::damaged(self.object(), "bpobjs nested too deeply"));
            }
            let mut taken = self.take_own(tx, limit).await?;
            while (taken.len() as u64) < limit && self.phys.lock().subobj_count.get() > 0 {
                taken.extend(self.take_from_last_sub(tx, limit - taken.len() as u64, depth).await?);
            }
            Ok(taken)
        })
    }

    /// Takes from the list's own entries.
    async fn take_own(&self, tx: &Tx, limit: u64) -> Result<Vec<Blkptr>, DslError> {
        let have = self.phys.lock().blkptrs.get();
        let take = have.min(limit);
        if take == 0 {
            return Ok(Vec::new());
        }
        let (take, taken) = match self.read_entries(have - take, take).await {
            Ok(taken) => (take, taken),
            // The list is read block by block from here on, so that only the entries of the damaged
            // block are skipped.
            Err(error) if can_lose(&error) => {
                let take = self.in_last_block(have);
                match self.read_entries(have - take, take).await {
                    Ok(taken) => (take, taken),
                    Err(error) if can_lose(&error) => {
                        tracing::error!(%error, entries = take, "entries of a damaged list are skipped");
                        (take, Vec::new())
                    }
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        };
        self.dnode.free_range(tx, (have - take) * BLKPTR_BYTES as u64, u64::MAX).await?;
        let mut space = SpaceDelta::default();
        taken.iter().for_each(|bp| space.add(self.mos.zio(), bp));
        self.change(tx, |phys| {
            add(&mut phys.blkptrs, -(take as i64))?;
            count(phys, space, -1)
        })?;
        Ok(taken)
    }

    /// Takes from the last sublist, and removes it when that empties it.
    async fn take_from_last_sub(&self, tx: &Tx, limit: u64, depth: usize) -> Result<Vec<Blkptr>, DslError> {
        let phys = *self.phys.lock();
        let last = phys.subobj_count.get() - 1;
        let (list, sub) = match self.last_sub(&phys).await {
            Ok(found) => found,
            Err(error) if can_lose(&error) => {
                tracing::error!(%error, "a damaged sublist is skipped");
                self.change(tx, |phys| {
                    phys.subobj_count = U64::new(last);
                    Ok(())
                })?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        let taken = sub.take_at(tx, limit, depth + 1).await?;
        let mut space = SpaceDelta::default();
        taken.iter().for_each(|bp| space.add(self.mos.zio(), bp));
        let gone = sub.is_empty();
        self.change(tx, |phys| {
            count(phys, space, -1)?;
            if gone {
                phys.subobj_count = U64::new(last);
            }
            Ok(())
        })?;
        if gone {
            sub.free(tx).await?;
            list.free_range(tx, last * 8, 8).await?;
        }
        Ok(taken)
    }

    /// Returns the object with the numbers of the sublists, and the last sublist.
    async fn last_sub(&self, phys: &BpobjPhys) -> Result<(Arc<Dnode>, Self), DslError> {
        let last = phys.subobj_count.get() - 1;
        let list = self.mos.hold(ObjectId::new(phys.subobjs.get())).await?;
        let mut word = [0; 8];
        list.read(last * 8, &mut word).await?;
        let sub = Self::open(&self.mos, ObjectId::new(u64::from_le_bytes(word))).await?;
        Ok((list, sub))
    }

    /// Entries, sublists' too, without taking them: `visit` sees batches.
    ///
    /// # Errors
    /// Damage, and those of reading.
    #[boxed]
    pub async fn for_each(&self, visit: &mut (dyn FnMut(&[Blkptr]) + Send)) -> Result<(), DslError> {
        self.for_each_at(visit, 0).await
    }

    fn for_each_at<'a>(
        &'a self,
        visit: &'a mut (dyn FnMut(&[Blkptr]) + Send),
        depth: usize,
    ) -> BoxFuture<'a, Result<(), DslError>> {
        Box::pin(async move {
            if depth > DEPTH_MAX {
                return Err(DslError::damaged(self.object(), "bpobjs nested too deeply"));
            }
            let phys = *self.phys.lock();
            let mut at = 0;
            while at < phys.blkptrs.get() {
                let here = READ_ENTRIES.min(phys.blkptrs.get() - at);
                visit(&self.read_entries(at, here).await?);
                at += here;
            }
            for sub in self.sublists().await? {
                Self::open(&self.mos, sub).await?.for_each_at(visit, depth + 1).await?;
            }
            Ok(())
        })
    }

    /// Frees the object of a list that is empty.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn free(self, tx: &Tx) -> Result<(), DslError> {
        assert!(self.is_empty(), "a bpobj with entries was to be freed");
        self.free_sublists_object(tx).await?;
        Ok(self.mos.free_object(tx, self.object()).await?)
    }

    /// Frees the list's object and those of its sublists; blocks that they name stay as they are.
    pub(crate) async fn discard(self, tx: &Tx) -> Result<(), DslError> {
        self.discard_at(tx, 0).await
    }

    fn discard_at<'a>(self, tx: &'a Tx, depth: usize) -> BoxFuture<'a, Result<(), DslError>> {
        Box::pin(async move {
            if depth > DEPTH_MAX {
                return Err(DslError::damaged(self.object(), "bpobjs nested too deeply"));
            }
            let sublists = match impatient(self.sublists()).await {
                Err(error) if can_lose(&error) => Vec::new(),
                sublists => sublists?,
            };
            for sub in sublists {
                match impatient(Self::open(&self.mos, sub)).await {
                    Err(error) if can_lose(&error) => {}
                    sub => sub?.discard_at(tx, depth + 1).await?,
                }
            }
            self.free_sublists_object(tx).await?;
            Ok(self.mos.free_object(tx, self.object()).await?)
        })
    }

    async fn read_entries(&self, first: u64, len: u64) -> Result<Vec<Blkptr>, DslError> {
        let mut bytes = vec![0; len as usize * BLKPTR_BYTES];
        self.dnode.read(first * BLKPTR_BYTES as u64, &mut bytes).await?;
        let entry = |chunk: &[u8]| {
            let bp = Blkptr::read_from_bytes(chunk).map_err(|_| DslError::damaged(self.object(), "entry"))?;
            if bp.is_hole() { Err(DslError::damaged(self.object(), "hole in a bpobj")) } else { Ok(bp) }
        };
        bytes.chunks_exact(BLKPTR_BYTES).map(entry).collect()
    }

    /// Changes the figures and writes them through, as long as the bonus buffer is.
    fn change(
        &self,
        tx: &Tx,
        edit: impl FnOnce(&mut BpobjPhys) -> Result<(), Imbalance>,
    ) -> Result<(), DslError> {
        let mut phys = self.phys.lock();
        let mut edited = *phys;
        edit(&mut edited).map_err(|Imbalance| Imbalance.of(self.object()))?;
        self.dnode.set_bonus(tx, ObjectType::BPOBJ_HDR, &edited.as_bytes()[..self.bonus_bytes])?;
        *phys = edited;
        Ok(())
    }
}

/// True if a list that cannot be read because of this error is skipped.
pub(crate) fn can_lose(error: &DslError) -> bool {
    error.is_loss() && SyncRead::FreeList.goes_on()
}

/// Adds to (`1`) or takes from (`-1`) the figures.
fn count(phys: &mut BpobjPhys, space: SpaceDelta, sign: i64) -> Result<(), Imbalance> {
    add(&mut phys.bytes, sign * space.used)?;
    add(&mut phys.compressed, sign * space.compressed)?;
    add(&mut phys.uncompressed, sign * space.uncompressed)
}

/// The entry for a block: without what nobody who frees it needs, so that lists compress well.
fn stored(bp: &Blkptr) -> [u8; BLKPTR_BYTES] {
    let mut bytes = [0; BLKPTR_BYTES];
    bytes.copy_from_slice(bp.as_bytes());
    if bp.is_embedded() {
        // Properties and birth; the rest is payload.
        bytes[..48].fill(0);
        bytes[56..80].fill(0);
        bytes[FILL_AT..].fill(0);
        return bytes;
    }
    bytes[FILL_AT..CHECKSUM_AT].fill(0);
    if !bp.dedup() {
        bytes[CHECKSUM_AT..].fill(0);
    }
    bytes
}

impl Dsl {
    /// Appends to the list in this object.
    ///
    /// # Errors
    /// Damage, and those of reading and writing.
    #[boxed]
    pub async fn bpobj_append(&self, tx: &Tx, list: ObjectId, bps: &[Blkptr]) -> Result<(), DslError> {
        Bpobj::open(&self.mos, list).await?.append(tx, bps).await
    }

    /// All entries of the list in this object.
    ///
    /// # Errors
    /// Damage, and those of reading.
    #[boxed]
    pub async fn bpobj_entries(&self, list: ObjectId) -> Result<Vec<Blkptr>, DslError> {
        let mut all = Vec::new();
        Bpobj::open(&self.mos, list).await?.for_each(&mut |bps| all.extend_from_slice(bps)).await?;
        Ok(all)
    }

    /// Empties the list in this object.
    ///
    /// # Errors
    /// Damage, and those of reading and writing.
    #[boxed]
    pub async fn bpobj_clear(&self, tx: &Tx, list: ObjectId) -> Result<(), DslError> {
        let list = Bpobj::open(&self.mos, list).await?;
        while !list.is_empty() {
            list.take(tx, READ_ENTRIES as usize).await?;
        }
        Ok(())
    }
}
