//! The parts of log records that have a fixed size.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::blkptr::Blkptr;

/// Records are padded to this.
pub(super) const ALIGN: usize = 8;
/// Bytes of [`LrCommon`] and [`WritePhys`]: a write record without data.
pub const WRITE_HEADER_BYTES: usize = size_of::<LrCommon>() + size_of::<WritePhys>();
/// Words of an attribute bitmap that we read: OpenZFS has three.
pub(super) const BITMAP_WORDS_MAX: u32 = 64;
/// Position of the dnode's slot count (less one) in the number of a new object.
pub(super) const SLOTS: (u32, u32) = (56, 8);
/// Position of the object's number in it.
pub(super) const OBJECT: (u32, u32) = (0, 48);

/// A time as the format writes it: seconds since 1970 (signed) and nanoseconds.
pub type TimePhys = [U64; 2];

/// Declares a structure that lies on disk, with its size asserted.
macro_rules! phys {
    ($(#[$doc:meta])* $name:ident[$bytes:literal] { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        #[repr(C)]
        pub struct $name { $($(#[$field_doc])* pub $field: $ty,)* }
        const _: () = assert!(size_of::<$name>() == $bytes);
    };
}

phys! {
    /// The start of every record.
    LrCommon[32] {
        /// A [`super::TxType`], and in bit 63 [`super::CASE_INSENSITIVE`].
        txtype: U64,
        /// Bytes of the whole record, a multiple of 8.
        reclen: U64,
        /// The txg the change belongs to.
        txg: U64,
        /// Counts the records of a dataset.
        seq: U64,
    }
}
phys! {
    /// Making a file, directory or link; follows [`LrCommon`], as all of these do.
    ///
    /// ```text
    ///  0 directory   8 object   16 mode   24 uid   32 gid   40 gen   48 crtime   64 rdev   72
    /// ```
    CreatePhys[72] {
        /// The directory.
        doid: U64,
        /// The new object; its slots less one in the top 8 bits.
        foid: U64,
        /// Mode with file type.
        mode: U64,
        /// Owner.
        uid: U64,
        /// Group.
        gid: U64,
        /// The txg of creation.
        generation: U64,
        /// Time of creation.
        crtime: TimePhys,
        /// Device number of a device node.
        rdev: U64,
    }
}
phys! {
    /// Sizes of the ACL that comes with a record.
    AclSizesPhys[40] {
        /// Entries.
        aces: U64,
        /// Domain names that follow.
        domains: U64,
        /// Foreign ids that follow.
        fuids: U64,
        /// Bytes of entries, before rounding up to 8.
        acl_bytes: U64,
        /// ACL-wide flags.
        acl_flags: U64,
    }
}
phys! {
    /// Renaming; two names follow.
    RenamePhys[16] {
        /// Where the name was.
        source_dir: U64,
        /// Where it went.
        target_dir: U64,
    }
}
phys! {
    /// The whiteout that a rename left; follows [`RenamePhys`].
    WhiteoutPhys[64] {
        /// The new object; its slots less one in the top 8 bits.
        foid: U64,
        /// Mode with file type: a character device.
        mode: U64,
        /// Owner.
        uid: U64,
        /// Group.
        gid: U64,
        /// The txg of creation.
        generation: U64,
        /// Time of creation.
        crtime: TimePhys,
        /// Device number 0, 0.
        rdev: U64,
    }
}
phys! {
    /// Writing; data may follow.
    ///
    /// ```text
    ///  0 object   8 offset   16 length   24 unused   32 blkptr   160
    /// ```
    WritePhys[160] {
        /// The file.
        foid: U64,
        /// Where in it.
        offset: U64,
        /// Bytes written.
        length: U64,
        /// No longer used.
        blkoff: U64,
        /// Where the block went, when no data follow.
        blkptr: Blkptr,
    }
}
phys! {
    /// Freeing a range.
    TruncatePhys[24] {
        /// The file.
        foid: U64,
        /// From where on.
        offset: U64,
        /// How much; zero to cut the file here.
        length: U64,
    }
}
phys! {
    /// Setting attributes; [`super::LrAttr`] may follow.
    SetattrPhys[80] {
        /// The file.
        foid: U64,
        /// Which of the following count.
        mask: U64,
        /// Mode with file type.
        mode: U64,
        /// Owner.
        uid: U64,
        /// Group.
        gid: U64,
        /// Length of the file.
        size: U64,
        /// Time of last access.
        atime: TimePhys,
        /// Time of last change of data.
        mtime: TimePhys,
    }
}
phys! {
    /// Two numbers: (object, entries) of an old ACL, (object, value length) of an extended
    /// attribute, (directory, object) of a link.
    PairPhys[16] {
        /// The file, or the directory.
        first: U64,
        /// See above.
        second: U64,
    }
}
phys! {
    /// Cloning blocks; their blkptrs follow.
    CloneRangePhys[40] {
        /// The file cloned into.
        foid: U64,
        /// Where in it.
        offset: U64,
        /// Bytes cloned.
        length: U64,
        /// The file's block size.
        block_bytes: U64,
        /// Blkptrs that follow.
        blkptrs: U64,
    }
}
phys! {
    /// The end of an attribute section, after its bitmap.
    AttrEndPhys[56] {
        /// Values of the flag attributes, `XAT0_*`.
        attrs: U64,
        /// Time of creation.
        crtime: TimePhys,
        /// Virus scanner's stamp, or a project id in the first 8 bytes.
        scanstamp: [u8; 32],
    }
}
