//! Who may do what: the rules of permission, the same for every front.
//!
//! ```text
//!  front ─► Zfs::asked_by(Asker) ─► operation ─► locks ─► rules here ─► plan
//!             │ Engine, Kernel: asked nothing more       │ User: by mode, POSIX ACL or NFSv4 ACL
//!             └ a mount with `default_permissions`        └ denied: EACCES, or EPERM where only an owner may
//! ```
//! The rules are pure: [`User`] and [`Facts`] in, yes or no out. They are Linux's, where POSIX leaves a choice:
//!
//! - *Which entry counts*: the owner's bits for the owner; else an entry of the POSIX ACL that names the user, else of his groups,
//!   else others. A POSIX ACL whose mask allows nothing is not looked at: then the owning group and others count by the mode.
//! - *NFSv4* (RFC 7530, 6.2.1): entries in order, each bit is settled by the first that names it. Only where the dataset's
//!   `acltype` is `nfsv4` and the ACL says more than the mode.
//! - *Who owns*, may change mode, times and flags; only root gives things away; set-id bits go with those who may not keep them.
//! - *Sticky directories*: a name goes if the user owns it or the directory.
//! - *Flags* (immutable, append-only, nounlink) bind everybody, whoever has checked before: the kernel does not know them.
//!
//! Where a front opens files, it asks [`Zfs::check_access`] then, and writes through a handle that is asked nothing more.
//!
//! Invariants
//! - For any mode, POSIX ACL, owner and user, the answer is that of the Linux kernel.
//!   (test: `every_answer_is_that_of_the_linux_kernel`)
//! - A rule is asked under the locks under which the change is made: what was judged is what is changed.
//!   (test: `a_name_in_a_sticky_directory_is_judged_by_what_it_stands_for`)

mod change;
mod nfs4;
mod posix;
mod rules;
mod user;

#[cfg(test)]
mod tests;

use env::boxed;
use journal::Origin;
use ondisk::acl::decode;
use units::ObjectId;

pub(crate) use change::check_flags_allow;
pub use rules::Want;
pub(crate) use rules::{Acl, Facts};
pub use user::{Asker, Powers, User};

use crate::Zfs;
use crate::error::Result;
use crate::flags;
use crate::mode::{DeviceNumber, FileKind, MODE_GROUP};
use crate::options::Cred;
use crate::posix_acl::{self, PosixAcl};
use crate::sa::ZplAttr;
use crate::setattr::SetAttributes;
use crate::znode::Znode;

impl Zfs {
    /// Whether the one who asks may do this with an object (`access(2)`, NFS's ACCESS; a front's open).
    ///
    /// # Errors
    /// [`crate::ZplError::AccessDenied`], and [`crate::ZplError::NotPermitted`] for writing what is immutable.
    #[boxed]
    pub async fn check_access(&self, object: ObjectId, want: Want) -> Result<()> {
        let znode = self.znode(object).await?;
        let _shared = znode.lock.shared(journal::Span::ALL).await;
        znode.check_alive()?;
        self.check(Origin::Client, &znode, want).await
    }

    /// Whether this may be done. The caller holds a lock of the object, or of a directory that names it.
    pub(crate) async fn check(&self, origin: Origin<'_>, znode: &Znode, want: Want) -> Result<()> {
        match self.judged(origin) {
            // In a box: an operation that is not judged is no larger for it.
            Some(user) => user.may(&Box::pin(self.facts(znode)).await?, want),
            None => Ok(()),
        }
    }

    /// Whether `victim` may lose its name in `dir`.
    pub(crate) async fn check_removal(&self, origin: Origin<'_>, dir: &Znode, victim: &Znode) -> Result<()> {
        match self.judged(origin) {
            // A file that holds an extended attribute: its object was asked for.
            Some(_) if dir.is_hidden() => Ok(()),
            Some(user) => {
                let (dir, victim) = (Box::pin(self.facts(dir)).await?, Box::pin(self.facts(victim)).await?);
                user.may_remove(&dir, &victim)
            }
            None => Ok(()),
        }
    }

    /// What a change of attributes comes to for who asks for it.
    pub(crate) async fn permitted(&self, znode: &Znode, set: SetAttributes) -> Result<SetAttributes> {
        match self.judged(Origin::Client) {
            Some(user) => user.may_change(&Box::pin(self.facts(znode)).await?, set),
            None => Ok(set),
        }
    }

    /// Whether an extended attribute may be read, or written.
    pub(crate) async fn check_xattr(
        &self,
        origin: Origin<'_>,
        znode: &Znode,
        name: &[u8],
        want: Want,
    ) -> Result<()> {
        match self.judged(origin) {
            Some(user) => user.may_use_xattr(&Box::pin(self.facts(znode)).await?, name, want),
            None => Ok(()),
        }
    }

    /// Whether names of extended attributes are shown: those for administrators are not shown to others.
    pub(crate) fn shows_xattr(&self, name: &[u8]) -> bool {
        self.judged(Origin::Client).is_none_or(|user| user.sees_xattr(name))
    }

    /// Whether something may be made that belongs to `cred`, and is this device, if it is one.
    pub(crate) fn check_maker(&self, cred: Cred, device: Option<DeviceNumber>) -> Result<()> {
        self.judged(Origin::Client).map_or(Ok(()), |user| user.may_make(cred, device))
    }

    /// The permissions that who asks can give something new with this group.
    pub(crate) fn permissions_of_new(&self, permissions: u32, gid: u32) -> u32 {
        self.judged(Origin::Client).map_or(permissions, |user| user.permissions_of_new(permissions, gid))
    }

    /// Whether a write takes set-id bits away.
    pub(crate) fn drops_setid(&self) -> bool {
        self.judged(Origin::Client).is_some_and(|user| !user.powers.has(Powers::FSETID))
    }

    /// Who is to be judged, if anybody: what the log does again was judged when it was done first.
    fn judged(&self, origin: Origin<'_>) -> Option<&User> {
        match self.asker() {
            Asker::User(user) if !origin.is_replay() => Some(user),
            Asker::User(_) | Asker::Engine | Asker::Kernel | Asker::Cache => None,
        }
    }

    /// What the rules look at. The caller holds a lock of the object, or of a directory that names it.
    async fn facts(&self, znode: &Znode) -> Result<Facts> {
        let all = znode.attributes();
        Ok(Facts {
            kind: all.kind,
            permissions: all.permissions,
            uid: all.uid,
            gid: all.gid,
            flags: all.flags,
            acl: self.acl_of(znode, all.kind, all.permissions, all.flags).await?,
        })
    }

    async fn acl_of(&self, znode: &Znode, kind: FileKind, permissions: u32, all_flags: u64) -> Result<Acl> {
        let options = self.options();
        if options.nfs4_acls && all_flags & flags::ACL_TRIVIAL == 0 {
            let aces = znode.bytes(ZplAttr::DaclAces).map(|bytes| decode(&bytes)).transpose()?;
            return Ok(aces.map_or(Acl::Mode, Acl::Nfs4));
        }
        let counts = options.posix_acls && kind != FileKind::Symlink && permissions & MODE_GROUP != 0;
        match if counts { self.xattr_of(znode, posix_acl::ACCESS).await? } else { None } {
            Some(bytes) => Ok(Acl::Posix(PosixAcl::decode(&bytes)?)),
            None => Ok(Acl::Mode),
        }
    }
}
