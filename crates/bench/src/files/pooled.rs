//! A pool in process.

use std::path::PathBuf;
use std::sync::Arc;

use device::RealEnv;
use pool::{Pool, PoolError, Tuning};
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs, ZplError};

use super::{FilesError, Server};
use crate::world::{self, POOL, Shape};

/// The record size that nobody has tuned.
const RECORD_BYTES: u64 = 128 << 10;

/// A pool that is made for it.
pub(super) struct Pooled {
    env: Arc<RealEnv>,
    pool: Arc<Pool>,
    zfs: Arc<Zfs>,
}

impl Pooled {
    pub fn make(
        env: &Arc<RealEnv>,
        main: &[PathBuf],
        log: &[PathBuf],
        cache: u64,
    ) -> Result<Self, PoolError> {
        let shape =
            Shape { main: main.to_vec(), log: log.to_vec(), record: RECORD_BYTES, ..Shape::default() };
        let pool = world::make(env, &shape, Tuning { cache_bytes: cache, ..Tuning::default() })?;
        let zfs = Arc::clone(&env.block_on(pool.filesystem(POOL))?.zfs);
        Ok(Self { env: Arc::clone(env), pool, zfs })
    }

    pub fn destroy(self) -> Result<(), PoolError> {
        let Self { env, pool, zfs } = self;
        drop(zfs);
        env.block_on(pool.close(PoolState::Destroyed))
    }

    fn wait<T>(&self, call: impl Future<Output = Result<T, ZplError>>) -> Result<T, FilesError> {
        Ok(self.env.block_on(call).map_err(PoolError::from)?)
    }
}

impl Server for Pooled {
    type Directory = ObjectId;
    type File = ObjectId;

    fn directory(&self, number: usize) -> Result<ObjectId, FilesError> {
        let name = format!("thread-{number}");
        let (root, cred) = (self.zfs.root(), Cred::default());
        let made = self.zfs.create(root, name.as_bytes(), NewNode::Directory, 0o700, cred);
        Ok(self.wait(made)?.object)
    }

    fn create(&self, directory: &ObjectId, name: &str) -> Result<ObjectId, FilesError> {
        let made = self.zfs.create(*directory, name.as_bytes(), NewNode::File, 0o600, Cred::default());
        let file = self.wait(made)?.object;
        self.wait(self.zfs.open_object(file))?;
        Ok(file)
    }

    fn write(&self, file: &ObjectId, offset: u64, data: &[u8]) -> Result<(), FilesError> {
        self.wait(self.zfs.write(*file, offset, data, WriteFlags::default())).map(drop)
    }

    fn fsync(&self, file: &ObjectId) -> Result<(), FilesError> {
        self.wait(self.zfs.fsync(*file, false))
    }

    fn close(&self, file: ObjectId) -> Result<(), FilesError> {
        self.wait(self.zfs.close(file))
    }

    fn fsync_directory(&self, directory: &ObjectId) -> Result<(), FilesError> {
        self.wait(self.zfs.fsync(*directory, false))
    }
}
