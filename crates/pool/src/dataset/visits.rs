//! Visits: reading in a file system that may be destroyed, rolled back or renamed at the same time.

use std::ops::Deref;
use std::sync::Arc;

use async_lock::RwLockReadGuardArc;
use env::boxed;

use crate::dataset::files::Filesystem;
use crate::dataset::frozen::check_filesystem;
use crate::{Pool, PoolError};

/// A file system that is not closed, and so neither destroyed nor rolled back, while this value
/// exists. Its holder only reads, and waits for no txg.
pub struct KeptOpen {
    fs: Arc<Filesystem>,
    _stays: RwLockReadGuardArc<()>,
}

impl Deref for KeptOpen {
    type Target = Filesystem;

    fn deref(&self) -> &Filesystem {
        &self.fs
    }
}

impl Pool {
    /// Finds the file system called `name` as [`Pool::filesystem`] does, and keeps it open.
    ///
    /// # Errors
    /// As [`Pool::filesystem`].
    #[boxed]
    pub async fn keep_open(self: &Arc<Self>, name: &str) -> Result<KeptOpen, PoolError> {
        loop {
            let open = self.look_up(name).await?;
            check_filesystem(&open.objset, name)?;
            if !self.bring_up(&open).await? {
                continue;
            }
            let stays = open.visits.read_arc().await;
            // If the dataset was closed before the lock, another dataset may have its name now.
            // Then look it up again.
            if self.has_open(&open)
                && let Some(fs) = Filesystem::of(&open)
            {
                return Ok(KeptOpen { fs, _stays: stays });
            }
        }
    }
}
