//! Snapshots: a head's contents at the end of a txg, kept.
//!
//! ```text
//!  before:  A ◄─prev─ head                 deadlist of head: what A has and head has no more
//!  after:   A ◄─prev─ S ◄─prev─ head       S takes that deadlist over; head begins a new one
//!             ─next─►   ─next─►
//! ```
//! A snapshot is made in syncing context once its head's changes of the txg are written, so it is a copy of the head's
//! numbers and of nothing else. What the two refer to is no longer the head's alone.
//!
//! Invariants
//! - Deadlists have a key for each snapshot that can have a block on them: the one before each snapshot, and each
//!   bookmark that counts what is freed (test: `snapshots_and_clones_account_for_every_block`).

mod destroy;
mod hold;
mod remapped;
mod rename;
mod rollback;
mod temporary;

pub use rollback::Abandoned;
pub use temporary::TemporaryHold;

use std::sync::Arc;
use std::time::Duration;

use dmu::zap::ZapValue;
use dmu::{SpaceDelta, Tx};
use env::boxed;
use ondisk::ObjectType;
use ondisk::dsl::dir_names::SNAPSHOTS_CHANGED;
use ondisk::dsl::{DslDatasetPhys, dataset_flags, used};
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::counts::Counted;
use crate::create::Birth;
use crate::dataset::Dataset;
use crate::features::EXTENSIBLE_DATASET;
use crate::names::NAME_BYTES_MAX;
use crate::props::remove_if_there;
use crate::space::available::{PoolSpace, below};
use crate::{DatasetName, Dsl, DslError, PropValue, check_snapshot_name};

impl Dsl {
    /// Says whether a head can get a snapshot of this name in `tx`.
    ///
    /// # Errors
    /// [`DslError::InUse`] for a partially received dataset, because such a snapshot would make the
    /// rest of the stream impossible to receive; and as [`Self::check_received_snapshot`].
    #[boxed]
    pub async fn check_snapshot(
        &self,
        tx: &Tx,
        of: &DatasetName,
        snapshot: &str,
        pool: &PoolSpace,
    ) -> Result<(), DslError> {
        self.check_received_snapshot(tx, of, snapshot, pool).await?;
        if self.dataset(of.dataset).await?.flags.get() & dataset_flags::INCONSISTENT != 0 {
            let name = format!("{}@{snapshot}", of.name);
            return Err(DslError::InUse { name, why: "it is being received" });
        }
        Ok(())
    }

    /// As [`Self::check_snapshot`], for the snapshot at the end of a receive.
    ///
    /// # Errors
    /// [`DslError::BadName`], [`DslError::Exists`]; [`DslError::NoSpace`] when what is set aside for the head alone
    /// would have to be set aside once more; [`DslError::TryAgain`] when its last snapshot is of the same txg; those
    /// of reading the MOS.
    #[boxed]
    pub async fn check_received_snapshot(
        &self,
        tx: &Tx,
        of: &DatasetName,
        snapshot: &str,
        pool: &PoolSpace,
    ) -> Result<(), DslError> {
        self.check_new_snapshot_name(of, snapshot).await?;
        let head = self.loaded_dataset(of.dataset).await?;
        if head.phys().prev_snapshot_txg.get() >= tx.txg().get() {
            return Err(DslError::TryAgain { name: of.name.clone() });
        }
        let more = head.reservation_taken();
        if more > 0 && more.cast_unsigned() > below(head.dir(), pool, &|_| 0) {
            return Err(DslError::NoSpace { name: of.name.clone() });
        }
        Ok(())
    }

    /// Whether a head has no snapshot of this name and may have one.
    async fn check_new_snapshot_name(&self, of: &DatasetName, snapshot: &str) -> Result<(), DslError> {
        let name = format!("{}@{snapshot}", of.name);
        check_snapshot_name(snapshot)?;
        if name.len() > NAME_BYTES_MAX {
            return Err(DslError::BadName { name, why: "too long" });
        }
        let names = self.dataset(of.dataset).await?.snapshot_names.get();
        match self.zap(names).await?.lookup_u64(snapshot.as_bytes()).await? {
            Some(_) => Err(DslError::Exists { name }),
            None => Ok(()),
        }
    }

    /// Makes a snapshot of a head that [`Dsl::check_snapshot`] approves of and whose changes of this txg are written.
    /// `now` is the time since 1970.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn create_snapshot(
        &self,
        tx: &Tx,
        of: &DatasetName,
        snapshot: &str,
        birth: Birth,
        now: Duration,
    ) -> Result<DatasetName, DslError> {
        let head = self.loaded_dataset(of.dataset).await?;
        let phys = snapshot_phys(&head, birth, tx);
        let object = self.create_dataset_object(tx, &phys).await?;
        self.inherit_features(tx, &head, object).await?;
        self.follow_with(tx, &head, object).await?;
        self.begin_deadlist(tx, &head).await?;
        self.remapped_before(tx, &head, object).await?;
        charge_refreservation_again(tx, &head)?;
        head.change(tx, |head| {
            head.prev_snapshot = U64::new(object.get());
            head.prev_snapshot_txg = phys.creation_txg;
            head.unique_bytes = U64::ZERO;
            head.flags = U64::new(head.flags.get() | dataset_flags::UNIQUE_ACCURATE);
        })?;
        let names = self.zap(head.phys().snapshot_names.get()).await?;
        names.add_u64(tx, snapshot.as_bytes(), object.get()).await?;
        self.count(tx, head.dir(), Counted::Snapshots, 1).await?;
        self.note_snapshots_changed(tx, &head, now).await?;
        Ok(DatasetName { name: format!("{}@{snapshot}", of.name), dir: of.dir, dataset: object })
    }

    /// The snapshot before a head is followed by the new one instead.
    async fn follow_with(&self, tx: &Tx, head: &Dataset, snapshot: ObjectId) -> Result<(), DslError> {
        let Some(before) = self.before(head).await? else { return Ok(()) };
        self.replace_follower(tx, &before, head.object(), snapshot).await
    }

    /// The snapshot before a head or snapshot, in this dir or the one that it began from.
    pub(crate) async fn before(&self, dataset: &Dataset) -> Result<Option<Arc<Dataset>>, DslError> {
        match dataset.phys().prev_snapshot.get() {
            0 => Ok(None),
            before => self.loaded_dataset(ObjectId::new(before)).await.map(Some),
        }
    }

    /// A snapshot is followed by `new` where it was by `old`: as its next, or as one of its clones.
    async fn replace_follower(
        &self,
        tx: &Tx,
        snapshot: &Dataset,
        old: ObjectId,
        new: ObjectId,
    ) -> Result<(), DslError> {
        if snapshot.is_followed_by(old) {
            return snapshot.change(tx, |phys| phys.next_snapshot = U64::new(new.get()));
        }
        let clones = snapshot.phys().next_clones.get();
        if clones != 0 {
            self.remove_from_clones(tx, clones, old).await?;
            self.add_to_clones(tx, clones, ObjectType::NEXT_CLONES, new).await?;
        }
        Ok(())
    }

    /// A head's deadlist stays with the snapshot that was just made of it; the head gets one of its own.
    async fn begin_deadlist(&self, tx: &Tx, head: &Dataset) -> Result<(), DslError> {
        let phys = head.phys();
        let last = phys.prev_snapshot_txg.get();
        let deadlist = self.clone_deadlist(tx, ObjectId::new(phys.deadlist.get()), u64::MAX).await?;
        let mut keys = self.counting_bookmark_txgs(head, last).await?;
        keys.insert(last);
        self.add_deadlist_keys(tx, &deadlist, &keys.into_iter().collect::<Vec<_>>()).await?;
        head.change(tx, |phys| phys.deadlist = U64::new(deadlist.object().get()))
    }

    /// Notes when snapshots of a dataset last came, went or got another name, where the pool has a place for that.
    pub(crate) async fn note_snapshots_changed(
        &self,
        tx: &Tx,
        head: &Dataset,
        now: Duration,
    ) -> Result<(), DslError> {
        if self.feature_count(&EXTENSIBLE_DATASET).await?.is_none() {
            return Ok(());
        }
        let fields = self.fields_of(tx, head.dir().dnode()).await?;
        let time = ZapValue::U64(vec![now.as_secs(), u64::from(now.subsec_nanos())]);
        Ok(fields.update(tx, SNAPSHOTS_CHANGED.as_bytes(), &time).await?)
    }

    /// Sets a property of a snapshot: its users' own are all that can be.
    ///
    /// # Errors
    /// As [`Dsl::check_prop`]; [`DslError::BadProperty`] for one of the format's; those of changing the MOS.
    #[boxed]
    pub async fn set_snapshot_prop(
        &self,
        tx: &Tx,
        snapshot: ObjectId,
        name: &str,
        value: &PropValue,
    ) -> Result<(), DslError> {
        self.check_snapshot_prop(name, value).await?;
        let snapshot = self.loaded_dataset(snapshot).await?;
        let props = match snapshot.phys().props.get() {
            0 => {
                let made = self.create_zap(tx, ObjectType::DSL_PROPS).await?.get();
                snapshot.change(tx, |phys| phys.props = U64::new(made))?;
                made
            }
            props => props,
        };
        Ok(self.zap(props).await?.update(tx, name.as_bytes(), &value.stored()).await?)
    }

    /// Checks that a property of a snapshot may be set to this value.
    ///
    /// # Errors
    /// As [`Dsl::check_prop`]; [`DslError::BadProperty`] for a native property.
    #[boxed]
    pub async fn check_snapshot_prop(&self, name: &str, value: &PropValue) -> Result<(), DslError> {
        self.check_prop(name, value).await?;
        match crate::props::prop(name) {
            Some(_) => {
                let why = "this property can not be modified for snapshots";
                Err(DslError::BadProperty { property: name.to_owned(), why })
            }
            None => Ok(()),
        }
    }

    /// Takes a property of a snapshot back.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn clear_snapshot_prop(&self, tx: &Tx, snapshot: ObjectId, name: &str) -> Result<(), DslError> {
        match self.dataset(snapshot).await?.props.get() {
            0 => Ok(()),
            props => remove_if_there(&self.zap(props).await?, tx, name).await,
        }
    }
}

impl Dataset {
    /// Whether this is the dataset that follows a snapshot directly, rather than a clone of it.
    pub(crate) fn is_followed_by(&self, follower: ObjectId) -> bool {
        self.phys().next_snapshot.get() == follower.get()
    }
}

/// A snapshot's numbers: those that its head has now.
fn snapshot_phys(head: &Dataset, birth: Birth, tx: &Tx) -> DslDatasetPhys {
    let from = head.phys();
    DslDatasetPhys {
        prev_snapshot: from.prev_snapshot,
        prev_snapshot_txg: from.prev_snapshot_txg,
        next_snapshot: U64::new(head.object().get()),
        children: U64::new(1),
        deadlist: from.deadlist,
        referenced_bytes: from.referenced_bytes,
        compressed_bytes: from.compressed_bytes,
        uncompressed_bytes: from.uncompressed_bytes,
        flags: from.flags,
        bp: from.bp,
        ..birth.phys(head.dir().object(), tx)
    }
}

/// Nothing is the head's alone any more, so all that is reserved for it is unused again.
fn charge_refreservation_again(tx: &Tx, head: &Dataset) -> Result<(), DslError> {
    let delta = SpaceDelta { used: head.reservation_taken(), ..SpaceDelta::default() };
    head.dir().use_space(tx, used::REFRESERVATION, delta)
}
