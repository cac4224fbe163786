//! Changing attributes: chmod, chown, utimes, truncate.

use env::boxed;
use journal::Origin;
use ondisk::zil::LogRecord;
use ondisk::zil::record::LrSetattr;
use ondisk::zil::record::body::attr_mask;
use units::ObjectId;

use crate::access::check_flags_allow;
use crate::acl::{ACL_FLAGS, Acl, Owners, with_rwx};
use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::{FileKind, MODE_GROUP_EXECUTE, MODE_PERMISSIONS, MODE_SETGID, MODE_SETUID};
use crate::quota::Charged;
use crate::sa::{SaAttrs, SaImage, SaTables, ZplAttr};
use crate::time::Timestamp;
use crate::xvattr::{Extra, SETTABLE_FLAGS};
use crate::zfs::Zfs;
use crate::znode::{Attributes, Znode, stamp_change, stamp_change_at};

/// What is to change; `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission, set-id and sticky bits.
    pub permissions: Option<u32>,
    /// Owner. A change of owner or group drops the set-id bits of what is no directory.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length of a file.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<SetTime>,
    /// Last change of content.
    pub mtime: Option<SetTime>,
    /// When it was changed last, where somebody else knows that: a kernel that keeps what is written. Without it the
    /// present. Not logged: after a crash it is when the change was replayed.
    pub ctime: Option<Timestamp>,
    /// Drop the set-id bits: somebody without the right to keep them changes the size.
    pub drop_setid: bool,
    /// Persistent flags to set, of [`SETTABLE_FLAGS`] (`chattr`).
    pub set_flags: u64,
    /// Persistent flags to clear.
    pub clear_flags: u64,
    /// Project (`zfs project -p`).
    pub project: Option<u32>,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// That one.
    To(Timestamp),
}

impl Zfs {
    /// Returns the attributes that an object has after a change, if the object was freed and had the attributes `last`.
    /// Nothing is written.
    #[must_use]
    pub fn changed_after_freeing(&self, last: &Attributes, set: &SetAttributes) -> Attributes {
        let now = self.now();
        Attributes {
            permissions: set.permissions.unwrap_or(last.permissions),
            uid: set.uid.unwrap_or(last.uid),
            gid: set.gid.unwrap_or(last.gid),
            atime: set.atime.map_or(last.atime, |time| time.at(now)),
            mtime: set.mtime.map_or(last.mtime, |time| time.at(now)),
            ctime: now,
            ..last.clone()
        }
    }
}

impl SetTime {
    fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::To(time) => time,
        }
    }
}

/// A change with everything decided: what goes to the log and comes from it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decided {
    pub permissions: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<Timestamp>,
    pub mtime: Option<Timestamp>,
    pub ctime: Option<Timestamp>,
    pub extra: Option<Extra>,
}

/// A change that is to be made.
pub(crate) enum Change {
    /// By somebody who wishes this.
    Wished(SetAttributes),
    /// As it was decided before.
    Decided(Decided),
}

impl Decided {
    /// Returns the part of the change that affects who is charged for the object, if any.
    pub fn of_owners(&self) -> Option<Self> {
        let project = self.extra.and_then(|extra| extra.project);
        let extra = project.map(|project| Extra { project: Some(project), ..Extra::default() });
        let changes = self.uid.is_some() || self.gid.is_some() || extra.is_some();
        changes.then(|| Self { uid: self.uid, gid: self.gid, extra, ..Self::default() })
    }

    /// Sets the owners in `image`. If a project is set, `image` already has the attribute for it.
    pub fn give(&self, image: &mut SaImage) {
        if let Some(uid) = self.uid {
            image.set_word(ZplAttr::Uid, uid.into());
        }
        if let Some(gid) = self.gid {
            image.set_word(ZplAttr::Gid, gid.into());
        }
        if let Some(extra) = &self.extra {
            extra.apply(image);
        }
    }
}

impl Zfs {
    /// Changes attributes, all or none; returns the new ones.
    ///
    /// # Errors
    /// [`ZplError::IsDirectory`] and [`ZplError::Invalid`] for the size of what is no file;
    /// [`ZplError::NotPermitted`] for an immutable object, or for who may not; [`ZplError::AccessDenied`]; [`ZplError::Unsupported`] for a project in
    /// a pool without `project_quota`.
    #[boxed]
    pub async fn set_attributes(&self, object: ObjectId, set: SetAttributes) -> Result<Attributes> {
        self.check_writable()?;
        if (set.set_flags | set.clear_flags) & !SETTABLE_FLAGS != 0 {
            return Err(ZplError::Invalid("flags that are not for setting"));
        }
        let mut attributes = self.change_attributes(object, set).await?;
        if let Some(permissions) = set.permissions.filter(|_| self.options().posix_acls) {
            self.follow_mode(object, permissions).await?;
            attributes = self.attributes(object).await?;
        }
        self.commit_if_always(object).await?;
        Ok(attributes)
    }

    pub(crate) async fn change_attributes(&self, object: ObjectId, set: SetAttributes) -> Result<Attributes> {
        self.set_attributes_by(Origin::Client, object, Change::Wished(set)).await
    }

    /// Makes a change, decided once the object is locked.
    pub(crate) async fn set_attributes_by(
        &self,
        origin: Origin<'_>,
        object: ObjectId,
        change: Change,
    ) -> Result<Attributes> {
        let znode = self.znode(object).await?;
        let _lock = znode.lock.whole().await;
        znode.check_alive()?;
        let now = self.now();
        let change = match change {
            Change::Wished(set) => {
                check_flags_allow(znode.word(ZplAttr::Flags), &set)?;
                decide(&znode, self.permitted(&znode, set).await?, now)
            }
            Change::Decided(change) => change,
        };
        if change.size.is_some() {
            check_can_resize(&znode)?;
        }
        let touches_more = change.size.is_some() || change.permissions.is_some() || change.uid.is_some();
        let sets_birth = change.extra.is_some_and(|extra| extra.crtime.is_some());
        if touches_more || sets_birth || change.gid.is_some() || change.mtime.is_some() {
            znode.check_mutable(origin)?;
        }
        if !origin.is_replay() {
            self.check_quotas(newly_charged(&znode, &change), true).await?;
        }
        let mut image = self.with_room(&znode, &change).await?;
        let handed_over = self.hand_over_xattrs(&znode, &change).await?;
        let plan = match change.size {
            Some(size) => self.resize(&znode, size).await?,
            None => self.plan().await?,
        };
        apply(&mut image, &change, now);
        znode.store(&plan, image)?;
        for other in &handed_over {
            other.store(&plan)?;
        }
        let logged = self.is_logged();
        plan.apply_with(|txg| {
            if origin.is_replay() || znode.word(ZplAttr::Links) > 0 {
                self.journal.object(origin, txg, logged, object, || setattr_record(&znode, &change));
            }
        })?;
        Ok(znode.attributes())
    }

    /// The attributes with mode and ACL changed, and places for what the object has not had yet.
    pub(crate) async fn with_room(&self, znode: &Znode, change: &Decided) -> Result<SaImage> {
        let mut image = znode.image();
        if let Some(permissions) = change.permissions {
            let is_trivial = image.word(ZplAttr::Flags) & flags::ACL_TRIVIAL != 0;
            image.set_word(ZplAttr::Mode, u64::from(znode.kind().mode_bits() | permissions));
            let acl = Acl::of_mode(permissions, znode.kind() == FileKind::Directory);
            let run = acl.flags(false, Owners::default()) & flags::NO_EXECS_DENIED;
            let flags = image.word(ZplAttr::Flags) & !flags::NO_EXECS_DENIED | run;
            image.set_word(ZplAttr::Flags, flags);
            if is_trivial {
                image = self.with_aces(znode, image, &acl).await?;
            }
        }
        let Some(extra) = change.extra else { return Ok(image) };
        self.check_can_have_project(znode, &extra)?;
        if extra.project.is_some() && image.get(ZplAttr::Projid).is_none() {
            let flags = image.word(ZplAttr::Flags) | flags::PROJID;
            image.set_word(ZplAttr::Flags, flags);
            let place = |attrs: &mut SaAttrs, tables: &SaTables| {
                attrs.set_word_after(tables, ZplAttr::Links, ZplAttr::Projid, 0);
            };
            image = self.rebuilt(znode, &image, place).await?;
        }
        if let Some(stamp) = extra.scanstamp.filter(|_| image.get(ZplAttr::Scanstamp).is_none()) {
            let place =
                |attrs: &mut SaAttrs, tables: &SaTables| attrs.set_known(tables, ZplAttr::Scanstamp, &stamp);
            image = self.rebuilt(znode, &image, place).await?;
        }
        Ok(image)
    }

    /// Whether the object can be part of a project, if that is what changes.
    fn check_can_have_project(&self, znode: &Znode, extra: &Extra) -> Result<()> {
        let turned = (extra.set & !znode.word(ZplAttr::Flags)) & flags::PROJINHERIT != 0;
        if extra.project.is_none() && !turned {
            return Ok(());
        }
        match self.has_projects() {
            true => Ok(()),
            false => Err(ZplError::Unsupported(
                "projects without the feature project_quota and version 5 of the file system",
            )),
        }
    }

    /// `image` with other entries in its ACL, if it has one there.
    async fn with_aces(&self, znode: &Znode, mut image: SaImage, acl: &Acl) -> Result<SaImage> {
        if image.patch_old_acl(acl.aces()) {
            return Ok(image);
        }
        // One without the other is damage, and no ACL.
        if image.get(ZplAttr::DaclAces).is_none() || image.get(ZplAttr::DaclCount).is_none() {
            return Ok(image);
        }
        let aces = acl.bytes();
        if !image.patch(ZplAttr::DaclAces, &aces) {
            let place =
                |attrs: &mut SaAttrs, tables: &SaTables| attrs.set_known(tables, ZplAttr::DaclAces, &aces);
            image = self.rebuilt(znode, &image, place).await?;
        }
        image.set_word(ZplAttr::DaclCount, acl.count());
        Ok(image)
    }

    async fn rebuilt(
        &self,
        znode: &Znode,
        image: &SaImage,
        change: impl FnOnce(&mut SaAttrs, &SaTables),
    ) -> Result<SaImage> {
        let mut attrs = self.sa.attrs_of(image)?;
        self.sa.with(|tables| change(&mut attrs, tables));
        self.sa.build(&attrs, znode.dnode.bonus_capacity()).await
    }

    /// Gives an object an ACL, and the mode that follows from it. Only other systems' logs ask for
    /// that.
    pub(crate) async fn set_acl_by(&self, origin: Origin<'_>, object: ObjectId, acl: &Acl) -> Result<()> {
        let znode = self.znode(object).await?;
        let _lock = znode.lock.whole().await;
        znode.check_alive()?;
        znode.check_mutable(origin)?;
        let is_directory = znode.kind() == FileKind::Directory;
        let mut image = self.with_aces(&znode, znode.image(), acl).await?;
        let owners = Owners { uid: image.word(ZplAttr::Uid), gid: image.word(ZplAttr::Gid) };
        let mode = with_rwx(image.word(ZplAttr::Mode) as u32, acl.rwx(owners));
        image.set_word(ZplAttr::Mode, mode.into());
        let flags = image.word(ZplAttr::Flags) & !ACL_FLAGS | acl.flags(is_directory, owners);
        image.set_word(ZplAttr::Flags, flags);
        let plan = self.plan().await?;
        stamp_change(&mut image, self.now());
        znode.store(&plan, image)?;
        Ok(plan.apply_with(|txg| {
            self.journal.object(origin, txg, false, object, || unreachable!("a client's ACL is no record"));
        })?)
    }
}

fn check_can_resize(znode: &Znode) -> Result<()> {
    match znode.kind() {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(ZplError::IsDirectory),
        _ => Err(ZplError::Invalid("only files have a size to set")),
    }
}

/// What the caller's wish comes to for this object as it is now.
fn decide(znode: &Znode, set: SetAttributes, now: Timestamp) -> Decided {
    let mode = znode.mode() & MODE_PERMISSIONS;
    let wanted = set.permissions.map_or(mode, |permissions| permissions & MODE_PERMISSIONS);
    let chown = set.uid.is_some() || set.gid.is_some();
    let drops = set.drop_setid || (chown && set.permissions.is_none());
    let permissions =
        if drops && znode.kind() != FileKind::Directory { without_setid(wanted) } else { wanted };
    let resized = set.size.is_some();
    let extra = Extra {
        set: set.set_flags,
        clear: set.clear_flags,
        project: set.project.map(u64::from),
        ..Extra::default()
    };
    Decided {
        permissions: (set.permissions.is_some() || permissions != mode).then_some(permissions),
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set.atime.map(|time| time.at(now)),
        mtime: set.mtime.map(|time| time.at(now)).or(resized.then_some(now)),
        ctime: set.ctime,
        extra: (extra != Extra::default()).then_some(extra),
    }
}

/// Permissions as they are once somebody else may have changed the file. Set-group-id without
/// group execution means something else (mandatory locks) and stays.
pub(crate) fn without_setid(permissions: u32) -> u32 {
    let group = if permissions & MODE_GROUP_EXECUTE != 0 { MODE_SETGID } else { 0 };
    permissions & !(MODE_SETUID | group)
}

fn apply(image: &mut SaImage, change: &Decided, now: Timestamp) {
    if let Some(size) = change.size {
        image.set_word(ZplAttr::Size, size);
    }
    if let Some(atime) = change.atime {
        image.set_time(ZplAttr::Atime, atime);
    }
    if let Some(mtime) = change.mtime {
        image.set_time(ZplAttr::Mtime, mtime);
    }
    match change.ctime {
        Some(ctime) => stamp_change_at(image, ctime),
        None => stamp_change(image, now),
    }
    // Last, because the stamp sets a flag that the change may clear.
    change.give(image);
}

fn setattr_record(znode: &Znode, change: &Decided) -> LogRecord {
    let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
    let mask = attr_mask::CTIME
        | bit(change.permissions.is_some(), attr_mask::MODE)
        | bit(change.uid.is_some(), attr_mask::UID)
        | bit(change.gid.is_some(), attr_mask::GID)
        | bit(change.size.is_some(), attr_mask::SIZE)
        | bit(change.atime.is_some(), attr_mask::ATIME)
        | bit(change.mtime.is_some(), attr_mask::MTIME)
        | bit(change.extra.is_some(), attr_mask::XVATTR);
    LogRecord::Setattr(LrSetattr {
        object: znode.object(),
        mask,
        mode: u64::from(znode.mode()),
        uid: change.uid.unwrap_or(0).into(),
        gid: change.gid.unwrap_or(0).into(),
        size: change.size.unwrap_or(0),
        atime: change.atime.unwrap_or_default().into(),
        mtime: change.mtime.unwrap_or_default().into(),
        attr: change.extra.map(Extra::to_log),
        domains: Vec::new(),
    })
}

/// Who is charged for the object from now on and was not before.
fn newly_charged(znode: &Znode, change: &Decided) -> Charged {
    let other = |id: Option<u64>, now| id.filter(|id| *id != znode.word(now));
    Charged {
        user: other(change.uid.map(u64::from), ZplAttr::Uid),
        group: other(change.gid.map(u64::from), ZplAttr::Gid),
        project: other(change.extra.and_then(|extra| extra.project), ZplAttr::Projid),
    }
}
