//! Who uses how much of a file system, and the quotas of users, groups and projects.

use crate::datasets::cannot_open;
use crate::props::{OwnerProp, PropError};
use crate::{Held, Holder, refusal};
use control::{
    Account, DatasetAccounts, DatasetDeleting, DatasetKind, Failure, FailureKind, NameValue, Owner, Used,
};
use pool::{Filesystem, KeptOpen, PoolError};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use zpl::{QuotaFor, QuotaKind, QuotaOf, Zfs, ZplError};

impl Holder {
    pub(super) async fn accounts(&self, call: &DatasetAccounts) -> Result<Vec<Account>, Failure> {
        let held = self.pool_of(&call.name)?;
        let fs = self.kept_open(&held, &call.name).await?;
        let mut all = Vec::new();
        for owner in &call.of {
            let found = match call.id {
                Some(id) => one(&fs.zfs, *owner, id).await.map(|account| vec![account]),
                None => each(&fs.zfs, *owner).await,
            };
            all.extend(found.map_err(|error| refused("get used/quota for", &call.name, error))?);
        }
        Ok(all)
    }

    /// Files without a name that are still to be freed; of what is not mounted nothing is freed.
    pub(super) async fn deleting(&self, call: &DatasetDeleting) -> Result<u64, Failure> {
        let held = self.pool_of(&call.name)?;
        if self.mounts.place_of(&call.name).is_none() {
            return Ok(0);
        }
        let fs = self.kept_open(&held, &call.name).await?;
        let unnamed = fs.zfs.count_unnamed().await;
        Ok(unnamed.map_err(|error| refused("wait for", &call.name, error))? as u64)
    }

    /// Opens the files of a file system or of a snapshot. They stay open while they are read: a
    /// destroy, a rename or a rollback of the file system waits for the end of the read.
    async fn kept_open(&self, held: &Held, name: &str) -> Result<ReadFiles, Failure> {
        let found = match name.contains('@') {
            true => held.pool.snapshot_filesystem(name).await.map(ReadFiles::OfSnapshot),
            false => held.pool.keep_open(name).await.map(ReadFiles::OfHead),
        };
        found.map_err(|error| cannot_use(name, error))
    }

    /// Sets quotas of users, groups and projects.
    ///
    /// # Errors
    /// When the file system has no such; those of changing it.
    pub(super) async fn set_quotas(
        &self,
        held: &Held,
        name: &str,
        quotas: &[NewQuota],
    ) -> Result<(), Failure> {
        if quotas.is_empty() {
            return Ok(());
        }
        let fs = held.pool.filesystem(name).await.map_err(|error| cannot_use(name, error))?;
        for (kind, id, limit) in quotas {
            let set = fs.zfs.set_quota(*kind, *id, *limit).await;
            set.map_err(|error| refused("set property for", name, error).exits(255))?;
        }
        let synced = held.pool.sync_now().await;
        synced.map_err(|e| refusal::pool("set property for", name, &e).exits(255))
    }
}

/// Files that are only read.
enum ReadFiles {
    OfHead(KeptOpen),
    OfSnapshot(Arc<Filesystem>),
}

impl Deref for ReadFiles {
    type Target = Filesystem;

    fn deref(&self) -> &Filesystem {
        match self {
            Self::OfHead(fs) => fs,
            Self::OfSnapshot(fs) => fs,
        }
    }
}

fn cannot_use(name: &str, error: PoolError) -> Failure {
    match error {
        PoolError::Dsl(error) => cannot_open(name, error),
        PoolError::NotFilesystem { .. } => {
            let line = "operation is only applicable to filesystems and their snapshots";
            Failure::new(FailureKind::Invalid, line)
        }
        error => refusal::pool("open", name, &error),
    }
}

fn refused(verb: &str, name: &str, error: ZplError) -> Failure {
    match error {
        ZplError::Unsupported(_) => {
            let reason = "pool and or dataset must be upgraded to set this property or value";
            Failure::cannot(FailureKind::Unsupported, verb, name, reason)
        }
        error => refusal::pool(verb, name, &PoolError::Zpl(error)),
    }
}

/// The file layer's word for an owner.
const fn quota_of(owner: Owner) -> QuotaOf {
    match owner {
        Owner::User => QuotaOf::User,
        Owner::Group => QuotaOf::Group,
        Owner::Project => QuotaOf::Project,
    }
}

/// A quota to be set: which kind, whose, and how much; 0 for none.
pub type NewQuota = (QuotaKind, u64, u64);

/// Quotas of users, groups and projects among properties as typed, and the other properties.
///
/// # Errors
/// Why one will not do.
pub fn split_quotas(
    props: &[NameValue],
    kind: DatasetKind,
) -> Result<(Vec<NewQuota>, Vec<NameValue>), PropError> {
    let (mut quotas, mut rest) = (Vec::new(), Vec::new());
    for (name, text) in props {
        let Some((prop, whose)) = OwnerProp::parse(name) else {
            rest.push((name.clone(), text.clone()));
            continue;
        };
        let (id, limit) = prop.parse_quota(name, whose, text, kind)?;
        let what = if prop.objects { QuotaFor::Objects } else { QuotaFor::Space };
        quotas.push(((quota_of(prop.owner), what), id, limit));
    }
    Ok((quotas, rest))
}

async fn one(zfs: &Zfs, owner: Owner, id: u64) -> Result<Account, ZplError> {
    let mut account = Account { owner, id, ..Account::default() };
    for (what, place) in [(QuotaFor::Space, &mut account.space), (QuotaFor::Objects, &mut account.objects)] {
        let kind = (quota_of(owner), what);
        if zfs.counts(kind) {
            let (used, quota) = (zfs.used_by(kind, id).await?, zfs.quota(kind, id).unwrap_or(0));
            *place = Some(Used { used, quota });
        }
    }
    Ok(account)
}

/// Everybody's who uses something or has a quota, by number.
async fn each(zfs: &Zfs, owner: Owner) -> Result<Vec<Account>, ZplError> {
    let mut all: BTreeMap<u64, Account> = BTreeMap::new();
    for what in [QuotaFor::Space, QuotaFor::Objects] {
        let kind = (quota_of(owner), what);
        if !zfs.counts(kind) {
            continue;
        }
        let mut told = |id, used: Option<u64>, quota: Option<u64>| {
            let account = all.entry(id).or_insert_with(|| Account { owner, id, ..Account::default() });
            let place = if what == QuotaFor::Space { &mut account.space } else { &mut account.objects };
            let figures = place.get_or_insert_default();
            figures.used = used.unwrap_or(figures.used);
            figures.quota = quota.unwrap_or(figures.quota);
        };
        zfs.used_by_all(kind).await?.into_iter().for_each(|(id, used)| told(id, Some(used), None));
        zfs.quotas_of(kind).into_iter().for_each(|(id, quota)| told(id, None, Some(quota)));
    }
    Ok(all.into_values().collect())
}
