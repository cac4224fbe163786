//! Lists that take in other lists.
//!
//! ```text
//!  list: entries  a b c                       entries  a b c x y      a short list's entries are copied
//!        sublists S T      takes in  U   ─►   sublists S T V W        its sublists become this list's
//!                                             or       S T V W U      a long one becomes a sublist itself
//! ```
//! So a list of lists stays flat, however often lists are merged, and short lists do not remain as objects.

use dmu::{DnodeSpec, SpaceDelta, Tx};
use env::impatient;
use ondisk::ObjectType;
use units::ObjectId;
use zerocopy::little_endian::U64;

use super::{Bpobj, READ_ENTRIES, can_lose, count};
use crate::DslError;
use crate::space::add;

/// Block size of the object that numbers sublists.
const BLOCK_BYTES: u32 = 128 << 10;
/// A list with more sublists keeps them when it becomes a sublist: their sizes would have to be read one by one.
const MOVED_MAX: u64 = if cfg!(test) { 3 } else { 4096 };
/// A list with at most so many entries, and no sublists, is copied.
const COPIED_MAX: u64 = if cfg!(test) { 2 } else { READ_ENTRIES };

impl Bpobj {
    /// Takes in all that another list has; that is no list of its own any more.
    ///
    /// # Errors
    /// Damage, and those of reading and writing.
    pub(crate) async fn take_in(&self, tx: &Tx, other: Self) -> Result<(), DslError> {
        if (1..=MOVED_MAX).contains(&other.counts().1) {
            match impatient(self.take_sublists_of(tx, &other)).await {
                // The list is taken in with its sublists. Whoever empties it skips the damaged
                // parts.
                Err(error) if can_lose(&error) => {}
                taken => taken?,
            }
        }
        if other.is_empty() {
            return other.free(tx).await;
        }
        let (entries, sublists) = other.counts();
        if sublists == 0 && entries <= COPIED_MAX {
            match impatient(self.copy_entries(tx, &other, entries)).await {
                Err(error) if can_lose(&error) => {}
                copied => {
                    copied?;
                    return other.discard(tx).await;
                }
            }
        }
        self.add_sublists(tx, &[other.object()], other.space()).await
    }

    async fn copy_entries(&self, tx: &Tx, other: &Self, entries: u64) -> Result<(), DslError> {
        self.append(tx, &other.read_entries(0, entries).await?).await
    }

    /// How many entries of its own it has, and how many sublists.
    fn counts(&self) -> (u64, u64) {
        let phys = self.phys.lock();
        (phys.blkptrs.get(), phys.subobj_count.get())
    }

    /// Frees the object that numbers its sublists, if there is one; the sublists are the caller's business.
    pub(super) async fn free_sublists_object(&self, tx: &Tx) -> Result<(), DslError> {
        let object = self.phys.lock().subobjs.get();
        if object != 0 {
            self.mos.free_object(tx, ObjectId::new(object)).await?;
        }
        Ok(())
    }

    /// Numbers of its sublists, in order.
    pub(super) async fn sublists(&self) -> Result<Vec<ObjectId>, DslError> {
        let phys = *self.phys.lock();
        let mut words = vec![0; phys.subobj_count.get() as usize * size_of::<U64>()];
        if !words.is_empty() {
            self.mos.hold(ObjectId::new(phys.subobjs.get())).await?.read(0, &mut words).await?;
        }
        let word = |bytes: &[u8]| ObjectId::new(u64::from_le_bytes(std::array::from_fn(|at| bytes[at])));
        Ok(words.chunks_exact(size_of::<U64>()).map(word).collect())
    }

    /// Another list's sublists become this one's.
    async fn take_sublists_of(&self, tx: &Tx, other: &Self) -> Result<(), DslError> {
        let moved = other.sublists().await?;
        let mut space = SpaceDelta::default();
        for &sub in &moved {
            space += Self::open(&self.mos, sub).await?.space();
        }
        self.add_sublists(tx, &moved, space).await?;
        other.free_sublists_object(tx).await?;
        other.change(tx, |phys| {
            phys.subobjs = U64::ZERO;
            phys.subobj_count = U64::ZERO;
            count(phys, space, -1)
        })
    }

    async fn add_sublists(&self, tx: &Tx, subs: &[ObjectId], space: SpaceDelta) -> Result<(), DslError> {
        let phys = *self.phys.lock();
        let list = match phys.subobjs.get() {
            0 => self.mos.allocate(tx, &DnodeSpec::new(ObjectType::BPOBJ_SUBOBJ, BLOCK_BYTES)).await?,
            list => self.mos.hold(ObjectId::new(list)).await?,
        };
        let words: Vec<u8> = subs.iter().flat_map(|sub| sub.get().to_le_bytes()).collect();
        list.write(tx, phys.subobj_count.get() * size_of::<U64>() as u64, &words).await?;
        self.change(tx, |phys| {
            phys.subobjs = U64::new(list.object().get());
            add(&mut phys.subobj_count, subs.len() as i64)?;
            count(phys, space, 1)
        })
    }
}
