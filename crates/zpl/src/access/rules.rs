//! Reading, writing, passing through, and names that come and go.

use std::ops::BitOr;

use ondisk::acl::{Ace, ace_mask};

use super::nfs4;
use super::{Powers, User};
use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::{FileKind, MODE_EXECUTE, MODE_STICKY};
use crate::posix_acl::PosixAcl;

/// What somebody wants to do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Of a mode: read 4, write 2, execute 1.
    pub(super) rwx: u32,
    /// Of an NFSv4 ACL ([`ace_mask`]).
    pub(super) mask: u32,
}

impl Want {
    /// Read a file, list a directory.
    pub const READ: Self = Self { rwx: 4, mask: ace_mask::READ_DATA };
    /// Write a file.
    pub const WRITE: Self = Self { rwx: 2, mask: ace_mask::WRITE_DATA };
    /// Execute a file, pass through a directory.
    pub const EXECUTE: Self = Self { rwx: 1, mask: ace_mask::EXECUTE };
    /// Give something that is no directory a name in a directory.
    pub const ADD_FILE: Self = Self { rwx: 3, mask: ace_mask::WRITE_DATA | ace_mask::EXECUTE };
    /// Give a directory a name in a directory.
    pub const ADD_DIRECTORY: Self = Self { rwx: 3, mask: ace_mask::APPEND_DATA | ace_mask::EXECUTE };
    /// Take names from a directory.
    pub const REMOVE: Self = Self { rwx: 3, mask: ace_mask::DELETE_CHILD | ace_mask::EXECUTE };
    /// Move a directory: what it calls its parent changes.
    pub(crate) const MOVE: Self = Self { rwx: 2, mask: 0 };
    /// Read extended attributes.
    pub(crate) const READ_XATTR: Self = Self { rwx: 4, mask: ace_mask::READ_NAMED_ATTRS };
    /// Write them.
    pub(crate) const WRITE_XATTR: Self = Self { rwx: 2, mask: ace_mask::WRITE_NAMED_ATTRS };

    /// To give something of this kind a name.
    #[must_use]
    pub fn add(kind: FileKind) -> Self {
        if kind == FileKind::Directory { Self::ADD_DIRECTORY } else { Self::ADD_FILE }
    }

    pub(super) fn writes(self) -> bool {
        self.rwx & Self::WRITE.rwx != 0
    }
}

impl BitOr for Want {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { rwx: self.rwx | other.rwx, mask: self.mask | other.mask }
    }
}

/// What says who may do what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acl {
    /// The mode alone.
    Mode,
    Posix(PosixAcl),
    Nfs4(Vec<Ace>),
}

/// What the rules look at in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub kind: FileKind,
    /// Permission, set-id and sticky bits.
    pub permissions: u32,
    pub uid: u32,
    pub gid: u32,
    /// Persistent flags ([`crate::flags`]).
    pub flags: u64,
    pub acl: Acl,
}

impl User {
    /// # Errors
    /// [`ZplError::AccessDenied`]; [`ZplError::NotPermitted`] for writing what is immutable.
    pub(crate) fn may(&self, of: &Facts, want: Want) -> Result<()> {
        if want.writes() && of.flags & flags::IMMUTABLE != 0 {
            return Err(ZplError::NotPermitted("immutable"));
        }
        if self.is_allowed(of, want) || self.overrides(of, want) {
            Ok(())
        } else {
            Err(ZplError::AccessDenied)
        }
    }

    fn is_allowed(&self, of: &Facts, want: Want) -> bool {
        match &of.acl {
            Acl::Nfs4(aces) => nfs4::allows(aces, self, of, want.mask),
            Acl::Posix(acl) if self.uid != of.uid => acl.allows(self, of.gid, want.rwx),
            Acl::Mode | Acl::Posix(_) => want.rwx & !self.bits(of) == 0,
        }
    }

    /// The three bits of the mode that are this user's.
    fn bits(&self, of: &Facts) -> u32 {
        match (self.uid == of.uid, self.is_in(of.gid)) {
            (true, _) => of.permissions >> 6 & 7,
            (false, true) => of.permissions >> 3 & 7,
            (false, false) => of.permissions & 7,
        }
    }

    /// Whether he may though nothing allows it. Nobody executes what nobody may execute.
    fn overrides(&self, of: &Facts, want: Want) -> bool {
        let runs = want.rwx & Want::EXECUTE.rwx != 0;
        if of.kind == FileKind::Directory {
            return self.powers.has(Powers::DAC_OVERRIDE)
                || self.powers.has(Powers::DAC_READ_SEARCH) && !want.writes();
        }
        self.powers.has(Powers::DAC_OVERRIDE) && (!runs || of.permissions & MODE_EXECUTE != 0)
            || self.powers.has(Powers::DAC_READ_SEARCH) && want.rwx == Want::READ.rwx
    }

    pub(super) fn owns(&self, of: &Facts) -> bool {
        self.uid == of.uid || self.powers.has(Powers::FOWNER)
    }

    /// Whether `victim` may lose its name in `dir`.
    ///
    /// # Errors
    /// [`ZplError::AccessDenied`]; [`ZplError::NotPermitted`] in a sticky directory.
    pub(crate) fn may_remove(&self, dir: &Facts, victim: &Facts) -> Result<()> {
        match self.may(dir, Want::REMOVE) {
            // NFSv4 lets a name go when either the directory or what it stands for allows that.
            Err(ZplError::AccessDenied) if self.may_delete(victim) => self.may(dir, Want::EXECUTE)?,
            removable => removable?,
        }
        let is_sticky = dir.permissions & MODE_STICKY != 0;
        if is_sticky && self.uid != victim.uid && self.uid != dir.uid && !self.powers.has(Powers::FOWNER) {
            return Err(ZplError::NotPermitted("somebody else's in a sticky directory"));
        }
        Ok(())
    }

    fn may_delete(&self, victim: &Facts) -> bool {
        matches!(&victim.acl, Acl::Nfs4(aces) if nfs4::allows(aces, self, victim, ace_mask::DELETE))
    }
}
