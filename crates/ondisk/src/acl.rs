//! ACLs: who may do what with a file, as NFSv4 has it.
//!
//! ```text
//!  entry: 0 type u16   2 flags u16   4 mask u32 | 8 who u64 | 16 object type (16) | 32 inherited (16)
//!                                               8           16                                   48
//!  old:   0 who u32    4 mask u32    8 flags u16   10 type u16 | 12 object type | 28 inherited | 44
//! ```
//! An entry for owner, group or everyone ends after 8 bytes, one for another user or group after
//! 16, one for an object type after 48: type and flags tell which. File systems before version 3
//! have old entries of 12 bytes. Log records have old entries whatever the version, there with
//! object types too.
//!
//! Every file carries an ACL, on Linux too, where it is the *trivial* one: the mode in other words.
//! POSIX ACLs are extended attributes and not seen here.
//!
//! Invariants
//! - The ACL of a mode grants what the mode does (test:
//!   `the_trivial_acl_grants_what_the_mode_does`), in the entries that OpenZFS writes (golden test:
//!   `every_structure_in_every_pool_encodes_to_the_same_bytes`).

#[cfg(test)]
mod tests;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::ByteOrder;
use crate::error::{OndiskError, bad};
use crate::reader::Reader;
use crate::swap::words;

/// Room for entries in an old znode: six old ones.
pub const ACE_SPACE_BYTES: usize = 72;
/// Bytes of an old entry.
pub const OLD_ACE_BYTES: usize = 12;
/// ACL version of file systems before 3.
pub const ACL_VERSION_INITIAL: u16 = 0;
/// ACL version since.
pub const ACL_VERSION_FUID: u16 = 1;

/// Types of entries.
pub mod ace_type {
    /// Allows.
    pub const ALLOW: u16 = 0;
    /// Denies.
    pub const DENY: u16 = 1;
    /// Writes an audit record.
    pub const AUDIT: u16 = 2;
    /// Raises an alarm.
    pub const ALARM: u16 = 3;
    /// Allows for an object type: first of the four that are 48 bytes long.
    pub const ALLOW_OBJECT: u16 = 5;
    /// Raises an alarm for an object type: last of the four.
    pub const ALARM_OBJECT: u16 = 8;
}

/// Flags of entries.
pub mod ace_flags {
    /// Files inherit it.
    pub const FILE_INHERIT: u16 = 0x0001;
    /// Directories inherit it.
    pub const DIRECTORY_INHERIT: u16 = 0x0002;
    /// But their children do not.
    pub const NO_PROPAGATE_INHERIT: u16 = 0x0004;
    /// It is there to be inherited only.
    pub const INHERIT_ONLY: u16 = 0x0008;
    /// Audit success.
    pub const SUCCESSFUL_ACCESS: u16 = 0x0010;
    /// Audit failure.
    pub const FAILED_ACCESS: u16 = 0x0020;
    /// `who` is a group.
    pub const IDENTIFIER_GROUP: u16 = 0x0040;
    /// Was inherited.
    pub const INHERITED: u16 = 0x0080;
    /// Is about the owner.
    pub const OWNER: u16 = 0x1000;
    /// Is about the owning group.
    pub const GROUP: u16 = 0x2000;
    /// Is about everyone.
    pub const EVERYONE: u16 = 0x4000;
    /// Which of the kinds of `who` it is about.
    pub const WHO: u16 = OWNER | GROUP | EVERYONE | IDENTIFIER_GROUP;
    /// The owning group, as it is written.
    pub const OWNING_GROUP: u16 = GROUP | IDENTIFIER_GROUP;
}

/// Bits of an entry's mask.
pub mod ace_mask {
    /// Read a file, list a directory.
    pub const READ_DATA: u32 = 0x0000_0001;
    /// Write a file, add a file to a directory.
    pub const WRITE_DATA: u32 = 0x0000_0002;
    /// Append to a file, add a directory to a directory.
    pub const APPEND_DATA: u32 = 0x0000_0004;
    /// Read extended attributes.
    pub const READ_NAMED_ATTRS: u32 = 0x0000_0008;
    /// Write extended attributes.
    pub const WRITE_NAMED_ATTRS: u32 = 0x0000_0010;
    /// Execute a file, pass through a directory.
    pub const EXECUTE: u32 = 0x0000_0020;
    /// Remove from a directory.
    pub const DELETE_CHILD: u32 = 0x0000_0040;
    /// Read attributes.
    pub const READ_ATTRIBUTES: u32 = 0x0000_0080;
    /// Set times.
    pub const WRITE_ATTRIBUTES: u32 = 0x0000_0100;
    /// Remove it.
    pub const DELETE: u32 = 0x0001_0000;
    /// Read the ACL.
    pub const READ_ACL: u32 = 0x0002_0000;
    /// Write the ACL or the mode.
    pub const WRITE_ACL: u32 = 0x0004_0000;
    /// Change owner and group.
    pub const WRITE_OWNER: u32 = 0x0008_0000;
    /// Wait for synchronous access.
    pub const SYNCHRONIZE: u32 = 0x0010_0000;
}

/// The ACL part of an old znode.
///
/// ```text
///  0 object   8 size u32   12 version u16   14 count u16   16 entries (72)   88 end
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AclPhys {
    /// Object with the entries when they do not fit here, else zero.
    pub extern_object: U64,
    /// Bytes of entries; in version 0 their number.
    pub size: U32,
    /// [`ACL_VERSION_INITIAL`] or [`ACL_VERSION_FUID`].
    pub version: U16,
    /// Entries; zero in version 0.
    pub count: U16,
    /// Entries, when they fit.
    pub entries: [u8; ACE_SPACE_BYTES],
}
const _: () = assert!(size_of::<AclPhys>() == 88);

impl Default for AclPhys {
    fn default() -> Self {
        let entries = [0; ACE_SPACE_BYTES];
        Self {
            extern_object: U64::ZERO,
            size: U32::ZERO,
            version: U16::new(ACL_VERSION_FUID),
            count: U16::ZERO,
            entries,
        }
    }
}

impl AclPhys {
    /// Reads the ACL part of an old znode.
    ///
    /// # Errors
    /// When there are fewer than 88 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, OndiskError> {
        crate::reader::prefix("acl of an old znode", bytes)
    }

    /// The bytes on disk.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        zerocopy::transmute!(*self)
    }

    /// Returns these entries as an old znode has them, in the form of `version`: [`ACL_VERSION_INITIAL`] or
    /// [`ACL_VERSION_FUID`]. `None` if there is no room for all of them.
    #[must_use]
    pub fn of(aces: &[Ace], version: u16) -> Option<Self> {
        let is_initial = version == ACL_VERSION_INITIAL;
        let bytes = if is_initial { encode_old(aces) } else { encode(aces) };
        let number = u16::try_from(aces.len()).ok()?;
        let size = u32::try_from(if is_initial { aces.len() } else { bytes.len() }).ok()?;
        let mut entries = [0; ACE_SPACE_BYTES];
        entries.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        let count = U16::new(if is_initial { 0 } else { number });
        let (size, version) = (U32::new(size), U16::new(version));
        Some(Self { extern_object: U64::ZERO, size, version, count, entries })
    }

    /// Returns the entries. `None` if they lie in an object of their own.
    ///
    /// # Errors
    /// When the entries do not fit their space, or the last one breaks off.
    pub fn aces(&self) -> Result<Option<Vec<Ace>>, OndiskError> {
        if self.extern_object != U64::ZERO {
            return Ok(None);
        }
        let is_initial = self.version.get() == ACL_VERSION_INITIAL;
        let size = usize::try_from(self.size.get()).unwrap_or(usize::MAX);
        let bytes = if is_initial { size.saturating_mul(OLD_ACE_BYTES) } else { size };
        let entries = self.entries.get(..bytes).ok_or(bad("old acl", "size", self.size.get()))?;
        if is_initial { decode_old(entries).map(Some) } else { decode(entries).map(Some) }
    }
}

/// The start of every entry.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AceHeaderPhys {
    ace_type: U16,
    flags: U16,
    mask: U32,
}
const _: () = assert!(size_of::<AceHeaderPhys>() == 8);

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ace {
    /// See [`ace_type`].
    pub ace_type: u16,
    /// See [`ace_flags`].
    pub flags: u16,
    /// See [`ace_mask`].
    pub mask: u32,
    /// The user or group; `None` for owner, group and everyone.
    pub who: Option<u64>,
    /// Object type and inherited object type, where the type is about such.
    pub object: Option<([u8; 16], [u8; 16])>,
}

impl Ace {
    /// An entry about owner, owning group or everyone.
    #[must_use]
    pub const fn abstract_who(ace_type: u16, flags: u16, mask: u32) -> Self {
        Self { ace_type, flags, mask, who: None, object: None }
    }

    const fn is_abstract(ace_type: u16, flags: u16) -> bool {
        matches!(flags & ace_flags::WHO, ace_flags::OWNER | ace_flags::OWNING_GROUP | ace_flags::EVERYONE)
            && (ace_type == ace_type::ALLOW || ace_type == ace_type::DENY)
    }

    const fn is_object(ace_type: u16) -> bool {
        ace_type >= ace_type::ALLOW_OBJECT && ace_type <= ace_type::ALARM_OBJECT
    }
}

/// Decodes the entries that fill `bytes`.
///
/// # Errors
/// When the last one breaks off.
pub fn decode(bytes: &[u8]) -> Result<Vec<Ace>, OndiskError> {
    let mut from = Reader::new("acl", bytes);
    let mut aces = Vec::new();
    while !from.is_empty() {
        let header: AceHeaderPhys = from.read()?;
        let (ace_type, flags, mask) = (header.ace_type.get(), header.flags.get(), header.mask.get());
        let who = if Ace::is_abstract(ace_type, flags) { None } else { Some(from.read::<U64>()?.get()) };
        let object = if Ace::is_object(ace_type) { Some((from.read()?, from.read()?)) } else { None };
        aces.push(Ace { ace_type, flags, mask, who, object });
    }
    Ok(aces)
}

/// Encodes entries.
///
/// # Panics
/// When an entry has a `who` or an object that its type and flags do not, or lacks one.
#[must_use]
pub fn encode(aces: &[Ace]) -> Vec<u8> {
    let mut out = Vec::new();
    for ace in aces {
        assert_eq!(
            ace.who.is_none(),
            Ace::is_abstract(ace.ace_type, ace.flags),
            "type and flags tell the size"
        );
        assert_eq!(ace.object.is_some(), Ace::is_object(ace.ace_type), "type tells the size");
        let (ace_type, flags) = (U16::new(ace.ace_type), U16::new(ace.flags));
        out.extend_from_slice(AceHeaderPhys { ace_type, flags, mask: U32::new(ace.mask) }.as_bytes());
        ace.who.iter().for_each(|who| out.extend_from_slice(U64::new(*who).as_bytes()));
        if let Some((object, inherited)) = &ace.object {
            out.extend_from_slice(object);
            out.extend_from_slice(inherited);
        }
    }
    out
}

/// An entry as old ACLs and log records have it.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OldAcePhys {
    who: U32,
    mask: U32,
    flags: U16,
    ace_type: U16,
}
const _: () = assert!(size_of::<OldAcePhys>() == OLD_ACE_BYTES);

impl OldAcePhys {
    fn ace(&self, object: Option<([u8; 16], [u8; 16])>) -> Ace {
        let (ace_type, flags) = (self.ace_type.get(), self.flags.get());
        let who = (!Ace::is_abstract(ace_type, flags)).then_some(self.who.get().into());
        Ace { ace_type, flags, mask: self.mask.get(), who, object }
    }
}

/// Decodes old entries of 12 bytes.
///
/// # Errors
/// When the last one breaks off, or its type is not allow or deny.
pub fn decode_old(bytes: &[u8]) -> Result<Vec<Ace>, OndiskError> {
    let mut from = Reader::new("old acl", bytes);
    let mut aces = Vec::new();
    while !from.is_empty() {
        let phys: OldAcePhys = from.read()?;
        if phys.ace_type.get() > ace_type::ALARM {
            return Err(bad("old acl", "type", phys.ace_type.get()));
        }
        aces.push(phys.ace(None));
    }
    Ok(aces)
}

/// Decodes the entries of a log record.
///
/// # Errors
/// When the last one breaks off, or its type is unknown.
pub fn decode_logged(bytes: &[u8]) -> Result<Vec<Ace>, OndiskError> {
    let mut from = Reader::new("logged acl", bytes);
    let mut aces = Vec::new();
    while !from.is_empty() {
        let phys: OldAcePhys = from.read()?;
        let ace_type = phys.ace_type.get();
        if ace_type > ace_type::ALARM_OBJECT {
            return Err(bad("logged acl", "type", ace_type));
        }
        let object = if Ace::is_object(ace_type) { Some((from.read()?, from.read()?)) } else { None };
        aces.push(phys.ace(object));
    }
    Ok(aces)
}

/// Encodes old entries; those of object types are longer, and for log records only. Ids that do
/// not fit 32 bits lose what is above.
#[must_use]
pub fn encode_old(aces: &[Ace]) -> Vec<u8> {
    let mut out = Vec::new();
    for ace in aces {
        let who = U32::new(ace.who.map_or(0, |who| (who & u64::from(u32::MAX)) as u32));
        let (flags, ace_type) = (U16::new(ace.flags), U16::new(ace.ace_type));
        out.extend_from_slice(OldAcePhys { who, mask: U32::new(ace.mask), flags, ace_type }.as_bytes());
        if let Some((object, inherited)) = &ace.object {
            out.extend_from_slice(object);
            out.extend_from_slice(inherited);
        }
    }
    out
}

/// Swaps entries as files have them, which have the byte order `from`. Zeroes behind the last one
/// are entries of nothing, and may break off.
pub fn swap(bytes: &mut [u8], from: ByteOrder) {
    swap_entries(bytes, |entry| {
        let (ace_type, flags) = (short_at(entry, 0, from), short_at(entry, 2, from));
        words::<2>(entry.get_mut(..4).unwrap_or_default());
        words::<4>(entry.get_mut(4..8).unwrap_or_default());
        if Ace::is_abstract(ace_type, flags) {
            return 8;
        }
        words::<8>(entry.get_mut(8..16).unwrap_or_default());
        if Ace::is_object(ace_type) { 48 } else { 16 }
    })
}

/// Swaps old entries, or a log record's, which have the byte order `from`.
pub fn swap_old(bytes: &mut [u8], from: ByteOrder) {
    swap_entries(bytes, |entry| {
        let ace_type = short_at(entry, 10, from);
        words::<4>(entry.get_mut(..8).unwrap_or_default());
        words::<2>(entry.get_mut(8..OLD_ACE_BYTES).unwrap_or_default());
        if Ace::is_object(ace_type) { OLD_ACE_BYTES.saturating_add(32) } else { OLD_ACE_BYTES }
    })
}

/// Goes through entries; `swap` turns the one that its slice begins with and says how long it is.
fn swap_entries(bytes: &mut [u8], swap: impl Fn(&mut [u8]) -> usize) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let len = swap(rest).min(rest.len());
        rest = rest.split_at_mut(len).1;
    }
}

fn short_at(bytes: &[u8], at: usize, from: ByteOrder) -> u16 {
    let pair = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    if from == ByteOrder::Big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
}

const READ_BIT: u64 = 0o4;
const WRITE_BIT: u64 = 0o2;
const EXECUTE_BIT: u64 = 0o1;

/// What everyone may do whatever the mode.
const ALWAYS: u32 =
    ace_mask::READ_ACL | ace_mask::READ_ATTRIBUTES | ace_mask::READ_NAMED_ATTRS | ace_mask::SYNCHRONIZE;
/// What the owner may do besides.
const OWNER_ALWAYS: u32 =
    ace_mask::WRITE_ATTRIBUTES | ace_mask::WRITE_OWNER | ace_mask::WRITE_ACL | ace_mask::WRITE_NAMED_ATTRS;

/// The mask that stands for three bits of a mode.
const fn mask_of(rwx: u64, is_dir: bool) -> u32 {
    let read = if rwx & READ_BIT != 0 { ace_mask::READ_DATA } else { 0 };
    let delete_child = if is_dir { ace_mask::DELETE_CHILD } else { 0 };
    let write = ace_mask::WRITE_DATA | ace_mask::APPEND_DATA | delete_child;
    let write = if rwx & WRITE_BIT != 0 { write } else { 0 };
    let execute = if rwx & EXECUTE_BIT != 0 { ace_mask::EXECUTE } else { 0 };
    read | write | execute
}

/// The ACL that says just what a mode says.
///
/// NFSv4 takes the first entry that decides, and everyone includes the owner; a mode takes the
/// most specific class. So where a class has less than those after it, an entry first denies it the
/// difference; and where that denial of the group would hit the owner, an entry before it allows.
#[must_use]
pub fn trivial(mode: u64, is_dir: bool) -> Vec<Ace> {
    let (owner, group, other) = ((mode >> 6) & 0o7, (mode >> 3) & 0o7, mode & 0o7);
    let denied_to_owner = !owner & (group | other);
    let denied_to_group = !group & other;
    let allowed_first = owner & denied_to_group;
    let mut aces = Vec::with_capacity(6);
    let mut push_if = |rwx: u64, ace_type: u16, who: u16| {
        if rwx != 0 {
            aces.push(Ace::abstract_who(ace_type, who, mask_of(rwx, is_dir)));
        }
    };
    push_if(allowed_first, ace_type::ALLOW, ace_flags::OWNER);
    push_if(denied_to_owner, ace_type::DENY, ace_flags::OWNER);
    push_if(denied_to_group, ace_type::DENY, ace_flags::OWNING_GROUP);
    let allow = |rwx, who, always| Ace::abstract_who(ace_type::ALLOW, who, mask_of(rwx, is_dir) | always);
    aces.push(allow(owner, ace_flags::OWNER, ALWAYS | OWNER_ALWAYS));
    aces.push(allow(group, ace_flags::OWNING_GROUP, ALWAYS));
    aces.push(allow(other, ace_flags::EVERYONE, ALWAYS));
    aces
}
