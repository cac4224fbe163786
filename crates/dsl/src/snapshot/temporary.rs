//! Temporary holds: holds that end with the process that took them.
//!
//! The directory of the MOS lists the temporary holds of the pool in a ZAP, `tmp_userrefs`: the
//! snapshot's object number in hexadecimal, `-`, the tag → seconds since 1970 (OpenZFS's
//! `dsl_pool_user_hold`). An import finds in the list what a crash left, and releases the holds.

use std::time::Duration;

use dmu::Tx;
use env::boxed;
use ondisk::ObjectType;
use ondisk::mos::directory;
use units::ObjectId;

use crate::{Dsl, DslError};

/// A hold that the directory lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemporaryHold {
    /// The snapshot.
    pub snapshot: ObjectId,
    /// The tag of the hold.
    pub tag: String,
}

impl TemporaryHold {
    fn key(&self) -> String {
        format!("{:x}-{}", self.snapshot.get(), self.tag)
    }

    /// The hold of an entry; `None` if no hold has such a key.
    fn of_key(key: &[u8]) -> Option<Self> {
        let (snapshot, tag) = std::str::from_utf8(key).ok()?.split_once('-')?;
        let snapshot = ObjectId::new(u64::from_str_radix(snapshot, 16).ok()?);
        Some(Self { snapshot, tag: tag.to_owned() })
    }
}

impl Dsl {
    /// Holds a snapshot until [`Dsl::release`] or the next import.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn hold_temporarily(
        &self,
        tx: &Tx,
        hold: &TemporaryHold,
        now: Duration,
    ) -> Result<(), DslError> {
        self.hold(tx, hold.snapshot, &hold.tag, now).await?;
        let list = match self.temporary_list().await? {
            Some(list) => list,
            None => {
                let made = self.create_zap(tx, ObjectType::USERREFS).await?;
                self.directory.add_u64(tx, directory::TMP_USERREFS.as_bytes(), made.get()).await?;
                made
            }
        };
        Ok(self.zap(list.get()).await?.add_u64(tx, hold.key().as_bytes(), now.as_secs()).await?)
    }

    /// All temporary holds.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn temporary_holds(&self) -> Result<Vec<TemporaryHold>, DslError> {
        let Some(list) = self.temporary_list().await? else { return Ok(Vec::new()) };
        let entries = self.zap(list.get()).await?.all().await?;
        Ok(entries.iter().filter_map(|entry| TemporaryHold::of_key(&entry.name)).collect())
    }

    /// Takes a hold off the list of temporary holds; most holds are not on the list.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn forget_temporary_hold(&self, tx: &Tx, hold: &TemporaryHold) -> Result<(), DslError> {
        let Some(list) = self.temporary_list().await? else { return Ok(()) };
        let (list, key) = (self.zap(list.get()).await?, hold.key());
        if list.lookup_u64(key.as_bytes()).await?.is_some() {
            list.remove(tx, key.as_bytes()).await?;
        }
        Ok(())
    }

    async fn temporary_list(&self) -> Result<Option<ObjectId>, DslError> {
        Ok(self.directory.lookup_u64(directory::TMP_USERREFS.as_bytes()).await?.map(ObjectId::new))
    }
}
