//! Changing what an object is: owner, mode, times, flags, extended attributes; and whose new things are.

use ondisk::acl::ace_mask;

use super::nfs4;
use super::{Acl, Facts, Powers, User, Want};
use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::{DeviceNumber, FileKind, MODE_GROUP_EXECUTE, MODE_SETGID, MODE_STICKY};
use crate::options::Cred;
use crate::posix_acl::is_acl;
use crate::setattr::{SetAttributes, SetTime};

/// Flags that bind everybody.
const BINDING: u64 = flags::IMMUTABLE | flags::APPENDONLY | flags::NOUNLINK;

const TRUSTED: &[u8] = b"trusted.";
const SECURITY: &[u8] = b"security.";
const USERS: &[u8] = b"user.";

/// What an append-only object refuses, whoever asks: everything but more bytes, and times as of now.
///
/// # Errors
/// [`ZplError::NotPermitted`].
pub(crate) fn check_flags_allow(all: u64, set: &SetAttributes) -> Result<()> {
    let is_other = |time: Option<SetTime>| time.is_some_and(|time| time != SetTime::Now);
    let owners = set.uid.is_some() || set.gid.is_some();
    // A kernel that keeps times says of the present which one that is.
    let is_present = set.ctime.is_some_and(|ctime| set.mtime == Some(SetTime::To(ctime)));
    let times = is_other(set.atime) || is_other(set.mtime) && !is_present;
    if all & flags::APPENDONLY != 0 && (owners || times || set.permissions.is_some() || set.size.is_some()) {
        return Err(ZplError::NotPermitted("append-only"));
    }
    Ok(())
}

impl User {
    /// What a wished change comes to; all of it is allowed, or nothing is done.
    ///
    /// # Errors
    /// [`ZplError::NotPermitted`] for what only the owner, or root, may; [`ZplError::AccessDenied`] for what needs the
    /// right to write.
    pub(crate) fn may_change(&self, of: &Facts, set: SetAttributes) -> Result<SetAttributes> {
        self.may_give(of, &set)?;
        self.may_set_mode(of, &set)?;
        self.may_set_times(of, &set)?;
        self.may_set_flags(of, &set)?;
        if set.size.is_some() {
            self.may(of, Want::WRITE)?;
        }
        let gid = set.gid.unwrap_or(of.gid);
        let permissions = set.permissions.map(|wanted| self.without_foreign_setgid(wanted, gid));
        let drop_setid = set.drop_setid || set.size.is_some() && !self.powers.has(Powers::FSETID);
        Ok(SetAttributes { permissions, drop_setid, ..set })
    }

    /// Owners stay owners, but may give things to groups of theirs.
    fn may_give(&self, of: &Facts, set: &SetAttributes) -> Result<()> {
        let owns = self.uid == of.uid;
        let keeps_owner = set.uid.is_none_or(|uid| owns && uid == of.uid);
        let may_have = |gid| owns && (self.is_in(gid) || gid == of.gid);
        let keeps_group = set.gid.is_none_or(may_have);
        if keeps_owner && keeps_group || self.powers.has(Powers::CHOWN) {
            Ok(())
        } else if self.has(of, ace_mask::WRITE_OWNER)
            && set.uid.is_none_or(|uid| uid == self.uid)
            && set.gid.is_none_or(|gid| self.is_in(gid))
        {
            // NFSv4: who has the right may take something for himself.
            Ok(())
        } else {
            Err(ZplError::NotPermitted("giving a file away"))
        }
    }

    fn may_set_mode(&self, of: &Facts, set: &SetAttributes) -> Result<()> {
        if set.permissions.is_none() || self.owns(of) || self.has(of, ace_mask::WRITE_ACL) {
            return Ok(());
        }
        Err(ZplError::NotPermitted("the mode of somebody else's"))
    }

    /// Both times as of now is what a write does; other times are the owner's to set.
    fn may_set_times(&self, of: &Facts, set: &SetAttributes) -> Result<()> {
        let now = Some(SetTime::Now);
        match (set.atime, set.mtime) {
            (None, None) => Ok(()),
            _ if self.owns(of) || self.has(of, ace_mask::WRITE_ATTRIBUTES) => Ok(()),
            // A change of size brings the time of the change along.
            (None, mtime) if set.size.is_some() && mtime == now => Ok(()),
            (atime, mtime) if atime == now && mtime == now => self.may(of, Want::WRITE),
            _ => Err(ZplError::NotPermitted("times of somebody else's")),
        }
    }

    fn may_set_flags(&self, of: &Facts, set: &SetAttributes) -> Result<()> {
        let changed = set.set_flags & !of.flags | set.clear_flags & of.flags;
        if (set.set_flags | set.clear_flags != 0 || set.project.is_some()) && !self.owns(of) {
            return Err(ZplError::NotPermitted("flags of somebody else's"));
        }
        if changed & BINDING != 0 && !self.powers.has(Powers::IMMUTABLE) {
            return Err(ZplError::NotPermitted("flags that bind everybody"));
        }
        Ok(())
    }

    /// Whether an NFSv4 ACL gives him a right that a mode has no bit for.
    fn has(&self, of: &Facts, mask: u32) -> bool {
        matches!(&of.acl, Acl::Nfs4(aces) if nfs4::allows(aces, self, of, mask))
    }

    /// Nobody makes a file set-group-id for a group that he is not in.
    fn without_foreign_setgid(&self, permissions: u32, gid: u32) -> u32 {
        let may_keep = self.is_in(gid) || self.powers.has(Powers::FSETID);
        if may_keep { permissions } else { permissions & !MODE_SETGID }
    }

    /// The permissions that he can give something new of this group.
    pub(crate) fn permissions_of_new(&self, permissions: u32, gid: u32) -> u32 {
        // Without execution by the group the bit means mandatory locks, and stays.
        let runs = permissions & MODE_GROUP_EXECUTE != 0;
        if runs { self.without_foreign_setgid(permissions, gid) } else { permissions }
    }

    /// Whether he can make something that belongs to `cred`.
    ///
    /// # Errors
    /// [`ZplError::NotPermitted`] when that is somebody else, and for devices; a whiteout is none.
    pub(crate) fn may_make(&self, cred: Cred, device: Option<DeviceNumber>) -> Result<()> {
        let is_his = cred.uid == self.uid && self.is_in(cred.gid);
        if !is_his && !self.powers.has(Powers::CHOWN) {
            return Err(ZplError::NotPermitted("making something for somebody else"));
        }
        match device {
            Some(device) if device != DeviceNumber::default() && !self.powers.has(Powers::MKNOD) => {
                Err(ZplError::NotPermitted("making a device"))
            }
            _ => Ok(()),
        }
    }

    /// Whether an extended attribute may be used (xattr(7)).
    ///
    /// # Errors
    /// [`ZplError::NoAttribute`] for reading what is not shown; [`ZplError::NotPermitted`], [`ZplError::AccessDenied`].
    pub(crate) fn may_use_xattr(&self, of: &Facts, name: &[u8], want: Want) -> Result<()> {
        let refused =
            |what| Err(if want.writes() { ZplError::NotPermitted(what) } else { ZplError::NoAttribute });
        if is_acl(name) {
            let may = !want.writes() || self.owns(of);
            return if may { Ok(()) } else { Err(ZplError::NotPermitted("the ACL of somebody else's")) };
        }
        if name.starts_with(TRUSTED) {
            return if self.powers.has(Powers::ADMIN) {
                Ok(())
            } else {
                refused("attributes of administrators")
            };
        }
        if name.starts_with(SECURITY) {
            let may = !want.writes() || self.powers.has(Powers::ADMIN);
            return if may { Ok(()) } else { Err(ZplError::NotPermitted("attributes of administrators")) };
        }
        if name.starts_with(USERS) {
            match of.kind {
                FileKind::File => {}
                FileKind::Directory if !want.writes() || !is_sticky(of) || self.owns(of) => {}
                _ => return refused("attributes of users, here"),
            }
        }
        self.may(of, want)
    }

    /// Whether the name of an extended attribute is shown to him.
    pub(crate) fn sees_xattr(&self, name: &[u8]) -> bool {
        !name.starts_with(TRUSTED) || self.powers.has(Powers::ADMIN)
    }
}

fn is_sticky(of: &Facts) -> bool {
    of.permissions & MODE_STICKY != 0
}
