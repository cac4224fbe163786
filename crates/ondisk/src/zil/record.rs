//! Log records: one change to one file system or volume each.
//!
//! ```text
//!   0 type | case-insensitive (bit 63)   8 length   16 txg   24 sequence   32 the type's own
//! ```
//! The length counts the whole record, padded with zeroes to a multiple of 8. The structures of
//! fixed size are in [`phys`], what varies after them (names, data, ACLs) in [`body`].

pub mod body;
mod decode;
mod encode;
pub mod phys;
mod swap;

use units::{Txg, ZilSeq};

pub use body::{
    LrAcl, LrAclV0, LrAttr, LrCloneRange, LrCreate, LrCreateAcl, LrLink, LrRemove, LrRename,
    LrRenameWhiteout, LrSetSaXattr, LrSetattr, LrTruncate, LrWrite, Timestamp,
};
pub use phys::{LrCommon, WRITE_HEADER_BYTES};
pub use swap::swap_record;

use crate::error::{OndiskError, bad};

/// Set in the type when names are to be looked up without regard to case.
pub const CASE_INSENSITIVE: u64 = 1 << 63;

/// Types of log records, with the format's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u64)]
pub enum TxType {
    /// A file was created.
    Create = 1,
    /// A directory was made.
    Mkdir = 2,
    /// A directory for extended attributes was made.
    Mkxattr = 3,
    /// A symbolic link was made.
    Symlink = 4,
    /// A name of a file was removed.
    Remove = 5,
    /// A directory was removed.
    Rmdir = 6,
    /// A file got another name.
    Link = 7,
    /// A name was changed.
    Rename = 8,
    /// Data were written.
    Write = 9,
    /// A range was freed, or the file cut.
    Truncate = 10,
    /// Attributes were set.
    Setattr = 11,
    /// An ACL was set, in file systems before version 3.
    AclV0 = 12,
    /// An ACL was set.
    Acl = 13,
    /// A file was created with an ACL.
    CreateAcl = 14,
    /// A file was created with attributes.
    CreateAttr = 15,
    /// A file was created with both.
    CreateAclAttr = 16,
    /// A directory was made with an ACL.
    MkdirAcl = 17,
    /// A directory was made with attributes.
    MkdirAttr = 18,
    /// A directory was made with both.
    MkdirAclAttr = 19,
    /// Data were written, and reached the pool otherwise: only the file's size may need care.
    Write2 = 20,
    /// An extended attribute kept in system attributes was set or removed.
    SetSaXattr = 21,
    /// Two names were exchanged.
    RenameExchange = 22,
    /// A name was changed, leaving a whiteout.
    RenameWhiteout = 23,
    /// Blocks were cloned into a file.
    CloneRange = 24,
}

impl TxType {
    /// All types, in the order of their numbers, from 1 on.
    pub const ALL: [Self; 24] = [
        Self::Create,
        Self::Mkdir,
        Self::Mkxattr,
        Self::Symlink,
        Self::Remove,
        Self::Rmdir,
        Self::Link,
        Self::Rename,
        Self::Write,
        Self::Truncate,
        Self::Setattr,
        Self::AclV0,
        Self::Acl,
        Self::CreateAcl,
        Self::CreateAttr,
        Self::CreateAclAttr,
        Self::MkdirAcl,
        Self::MkdirAttr,
        Self::MkdirAclAttr,
        Self::Write2,
        Self::SetSaXattr,
        Self::RenameExchange,
        Self::RenameWhiteout,
        Self::CloneRange,
    ];

    /// The type with this number (without the case bit).
    ///
    /// # Errors
    /// When the format has no such number.
    pub fn from_raw(raw: u64) -> Result<Self, OndiskError> {
        let index = raw.checked_sub(1).and_then(|i| usize::try_from(i).ok());
        index.and_then(|i| Self::ALL.get(i)).copied().ok_or_else(|| bad("log record", "type", raw))
    }

    /// The format's number.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self as u64
    }

    /// The name `zdb -i` prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "TX_CREATE",
            Self::Mkdir => "TX_MKDIR",
            Self::Mkxattr => "TX_MKXATTR",
            Self::Symlink => "TX_SYMLINK",
            Self::Remove => "TX_REMOVE",
            Self::Rmdir => "TX_RMDIR",
            Self::Link => "TX_LINK",
            Self::Rename => "TX_RENAME",
            Self::Write => "TX_WRITE",
            Self::Truncate => "TX_TRUNCATE",
            Self::Setattr => "TX_SETATTR",
            Self::AclV0 => "TX_ACL_V0",
            Self::Acl => "TX_ACL_ACL",
            Self::CreateAcl => "TX_CREATE_ACL",
            Self::CreateAttr => "TX_CREATE_ATTR",
            Self::CreateAclAttr => "TX_CREATE_ACL_ATTR",
            Self::MkdirAcl => "TX_MKDIR_ACL",
            Self::MkdirAttr => "TX_MKDIR_ATTR",
            Self::MkdirAclAttr => "TX_MKDIR_ACL_ATTR",
            Self::Write2 => "TX_WRITE2",
            Self::SetSaXattr => "TX_SETSAXATTR",
            Self::RenameExchange => "TX_RENAME_EXCHANGE",
            Self::RenameWhiteout => "TX_RENAME_WHITEOUT",
            Self::CloneRange => "TX_CLONE_RANGE",
        }
    }

    /// Whether records of this type may be logged in another order than they happened in: they
    /// concern one file's contents and wait until that file is committed.
    #[must_use]
    pub const fn is_out_of_order(self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::Truncate
                | Self::Setattr
                | Self::AclV0
                | Self::Acl
                | Self::Write2
                | Self::SetSaXattr
                | Self::CloneRange
        )
    }
}

/// What a record says besides its body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHead {
    /// The txg the change belongs to: once it has synced, the record is void.
    pub txg: Txg,
    /// Counts the records of a dataset.
    pub seq: ZilSeq,
    /// Names are to be looked up without regard to case.
    pub case_insensitive: bool,
}

/// A log record's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord {
    /// See [`TxType::Create`].
    Create(LrCreate),
    /// See [`TxType::Mkdir`].
    Mkdir(LrCreate),
    /// See [`TxType::Mkxattr`].
    Mkxattr(LrCreate),
    /// See [`TxType::Symlink`]; the link's text is in `target`.
    Symlink(LrCreate),
    /// See [`TxType::Remove`].
    Remove(LrRemove),
    /// See [`TxType::Rmdir`].
    Rmdir(LrRemove),
    /// See [`TxType::Link`].
    Link(LrLink),
    /// See [`TxType::Rename`].
    Rename(LrRename),
    /// See [`TxType::Write`].
    Write(LrWrite),
    /// See [`TxType::Truncate`].
    Truncate(LrTruncate),
    /// See [`TxType::Setattr`].
    Setattr(LrSetattr),
    /// See [`TxType::AclV0`].
    AclV0(LrAclV0),
    /// See [`TxType::Acl`].
    Acl(LrAcl),
    /// See [`TxType::CreateAcl`].
    CreateAcl(LrCreateAcl),
    /// See [`TxType::CreateAttr`]; `attr` is there.
    CreateAttr(LrCreate),
    /// See [`TxType::CreateAclAttr`]; `attr` is there.
    CreateAclAttr(LrCreateAcl),
    /// See [`TxType::MkdirAcl`].
    MkdirAcl(LrCreateAcl),
    /// See [`TxType::MkdirAttr`]; `attr` is there.
    MkdirAttr(LrCreate),
    /// See [`TxType::MkdirAclAttr`]; `attr` is there.
    MkdirAclAttr(LrCreateAcl),
    /// See [`TxType::Write2`].
    Write2(LrWrite),
    /// See [`TxType::SetSaXattr`].
    SetSaXattr(LrSetSaXattr),
    /// See [`TxType::RenameExchange`].
    RenameExchange(LrRename),
    /// See [`TxType::RenameWhiteout`].
    RenameWhiteout(LrRenameWhiteout),
    /// See [`TxType::CloneRange`].
    CloneRange(LrCloneRange),
}

impl LogRecord {
    /// The record's type.
    #[must_use]
    pub const fn tx_type(&self) -> TxType {
        match self {
            Self::Create(_) => TxType::Create,
            Self::Mkdir(_) => TxType::Mkdir,
            Self::Mkxattr(_) => TxType::Mkxattr,
            Self::Symlink(_) => TxType::Symlink,
            Self::Remove(_) => TxType::Remove,
            Self::Rmdir(_) => TxType::Rmdir,
            Self::Link(_) => TxType::Link,
            Self::Rename(_) => TxType::Rename,
            Self::Write(_) => TxType::Write,
            Self::Truncate(_) => TxType::Truncate,
            Self::Setattr(_) => TxType::Setattr,
            Self::AclV0(_) => TxType::AclV0,
            Self::Acl(_) => TxType::Acl,
            Self::CreateAcl(_) => TxType::CreateAcl,
            Self::CreateAttr(_) => TxType::CreateAttr,
            Self::CreateAclAttr(_) => TxType::CreateAclAttr,
            Self::MkdirAcl(_) => TxType::MkdirAcl,
            Self::MkdirAttr(_) => TxType::MkdirAttr,
            Self::MkdirAclAttr(_) => TxType::MkdirAclAttr,
            Self::Write2(_) => TxType::Write2,
            Self::SetSaXattr(_) => TxType::SetSaXattr,
            Self::RenameExchange(_) => TxType::RenameExchange,
            Self::RenameWhiteout(_) => TxType::RenameWhiteout,
            Self::CloneRange(_) => TxType::CloneRange,
        }
    }

    /// What the record makes, if it makes something.
    #[must_use]
    pub const fn made(&self) -> Option<&LrCreate> {
        match self {
            Self::Create(r)
            | Self::Mkdir(r)
            | Self::Mkxattr(r)
            | Self::Symlink(r)
            | Self::CreateAttr(r)
            | Self::MkdirAttr(r) => Some(r),
            Self::CreateAcl(r) | Self::CreateAclAttr(r) | Self::MkdirAcl(r) | Self::MkdirAclAttr(r) => {
                Some(&r.create)
            }
            _ => None,
        }
    }

    /// The object whose contents the record changes; `None` for records about names.
    #[must_use]
    pub const fn object(&self) -> Option<units::ObjectId> {
        match self {
            Self::Write(r) | Self::Write2(r) => Some(r.object),
            Self::Truncate(r) => Some(r.object),
            Self::Setattr(r) => Some(r.object),
            Self::AclV0(r) => Some(r.object),
            Self::Acl(r) => Some(r.object),
            Self::SetSaXattr(r) => Some(r.object),
            Self::CloneRange(r) => Some(r.object),
            _ => None,
        }
    }
}

/// Walks the records of a log block (the bytes [`super::ZilChain::decode`] gives). Ends after the
/// first error: what follows a record of unknown length cannot be found.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Result<(RecordHead, LogRecord), OndiskError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let decoded = LogRecord::decode(rest);
        rest = match &decoded {
            Ok((_, _, len)) => rest.get(*len..).unwrap_or_default(),
            Err(_) => &[],
        };
        Some(decoded.map(|(head, record, _)| (head, record)))
    })
}
