//! Quotas of users, groups and projects: how much space their files may take, and how many there may be.
//!
//! ```text
//!  master node ─ "userquota@" ─► ZAP: id (hexadecimal) ─► bytes        six such ZAPs: bytes and objects,
//!              ─ "userobjquota@" ─► ZAP: id ─► objects                  of users, groups, projects
//! ```
//! What is used is what the accounts of the objset say (`dmu::Objset::account_entry`), as of the last synced txg: so
//! who writes fast gets a txg's worth more than his quota before he is stopped, as with OpenZFS. Whose quota is used up
//! makes nothing new and writes nothing more (`EDQUOT`), and nobody can give him anything; what he has he may read,
//! rename and remove. What a log promised is replayed whatever the quotas are.
//!
//! Invariant: limits in memory are those on disk (test: `quotas_are_found_again`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dmu::Objset;
use dmu::zap::{Zap, ZapSpec};
use env::boxed;
use ondisk::ObjectType;
use ondisk::objset::{GROUPUSED_OBJECT, OBJECT_ACCOUNTING_PREFIX, PROJECTUSED_OBJECT, USERUSED_OBJECT};
use ondisk::znode::master;
use parking_lot::RwLock;
use units::ObjectId;

use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::FileKind;
use crate::sa::ZplAttr;
use crate::zfs::{MASTER_NODE, Space, Zfs};
use crate::znode::Znode;

/// Who has a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaOf {
    /// The owner of files.
    User,
    /// Their group.
    Group,
    /// The project that they are part of.
    Project,
}

/// What a quota limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaFor {
    /// Space, in bytes.
    Space,
    /// Objects: files, directories and what belongs to them.
    Objects,
}

/// A kind of quota: who is limited, and in what.
pub type QuotaKind = (QuotaOf, QuotaFor);

/// All kinds.
pub const QUOTA_KINDS: [QuotaKind; 6] = [
    (QuotaOf::User, QuotaFor::Space),
    (QuotaOf::User, QuotaFor::Objects),
    (QuotaOf::Group, QuotaFor::Space),
    (QuotaOf::Group, QuotaFor::Objects),
    (QuotaOf::Project, QuotaFor::Space),
    (QuotaOf::Project, QuotaFor::Objects),
];

/// The name under which the master node has a kind's ZAP.
const fn entry((of, what): QuotaKind) -> &'static str {
    match (of, what) {
        (QuotaOf::User, QuotaFor::Space) => master::USERQUOTA,
        (QuotaOf::User, QuotaFor::Objects) => master::USEROBJQUOTA,
        (QuotaOf::Group, QuotaFor::Space) => master::GROUPQUOTA,
        (QuotaOf::Group, QuotaFor::Objects) => master::GROUPOBJQUOTA,
        (QuotaOf::Project, QuotaFor::Space) => master::PROJECTQUOTA,
        (QuotaOf::Project, QuotaFor::Objects) => master::PROJECTOBJQUOTA,
    }
}

/// The object that has an account of what is used.
const fn account(of: QuotaOf) -> ObjectId {
    match of {
        QuotaOf::User => USERUSED_OBJECT,
        QuotaOf::Group => GROUPUSED_OBJECT,
        QuotaOf::Project => PROJECTUSED_OBJECT,
    }
}

/// Limits by kind and id.
type Limits = BTreeMap<QuotaKind, BTreeMap<u64, u64>>;

/// The quotas of a file system, in memory.
#[derive(Default)]
pub(crate) struct Quotas {
    limits: RwLock<Limits>,
    /// Whether there are any: most file systems have none, and ask nothing else.
    are_there: AtomicBool,
    /// Held by who changes one.
    changing: async_lock::Mutex<()>,
}

impl Quotas {
    /// Reads all there are.
    #[boxed]
    pub async fn open(os: &Arc<Objset>, master: &Zap) -> Result<Self> {
        let mut limits = Limits::new();
        for kind in QUOTA_KINDS {
            let Some(object) = master.lookup_u64(entry(kind).as_bytes()).await? else { continue };
            let damaged = || ZplError::Damaged {
                objset: os.id(),
                object: ObjectId::new(object),
                what: "entry of a table of quotas".to_owned(),
            };
            let table = Zap::open(os.hold(ObjectId::new(object)).await?).await?;
            for found in table.all().await? {
                let name = std::str::from_utf8(&found.name).map_err(|_| damaged())?;
                let id = u64::from_str_radix(name, 16).map_err(|_| damaged())?;
                let limit = found.value.as_u64().ok_or_else(damaged)?;
                limits.entry(kind).or_default().insert(id, limit);
            }
        }
        let are_there = AtomicBool::new(!limits.is_empty());
        Ok(Self { limits: RwLock::new(limits), are_there, changing: async_lock::Mutex::new(()) })
    }

    fn are_there(&self) -> bool {
        self.are_there.load(Ordering::Relaxed)
    }

    fn get(&self, kind: QuotaKind, id: u64) -> Option<u64> {
        self.limits.read().get(&kind)?.get(&id).copied().filter(|limit| *limit > 0)
    }

    fn set(&self, kind: QuotaKind, id: u64, limit: u64) {
        let mut limits = self.limits.write();
        match limit {
            0 => drop(limits.entry(kind).or_default().remove(&id)),
            limit => drop(limits.entry(kind).or_default().insert(id, limit)),
        }
        self.are_there.store(limits.values().any(|of_kind| !of_kind.is_empty()), Ordering::Relaxed);
    }
}

/// Who is charged for an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charged {
    pub user: Option<u64>,
    pub group: Option<u64>,
    /// None where objects are part of no project.
    pub project: Option<u64>,
}

/// The space that `statfs` reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceSeen {
    /// The total size in bytes.
    pub bytes: u64,
    /// The bytes that may still be written.
    pub free_bytes: u64,
    /// The largest number of objects if that is limited, otherwise the number of existing objects.
    pub objects: u64,
    /// The number of objects that may still be created, if that is limited.
    pub free_objects: Option<u64>,
}

impl SpaceSeen {
    fn of(space: &Space) -> Self {
        let Space { used_bytes, available_bytes, objects } = *space;
        let bytes = used_bytes.saturating_add(available_bytes);
        Self { bytes, free_bytes: available_bytes, objects, free_objects: None }
    }
}

impl Charged {
    /// Those of a file that is there.
    pub fn of(znode: &Znode) -> Self {
        Self {
            user: Some(znode.word(ZplAttr::Uid)),
            group: Some(znode.word(ZplAttr::Gid)),
            project: Some(znode.word(ZplAttr::Projid)),
        }
    }

    fn each(self) -> impl Iterator<Item = (QuotaOf, u64)> {
        // Project 0 is what is part of none.
        let project = self.project.filter(|id| *id != 0);
        let all = [(QuotaOf::User, self.user), (QuotaOf::Group, self.group), (QuotaOf::Project, project)];
        all.into_iter().filter_map(|(of, id)| Some((of, id?)))
    }
}

impl Zfs {
    /// The quota of an id; none: as much as there is room for.
    #[must_use]
    pub fn quota(&self, kind: QuotaKind, id: u64) -> Option<u64> {
        self.quotas.get(kind, id)
    }

    /// Quotas of a kind, by id.
    #[must_use]
    pub fn quotas_of(&self, kind: QuotaKind) -> Vec<(u64, u64)> {
        let limits = self.quotas.limits.read();
        limits.get(&kind).into_iter().flatten().map(|(id, limit)| (*id, *limit)).collect()
    }

    /// What an id uses of what a kind of quota limits: bytes, or objects, as of the last synced txg.
    ///
    /// # Errors
    /// When the accounts cannot be read.
    #[boxed]
    pub async fn used_by(&self, (of, what): QuotaKind, id: u64) -> Result<u64> {
        let name = match what {
            QuotaFor::Space => format!("{id:x}"),
            QuotaFor::Objects => format!("{OBJECT_ACCOUNTING_PREFIX}{id:x}"),
        };
        Ok(self.os.account_entry(account(of), &name).await?)
    }

    /// What all ids use of what a kind of quota limits, as of the last synced txg.
    ///
    /// # Errors
    /// When the accounts cannot be read.
    #[boxed]
    pub async fn used_by_all(&self, (of, what): QuotaKind) -> Result<Vec<(u64, u64)>> {
        let entries = self.os.account(account(of)).await?.into_iter();
        let id = |name: &str| {
            let of_objects = name.strip_prefix(OBJECT_ACCOUNTING_PREFIX);
            let digits = match what {
                QuotaFor::Space if of_objects.is_none() => Some(name),
                QuotaFor::Space => None,
                QuotaFor::Objects => of_objects,
            };
            u64::from_str_radix(digits?, 16).ok()
        };
        Ok(entries.filter_map(|(name, used)| Some((id(&name)?, used))).collect())
    }

    /// Whether what a kind of quota limits is counted: older pools lack features for that.
    #[must_use]
    pub fn counts(&self, (of, what): QuotaKind) -> bool {
        (what == QuotaFor::Space || self.os.accounts_objects())
            && (of != QuotaOf::Project || self.os.accounts_projects())
    }

    /// Limits what an id may use; 0: not any more. Stable with the txg that is open.
    ///
    /// # Errors
    /// [`ZplError::ReadOnly`]; [`ZplError::Unsupported`] where what would be limited is not counted; those of writing.
    #[boxed]
    pub async fn set_quota(&self, kind: QuotaKind, id: u64, limit: u64) -> Result<()> {
        self.check_writable()?;
        self.check_has_quotas()?;
        if !self.counts(kind) {
            return Err(ZplError::Unsupported(
                "quotas without the features userobj_accounting and project_quota",
            ));
        }
        let _one_at_a_time = self.quotas.changing.lock().await;
        let plan = self.plan().await?;
        let master = Zap::open(self.os.hold(MASTER_NODE).await?).await?;
        let name = entry(kind).as_bytes();
        let table = match master.lookup_u64(name).await? {
            Some(object) => Zap::open(self.os.hold(ObjectId::new(object)).await?).await?,
            None if limit == 0 => return Ok(()),
            None => {
                let spec = ZapSpec::new(ObjectType::USERGROUP_QUOTA).dnode;
                let dnode = self.os.allocate(&plan, &spec).await?;
                let table = Zap::format(dnode, &plan, self.random_u64(), 0, 0).await?;
                master.add_u64(&plan, name, table.object().get()).await?;
                table
            }
        };
        let id_name = format!("{id:x}");
        match limit {
            0 if table.lookup_u64(id_name.as_bytes()).await?.is_none() => return Ok(()),
            0 => table.remove(&plan, id_name.as_bytes()).await?,
            limit => table.update_u64(&plan, id_name.as_bytes(), limit).await?,
        }
        plan.apply_with(|_| self.quotas.set(kind, id, limit))?;
        Ok(())
    }

    /// Returns the space that programs see at an object. In a directory whose new files inherit its
    /// project, the quotas of the project limit the space.
    ///
    /// # Errors
    /// When the object or the space accounts cannot be read.
    #[boxed]
    pub async fn space_at(&self, object: ObjectId) -> Result<SpaceSeen> {
        let mut seen = SpaceSeen::of(&self.space());
        if !self.quotas.are_there() {
            return Ok(seen);
        }
        let znode = self.znode(object).await?;
        let project = znode.word(ZplAttr::Projid);
        if znode.word(ZplAttr::Flags) & flags::PROJINHERIT == 0 || project == 0 {
            return Ok(seen);
        }
        let space = (QuotaOf::Project, QuotaFor::Space);
        if let Some(quota) = self.quota(space, project) {
            seen.bytes = quota;
            seen.free_bytes = quota.saturating_sub(self.used_by(space, project).await?);
        }
        let objects = (QuotaOf::Project, QuotaFor::Objects);
        if let Some(quota) = self.quota(objects, project) {
            seen.objects = quota;
            seen.free_objects = Some(quota.saturating_sub(self.used_by(objects, project).await?));
        }
        Ok(seen)
    }

    /// Whether those may have more who are charged: more space, and with `objects` more objects too.
    ///
    /// # Errors
    /// [`ZplError::QuotaExceeded`]; when the accounts cannot be read.
    pub(crate) async fn check_quotas(&self, charged: Charged, objects: bool) -> Result<()> {
        if !self.quotas.are_there() {
            return Ok(());
        }
        for (of, id) in charged.each() {
            for what in [QuotaFor::Space, QuotaFor::Objects] {
                let is_asked = what == QuotaFor::Space || objects;
                if let Some(limit) = self.quotas.get((of, what), id).filter(|_| is_asked)
                    && self.used_by((of, what), id).await? >= limit
                {
                    return Err(ZplError::QuotaExceeded);
                }
            }
        }
        Ok(())
    }
}

/// Whether something may get a name in a directory: one that hands its project on to what is made in it takes nothing
/// of another. Only files and directories have projects.
/// (test: cli's `what_has_no_project_is_moved_within_a_directory_that_hands_on_its_own`)
///
/// # Errors
/// [`ZplError::OtherProject`].
pub(crate) fn check_project(dir: &Znode, named: &Znode) -> Result<()> {
    let hands_on = dir.word(ZplAttr::Flags) & flags::PROJINHERIT != 0;
    let has_project = matches!(named.kind(), FileKind::File | FileKind::Directory);
    match hands_on && has_project && dir.word(ZplAttr::Projid) != named.word(ZplAttr::Projid) {
        true => Err(ZplError::OtherProject),
        false => Ok(()),
    }
}
