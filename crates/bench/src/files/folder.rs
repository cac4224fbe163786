//! A directory of a mounted file system.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{FilesError, Server};

/// The directory made for all threads; removed when dropped.
pub(super) struct Folder {
    path: PathBuf,
}

/// A file or directory that is open, and its path.
pub(super) struct Opened {
    path: PathBuf,
    file: File,
}

impl Opened {
    fn done<T>(&self, result: io::Result<T>) -> Result<T, FilesError> {
        result.map_err(at(&self.path))
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> FilesError + '_ {
    move |source| FilesError::Directory { path: path.to_owned(), source }
}

impl Folder {
    pub fn new(parent: &Path) -> Result<Self, FilesError> {
        let path = parent.join("files");
        fs::create_dir(&path).map_err(at(&path))?;
        Ok(Self { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure was told by the step that it stopped, and what is left is in sight.
        let _told = fs::remove_dir_all(&self.path);
    }
}

impl Server for Folder {
    type Directory = Opened;
    type File = Opened;

    fn directory(&self, number: usize) -> Result<Opened, FilesError> {
        let path = self.path.join(format!("thread-{number}"));
        fs::create_dir(&path).map_err(at(&path))?;
        let file = File::open(&path).map_err(at(&path))?;
        Ok(Opened { path, file })
    }

    fn create(&self, directory: &Opened, name: &str) -> Result<Opened, FilesError> {
        let path = directory.path.join(name);
        let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(at(&path))?;
        Ok(Opened { path, file })
    }

    fn write(&self, file: &Opened, offset: u64, data: &[u8]) -> Result<(), FilesError> {
        file.done(file.file.write_all_at(data, offset))
    }

    fn fsync(&self, file: &Opened) -> Result<(), FilesError> {
        file.done(file.file.sync_all())
    }

    fn close(&self, file: Opened) -> Result<(), FilesError> {
        drop(file);
        Ok(())
    }

    fn fsync_directory(&self, directory: &Opened) -> Result<(), FilesError> {
        directory.done(directory.file.sync_all())
    }
}
