//! Old znodes: the attributes of an object in a file system before version 5.
//!
//! ```text
//!  0  the attributes 0 to 15, each at a fixed place, without a header (`ondisk::znode::ZnodePhys`)
//!  264  the text of a symbolic link, if it fits the bonus; else it is the data of the object
//! ```
//! A file system that was upgraded to version 5 keeps old znodes. An old znode becomes system attributes when it gets
//! an attribute that it has no place for.
//!
//! Invariants
//! - An old znode and the system attributes that it becomes have the same values, and the same ACL.
//!   (test: `an_old_znode_becomes_system_attributes_and_an_old_znode_again`)
//! - The first system attributes have the order in which a new object has them, because accounts find the owner there.

use ondisk::acl::{AclPhys, decode};
use ondisk::znode::ZNODE_BYTES;

use super::{SaAttrs, SaImage, SaTables, ZplAttr};
use crate::error::{Result, ZplError};
use crate::mode::FileKind;

/// Bytes of bonus in a dnode of one slot, which is all that the file systems of old znodes have.
const BONUS_MAX_BYTES: usize = crate::new_object::bonus_capacity(1);
/// The attributes that every object has, in the order of a new object.
const OF_EVERY_OBJECT: [ZplAttr; 12] = [
    ZplAttr::Mode,
    ZplAttr::Size,
    ZplAttr::Gen,
    ZplAttr::Uid,
    ZplAttr::Gid,
    ZplAttr::Parent,
    ZplAttr::Flags,
    ZplAttr::Atime,
    ZplAttr::Mtime,
    ZplAttr::Ctime,
    ZplAttr::Crtime,
    ZplAttr::Links,
];

/// True if the text of a symbolic link lies behind the attributes of an old znode.
pub(crate) fn is_inline(target: &[u8]) -> bool {
    ZNODE_BYTES + target.len() <= BONUS_MAX_BYTES
}

/// The offset of one of the attributes 0 to 15.
fn offset(attr: ZplAttr) -> usize {
    ZplAttr::ALL[..attr.index()].iter().map(|before| usize::from(before.length())).sum()
}

fn is_of_old_znodes(attr: ZplAttr) -> bool {
    attr.index() < ZplAttr::LEGACY_COUNT
}

impl SaAttrs {
    /// Returns the bonus of an old znode that has these attributes, with an ACL of the version `acl_version`.
    ///
    /// # Errors
    /// [`ZplError::Unsupported`] for an attribute that old znodes have no place for, and for an ACL of too many entries.
    pub(super) fn build_old(&self, tables: &SaTables, acl_version: u16) -> Result<Vec<u8>> {
        let mut bonus = vec![0; ZNODE_BYTES];
        let mut put = |attr, value: &[u8]| {
            bonus[offset(attr)..][..value.len()].copy_from_slice(value);
        };
        let mut text: &[u8] = &[];
        for (number, value) in self.iter() {
            match tables.known(number) {
                Some(attr) if is_of_old_znodes(attr) && value.len() == usize::from(attr.length()) => {
                    put(attr, value);
                }
                Some(ZplAttr::DaclAces) => {
                    let acl = AclPhys::of(&decode(value)?, acl_version);
                    let acl = acl.ok_or(ZplError::Unsupported("a long ACL before version 5"))?;
                    put(ZplAttr::ZnodeAcl, &acl.to_bytes());
                }
                Some(ZplAttr::DaclCount) => {}
                Some(ZplAttr::Symlink) => text = value,
                _ => return Err(ZplError::Unsupported("this attribute before version 5 of the file system")),
            }
        }
        if is_inline(text) {
            bonus.extend_from_slice(text);
        }
        Ok(bonus)
    }
}

impl SaImage {
    /// Returns the attributes of an old znode as system attributes.
    ///
    /// # Errors
    /// [`ZplError::Unsupported`] for an ACL that lies in an object of its own; damage in the ACL.
    pub(super) fn attrs_of_old(&self, tables: &SaTables) -> Result<SaAttrs> {
        let mut attrs = SaAttrs::with_room();
        for attr in OF_EVERY_OBJECT {
            attrs.set_known(tables, attr, self.get(attr).unwrap_or_default());
        }
        for attr in [ZplAttr::Rdev, ZplAttr::Xattr] {
            if self.word(attr) != 0 {
                attrs.set_word(tables, attr, self.word(attr));
            }
        }
        let acl = AclPhys::decode(self.get(ZplAttr::ZnodeAcl).unwrap_or_default())?;
        let aces = acl.aces()?.ok_or(ZplError::Unsupported("an ACL in an object of its own"))?;
        attrs.set_word(tables, ZplAttr::DaclCount, aces.len() as u64);
        attrs.set_known(tables, ZplAttr::DaclAces, &ondisk::acl::encode(&aces));
        if let Some(text) = self.old_text() {
            attrs.set_known(tables, ZplAttr::Symlink, text);
        }
        Ok(attrs)
    }

    /// The text of a symbolic link behind the attributes of an old znode.
    fn old_text(&self) -> Option<&[u8]> {
        let is_link = FileKind::of_mode(self.word(ZplAttr::Mode) as u32) == Some(FileKind::Symlink);
        let len = usize::try_from(self.word(ZplAttr::Size)).ok().filter(|_| is_link)?;
        self.bonus().get(ZNODE_BYTES..)?.get(..len)
    }

    /// Gives an old znode this ACL. False if the object has system attributes, or an ACL in an object of its own.
    pub(crate) fn patch_old_acl(&mut self, aces: &[ondisk::acl::Ace]) -> bool {
        let Some(Ok(old)) = self.get(ZplAttr::ZnodeAcl).map(AclPhys::decode) else { return false };
        let has_own_object = old.extern_object.get() != 0;
        match AclPhys::of(aces, old.version.get()) {
            Some(acl) if !has_own_object => self.patch(ZplAttr::ZnodeAcl, &acl.to_bytes()),
            _ => false,
        }
    }
}
