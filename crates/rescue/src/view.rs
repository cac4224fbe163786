//! A pool that is looked at without an import: vdevs and verified blocks, nothing else.

use std::sync::Arc;

use env::Env;
use vdev::VdevTree;
use zio::Zio;

use crate::{Geometry, RescueError};

/// Memory for blocks that lead to others. Contents of files pass through and do not stay.
const CACHE_BYTES: u64 = 128 << 20;

/// The devices of a pool, opened for reading, and the blocks on them.
pub struct RescueView {
    zio: Arc<Zio>,
}

impl RescueView {
    /// Opens the devices of a geometry. Devices that do not open are absent, as in a degraded pool.
    ///
    /// # Errors
    /// [`RescueError::Layout`] when the geometry makes no sense.
    pub async fn open(env: &Arc<dyn Env>, geometry: &Geometry) -> Result<Self, RescueError> {
        let opened = VdevTree::open_for_rescue(Arc::clone(env), &geometry.tree, &geometry.paths).await;
        let vdevs = Arc::new(opened.map_err(RescueError::Layout)?);
        Ok(Self { zio: Arc::new(Zio::new(vdevs, CACHE_BYTES)) })
    }

    /// The blocks.
    #[must_use]
    pub fn zio(&self) -> &Arc<Zio> {
        &self.zio
    }

    /// The vdevs below.
    #[must_use]
    pub fn vdevs(&self) -> &Arc<VdevTree> {
        self.zio.vdevs()
    }
}
