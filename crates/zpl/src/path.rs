//! From an object to its path: up through the parents that every object names.

use units::ObjectId;

use crate::Zfs;
use crate::error::{Result, ZplError};

/// Directories above one another; more means that they form a ring.
const DEPTH_MAX: usize = 4096;
/// Entries read at a time.
const ENTRIES: usize = 1024;

impl Zfs {
    /// The path of an object from the root of the file system, with a leading slash. A file with
    /// several names gets the one its directory has.
    ///
    /// # Errors
    /// [`ZplError::NotFound`] for one without a name, and those of reading.
    pub async fn path_of(&self, object: ObjectId) -> Result<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut at = object;
        while at != self.root() {
            if names.len() >= DEPTH_MAX {
                return Err(ZplError::NotFound);
            }
            let parent = self.attributes(at).await?.parent;
            names.push(self.name_in(parent, at).await?);
            at = parent;
        }
        let path = names.iter().rev().flat_map(|name| [b"/".as_slice(), name].concat()).collect::<Vec<u8>>();
        Ok(if path.is_empty() { b"/".to_vec() } else { path })
    }

    /// The name under which a directory has an object.
    async fn name_in(&self, dir: ObjectId, object: ObjectId) -> Result<Vec<u8>> {
        let mut cookie = 0;
        loop {
            let entries = self.list(dir, cookie, ENTRIES).await?;
            let Some(last) = entries.last() else { return Err(ZplError::NotFound) };
            cookie = last.next;
            let is_dot = |name: &[u8]| name == b"." || name == b"..";
            let found = entries.into_iter().find(|entry| entry.object == object && !is_dot(&entry.name));
            if let Some(entry) = found {
                return Ok(entry.name);
            }
        }
    }
}
