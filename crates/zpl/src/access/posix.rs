//! POSIX ACLs (POSIX.1e draft 17, 23.1.5): which entry counts for somebody who is not the owner.
//!
//! ```text
//!  the entry that names him, with the mask ─► else those of his groups: any one that has all, with the mask ─► others
//! ```

use super::User;
use crate::posix_acl::{PosixAcl, Tag};

impl PosixAcl {
    /// Whether the ACL allows `rwx` to somebody who is not the owner, of something that has this group.
    pub(super) fn allows(&self, user: &User, gid: u32, rwx: u32) -> bool {
        let has_all = |rights: u32| rwx & !rights == 0;
        if let Some(rights) = self.rights_where(|tag| tag == Tag::User(user.uid)).next() {
            return has_all(rights & self.mask());
        }
        let his = |tag| match tag {
            Tag::OwningGroup => user.is_in(gid),
            Tag::Group(group) => user.is_in(group),
            Tag::Owner | Tag::User(_) | Tag::Mask | Tag::Other => false,
        };
        let mut groups = self.rights_where(his).peekable();
        if groups.peek().is_some() {
            return groups.any(|rights| has_all(rights & self.mask()));
        }
        self.rights_where(|tag| tag == Tag::Other).all(has_all)
    }

    /// What others than the owner and others can have at most.
    fn mask(&self) -> u32 {
        self.rights_where(|tag| tag == Tag::Mask).next().unwrap_or(7)
    }
}
