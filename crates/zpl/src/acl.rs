//! NFSv4 ACLs, as far as Linux needs them: a mode said as an ACL, and an ACL's mode.
//!
//! Every object carries an ACL. Without one of its own it is *trivial*: it says no more than the
//! mode does. The kernel and our fronts check the mode alone; OpenZFS elsewhere checks the ACL, so
//! it must be right. ACLs of their own come from other systems, in their pools and in their logs;
//! on Linux POSIX ACLs are extended attributes and not seen here.
//!
//! Where an ACL is set, the mode follows from it: of all entries that are about a class of users
//! (everyone is about all three), the first that names a right decides.
//!
//! Invariants
//! - A mode's ACL has that mode (test: `the_acl_of_a_mode_has_that_mode`).

use ondisk::acl::{Ace, ace_flags, ace_mask, ace_type, decode_logged, encode, trivial};
use ondisk::zil::record::body::LrAclBody;

use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::{MODE_EXECUTE, MODE_RWX};

/// The most entries that OpenZFS takes.
const ENTRIES_MAX: usize = 1024;
/// Flags of an object that an ACL brings along.
pub(crate) const ACL_FLAGS: u64 = flags::ACL_TRIVIAL
    | flags::INHERIT_ACE
    | flags::ACL_OBJ_ACE
    | flags::ACL_PROTECTED
    | flags::ACL_DEFAULTED
    | flags::ACL_AUTO_INHERIT
    | flags::NO_EXECS_DENIED;
/// ACL-wide flags of a record, and the object's for them.
const WIDE_FLAGS: [(u64, u64); 3] =
    [(0x1, flags::ACL_AUTO_INHERIT), (0x2, flags::ACL_PROTECTED), (0x4, flags::ACL_DEFAULTED)];

/// What only an entry for the owner may allow in a trivial ACL.
const OWNERS_ONLY: u32 =
    ace_mask::WRITE_OWNER | ace_mask::WRITE_ACL | ace_mask::WRITE_ATTRIBUTES | ace_mask::WRITE_NAMED_ATTRS;
const INHERITED_BY: u16 = ace_flags::FILE_INHERIT | ace_flags::DIRECTORY_INHERIT;

/// Whose rights a triple of mode bits is about, and how far up it stands.
const CLASSES: [(Class, u32); 3] = [(Class::Owner, 6), (Class::Group, 3), (Class::Other, 0)];
const RIGHTS: [(u32, u32); 3] = [(4, ace_mask::READ_DATA), (2, ace_mask::WRITE_DATA), (1, ace_mask::EXECUTE)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Owner,
    Group,
    Other,
}

/// Owner and group of an object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owners {
    pub uid: u64,
    pub gid: u64,
}

/// An ACL ready to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl {
    aces: Vec<Ace>,
    /// Object flags that hold for all of it.
    wide: u64,
}

impl Acl {
    /// The ACL that says what `mode`'s nine permission bits say.
    pub fn of_mode(mode: u32, is_directory: bool) -> Self {
        let wide = if is_directory { flags::ACL_AUTO_INHERIT } else { 0 };
        Self { aces: trivial(mode.into(), is_directory), wide }
    }

    /// The ACL of a log record.
    pub fn of_log(body: &LrAclBody) -> Result<Self> {
        let acl = Self::of_logged_bytes(&body.bytes, body.aces)?;
        let wide = WIDE_FLAGS.iter().filter(|(bit, _)| body.flags & bit != 0);
        Ok(Self { wide: wide.fold(0, |all, (_, flag)| all | flag), ..acl })
    }

    /// The ACL of a log record of a file system before version 3.
    pub fn of_old_log(aces: &[[u8; 12]]) -> Result<Self> {
        Self::of_logged_bytes(aces.as_flattened(), aces.len() as u64)
    }

    fn of_logged_bytes(bytes: &[u8], declared: u64) -> Result<Self> {
        let aces = decode_logged(bytes)?;
        if aces.is_empty() || aces.len() > ENTRIES_MAX || aces.len() as u64 != declared {
            return Err(ZplError::Invalid("the number of entries of a logged ACL"));
        }
        if !aces.iter().all(is_valid) {
            return Err(ZplError::Invalid("an entry of a logged ACL"));
        }
        Ok(Self { aces, wide: 0 })
    }

    /// The entries.
    pub fn aces(&self) -> &[Ace] {
        &self.aces
    }

    /// The entries, for `DACL_ACES`.
    pub fn bytes(&self) -> Vec<u8> {
        encode(&self.aces)
    }

    /// How many entries.
    pub fn count(&self) -> u64 {
        self.aces.len() as u64
    }

    /// The nine permission bits that follow.
    pub fn rwx(&self, owners: Owners) -> u32 {
        let mut mode = 0;
        for (class, shift) in CLASSES {
            for (bit, mask) in RIGHTS {
                if self.allows(class, mask, owners) {
                    mode |= bit << shift;
                }
            }
        }
        mode
    }

    /// The object flags that follow: those of [`ACL_FLAGS`].
    pub fn flags(&self, is_directory: bool, owners: Owners) -> u64 {
        let when = |holds: bool, flag: u64| if holds { flag } else { 0 };
        let inherits = is_directory && self.aces.iter().any(|ace| ace.flags & INHERITED_BY != 0);
        let has_objects = self.aces.iter().any(|ace| ace.object.is_some());
        let runs = self.rwx(owners) & MODE_EXECUTE == MODE_EXECUTE && !self.aces.iter().any(denies_running);
        self.wide
            | when(inherits, flags::INHERIT_ACE)
            | when(has_objects, flags::ACL_OBJ_ACE)
            | when(runs, flags::NO_EXECS_DENIED)
            | when(self.aces.iter().all(is_trivial), flags::ACL_TRIVIAL)
    }

    fn allows(&self, class: Class, mask: u32, owners: Owners) -> bool {
        let about = |ace: &&Ace| ace.mask & mask != 0 && is_about(ace, class, owners);
        self.aces
            .iter()
            .filter(|ace| is_in_force(ace))
            .find(about)
            .is_some_and(|ace| ace.ace_type == ace_type::ALLOW)
    }
}

/// Not there to be inherited only.
fn is_in_force(ace: &Ace) -> bool {
    ace.flags & ace_flags::INHERIT_ONLY == 0
}

fn is_about(ace: &Ace, class: Class, owners: Owners) -> bool {
    match ace.flags & ace_flags::WHO {
        ace_flags::EVERYONE => true,
        ace_flags::OWNER => class == Class::Owner,
        0 => class == Class::Owner && ace.who == Some(owners.uid),
        ace_flags::OWNING_GROUP => class == Class::Group,
        ace_flags::IDENTIFIER_GROUP => class == Class::Group && ace.who == Some(owners.gid),
        _ => false,
    }
}

/// Denies execution to somebody by name.
fn denies_running(ace: &Ace) -> bool {
    let is_named = matches!(ace.flags & ace_flags::WHO, 0 | ace_flags::IDENTIFIER_GROUP);
    is_named && is_in_force(ace) && ace.ace_type == ace_type::DENY && ace.mask & ace_mask::EXECUTE != 0
}

fn is_valid(ace: &Ace) -> bool {
    const WHOS: [u16; 5] =
        [0, ace_flags::OWNER, ace_flags::OWNING_GROUP, ace_flags::EVERYONE, ace_flags::IDENTIFIER_GROUP];
    let about_inheriting = ace_flags::INHERIT_ONLY | ace_flags::NO_PROPAGATE_INHERIT;
    let inherits = ace.flags & about_inheriting == 0 || ace.flags & INHERITED_BY != 0;
    inherits && WHOS.contains(&(ace.flags & ace_flags::WHO))
}

fn is_trivial(ace: &Ace) -> bool {
    let is_named = matches!(ace.flags & ace_flags::WHO, 0 | ace_flags::IDENTIFIER_GROUP);
    let inherits = INHERITED_BY | ace_flags::NO_PROPAGATE_INHERIT | ace_flags::INHERIT_ONLY;
    let (denies, allows) = (ace.ace_type == ace_type::DENY, ace.ace_type == ace_type::ALLOW);
    let basics = ace_mask::READ_ACL | ace_mask::READ_ATTRIBUTES;
    let removes = ace_mask::DELETE_CHILD | ace_mask::WRITE_DATA;
    !(is_named
        || ace.flags & inherits != 0
        || denies && ace.mask & basics != 0
        || ace.mask & ace_mask::DELETE != 0
        || ace.mask & removes == ace_mask::DELETE_CHILD
        || allows && ace.flags & ace_flags::OWNER == 0 && ace.mask & OWNERS_ONLY != 0)
}

/// The permission bits `of` a mode with the nine that an ACL decides replaced.
pub(crate) fn with_rwx(of: u32, rwx: u32) -> u32 {
    of & !MODE_RWX | rwx
}

#[cfg(test)]
mod tests {
    use ondisk::acl::encode_old;

    use super::*;

    const NOBODY: Owners = Owners { uid: 65534, gid: 65534 };

    fn acl(aces: Vec<Ace>) -> Acl {
        let body = LrAclBody { aces: aces.len() as u64, bytes: encode_old(&aces), ..LrAclBody::default() };
        Acl::of_log(&body).expect("a valid ACL")
    }

    fn named(ace_type: u16, flags: u16, mask: u32, who: u64) -> Ace {
        Ace { ace_type, flags, mask, who: Some(who), object: None }
    }

    #[test]
    fn the_acl_of_a_mode_has_that_mode() {
        for mode in 0..0o1000 {
            for is_directory in [false, true] {
                let acl = Acl::of_mode(mode, is_directory);
                assert_eq!(acl.rwx(NOBODY), mode, "{mode:o}");
                let flags = acl.flags(is_directory, NOBODY);
                assert_ne!(flags & flags::ACL_TRIVIAL, 0, "{mode:o}");
                assert_eq!(flags & flags::NO_EXECS_DENIED != 0, mode & 0o111 == 0o111, "{mode:o}");
                assert_eq!(flags & flags::ACL_AUTO_INHERIT != 0, is_directory);
            }
        }
    }

    #[test]
    fn entries_that_name_the_owner_count_for_the_owner() {
        let mut aces = trivial(0o644, false);
        aces.insert(0, named(ace_type::DENY, 0, ace_mask::WRITE_DATA, 7));
        let acl = acl(aces);
        assert_eq!(acl.rwx(Owners { uid: 7, gid: 0 }), 0o444);
        assert_eq!(acl.rwx(NOBODY), 0o644);
        assert_eq!(acl.flags(false, NOBODY) & flags::ACL_TRIVIAL, 0);
    }

    #[test]
    fn somebody_who_may_not_run_it_takes_the_flag_away() {
        let mut aces = trivial(0o755, false);
        aces.push(named(ace_type::DENY, ace_flags::IDENTIFIER_GROUP, ace_mask::EXECUTE, 9));
        let acl = acl(aces);
        assert_eq!(acl.rwx(NOBODY), 0o755);
        assert_eq!(acl.flags(false, NOBODY) & flags::NO_EXECS_DENIED, 0);
    }

    #[test]
    fn what_is_inherited_only_gives_no_rights_here() {
        let mut aces = trivial(0o700, true);
        let only = ace_flags::INHERIT_ONLY | ace_flags::FILE_INHERIT | ace_flags::EVERYONE;
        aces.insert(0, Ace::abstract_who(ace_type::ALLOW, only, ace_mask::READ_DATA));
        let acl = acl(aces);
        assert_eq!(acl.rwx(NOBODY), 0o700);
        assert_eq!(acl.flags(true, NOBODY) & (flags::INHERIT_ACE | flags::ACL_TRIVIAL), flags::INHERIT_ACE);
    }

    #[test]
    fn acls_that_openzfs_would_refuse_are_refused() {
        let of = |aces: &[Ace], declared| {
            Acl::of_log(&LrAclBody { aces: declared, bytes: encode_old(aces), ..LrAclBody::default() })
        };
        let aces = trivial(0o644, false);
        assert!(of(&aces, 3).is_ok());
        assert!(of(&aces, 2).is_err() && of(&[], 0).is_err() && of(&[], 3).is_err());
        let lonely = Ace::abstract_who(ace_type::ALLOW, ace_flags::INHERIT_ONLY | ace_flags::EVERYONE, 1);
        assert!(of(&[lonely], 1).is_err());
        let both = named(ace_type::ALLOW, ace_flags::OWNER | ace_flags::GROUP, 1, 0);
        assert!(of(&[both], 1).is_err());
    }
}
