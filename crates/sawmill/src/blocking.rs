//! The same without futures: each call waits on the calling thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Attributes, Error, Import, ListEntry, Vdev, VolumeSpec};

/// [`crate::Engine`].
#[derive(Clone)]
pub struct Engine {
    inner: crate::Engine,
}

/// [`crate::Pool`].
#[derive(Clone)]
pub struct Pool {
    engine: crate::Engine,
    inner: crate::Pool,
}

/// [`crate::Files`].
#[derive(Clone)]
pub struct Files {
    engine: crate::Engine,
    inner: crate::Files,
}

/// [`crate::Volume`].
pub struct Volume {
    engine: crate::Engine,
    inner: Arc<crate::Volume>,
}

impl Engine {
    /// Starts the threads. With io_uring where the system has it.
    #[must_use]
    pub fn start() -> Self {
        Self { inner: crate::Engine::start() }
    }

    /// The one with futures.
    #[must_use]
    pub fn inner(&self) -> &crate::Engine {
        &self.inner
    }

    /// A disk in memory, as durable as this engine; gives the path by which vdevs name it.
    #[must_use]
    pub fn ram_disk(&self, name: &str, size_bytes: u64) -> PathBuf {
        self.inner.ram_disk(name, size_bytes)
    }

    /// [`crate::Engine::create`].
    ///
    /// # Errors
    /// As there.
    pub fn create(&self, name: &str, vdevs: &[Vdev]) -> Result<Pool, Error> {
        self.inner.block_on(self.inner.create(name, vdevs)).map(|pool| self.pool(pool))
    }

    /// [`crate::Engine::import`].
    ///
    /// # Errors
    /// As there.
    pub fn import(&self, name: &str, devices: &[impl AsRef<Path>]) -> Result<Pool, Error> {
        self.import_as(&Import::named(name, devices))
    }

    /// [`crate::Engine::import_as`].
    ///
    /// # Errors
    /// As there.
    pub fn import_as(&self, how: &Import) -> Result<Pool, Error> {
        self.inner.block_on(self.inner.import_as(how)).map(|pool| self.pool(pool))
    }

    fn pool(&self, inner: crate::Pool) -> Pool {
        Pool { engine: self.inner.clone(), inner }
    }
}

impl Pool {
    /// The one with futures.
    #[must_use]
    pub fn inner(&self) -> &crate::Pool {
        &self.inner
    }

    /// [`crate::Pool::filesystem`].
    ///
    /// # Errors
    /// As there.
    pub fn filesystem(&self, name: &str) -> Result<Files, Error> {
        let inner = self.engine.block_on(self.inner.filesystem(name))?;
        Ok(Files { engine: self.engine.clone(), inner })
    }

    /// [`crate::Pool::volume`].
    ///
    /// # Errors
    /// As there.
    pub fn volume(&self, name: &str) -> Result<Volume, Error> {
        let inner = Arc::new(self.engine.block_on(self.inner.volume(name))?);
        Ok(Volume { engine: self.engine.clone(), inner })
    }

    /// [`crate::Pool::open_volume`].
    ///
    /// # Errors
    /// As there.
    pub fn open_volume(&self, name: &str) -> Result<Volume, Error> {
        let inner = self.engine.block_on(self.inner.open_volume(name))?;
        Ok(Volume { engine: self.engine.clone(), inner })
    }
}

impl Volume {
    /// Its size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    /// Fills `into` from byte `offset`; returns how many bytes there were before the end.
    ///
    /// # Errors
    /// When a block cannot be read.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        Ok(self.engine.block_on(self.inner.read(offset, into)).map_err(pool::PoolError::from)?)
    }

    /// [`crate::Volume::write`].
    ///
    /// # Errors
    /// As there.
    pub fn write(&self, offset: u64, data: &[u8], sync: bool) -> Result<(), Error> {
        Ok(self.engine.block_on(self.inner.write(offset, data, sync)).map_err(pool::PoolError::from)?)
    }

    /// [`crate::Volume::free`].
    ///
    /// # Errors
    /// As there.
    pub fn free(&self, offset: u64, length: u64, sync: bool) -> Result<(), Error> {
        Ok(self.engine.block_on(self.inner.free(offset, length, sync)).map_err(pool::PoolError::from)?)
    }

    /// [`crate::Volume::resize`].
    ///
    /// # Errors
    /// As there.
    pub fn resize(&self, size_bytes: u64) -> Result<(), Error> {
        Ok(self.engine.block_on(self.inner.resize(size_bytes)).map_err(pool::PoolError::from)?)
    }
}

/// Methods that wait for those of the same name.
macro_rules! waiting {
    ($on:ident: $($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        impl $on {
            $(
                #[doc = concat!("[`crate::", stringify!($on), "::", stringify!($name), "`].")]
                ///
                /// # Errors
                /// As there.
                pub fn $name(&self, $($arg: $type),*) -> Result<$result, Error> {
                    self.engine.block_on(self.inner.$name($($arg),*))
                }
            )*
        }
    };
}

waiting! { Pool:
    create_filesystem(name: &str) -> ();
    create_volume(name: &str, spec: VolumeSpec) -> ();
    datasets() -> Vec<String>;
    sync() -> ();
    export() -> ();
}

waiting! { Files:
    metadata(path: impl AsRef<[u8]>) -> Attributes;
    read(path: impl AsRef<[u8]>) -> Vec<u8>;
    read_at(path: impl AsRef<[u8]>, offset: u64, into: &mut [u8]) -> usize;
    write(path: impl AsRef<[u8]>, bytes: &[u8]) -> ();
    write_at(path: impl AsRef<[u8]>, offset: u64, bytes: &[u8]) -> ();
    fsync(path: impl AsRef<[u8]>) -> ();
    list(path: impl AsRef<[u8]>) -> Vec<ListEntry>;
    create_dir(path: impl AsRef<[u8]>) -> ();
    symlink(text: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> ();
    read_link(path: impl AsRef<[u8]>) -> Vec<u8>;
    remove(path: impl AsRef<[u8]>) -> ();
    rename(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> ();
}
