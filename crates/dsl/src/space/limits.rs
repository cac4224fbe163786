//! Whether quotas and reservations may be set so: not below what is used, not beyond what is free.

use crate::space::available::{PoolSpace, below};
use crate::{DatasetName, Dsl, DslError, PropValue};
use env::boxed;

const TOO_SMALL: &str = "size is less than current used or reserved space";
const TOO_LARGE: &str = "size is greater than available space";

/// The limits that one command sets. In a check of one limit, the limits before that limit.
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
    #[boxed]
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
    #[boxed]
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

    /// Checks that a dataset of this name can be made with the quotas and reservations among these
    /// properties: the reservations fit into the quotas, and the pool has space for the
    /// reservations.
    ///
    /// # Errors
    /// [`DslError::NoSpace`]; [`DslError::NoSuchDataset`] of its parent, and those of reading the MOS.
    #[boxed]
    pub async fn check_new_limits(
        &self,
        name: &str,
        props: &[(String, PropValue)],
        pool: &PoolSpace,
    ) -> Result<(), DslError> {
        let mut limits = LimitsBefore::default();
        props.iter().for_each(|(prop, value)| limits.note(prop, value.number()));
        let is_above = |bytes: u64, quota: Option<u64>| quota.is_some_and(|quota| quota > 0 && bytes > quota);
        let of_head = limits.refreservation.unwrap_or(0);
        let bytes = limits.reservation.unwrap_or(0).max(of_head);
        let available = match name.rsplit_once('/').filter(|_| bytes > 0) {
            Some((parent, _)) => {
                below(&self.loaded_dir(self.resolve(parent).await?.dir).await?, pool, &|_| 0)
            }
            None => u64::MAX,
        };
        if is_above(bytes, limits.quota) || is_above(of_head, limits.refquota) || bytes > available {
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
