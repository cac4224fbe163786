//! Files by their paths.
//!
//! Paths count from the file system's root, with or without a slash in front. Names are bytes.
//! Symbolic links are followed as long as they are relative; `..` at the root stays there.

use std::sync::Arc;

use env::boxed;
use units::ObjectId;
use zpl::{
    Attributes, Cred, FileKind, ListEntry, NewNode, Place, RenameMode, SetAttributes, WriteFlags, Zfs,
    ZplError,
};

use crate::Error;

/// Symbolic links followed on one path, as Linux has it.
const LINKS_MAX: usize = 40;
/// Entries of a directory read at a time.
const LIST_STEP: usize = 1000;
/// Bytes read at a time.
const READ_STEP_BYTES: u64 = 4 << 20;
const FILE_PERMISSIONS: u32 = 0o644;
const DIRECTORY_PERMISSIONS: u32 = 0o755;

/// A file system, or what a snapshot holds of one.
#[derive(Clone)]
pub struct Files {
    zfs: Arc<Zfs>,
}

/// Where a path leads: a name in a directory, and what stands there, if anything does.
#[derive(Clone, Debug)]
pub struct Spot {
    /// The directory.
    pub dir: ObjectId,
    /// The name; `.` for the root itself.
    pub name: Vec<u8>,
    /// What has that name.
    pub node: Option<Attributes>,
}

impl Files {
    /// From the layer below.
    #[must_use]
    pub fn new(zfs: Arc<Zfs>) -> Self {
        Self { zfs }
    }

    /// The layer below, which knows objects instead of paths.
    #[must_use]
    pub fn zfs(&self) -> &Arc<Zfs> {
        &self.zfs
    }

    /// Follows a path; its last component only if `follow`, when that is a symbolic link.
    ///
    /// # Errors
    /// When something on the way is missing or no directory; of links, [`Error::LeadsOut`] and
    /// [`Error::TooManyLinks`].
    pub async fn spot(&self, path: impl AsRef<[u8]>, follow: bool) -> Result<Spot, Error> {
        let path = path.as_ref();
        let bad = |source| Error::File { path: shown(path), source };
        let root = self.zfs.root();
        let node = Some(self.zfs.attributes(root).await.map_err(bad)?);
        let mut spot = Spot { dir: root, name: b".".to_vec(), node };
        let mut todo: Vec<Vec<u8>> = components(path).rev().collect();
        let mut links = 0;
        while let Some(name) = todo.pop() {
            let dir = spot.node.ok_or_else(|| bad(ZplError::NotFound))?.object;
            let node = match self.zfs.lookup(dir, &name).await {
                Ok(node) => Some(node),
                Err(ZplError::NotFound) => None,
                Err(error) => return Err(bad(error)),
            };
            let is_link = node.as_ref().is_some_and(|node| node.kind == FileKind::Symlink);
            let link = match &node {
                Some(link) if is_link && (follow || !todo.is_empty()) => link.object,
                _ => {
                    spot = Spot { dir, name, node };
                    continue;
                }
            };
            links += 1;
            if links > LINKS_MAX {
                return Err(Error::TooManyLinks { path: shown(path) });
            }
            let target = self.zfs.readlink(link).await.map_err(bad)?;
            if target.starts_with(b"/") {
                return Err(Error::LeadsOut { path: shown(path) });
            }
            todo.extend(components(&target).rev());
            let node = Some(self.zfs.attributes(dir).await.map_err(bad)?);
            spot = Spot { dir, name: b".".to_vec(), node };
        }
        Ok(spot)
    }

    /// What `stat` tells.
    ///
    /// # Errors
    /// When there is nothing.
    pub async fn metadata(&self, path: impl AsRef<[u8]>) -> Result<Attributes, Error> {
        let path = path.as_ref();
        let node = self.spot(path, true).await?.node;
        node.ok_or_else(|| Error::File { path: shown(path), source: ZplError::NotFound })
    }

    /// All of a file.
    ///
    /// # Errors
    /// When it is missing, no file, or cannot be read.
    pub async fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        let path = path.as_ref();
        let file = self.metadata(path).await?;
        let mut all = Vec::new();
        let mut at = 0;
        while at < file.size {
            let step = (file.size - at).min(READ_STEP_BYTES) as usize;
            let start = all.len();
            all.resize(start + step, 0);
            let count = self.zfs.read(file.object, at, &mut all[start..]).await.map_err(|e| on(path, e))?;
            all.truncate(start + count);
            at += count as u64;
            if count == 0 {
                break;
            }
        }
        Ok(all)
    }

    /// Fills `into` from byte `offset` of a file; returns how many bytes there were before the end.
    ///
    /// # Errors
    /// As [`Files::read`].
    pub async fn read_at(
        &self,
        path: impl AsRef<[u8]>,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Error> {
        let path = path.as_ref();
        let file = self.metadata(path).await?;
        self.zfs.read(file.object, offset, into).await.map_err(|e| on(path, e))
    }

    /// Makes a file of these bytes, or gives the one that is there these bytes.
    ///
    /// # Errors
    /// When its directory is missing, the file system is read-only, or there is no room.
    pub async fn write(&self, path: impl AsRef<[u8]>, bytes: &[u8]) -> Result<(), Error> {
        let path = path.as_ref();
        let file = self.file_at(path).await?;
        let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
        self.zfs.set_attributes(file, empty).await.map_err(|e| on(path, e))?;
        self.zfs.write(file, 0, bytes, WriteFlags::default()).await.map_err(|e| on(path, e))?;
        Ok(())
    }

    /// Writes bytes into a file from byte `offset` on; makes it if need be.
    ///
    /// # Errors
    /// As [`Files::write`].
    pub async fn write_at(&self, path: impl AsRef<[u8]>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let path = path.as_ref();
        let file = self.file_at(path).await?;
        self.zfs.write(file, offset, bytes, WriteFlags::default()).await.map_err(|e| on(path, e))?;
        Ok(())
    }

    async fn file_at(&self, path: &[u8]) -> Result<ObjectId, Error> {
        let spot = self.spot(path, true).await?;
        if let Some(node) = spot.node {
            return Ok(node.object);
        }
        let made = self.zfs.create(spot.dir, &spot.name, NewNode::File, FILE_PERMISSIONS, Cred::default());
        Ok(made.await.map_err(|e| on(path, e))?.object)
    }

    /// Makes a file, or the names in a directory, stable: afterwards it survives any crash.
    ///
    /// # Errors
    /// When that cannot be done.
    pub async fn fsync(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let path = path.as_ref();
        let file = self.metadata(path).await?;
        self.zfs.fsync(file.object, false).await.map_err(|e| on(path, e))
    }

    /// What is in a directory, without `.` and `..`, by name.
    ///
    /// # Errors
    /// When it is missing or no directory.
    pub async fn list(&self, path: impl AsRef<[u8]>) -> Result<Vec<ListEntry>, Error> {
        let path = path.as_ref();
        let dir = self.metadata(path).await?.object;
        self.entries(dir).await.map_err(|e| on(path, e))
    }

    /// What is in a directory given by its object, without `.` and `..`, by name.
    ///
    /// # Errors
    /// When it is no directory, or cannot be read.
    #[boxed]
    pub async fn entries(&self, dir: ObjectId) -> Result<Vec<ListEntry>, ZplError> {
        let mut all = Vec::new();
        let mut cookie = 0;
        loop {
            let some = self.zfs.list(dir, cookie, LIST_STEP).await?;
            let Some(last) = some.last() else { break };
            cookie = last.next;
            all.extend(some.into_iter().filter(|entry| entry.name != b"." && entry.name != b".."));
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Makes an empty directory.
    ///
    /// # Errors
    /// When the name is taken, or its directory is missing.
    pub async fn create_dir(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        self.make(path.as_ref(), NewNode::Directory, DIRECTORY_PERMISSIONS).await
    }

    /// Makes a symbolic link with this text.
    ///
    /// # Errors
    /// When the name is taken, or its directory is missing.
    pub async fn symlink(&self, text: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<(), Error> {
        self.make(path.as_ref(), NewNode::Symlink(text.as_ref()), 0o777).await
    }

    async fn make(&self, path: &[u8], node: NewNode<'_>, permissions: u32) -> Result<(), Error> {
        let spot = self.spot(path, false).await?;
        let made = self.zfs.create(spot.dir, &spot.name, node, permissions, Cred::default()).await;
        made.map(drop).map_err(|e| on(path, e))
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// When it is missing, or something else.
    pub async fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        let path = path.as_ref();
        let node = self.spot(path, false).await?.node.ok_or_else(|| on(path, ZplError::NotFound))?;
        self.zfs.readlink(node.object).await.map_err(|e| on(path, e))
    }

    /// Removes a name: of a file, or of a directory that is empty.
    ///
    /// # Errors
    /// When it is missing, or a directory with something in it.
    pub async fn remove(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let path = path.as_ref();
        let spot = self.spot(path, false).await?;
        let removed = match spot.node.map(|node| node.kind) {
            Some(FileKind::Directory) => self.zfs.rmdir(spot.dir, &spot.name).await,
            _ => self.zfs.unlink(spot.dir, &spot.name).await,
        };
        removed.map_err(|e| on(path, e))
    }

    /// Gives what has the name `from` the name `to`, in place of what had that.
    ///
    /// # Errors
    /// When it is missing, or what is there cannot be replaced.
    pub async fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        let path = from.as_ref();
        let (from, to) = (self.spot(path, false).await?, self.spot(to.as_ref(), false).await?);
        let from = Place { dir: from.dir, name: &from.name };
        let to = Place { dir: to.dir, name: &to.name };
        self.zfs.rename(from, to, RenameMode::Replace).await.map_err(|e| on(path, e))
    }
}

fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> + '_ {
    let parts = path.split(|&byte| byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec)
}

fn on(path: &[u8], source: ZplError) -> Error {
    Error::File { path: shown(path), source }
}

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
