//! Changing attributes: chmod, chown, utimes, truncate.

use ondisk::zil::LogRecord;
use ondisk::zil::record::LrSetattr;
use ondisk::zil::record::body::attr_mask;
use units::ObjectId;

use crate::acl::TrivialAcl;
use crate::error::{Result, ZplError};
use crate::flags;
use crate::journal::Origin;
use crate::mode::{FileKind, MODE_GROUP_EXECUTE, MODE_PERMISSIONS, MODE_SETGID, MODE_SETUID};
use crate::new_object::exec_flag;
use crate::sa::{SaImage, ZplAttr};
use crate::time::Timestamp;
use crate::zfs::Zfs;
use crate::znode::{Attributes, Znode, stamp_change};

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
    /// Drop the set-id bits: somebody without the right to keep them changes the size.
    pub drop_setid: bool,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// That one.
    To(Timestamp),
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
    pub extra: Option<Extra>,
}

/// Additional attributes, which only OpenZFS's records have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extra {
    /// Flags to set.
    pub set: u64,
    /// Flags to clear.
    pub clear: u64,
    /// Time of creation.
    pub crtime: Option<Timestamp>,
    /// Project, of an object that has one.
    pub project: Option<u64>,
}

impl Zfs {
    /// Changes attributes, all or none; returns the new ones.
    ///
    /// # Errors
    /// [`ZplError::IsDirectory`] and [`ZplError::Invalid`] for the size of what is no file;
    /// [`ZplError::NotPermitted`] for an immutable object.
    pub async fn set_attributes(&self, object: ObjectId, set: SetAttributes) -> Result<Attributes> {
        self.check_writable()?;
        let mut attributes = self.change_attributes(object, set).await?;
        if let Some(permissions) = set.permissions.filter(|_| self.options().posix_acls) {
            self.follow_mode(object, permissions).await?;
            attributes = self.attributes(object).await?;
        }
        self.settle(object).await?;
        Ok(attributes)
    }

    pub(crate) async fn change_attributes(&self, object: ObjectId, set: SetAttributes) -> Result<Attributes> {
        self.set_attributes_by(Origin::Client, object, |znode, now| decide(znode, set, now)).await
    }

    /// Changes what `decide` says once the object is locked.
    pub(crate) async fn set_attributes_by(
        &self,
        origin: Origin<'_>,
        object: ObjectId,
        decide: impl FnOnce(&Znode, Timestamp) -> Decided,
    ) -> Result<Attributes> {
        let znode = self.znode(object).await?;
        let _lock = znode.lock.whole().await;
        znode.check_alive()?;
        let now = self.now();
        let change = decide(&znode, now);
        if change.size.is_some() {
            check_can_resize(&znode)?;
        }
        let touches_more = change.size.is_some() || change.permissions.is_some() || change.uid.is_some();
        if touches_more || change.gid.is_some() || change.mtime.is_some() {
            znode.check_mutable()?;
        }
        let mut image = self.with_permissions(&znode, change.permissions).await?;
        let tx = match change.size {
            Some(size) => self.resize(&znode, size).await?,
            None => self.begin().await?,
        };
        apply(&mut image, &change, now);
        znode.store(&tx, image)?;
        let logged = self.is_logged();
        if !origin.is_replay() && znode.word(ZplAttr::Links) == 0 {
            return Ok(znode.attributes());
        }
        self.journal.object(origin, &tx, logged, object, || setattr_record(&znode, &change));
        Ok(znode.attributes())
    }

    /// The attributes with mode, ACL and flags for other permissions.
    async fn with_permissions(&self, znode: &Znode, permissions: Option<u32>) -> Result<SaImage> {
        let mut image = znode.image();
        let Some(permissions) = permissions else { return Ok(image) };
        let acl = TrivialAcl::of_mode(permissions, znode.kind() == FileKind::Directory);
        let is_trivial = image.word(ZplAttr::Flags) & flags::ACL_TRIVIAL != 0;
        let has_acl = image.get(ZplAttr::DaclAces).is_some();
        if has_acl && is_trivial && !image.patch(ZplAttr::DaclAces, &acl.aces) {
            let mut attrs = image.to_attrs();
            self.sa.with(|tables| attrs.set_known(tables, ZplAttr::DaclAces, &acl.aces));
            image = self.sa.build(&attrs, znode.dnode.bonus_capacity()).await?;
        }
        if has_acl && is_trivial {
            image.set_word(ZplAttr::DaclCount, acl.count);
        }
        image.set_word(ZplAttr::Mode, u64::from(znode.kind().mode_bits() | permissions));
        let flags = image.word(ZplAttr::Flags) & !flags::NO_EXECS_DENIED;
        image.set_word(ZplAttr::Flags, flags | exec_flag(permissions));
        Ok(image)
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
    Decided {
        permissions: (set.permissions.is_some() || permissions != mode).then_some(permissions),
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set.atime.map(|time| time.at(now)),
        mtime: set.mtime.map(|time| time.at(now)).or(resized.then_some(now)),
        extra: None,
    }
}

/// Permissions as they are once somebody else may have changed the file. Set-group-id without
/// group execution means something else (mandatory locks) and stays.
pub(crate) fn without_setid(permissions: u32) -> u32 {
    let group = if permissions & MODE_GROUP_EXECUTE != 0 { MODE_SETGID } else { 0 };
    permissions & !(MODE_SETUID | group)
}

fn apply(image: &mut SaImage, change: &Decided, now: Timestamp) {
    if let Some(uid) = change.uid {
        image.set_word(ZplAttr::Uid, uid.into());
    }
    if let Some(gid) = change.gid {
        image.set_word(ZplAttr::Gid, gid.into());
    }
    if let Some(size) = change.size {
        image.set_word(ZplAttr::Size, size);
    }
    if let Some(atime) = change.atime {
        image.set_time(ZplAttr::Atime, atime);
    }
    if let Some(mtime) = change.mtime {
        image.set_time(ZplAttr::Mtime, mtime);
    }
    stamp_change(image, now);
    if let Some(extra) = change.extra {
        apply_extra(image, &extra);
    }
}

fn apply_extra(image: &mut SaImage, extra: &Extra) {
    image.set_word(ZplAttr::Flags, image.word(ZplAttr::Flags) & !extra.clear | extra.set);
    if let Some(crtime) = extra.crtime {
        image.set_time(ZplAttr::Crtime, crtime);
    }
    if let Some(project) = extra.project {
        image.set_word(ZplAttr::Projid, project);
    }
}

fn setattr_record(znode: &Znode, change: &Decided) -> LogRecord {
    let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
    let mask = attr_mask::CTIME
        | bit(change.permissions.is_some(), attr_mask::MODE)
        | bit(change.uid.is_some(), attr_mask::UID)
        | bit(change.gid.is_some(), attr_mask::GID)
        | bit(change.size.is_some(), attr_mask::SIZE)
        | bit(change.atime.is_some(), attr_mask::ATIME)
        | bit(change.mtime.is_some(), attr_mask::MTIME);
    LogRecord::Setattr(LrSetattr {
        object: znode.object(),
        mask,
        mode: u64::from(znode.mode()),
        uid: change.uid.unwrap_or(0).into(),
        gid: change.gid.unwrap_or(0).into(),
        size: change.size.unwrap_or(0),
        atime: change.atime.unwrap_or_default().into(),
        mtime: change.mtime.unwrap_or_default().into(),
        attr: None,
        domains: Vec::new(),
    })
}
