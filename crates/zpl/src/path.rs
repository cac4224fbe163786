//! From an object to its path: up through the parents that every object names.

use units::ObjectId;

use crate::dirent::Dirent;
use crate::error::{Result, ZplError};
use crate::mode::FileKind;
use crate::sa::ZplAttr;
use crate::zfs::Zfs;
use crate::znode::Znode;

/// Directories above one another; more means that they form a ring.
const DEPTH_MAX: usize = 4096;
/// What stands for a directory of extended attributes, which has no name.
const XATTR_DIR: &[u8] = b"<xattrdir>";

impl Zfs {
    /// The path of an object from the root of the file system, with a leading slash. A file with
    /// several names gets the one its directory has.
    ///
    /// # Errors
    /// [`ZplError::NotFound`] for one without a name, and those of reading.
    pub async fn path_of(&self, object: ObjectId) -> Result<Vec<u8>> {
        self.find_path(object).await?.ok_or(ZplError::NotFound)
    }

    /// The same; `None` where one of those above does not have what is below it.
    pub(crate) async fn find_path(&self, object: ObjectId) -> Result<Option<Vec<u8>>> {
        let (mut names, mut at): (Vec<Vec<u8>>, _) = (Vec::new(), object);
        while at != self.root() {
            let found = self.if_file(at).await?.filter(|_| names.len() < DEPTH_MAX);
            let Some(znode) = found else { return Ok(None) };
            let parent = ObjectId::new(znode.word(ZplAttr::Parent));
            let Some(name) = self.name_of(&znode, parent).await? else { return Ok(None) };
            names.push(name);
            at = parent;
        }
        let path = names.iter().rev().flat_map(|name| [b"/".as_slice(), name].concat()).collect::<Vec<u8>>();
        Ok(Some(if path.is_empty() { b"/".to_vec() } else { path }))
    }

    /// The name that an object has in the directory that it says has it.
    async fn name_of(&self, znode: &Znode, parent: ObjectId) -> Result<Option<Vec<u8>>> {
        if znode.kind() == FileKind::Directory && znode.is_hidden() {
            return Ok(Some(XATTR_DIR.to_vec()));
        }
        let dir = self.if_file(parent).await?.filter(|dir| dir.kind() == FileKind::Directory);
        let Some(dir) = dir else { return Ok(None) };
        let is_it = |word: u64| Dirent::decode(word).object == znode.object();
        let entries = dir.zap()?.all().await?;
        let found = entries.into_iter().find(|entry| entry.value.as_u64().is_some_and(is_it));
        Ok(found.map(|entry| entry.name))
    }
}
