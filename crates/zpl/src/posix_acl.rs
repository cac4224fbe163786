//! POSIX ACLs as Linux stores them: two extended attributes.
//!
//! ```text
//!  system.posix_acl_access, system.posix_acl_default:
//!    0 version u32 = 2 │ entries of 8 bytes:  0 tag u16   2 rights u16   4 id u32
//!  order: owner, users…, owning group, groups…, mask (a must beside users and groups), others
//! ```
//! The access ACL and the mode say the same about the owner, the mask (where there is none, the
//! owning group) and others: who changes one changes the other. What says no more than a mode is
//! not stored. A directory's default ACL becomes the ACL of what is made in it, in place of the
//! umask. What they allow, [`crate::access`] says.

use crate::error::{Result, ZplError};

/// Name of the ACL that says who may do what.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of a directory's ACL for what is made in it.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const VERSION_BYTES: usize = 4;
const ENTRY_BYTES: usize = 8;
/// The id of an entry that needs none.
const NO_ID: u32 = u32::MAX;

const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Whether an extended attribute is an ACL.
#[must_use]
pub fn is_acl(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    rights: u16,
    id: u32,
}

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Other,
}

/// A valid ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PosixAcl {
    entries: Vec<Entry>,
}

impl PosixAcl {
    /// # Errors
    /// [`ZplError::Invalid`] for what is no ACL.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WRONG: ZplError = ZplError::Invalid("not a POSIX ACL");
        let (version, rest) = bytes.split_first_chunk::<VERSION_BYTES>().ok_or(WRONG)?;
        if u32::from_le_bytes(*version) != VERSION || !rest.len().is_multiple_of(ENTRY_BYTES) {
            return Err(WRONG);
        }
        let acl = Self { entries: rest.chunks_exact(ENTRY_BYTES).map(Entry::decode).collect() };
        if acl.is_valid() { Ok(acl) } else { Err(WRONG) }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.tag.to_le_bytes());
            bytes.extend_from_slice(&entry.rights.to_le_bytes());
            bytes.extend_from_slice(&entry.id.to_le_bytes());
        }
        bytes
    }

    /// One owner, one owning group, one for others, in order; a mask where somebody is named.
    fn is_valid(&self) -> bool {
        let tags: Vec<u16> = self.entries.iter().map(|entry| entry.tag).collect();
        let count = |tag| tags.iter().filter(|&&t| t == tag).count();
        let named = count(USER) + count(GROUP) > 0;
        let known = count(USER) + count(GROUP) + count(MASK) + 3 == tags.len();
        let one_each = [OWNER, OWNING_GROUP, OTHER].iter().all(|&tag| count(tag) == 1);
        tags.is_sorted()
            && known
            && one_each
            && count(MASK) <= 1
            && (!named || count(MASK) == 1)
            && self.entries.iter().all(|entry| entry.rights <= 7)
    }

    /// Whether a mode says all of it.
    pub fn is_minimal(&self) -> bool {
        self.entries.len() == 3
    }

    /// The tag of the entry that the group bits of the mode stand for.
    fn group_class(&self) -> u16 {
        if self.entries.iter().any(|entry| entry.tag == MASK) { MASK } else { OWNING_GROUP }
    }

    fn entry(&mut self, tag: u16) -> &mut Entry {
        self.entries.iter_mut().find(|entry| entry.tag == tag).expect("a valid ACL has it")
    }

    fn classes(&self) -> [(u16, u32); 3] {
        [(OWNER, 6), (self.group_class(), 3), (OTHER, 0)]
    }

    /// The nine permission bits.
    pub fn permissions(&self) -> u32 {
        let mut acl = self.clone();
        self.classes().iter().fold(0, |bits, &(tag, shift)| bits | u32::from(acl.entry(tag).rights) << shift)
    }

    /// The rights of the entries with such tags, in order.
    pub fn rights_where(&self, is_one: impl Fn(Tag) -> bool) -> impl Iterator<Item = u32> {
        let found = self.entries.iter().filter(move |entry| entry.whom().is_some_and(&is_one));
        found.map(|entry| entry.rights.into())
    }

    /// The same ACL for other permission bits.
    pub fn with_permissions(mut self, permissions: u32) -> Self {
        for (tag, shift) in self.classes() {
            self.entry(tag).rights = (permissions >> shift & 7) as u16;
        }
        self
    }

    /// The access ACL of something made with these permissions where this is the default: each
    /// class gets what both allow.
    pub fn inherited(self, permissions: u32) -> Self {
        let both = self.permissions() & permissions;
        self.with_permissions(both)
    }
}

impl Entry {
    fn whom(&self) -> Option<Tag> {
        Some(match self.tag {
            OWNER => Tag::Owner,
            USER => Tag::User(self.id),
            OWNING_GROUP => Tag::OwningGroup,
            GROUP => Tag::Group(self.id),
            MASK => Tag::Mask,
            OTHER => Tag::Other,
            _ => return None,
        })
    }

    fn decode(bytes: &[u8]) -> Self {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let tag = half(0);
        let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Self { tag, rights: half(2), id: if tag == USER || tag == GROUP { id } else { NO_ID } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let entries = entries.iter().map(|&(tag, rights, id)| Entry { tag, rights, id }).collect();
        PosixAcl { entries }.encode()
    }

    #[test]
    fn an_acl_and_a_mode_agree_about_owner_mask_and_others() {
        let bytes = acl(&[
            (OWNER, 6, NO_ID),
            (USER, 6, 1000),
            (OWNING_GROUP, 4, NO_ID),
            (MASK, 6, NO_ID),
            (OTHER, 0, NO_ID),
        ]);
        let acl = PosixAcl::decode(&bytes).unwrap();
        assert_eq!((acl.permissions(), acl.is_minimal()), (0o660, false));
        assert_eq!(acl.clone().with_permissions(0o751).permissions(), 0o751);
        assert_eq!(acl.clone().inherited(0o644).permissions(), 0o640);
        assert_eq!(acl.encode(), bytes);
    }

    #[test]
    fn a_minimal_acl_is_a_mode() {
        let acl = PosixAcl::decode(&acl(&[(OWNER, 7, 0), (OWNING_GROUP, 5, 0), (OTHER, 1, 0)])).unwrap();
        assert_eq!((acl.permissions(), acl.is_minimal()), (0o751, true));
    }

    #[test]
    fn what_is_not_an_acl_is_refused() {
        let good = [(OWNER, 7, 0), (USER, 7, 5), (OWNING_GROUP, 5, 0), (MASK, 7, 0), (OTHER, 1, 0)];
        assert!(PosixAcl::decode(&acl(&good)).is_ok());
        for without in [0, 2, 3, 4] {
            let mut entries = good.to_vec();
            entries.remove(without);
            assert!(PosixAcl::decode(&acl(&entries)).is_err(), "without entry {without}");
        }
        let mut swapped = good;
        swapped.swap(1, 2);
        assert!(PosixAcl::decode(&acl(&swapped)).is_err());
        assert!(PosixAcl::decode(&acl(&[(OWNER, 8, 0), (OWNING_GROUP, 5, 0), (OTHER, 1, 0)])).is_err());
        assert!(PosixAcl::decode(&acl(&good)[1..]).is_err());
        assert!(PosixAcl::decode(b"").is_err());
    }
}
