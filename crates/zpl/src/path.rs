//! From an object to its path: up through the parents that every object names.

use std::collections::{BTreeMap, BTreeSet};

use env::boxed;
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
    #[boxed]
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

    /// The path that an object has in a directory, whatever directory the object names as its parent.
    ///
    /// # Errors
    /// Those of reading.
    #[boxed]
    pub async fn path_in(&self, dir: ObjectId, object: ObjectId) -> Result<Option<Vec<u8>>> {
        let lost = BTreeSet::from([object]);
        let Some((_, name)) = self.names_in(dir, &lost).await?.into_iter().next() else { return Ok(None) };
        Ok(self.find_path(dir).await?.map(|path| joined(&path, &name)))
    }

    /// The paths of objects that are in other directories than those that the objects name as their parents: a file
    /// names the directory of its newest name, which may be gone while older names are there. Reads all directories of
    /// the file system.
    ///
    /// # Errors
    /// Those of reading.
    #[boxed]
    pub async fn search_paths(&self, lost: &BTreeSet<ObjectId>) -> Result<BTreeMap<ObjectId, Vec<u8>>> {
        let (mut found, mut at) = (BTreeMap::new(), ObjectId::new(0));
        while found.len() < lost.len() {
            let Some(next) = self.os.next_object(at).await? else { break };
            at = next;
            let names = self.names_in(next, lost).await?;
            if names.is_empty() {
                continue;
            }
            let Some(path) = self.find_path(next).await? else { continue };
            for (object, name) in names {
                found.entry(object).or_insert_with(|| joined(&path, &name));
            }
        }
        Ok(found)
    }

    /// Those of some objects that an object has as a directory, with their names.
    async fn names_in(&self, dir: ObjectId, of: &BTreeSet<ObjectId>) -> Result<Vec<(ObjectId, Vec<u8>)>> {
        let dir = self.if_file(dir).await?.filter(|dir| dir.kind() == FileKind::Directory);
        let Some(dir) = dir else { return Ok(Vec::new()) };
        let entries = dir.zap()?.all().await?.into_iter();
        let named =
            entries.filter_map(|entry| Some((Dirent::decode(entry.value.as_u64()?).object, entry.name)));
        Ok(named.filter(|(object, _)| of.contains(object)).collect())
    }

    /// The name that an object has in the directory that it says has it.
    async fn name_of(&self, znode: &Znode, parent: ObjectId) -> Result<Option<Vec<u8>>> {
        if znode.kind() == FileKind::Directory && znode.is_hidden() {
            return Ok(Some(XATTR_DIR.to_vec()));
        }
        let names = self.names_in(parent, &BTreeSet::from([znode.object()])).await?;
        Ok(names.into_iter().next().map(|(_, name)| name))
    }
}

/// The path of a name in a directory.
fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let dir = if dir == b"/" { b"".as_slice() } else { dir };
    [dir, b"/", name].concat()
}
