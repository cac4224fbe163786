//! The pool's checkpoint: a state of the whole pool that is kept, given up, or returned to.
//!
//! ```text
//!          make: txg T begins                 discard: txg D begins          D + n: maps of kept space are gone
//!  none ──────────────────────────► kept ────────────────────────► discarding ───────────────────────────────► none
//!          uberblock of T − 1 noted  │ frees of blocks born up to T − 1: kept,   │ a block of a map in each txg:
//!          in the MOS, feature       │ noted in the vdevs' maps of kept space    │ its entries are freed
//!          active                    │
//!                                    └─ import to the checkpoint: the noted uberblock is written as the newest
//! ```
//! The checkpoint is nothing but an old uberblock in the MOS directory. It stays true because no block that it leads to
//! is used again: a block is part of it if it was born no later, and such a block is kept when it is freed
//! ([`metaslab::Allocator::free_or_keep`]). Both ends of that come before everything else in their txg: no free of T may
//! come before the checkpoint, and none of D is kept, for the maps are being taken apart.
//!
//! Returning to the checkpoint overwrites what was written since. So the old uberblock is made the newest one, in a txg
//! of its own, before anything else is written: a crash leaves the pool before or after the return, and after it
//! nothing of the later state is left. That uberblock says of which txg it is a checkpoint, and an import that finds it
//! knows that intent logs which had not been claimed by then are of no use: their places may have been written over.
//!
//! No scan reads what is kept. So a device that missed txgs up to the checkpoint's is not said to have everything again
//! before the checkpoint is gone, and is brought up to date once more then, or by the next import.
//! (test: `a_device_that_missed_what_is_kept_is_behind_until_the_checkpoint_is_gone`)
//!
//! Invariants
//! - A checkpoint is whole from the txg that makes it to the one that begins to discard it, at any crash.
//!   (test: `a_power_cut_leaves_a_checkpoint_whole_or_none`)
//! - What is kept is freed once, when the checkpoint is discarded, and nothing of it is leaked.
//!   (test: `a_power_cut_while_a_checkpoint_is_discarded_leaks_nothing`)
//! - A return is all or nothing. (test: `a_power_cut_while_the_pool_returns_leaves_one_of_the_two_states`)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dmu::Tx;
use dmu::zap::ZapValue;
use dsl::Dsl;
use dsl::features::ZPOOL_CHECKPOINT;
use env::boxed;
use metaslab::Class;
use ondisk::UberblockPhys;
use ondisk::mos::directory;
use parking_lot::Mutex;
use units::{ObjectId, TXG_CONCURRENT_STATES, Txg};
use vdev::Dtl;
use zerocopy::{FromZeros, IntoBytes};
use zio::Zio;

use crate::space::maps::At;
use crate::{Pool, PoolError};

/// Words of an uberblock up to where it says of which txg it is a checkpoint.
const WORDS_MIN: usize = std::mem::offset_of!(UberblockPhys, raidz_reflow) / 8;

/// Why a checkpoint cannot be made or discarded, or what it stands in the way of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointRefusal {
    /// There is one.
    #[error("checkpoint exists")]
    Exists,
    /// One is being discarded.
    #[error("currently discarding checkpoint")]
    Discarding,
    /// There is none.
    #[error("checkpoint does not exist")]
    None,
    /// Some of what was kept for it cannot be found, so that it is never freed.
    #[error("checkpoint cannot be discarded whole: its space maps are damaged")]
    Stuck,
}

/// What a pool can tell of its checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointReport {
    /// When the state was made that is kept, in seconds since 1970.
    pub created_secs: u64,
    /// What is kept for it, parity included.
    pub kept_bytes: u64,
    /// It was given up, and what was kept for it is being freed.
    pub is_discarding: bool,
}

/// Where a pool is with its checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    None,
    Kept {
        created_secs: u64,
    },
    Discarding,
    /// A map of kept space cannot be read: the next import tries again.
    Stuck,
}

/// The checkpoint of one pool.
#[derive(Default)]
pub(crate) struct Checkpoint {
    stage: Mutex<Stage>,
    /// It went, and nobody has looked yet for devices that missed what was kept for it.
    has_gone: AtomicBool,
}

impl Checkpoint {
    /// Takes up what the MOS tells, and has blocks kept from now on.
    #[boxed]
    pub async fn load(dsl: &Dsl, zio: &Zio) -> Result<Self, PoolError> {
        let is_active = dsl.feature_count(&ZPOOL_CHECKPOINT).await?.is_some_and(|count| count > 0);
        let stage = match uberblock(dsl).await? {
            Some(kept) => {
                zio.with_allocator(|allocator| allocator.set_checkpoint(Some(kept.txg())));
                Stage::Kept { created_secs: kept.timestamp.get() }
            }
            None if is_active => Stage::Discarding,
            None => Stage::None,
        };
        Ok(Self { stage: Mutex::new(stage), has_gone: AtomicBool::new(false) })
    }

    fn stage(&self) -> Stage {
        *self.stage.lock()
    }

    /// Whether the next txg has something of a checkpoint to free.
    pub fn has_work(&self) -> bool {
        self.stage() == Stage::Discarding
    }
}

/// The uberblock that the checkpoint is.
pub(crate) async fn uberblock(dsl: &Dsl) -> Result<Option<UberblockPhys>, PoolError> {
    let found = dsl.directory().lookup(directory::ZPOOL_CHECKPOINT.as_bytes()).await?;
    let Some(value) = found else { return Ok(None) };
    let damaged =
        || PoolError::Damaged { object: ObjectId::new(1), what: "uberblock of the checkpoint".into() };
    let words = value.as_u64s();
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut padded = UberblockPhys::new_zeroed();
    let fits = words.len() >= WORDS_MIN && bytes.len() <= size_of::<UberblockPhys>();
    let room = padded.as_mut_bytes().get_mut(..bytes.len()).filter(|_| fits);
    room.ok_or_else(damaged)?.copy_from_slice(&bytes);
    let kept = UberblockPhys::decode(padded.as_bytes()).map_err(|_| damaged())?;
    let is_one = kept.txg() != Txg::ZERO && kept.checkpoint_txg == kept.txg;
    if is_one { Ok(Some(kept)) } else { Err(damaged()) }
}

fn words(uberblock: &UberblockPhys) -> ZapValue {
    let words = uberblock.as_bytes().as_chunks::<8>().0.iter();
    ZapValue::U64(words.map(|word| u64::from_le_bytes(*word)).collect())
}

impl Pool {
    fn enter(&self, stage: Stage) {
        *self.checkpoint.stage.lock() = stage;
        self.tell_space();
    }

    /// Has space be given out as the checkpoint allows.
    pub(crate) fn tell_space(&self) {
        let stage = self.checkpoint.stage();
        self.space.set_checkpoint(matches!(stage, Stage::Kept { .. }), stage == Stage::Discarding);
    }

    /// Whether a device that missed these txgs may lack blocks that are kept for the checkpoint, and that no resilver
    /// finds.
    pub(crate) fn may_miss_kept(&self, missed: &Dtl) -> bool {
        let newest = self.zio.with_allocator(|allocator| allocator.checkpoint());
        missed.bounds().zip(newest).is_some_and(|(missed, checkpoint)| *missed.start() <= checkpoint)
    }

    /// What there is to tell of the pool's checkpoint, if it has one.
    #[must_use]
    pub fn checkpoint(&self) -> Option<CheckpointReport> {
        let (created_secs, is_discarding) = match self.checkpoint.stage() {
            Stage::None => return None,
            Stage::Kept { created_secs } => (created_secs, false),
            Stage::Discarding | Stage::Stuck => (0, true),
        };
        Some(CheckpointReport { created_secs, kept_bytes: self.kept_bytes(), is_discarding })
    }

    /// What is kept for the checkpoint, on vdevs of all classes, parity included.
    fn kept_bytes(&self) -> u64 {
        let kept = |class| self.zio.with_allocator(|allocator| allocator.space(class).kept.get());
        Class::ALL.into_iter().map(kept).sum()
    }

    /// Keeps the pool's state as of now.
    ///
    /// # Errors
    /// [`PoolError::NeedsFeature`]; [`CheckpointRefusal::Exists`] and [`CheckpointRefusal::Discarding`]; when it cannot
    /// be made stable.
    #[boxed]
    pub async fn make_checkpoint(self: &Arc<Self>) -> Result<(), PoolError> {
        self.check_writable()?;
        if self.dsl.feature_count(&ZPOOL_CHECKPOINT).await?.is_none() {
            return Err(PoolError::NeedsFeature { name: ZPOOL_CHECKPOINT.name });
        }
        self.check_no_evacuation()?;
        // What was done so far is to be part of it. A block of an intent log that the import claimed may be younger than
        // the uberblock by all txgs that were not stable; it must not look younger than the checkpoint.
        let claimed = Txg::new(self.opened_txg.get() + TXG_CONCURRENT_STATES);
        self.sync_now().await?;
        while self.gate.synced_txg() < claimed {
            self.sync_now().await?;
        }
        self.in_early_sync(|pool, tx| async move { pool.note_checkpoint(&tx).await }).await
    }

    async fn note_checkpoint(&self, tx: &Tx) -> Result<(), PoolError> {
        self.check_no_checkpoint()?;
        self.check_no_evacuation()?;
        let mut kept = self.last_uberblock.lock().expect("a txg was synced before a task could be asked for");
        assert_eq!(kept.txg().next(), tx.txg(), "a checkpoint is the state just before its txg");
        kept.checkpoint_txg = kept.txg;
        self.dsl.directory().add(tx, directory::ZPOOL_CHECKPOINT.as_bytes(), &words(&kept)).await?;
        self.dsl.count_feature(tx, &ZPOOL_CHECKPOINT, 1).await?;
        self.note_event(tx, "spa checkpoint", None, &format!("checkpointed uberblock txg={}", kept.txg()))
            .await?;
        self.zio.with_allocator(|allocator| allocator.set_checkpoint(Some(kept.txg())));
        self.enter(Stage::Kept { created_secs: kept.timestamp.get() });
        Ok(())
    }

    /// Notes that the pool has returned to its checkpoint, if it has.
    pub(crate) async fn note_return(&self, tx: &Tx) -> Result<(), PoolError> {
        let Some(checkpoint) = self.returned_to else { return Ok(()) };
        self.note_event(tx, "checkpoint rewind", None, &format!("rewound state to txg={checkpoint}")).await
    }

    /// Refuses what cannot be undone by a return to the checkpoint, while there is one.
    ///
    /// # Errors
    /// [`CheckpointRefusal::Exists`] and [`CheckpointRefusal::Discarding`].
    pub(crate) fn check_no_checkpoint(&self) -> Result<(), CheckpointRefusal> {
        match self.checkpoint.stage() {
            Stage::None => Ok(()),
            Stage::Kept { .. } => Err(CheckpointRefusal::Exists),
            Stage::Discarding | Stage::Stuck => Err(CheckpointRefusal::Discarding),
        }
    }

    /// Gives up the checkpoint. What was kept for it is freed by this and the next txgs; see [`Self::wait_discarded`].
    ///
    /// # Errors
    /// [`CheckpointRefusal::None`] and [`CheckpointRefusal::Discarding`]; when it cannot be made stable.
    #[boxed]
    pub async fn discard_checkpoint(self: &Arc<Self>) -> Result<(), PoolError> {
        self.in_early_sync(|pool, tx| async move { pool.begin_discard(&tx).await }).await
    }

    async fn begin_discard(&self, tx: &Tx) -> Result<(), PoolError> {
        match self.checkpoint.stage() {
            Stage::None => return Err(CheckpointRefusal::None.into()),
            Stage::Discarding | Stage::Stuck => return Err(CheckpointRefusal::Discarding.into()),
            Stage::Kept { .. } => {}
        }
        self.dsl.directory().remove(tx, directory::ZPOOL_CHECKPOINT.as_bytes()).await?;
        let what = "started discarding checkpointed state from the pool";
        self.note_event(tx, "spa discard checkpoint", None, what).await?;
        self.zio.with_allocator(|allocator| allocator.set_checkpoint(None));
        self.enter(Stage::Discarding);
        Ok(())
    }

    /// Waits until nothing is kept any more for a checkpoint that was given up; at once if none was.
    ///
    /// # Errors
    /// [`CheckpointRefusal::Stuck`]; when txgs cannot be made stable.
    #[boxed]
    pub async fn wait_discarded(&self) -> Result<(), PoolError> {
        loop {
            match self.checkpoint.stage() {
                Stage::Discarding => self.sync_now().await?,
                Stage::Stuck => return Err(CheckpointRefusal::Stuck.into()),
                Stage::None | Stage::Kept { .. } => return Ok(()),
            }
        }
    }

    /// Frees some of what was kept for a checkpoint that was given up. A map that is damaged leaks what it tells of; the
    /// pool goes on.
    pub(crate) async fn discard_some(&self, tx: &Tx) -> Result<(), PoolError> {
        if !self.checkpoint.has_work() {
            return Ok(());
        }
        let tx = tx.again();
        let at = At { dsl: &self.dsl, tx: &tx, zio: &self.zio, vdevs: &self.vdevs };
        let footprint = tx.footprint();
        match self.space_maps.release_some(&at).await {
            Ok(true) => Ok(()),
            Ok(false) => self.end_discard(&tx).await,
            Err(error) if footprint.is_there() => Err(error),
            Err(error) => {
                tracing::warn!(%error, "what was kept for the checkpoint cannot be freed");
                self.enter(Stage::Stuck);
                Ok(())
            }
        }
    }

    async fn end_discard(&self, tx: &Tx) -> Result<(), PoolError> {
        assert_eq!(self.kept_bytes(), 0, "kept, and in no map of kept space");
        self.dsl.count_feature(tx, &ZPOOL_CHECKPOINT, -1).await?;
        let what = "finished discarding checkpointed state from the pool";
        self.note_event(tx, "spa discard checkpoint", None, what).await?;
        self.enter(Stage::None);
        self.checkpoint.has_gone.store(true, Ordering::Release);
        Ok(())
    }

    /// Begins to bring devices up to date that could not be said to be before the checkpoint went, once it has.
    pub(crate) fn resilver_after_checkpoint(self: &Arc<Self>) {
        if !self.checkpoint.has_gone.swap(false, Ordering::AcqRel) {
            return;
        }
        let pool = Arc::clone(self);
        let work = async move {
            if let Err(error) = pool.resilver().await {
                tracing::warn!(%error, "devices that missed what was kept for a checkpoint stay behind");
            }
        };
        self.env.spawn("resilver_after_checkpoint", Box::pin(work));
    }
}
