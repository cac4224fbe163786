//! Another size.
//!
//! ```text
//!  nobody reads or writes ─► what the log has is stable ─► larger: what lies past the end is freed
//!                                                              │
//!  smaller: what is past the new end is freed ◄── size stable ◄┘
//! ```
//! A crash before the size is stable leaves the volume as it was; one after it may leave blocks past the end, which
//! [`Volume::trim_end`] frees before the volume is used.

use dmu::SeekTo;
use dmu::zap::Zap;
use env::boxed;
use units::Txg;

use crate::ZvolError;
use crate::format::VolumeSpec;
use crate::volume::{FACTS, SIZE, Volume};

impl Volume {
    /// Gives the volume another size, stable when this returns.
    ///
    /// # Errors
    /// [`ZvolError::Size`], [`ZvolError::ReadOnly`], [`ZvolError::Closed`]; those of changing the objset. It has the size
    /// that it had then.
    #[boxed]
    pub async fn resize(&self, size_bytes: u64) -> Result<(), ZvolError> {
        let _nobody_uses_it = self.lock.whole().await;
        self.check_change(0, 0)?;
        VolumeSpec { size_bytes, block_bytes: self.block_bytes() }.check()?;
        // Replay would find records that lead past a smaller end.
        self.wait_synced(self.objset.txgs().open_txg()).await?;
        if size_bytes > self.size_bytes() {
            self.trim_end().await?;
        }
        let plan = self.plan_freeing(0).await?;
        Zap::hold(&self.objset, FACTS).await?.update_u64(&plan, SIZE, size_bytes).await?;
        let resized = plan.apply()?;
        // Nor may there be any past a larger end that is not on disk.
        self.wait_synced(resized).await?;
        self.set_size_bytes(size_bytes);
        if let Err(error) = self.trim_end().await {
            let objset = self.objset.id();
            tracing::warn!(%objset, %error, "what a volume has past its end is freed when it is opened next");
        }
        Ok(())
    }

    /// Frees what is stored past the end: nobody else uses the volume, or its whole lock is held.
    ///
    /// # Errors
    /// Those of changing the objset.
    #[boxed]
    pub async fn trim_end(&self) -> Result<(), ZvolError> {
        let end = self.size_bytes();
        match self.data.seek(end, SeekTo::Data).await? {
            Some(_) => self.free_in_pieces(end, u64::MAX, false).await,
            None => Ok(()),
        }
    }

    async fn wait_synced(&self, txg: Txg) -> Result<(), ZvolError> {
        Ok(self.objset.txgs().wait_synced(txg).await?)
    }
}
