//! Whether quotas and reservations may be set so: not below what is used, not beyond what is free.

use crate::space::available::{PoolSpace, below};
use crate::{DatasetName, Dsl, DslError, PropValue};

const TOO_SMALL: &str = "size is less than current used or reserved space";
const TOO_LARGE: &str = "size is greater than available space";

/// The limits that the same command sets before the limit that is being checked.
#[derive(Default)]
struct LimitsBefore {
    quota: Option<u64>,
    refquota: Option<u64>,
    reservation: Option<u64>,
    refreservation: Option<u64>,
}

impl LimitsBefore {
    fn note(&mut self, prop: &str, bytes: Option<u64>) {
        match prop {
            "quota" => self.quota = bytes,
            "refquota" => self.refquota = bytes,
            "reservation" => self.reservation = bytes,
            "refreservation" => self.refreservation = bytes,
            _ => {}
        }
    }
}

impl Dsl {
    /// Whether `quota`, `refquota`, `reservation` or `refreservation` of a head may be set to
    /// `bytes`; all other properties may.
    ///
    /// # Errors
    /// [`DslError::Limit`], and those of reading the MOS.
    pub async fn check_limit(
        &self,
        dataset: &DatasetName,
        prop: &str,
        bytes: Option<u64>,
        pool: &PoolSpace,
    ) -> Result<(), DslError> {
        self.check_limit_after(dataset, (prop, bytes), &LimitsBefore::default(), pool).await
    }

    /// As [`Self::check_limit`], for several properties that are set together, in this order. A
    /// quota and a reservation that fit each other are accepted, whatever the old values were.
    ///
    /// # Errors
    /// As [`Self::check_limit`].
    pub async fn check_limits(
        &self,
        dataset: &DatasetName,
        props: &[(String, PropValue)],
        pool: &PoolSpace,
    ) -> Result<(), DslError> {
        let mut before = LimitsBefore::default();
        for (prop, value) in props {
            self.check_limit_after(dataset, (prop, value.number()), &before, pool).await?;
            before.note(prop, value.number());
        }
        Ok(())
    }

    async fn check_limit_after(
        &self,
        dataset: &DatasetName,
        (prop, bytes): (&str, Option<u64>),
        before: &LimitsBefore,
        pool: &PoolSpace,
    ) -> Result<(), DslError> {
        let Some(bytes) = bytes.filter(|&bytes| bytes > 0) else { return Ok(()) };
        let refusal = match prop {
            "quota" => self.quota_refusal(dataset, bytes, before).await?,
            "refquota" => self.refquota_refusal(dataset, bytes, before).await?,
            "reservation" => self.reservation_refusal(dataset, bytes, before, pool).await?,
            "refreservation" => self.refreservation_refusal(dataset, bytes, before, pool).await?,
            _ => None,
        };
        match refusal {
            Some(why) => Err(DslError::Limit { why }),
            None => Ok(()),
        }
    }

    /// Whether so many bytes can be set aside for a dataset of this name that is to be made.
    ///
    /// # Errors
    /// [`DslError::NoSpace`]; [`DslError::NoSuchDataset`] of its parent, and those of reading the MOS.
    pub async fn check_new_reservation(
        &self,
        name: &str,
        bytes: u64,
        pool: &PoolSpace,
    ) -> Result<(), DslError> {
        let Some((parent, _)) = name.rsplit_once('/').filter(|_| bytes > 0) else { return Ok(()) };
        let parent = self.loaded_dir(self.resolve(parent).await?.dir).await?;
        if bytes > below(&parent, pool, &|_| 0) {
            return Err(DslError::NoSpace { name: name.to_owned() });
        }
        Ok(())
    }

    async fn quota_refusal(
        &self,
        dataset: &DatasetName,
        bytes: u64,
        before: &LimitsBefore,
    ) -> Result<Option<&'static str>, DslError> {
        let dir = self.dir(dataset.dir).await?;
        let taken = dir.used_bytes.get().max(before.reservation.unwrap_or(dir.reserved.get()));
        Ok((bytes < taken).then_some(TOO_SMALL))
    }

    async fn refquota_refusal(
        &self,
        dataset: &DatasetName,
        bytes: u64,
        before: &LimitsBefore,
    ) -> Result<Option<&'static str>, DslError> {
        let head = self.loaded_dataset(dataset.dataset).await?;
        let reserved = before.refreservation.unwrap_or(head.refreservation());
        let taken = head.phys().referenced_bytes.get().max(reserved);
        Ok((bytes < taken).then_some(TOO_SMALL))
    }

    async fn reservation_refusal(
        &self,
        dataset: &DatasetName,
        bytes: u64,
        before: &LimitsBefore,
        pool: &PoolSpace,
    ) -> Result<Option<&'static str>, DslError> {
        let dir = self.loaded_dir(dataset.dir).await?;
        let phys = dir.phys();
        let (used, quota) = (phys.used_bytes.get(), before.quota.unwrap_or(phys.quota.get()));
        let available = match dir.parent() {
            Some(parent) => below(&parent, pool, &|_| 0),
            None => pool.usable_bytes.saturating_sub(used),
        };
        let more = used.max(bytes).saturating_sub(used.max(phys.reserved.get()));
        Ok((more > 0 && (more > available || quota > 0 && bytes > quota)).then_some(TOO_LARGE))
    }

    async fn refreservation_refusal(
        &self,
        dataset: &DatasetName,
        bytes: u64,
        before: &LimitsBefore,
        pool: &PoolSpace,
    ) -> Result<Option<&'static str>, DslError> {
        let head = self.loaded_dataset(dataset.dataset).await?;
        let unique = head.phys().unique_bytes.get();
        let more = unique.max(bytes).saturating_sub(unique.max(head.refreservation()));
        let refquota = before.refquota.unwrap_or(head.refquota());
        let beyond = refquota > 0 && bytes > refquota;
        Ok((more > 0 && (more > below(head.dir(), pool, &|_| 0) || beyond)).then_some(TOO_LARGE))
    }
}
