//! A pool that is opened without an import: vdevs and verified blocks only.

use std::sync::Arc;

use env::Env;
use vdev::VdevTree;
use zio::Zio;

use crate::{Geometry, RescueError};

/// The memory for metadata blocks. The contents of files are not cached.
const CACHE_BYTES: u64 = 128 << 20;

/// The devices of a pool, opened for reading, and the blocks on them.
pub struct RescueView {
    zio: Arc<Zio>,
}

impl RescueView {
    /// Opens the devices of a geometry. A device that cannot be opened counts as missing, as in a
    /// degraded pool.
    ///
    /// # Errors
    /// [`RescueError::Layout`] when the geometry is invalid.
    pub async fn open(env: &Arc<dyn Env>, geometry: &Geometry) -> Result<Self, RescueError> {
        let opened = VdevTree::open_for_rescue(Arc::clone(env), &geometry.tree, &geometry.paths).await;
        let vdevs = Arc::new(opened.map_err(RescueError::Layout)?);
        Ok(Self { zio: Arc::new(Zio::new(vdevs, CACHE_BYTES)) })
    }

    /// Returns the block layer.
    #[must_use]
    pub fn zio(&self) -> &Arc<Zio> {
        &self.zio
    }

    /// Returns the vdevs.
    #[must_use]
    pub fn vdevs(&self) -> &Arc<VdevTree> {
        self.zio.vdevs()
    }
}
