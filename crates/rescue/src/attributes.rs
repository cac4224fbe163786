//! The attributes of a file: everything except its contents.

use ondisk::znode::flags;
use ondisk::{DnodeImage, ObjectType};
use zpl::{DeviceNumber, FileKind, SaImage, SaTables, Timestamp, ZplAttr};

const PERMISSIONS: u32 = 0o7777;

/// The attributes of a file, as `stat` and the extended ones need them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileAttributes {
    /// The type of the file.
    pub kind: FileKind,
    /// The permission bits, with set-id and sticky bits.
    pub permissions: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The size in bytes.
    pub size: u64,
    /// The number of names.
    pub links: u64,
    /// The device number, if the file is a device.
    pub device: DeviceNumber,
    /// The time of the last access.
    pub atime: Timestamp,
    /// The time of the last change of the contents.
    pub mtime: Timestamp,
    /// The time of creation.
    pub created: Timestamp,
    /// The directory in which the file was last linked.
    pub parent: u64,
    /// True if the object belongs to the extended attributes of another object.
    pub is_hidden: bool,
    /// The directory of its extended attributes; 0 if there is none.
    pub xattr_dir: u64,
    /// The packed extended attributes that are stored as a system attribute.
    pub packed_xattrs: Option<Vec<u8>>,
    /// The text of a symbolic link, if it is stored with the attributes.
    pub target: Option<Vec<u8>>,
}

impl FileAttributes {
    /// Reads the attributes of a dnode and its spill block.
    ///
    /// # Errors
    /// Returns the reason if the attributes are invalid.
    pub fn read(tables: &SaTables, image: &DnodeImage, spill: Option<Vec<u8>>) -> Result<Self, String> {
        let parsed = SaImage::parse(tables, image.bonus_type, image.bonus.clone(), spill);
        let sa = parsed.map_err(|error| error.to_string())?;
        sa.check_complete().map_err(|error| crate::tree::chain(&error))?;
        let mode = narrow(sa.word(ZplAttr::Mode));
        let kind = FileKind::of_mode(mode).ok_or_else(|| format!("mode {mode:o} has no file type"))?;
        Ok(Self {
            kind,
            permissions: mode & PERMISSIONS,
            uid: narrow(sa.word(ZplAttr::Uid)),
            gid: narrow(sa.word(ZplAttr::Gid)),
            size: sa.word(ZplAttr::Size),
            links: sa.word(ZplAttr::Links),
            device: DeviceNumber::decode(sa.word(ZplAttr::Rdev)),
            atime: sa.time(ZplAttr::Atime),
            mtime: sa.time(ZplAttr::Mtime),
            created: sa.time(ZplAttr::Crtime),
            parent: sa.word(ZplAttr::Parent),
            is_hidden: sa.word(ZplAttr::Flags) & flags::XATTR != 0,
            xattr_dir: sa.word(ZplAttr::Xattr),
            packed_xattrs: sa.get(ZplAttr::Dxattr).map(<[u8]>::to_vec),
            target: sa.get(ZplAttr::Symlink).map(<[u8]>::to_vec).or_else(|| old_target(&sa, image)),
        })
    }

    /// Makes up attributes for an object whose attributes are lost: the size covers all its blocks,
    /// and only the owner may read.
    pub fn unknown(image: &DnodeImage) -> Self {
        let kind = match image.object_type {
            ObjectType::DIRECTORY_CONTENTS => FileKind::Directory,
            _ => FileKind::File,
        };
        let blocks = image.max_block_id.get().saturating_add(1);
        let has_data = image.blkptrs.iter().any(|bp| !bp.is_hole());
        Self {
            kind,
            permissions: if kind == FileKind::Directory { 0o700 } else { 0o600 },
            uid: 0,
            gid: 0,
            size: if has_data { blocks.saturating_mul(image.data_block_bytes()) } else { 0 },
            links: 1,
            device: DeviceNumber::default(),
            atime: Timestamp::default(),
            mtime: Timestamp::default(),
            created: Timestamp::default(),
            parent: 0,
            is_hidden: false,
            xattr_dir: 0,
            packed_xattrs: None,
            target: None,
        }
    }
}

fn narrow(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0)
}

/// Returns the text of a symbolic link that follows the attributes of an old znode, if the text
/// fits there.
fn old_target(sa: &SaImage, image: &DnodeImage) -> Option<Vec<u8>> {
    let is_old = image.bonus_type == ObjectType::ZNODE;
    let len = usize::try_from(sa.word(ZplAttr::Size)).ok()?;
    let start = ondisk::znode::ZNODE_BYTES;
    image.bonus.get(start..start.checked_add(len)?).filter(|_| is_old).map(<[u8]>::to_vec)
}
