//! Holds: tags that keep a snapshot from being destroyed, in a ZAP of the snapshot's.

use std::time::Duration;

use dmu::Tx;
use env::boxed;
use ondisk::ObjectType;
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::dataset::Dataset;
use crate::{DatasetName, Dsl, DslError, TemporaryHold};

/// Longest tag, in bytes (`MAXNAMELEN`).
const TAG_BYTES_MAX: usize = 255;

impl Dsl {
    /// Tags on a snapshot, by name, and when each was put there, in seconds since 1970.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn holds(&self, snapshot: ObjectId) -> Result<Vec<(String, u64)>, DslError> {
        let holds = self.dataset(snapshot).await?.user_refs.get();
        if holds == 0 {
            return Ok(Vec::new());
        }
        let entries = self.zap(holds).await?.all().await?;
        let hold = |entry: &dmu::zap::ZapEntry| {
            (String::from_utf8_lossy(&entry.name).into_owned(), entry.value.as_u64().unwrap_or(0))
        };
        let mut holds: Vec<_> = entries.iter().map(hold).collect();
        holds.sort_unstable();
        Ok(holds)
    }

    pub(crate) async fn has_holds(&self, snapshot: &Dataset) -> Result<bool, DslError> {
        match snapshot.phys().user_refs.get() {
            0 => Ok(false),
            holds => Ok(self.zap(holds).await?.count().await? > 0),
        }
    }

    /// Whether a snapshot can be held under a tag.
    ///
    /// # Errors
    /// [`DslError::BadName`] of the tag, [`DslError::TagExists`], and those of reading the MOS.
    #[boxed]
    pub async fn check_hold(&self, name: &DatasetName, tag: &str) -> Result<(), DslError> {
        if tag.is_empty() || tag.len() > TAG_BYTES_MAX || tag.contains('\0') {
            return Err(DslError::BadName { name: tag.to_owned(), why: "tag is too long" });
        }
        match self.holds(name.dataset).await?.iter().any(|(held, _)| held == tag) {
            true => Err(DslError::TagExists { name: name.name.clone(), tag: tag.to_owned() }),
            false => Ok(()),
        }
    }

    /// Holds a snapshot under a tag, as [`Dsl::check_hold`] approves of.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn hold(&self, tx: &Tx, snapshot: ObjectId, tag: &str, now: Duration) -> Result<(), DslError> {
        let snapshot = self.loaded_dataset(snapshot).await?;
        let holds = match snapshot.phys().user_refs.get() {
            0 => {
                let made = self.create_zap(tx, ObjectType::USERREFS).await?.get();
                snapshot.change(tx, |phys| phys.user_refs = U64::new(made))?;
                made
            }
            holds => holds,
        };
        Ok(self.zap(holds).await?.add_u64(tx, tag.as_bytes(), now.as_secs()).await?)
    }

    /// Whether a snapshot is held under a tag.
    ///
    /// # Errors
    /// [`DslError::NoSuchTag`], and those of reading the MOS.
    #[boxed]
    pub async fn check_release(&self, name: &DatasetName, tag: &str) -> Result<(), DslError> {
        match self.holds(name.dataset).await?.iter().any(|(held, _)| held == tag) {
            true => Ok(()),
            false => Err(DslError::NoSuchTag { name: name.name.clone(), tag: tag.to_owned() }),
        }
    }

    /// Takes a hold away; a snapshot that was only waiting for that goes with it.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn release(
        &self,
        tx: &Tx,
        snapshot: ObjectId,
        tag: &str,
        now: Duration,
    ) -> Result<(), DslError> {
        let snapshot = self.loaded_dataset(snapshot).await?;
        self.zap(snapshot.phys().user_refs.get()).await?.remove(tx, tag.as_bytes()).await?;
        let hold = TemporaryHold { snapshot: snapshot.object(), tag: tag.to_owned() };
        self.forget_temporary_hold(tx, &hold).await?;
        self.destroy_if_deferred(tx, &snapshot, now).await
    }
}
