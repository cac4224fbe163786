//! Space, from datasets up to the root.
//!
//! ```text
//!  parent.used        = head + snap + child + child_rsrv + refrsrv     (the breakdown)
//!  parent.child      += what the child uses
//!  parent.child_rsrv += what the child has reserved and does not use
//! ```
//! A dir charges its parent the greater of what it uses and what it has reserved. A head with a
//! refreservation charges its dir likewise; the unused rest stands under `refrsrv`.

pub(crate) mod available;
pub(crate) mod head_room;
pub(crate) mod limits;

use dmu::{SpaceDelta, SyncRead, Tx};
use env::{boxed, impatient};
use ondisk::Blkptr;
use ondisk::dsl::{DslDirPhys, dir_flags, used};
use ondisk::mos::hidden;
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::dataset::Dataset;
use crate::dataset::block_kill::{Held, account_held};
use crate::dir::Dir;
use crate::tree::{FREE_DIR, MOS_DIR};
use crate::{Dsl, DslError};

/// A counter would go below zero or past the end: the sums on disk were wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Imbalance;

impl Imbalance {
    /// The same with its place.
    pub(crate) fn of(self, object: ObjectId) -> DslError {
        DslError::damaged(object, "space counters that do not add up")
    }
}

/// A counter on disk as a number that can be taken from others.
pub(crate) fn signed(counter: U64) -> i64 {
    i64::try_from(counter.get()).unwrap_or(i64::MAX)
}

/// Adds to a counter on disk.
pub(crate) fn add(counter: &mut U64, delta: i64) -> Result<(), Imbalance> {
    *counter = U64::new(counter.get().checked_add_signed(delta).ok_or(Imbalance)?);
    Ok(())
}

/// By how much `max(used, reserved)` changes.
fn charged(used: u64, delta: i64, reserved: u64) -> Result<i64, Imbalance> {
    let after = used.checked_add_signed(delta).ok_or(Imbalance)?;
    difference(after.max(reserved), used.max(reserved))
}

fn difference(after: u64, before: u64) -> Result<i64, Imbalance> {
    i64::try_from(i128::from(after) - i128::from(before)).map_err(|_| Imbalance)
}

fn add_all(phys: &mut DslDirPhys, delta: SpaceDelta) -> Result<(), Imbalance> {
    add(&mut phys.used_bytes, delta.used)?;
    add(&mut phys.compressed_bytes, delta.compressed)?;
    add(&mut phys.uncompressed_bytes, delta.uncompressed)
}

/// Adds to one heading of the breakdown, where there is one.
fn add_heading(phys: &mut DslDirPhys, heading: usize, delta: i64) -> Result<(), Imbalance> {
    if phys.flags.get() & dir_flags::USED_BREAKDOWN != 0 {
        add(&mut phys.used_breakdown[heading], delta)?;
    }
    Ok(())
}

impl Dir {
    /// The dir comes to use more or less, under one heading of the breakdown (`used::*`), and
    /// so do its ancestors.
    pub(crate) fn use_space(&self, tx: &Tx, heading: usize, delta: SpaceDelta) -> Result<(), DslError> {
        let charge = self.try_change(tx, |phys| {
            let charge = charged(phys.used_bytes.get(), delta.used, phys.reserved.get())?;
            add_all(phys, delta)?;
            add_heading(phys, heading, delta.used)?;
            Ok(charge)
        })?;
        self.charge_parent(tx, charge, delta.used, delta)
    }

    /// This dir's charge has changed by `charge`, its use by `spent`.
    fn charge_parent(&self, tx: &Tx, charge: i64, spent: i64, delta: SpaceDelta) -> Result<(), DslError> {
        let Some(parent) = self.parent() else {
            return Ok(());
        };
        let upwards = parent.try_change(tx, |phys| {
            let upwards = charged(phys.used_bytes.get(), charge, phys.reserved.get())?;
            add_all(phys, SpaceDelta { used: charge, ..delta })?;
            add_heading(phys, used::CHILD_RESERVATION, charge - spent)?;
            add_heading(phys, used::CHILD, spent)?;
            Ok(upwards)
        })?;
        parent.charge_parent(tx, upwards, charge, delta)
    }

    /// Moves use from one heading to another.
    pub(crate) fn move_space(&self, tx: &Tx, from: usize, to: usize, bytes: i64) -> Result<(), DslError> {
        if bytes == 0 {
            return Ok(());
        }
        self.try_change(tx, |phys| {
            add_heading(phys, from, -bytes)?;
            add_heading(phys, to, bytes)
        })
    }

    /// Sets the dir's reservation, and what its parent is charged for it.
    pub(crate) fn set_reservation(&self, tx: &Tx, bytes: u64) -> Result<(), DslError> {
        let delta = self.try_change(tx, |phys| {
            let used = phys.used_bytes.get();
            let before = used.max(phys.reserved.get());
            phys.reserved = U64::new(bytes);
            difference(used.max(bytes), before)
        })?;
        let Some(parent) = self.parent() else {
            return Ok(());
        };
        parent.use_space(tx, used::CHILD_RESERVATION, SpaceDelta { used: delta, ..SpaceDelta::default() })
    }
}

impl Dataset {
    /// Takes over what a sync of its objset left. What snapshots hold of the blocks let go was not
    /// unique to it, and goes on being used.
    fn apply_sync(&self, tx: &Tx, root: Blkptr, delta: SpaceDelta, held: &Held) -> Result<(), DslError> {
        let reserved = self.refreservation();
        let mut own = delta;
        own += held.all;
        let charge = self.try_change(tx, |phys| {
            let charge = charged(phys.unique_bytes.get(), own.used, reserved)?;
            phys.bp = root;
            add(&mut phys.referenced_bytes, delta.used)?;
            add(&mut phys.compressed_bytes, delta.compressed)?;
            add(&mut phys.uncompressed_bytes, delta.uncompressed)?;
            add(&mut phys.unique_bytes, own.used)?;
            Ok(charge)
        })?;
        let dir = self.dir();
        dir.use_space(tx, used::HEAD, SpaceDelta { used: charge, ..own })?;
        dir.move_space(tx, used::REFRESERVATION, used::HEAD, own.used - charge)?;
        account_held(tx, self, held)
    }

    /// How much of what is set aside for the head alone it has taken, in bytes.
    pub(crate) fn reservation_taken(&self) -> i64 {
        signed(U64::new(self.refreservation().min(self.phys().unique_bytes.get())))
    }

    /// What it refers to.
    pub(crate) fn referenced(&self) -> SpaceDelta {
        let phys = self.phys();
        SpaceDelta {
            used: signed(phys.referenced_bytes),
            compressed: signed(phys.compressed_bytes),
            uncompressed: signed(phys.uncompressed_bytes),
        }
    }

    /// Sets what is set aside for the head alone.
    pub(crate) fn set_refreservation(&self, tx: &Tx, bytes: u64) -> Result<(), DslError> {
        let unique = self.phys().unique_bytes.get();
        let unused = |reserved: u64| reserved.saturating_sub(unique);
        let delta = difference(unused(bytes), unused(self.refreservation()))
            .map_err(|Imbalance| Imbalance.of(self.object()))?;
        self.set_limits(self.refquota(), bytes);
        let delta = SpaceDelta { used: delta, ..SpaceDelta::default() };
        self.dir().use_space(tx, used::REFRESERVATION, delta)
    }
}

impl Dsl {
    /// Takes over what a sync of a dataset's objset left: the new root, the space it took and
    /// gave, the blocks it let go, and those that it refers to since, where [`Dsl::has_livelist`] asks for that. Gives those
    /// of the blocks let go that nobody else has, to be freed.
    ///
    /// # Errors
    /// [`DslError::Damaged`] when the sums on disk cannot have been right, and those of changing
    /// the MOS.
    #[boxed]
    pub async fn apply_sync(
        &self,
        tx: &Tx,
        dataset: ObjectId,
        root: Blkptr,
        delta: SpaceDelta,
        killed: Vec<Blkptr>,
        births: Option<Vec<Blkptr>>,
    ) -> Result<Vec<Blkptr>, DslError> {
        let head = self.loaded_dataset(dataset).await?;
        let turnover = match impatient(self.turnover(&head, births, &killed)).await {
            // A livelist that misses a txg is never used, because its sums differ from the clone's.
            Err(error) if error.is_loss() && SyncRead::Livelist.goes_on() => {
                tracing::error!(%error, "a livelist cannot be found, and is not kept");
                None
            }
            turnover => turnover?,
        };
        let (to_free, held) = self.hold_back(tx, &head, killed).await?;
        head.apply_sync(tx, root, delta, &held)?;
        if let Some(turnover) = turnover {
            match impatient(self.keep_livelist(tx, &head, turnover)).await {
                Err(error) if error.is_loss() && SyncRead::Livelist.goes_on() => {
                    tracing::error!(%error, "a damaged livelist is dropped");
                    self.drop_livelist(tx, head.dir()).await?;
                }
                kept => kept?,
            }
        }
        Ok(to_free)
    }

    /// The MOS itself has come to take more or less space. The counters of `$MOS` are an estimate: a txg counts what
    /// the txg before it has changed, so that a crash loses the last change, and blocks are freed later that were never
    /// counted. The counters end at zero then.
    /// (test: `a_mos_that_frees_what_a_crash_left_uncounted_is_no_damage`)
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn add_mos_space(&self, tx: &Tx, delta: SpaceDelta) -> Result<(), DslError> {
        let dir = self.special_dir(MOS_DIR).await?;
        let phys = dir.phys();
        let at_least = |delta: i64, counter: U64| delta.max(-signed(counter));
        let counted = SpaceDelta {
            used: at_least(delta.used, phys.used_bytes),
            compressed: at_least(delta.compressed, phys.compressed_bytes),
            uncompressed: at_least(delta.uncompressed, phys.uncompressed_bytes),
        };
        dir.use_space(tx, used::HEAD, counted)
    }

    /// Space of blocks that wait to be freed changes: what `$FREE` accounts for.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn add_freeing_space(&self, tx: &Tx, delta: SpaceDelta) -> Result<(), DslError> {
        self.special_dir(FREE_DIR).await?.use_space(tx, used::HEAD, delta)
    }

    /// Space of blocks that wait to be freed.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn freeing_bytes(&self) -> Result<u64, DslError> {
        self.special_bytes(FREE_DIR).await
    }

    /// Adds the space of blocks that cannot be found any more to the hidden dir `$LEAK`. The first
    /// leak creates the dir.
    ///
    /// # Errors
    /// When the MOS cannot be changed.
    #[boxed]
    pub async fn add_leaked_space(&self, tx: &Tx, delta: SpaceDelta) -> Result<(), DslError> {
        if delta == SpaceDelta::default() {
            return Ok(());
        }
        if self.child(self.root, hidden::LEAK).await?.is_none() {
            // Without a creation time, like the pool's other hidden dirs.
            self.create_dir(tx, Some(self.root), hidden::LEAK, 0).await?;
        }
        self.special_dir(hidden::LEAK).await?.use_space(tx, used::HEAD, delta)
    }

    /// Accounts for blocks of a dataset that were unlinked but cannot be found. Their size is
    /// `bytes`. Returns the bytes that no dataset is charged for any more. If the dataset has a
    /// snapshot or an origin, the snapshot may own some of the blocks. Then all of the bytes remain
    /// charged to the dir until the dir is destroyed.
    ///
    /// # Errors
    /// When the MOS cannot be changed.
    #[boxed]
    pub async fn lose_blocks(&self, tx: &Tx, dataset: ObjectId, bytes: u64) -> Result<u64, DslError> {
        let head = self.loaded_dataset(dataset).await?;
        let phys = head.phys();
        let prev = phys.prev_snapshot.get();
        let is_own = prev == 0 || prev == self.origin().await?.object().get();
        let dir = head.dir();
        // The exact size of the lost blocks is unknown, so it is limited by the sums that must not
        // become negative.
        let most = phys.unique_bytes.get().min(dir.phys().used_bytes.get());
        let lost = if is_own { bytes.min(most) } else { 0 };
        let delta = -signed(U64::new(lost));
        let charge = charged(phys.unique_bytes.get(), delta, head.refreservation())
            .map_err(|Imbalance| Imbalance.of(dataset))?;
        head.change(tx, |phys| {
            phys.referenced_bytes.set(phys.referenced_bytes.get().saturating_sub(bytes));
            phys.unique_bytes.set(phys.unique_bytes.get().saturating_sub(lost));
        })?;
        dir.use_space(tx, used::HEAD, SpaceDelta { used: charge, ..SpaceDelta::default() })?;
        dir.move_space(tx, used::REFRESERVATION, used::HEAD, delta - charge)?;
        Ok(lost)
    }

    /// Space of blocks that were to be freed and could not be found, for what names them is damaged.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn leaked_bytes(&self) -> Result<u64, DslError> {
        self.special_bytes(hidden::LEAK).await
    }

    /// What a dir that users do not see uses: nothing where there is none.
    async fn special_bytes(&self, name: &str) -> Result<u64, DslError> {
        match self.child(self.root, name).await? {
            Some(dir) => Ok(self.dir(dir).await?.used_bytes.get()),
            None => Ok(0),
        }
    }
}
