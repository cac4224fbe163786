//! Datasets that are volumes: made, opened for use, read by name.
//!
//! An import for writing replays a volume's log ([`Pool::replay_logs`]); of a pool imported for reading only,
//! [`Pool::log_waits`] says that it waits.

pub(crate) mod room;

use std::any::Any;
use std::sync::Arc;

use dmu::Objset;
use dsl::PropValue;
use env::{BoxFuture, boxed};
use journal::DataPolicy;
use ondisk::objset::ObjsetType;
use zil::{Claimed, IntentLog, Live, ReplayStopped};
use zvol::{Volume, VolumeOptions, VolumeSpec};

use crate::dataset::kind::{Dataset, GetReady, Terms};
use crate::dataset::open::State;
use crate::{Pool, PoolError};

impl Dataset for Volume {
    fn replay(&self, log: IntentLog<Claimed>) -> BoxFuture<'_, Result<(), Box<ReplayStopped>>> {
        Box::pin(self.replay_log(log))
    }

    fn start_log(&self, log: IntentLog<Live>) {
        Self::start_log(self, log);
    }

    fn get_ready<'a>(&'a self, _: GetReady<'a>) -> BoxFuture<'a, Result<(), PoolError>> {
        Box::pin(async { Ok(self.trim_end().await?) })
    }

    fn tidy_up(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn set_terms(&self, terms: &Terms<'_>) {
        let Terms { props, read_only, immediate_write_bytes, .. } = *terms;
        let policy = DataPolicy { sync: props.sync, log_bias: props.log_bias, immediate_write_bytes };
        self.set_options(VolumeOptions { policy, read_only: props.read_only || read_only });
    }

    fn close(&self) -> BoxFuture<'_, Result<(), PoolError>> {
        Box::pin(async { Ok(Self::close(self).await?) })
    }
}

impl Pool {
    /// Makes a volume called `name` with these properties, and waits until it is stable.
    ///
    /// # Errors
    /// [`dsl::DslError::Exists`]; [`dsl::DslError::NoSuchDataset`] when its parent is missing;
    /// [`dsl::DslError::NoSpace`] when there is no room for it, or for what is to be reserved; [`zvol::ZvolError::Size`].
    #[boxed]
    pub async fn create_volume(
        self: &Arc<Self>,
        name: &str,
        spec: VolumeSpec,
        props: Vec<(String, PropValue)>,
    ) -> Result<(), PoolError> {
        self.create_volume_by(name, spec, props, self.tuning.host.uid).await
    }

    /// The same on behalf of `maker`, who gets what makers of datasets are granted there.
    ///
    /// # Errors
    /// As [`Self::create_volume`].
    #[boxed]
    pub async fn create_volume_by(
        self: &Arc<Self>,
        name: &str,
        spec: VolumeSpec,
        props: Vec<(String, PropValue)>,
        maker: u32,
    ) -> Result<(), PoolError> {
        spec.check()?;
        let name = name.to_owned();
        self.in_sync(move |pool, tx| async move {
            let made = pool.make_dataset(&tx, &name, &props, maker).await?;
            let props = pool.effective_props(&made).await?;
            let objset = Objset::create(pool.objset_context(&made, &props), ObjsetType::Zvol);
            Volume::format(&objset, &tx, &spec).await?;
            pool.adopt(&made, objset, props, State::Idle).await?;
            Ok(())
        })
        .await
    }

    /// The volume called `name`: its log replayed if there was one, ready for use.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; [`PoolError::NotVolume`]; when the objset cannot be read, or its log not replayed.
    #[boxed]
    pub async fn open_volume(self: &Arc<Self>, name: &str) -> Result<Arc<Volume>, PoolError> {
        loop {
            let open = self.look_up(name).await?;
            if open.objset.kind() != ObjsetType::Zvol {
                return Err(PoolError::NotVolume { name: name.to_owned() });
            }
            // Closed meanwhile, and whatever has the name now is another: once more.
            if self.bring_up(&open).await?
                && let Some(live) = open.live()
                && let Ok(volume) = (live as Arc<dyn Any + Send + Sync>).downcast::<Volume>()
            {
                return Ok(volume);
            }
        }
    }

    /// Gives a volume another size, in bytes, and waits until it is stable.
    ///
    /// # Errors
    /// As [`Pool::open_volume`] and [`Volume::resize`].
    #[boxed]
    pub async fn resize_volume(self: &Arc<Self>, name: &str, size_bytes: u64) -> Result<(), PoolError> {
        Ok(self.open_volume(name).await?.resize(size_bytes).await?)
    }

    /// The volume of this name, or the snapshot of one, for looking only: as its last synced txg left it.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; [`PoolError::Encrypted`]; [`PoolError::NotVolume`]; when
    /// it cannot be read.
    #[boxed]
    pub async fn volume(self: &Arc<Self>, name: &str) -> Result<Volume, PoolError> {
        let objset = self.frozen_objset(name).await?;
        let objset = objset.filter(|objset| objset.kind() == ObjsetType::Zvol);
        let objset = objset.ok_or_else(|| PoolError::NotVolume { name: name.to_owned() })?;
        Ok(Volume::open(&objset).await?)
    }

    /// Returns the size and the block size, in bytes, of a volume whose objset [`Pool::frame`]
    /// opened.
    ///
    /// # Errors
    /// When they cannot be read.
    #[boxed]
    pub async fn volume_sizes(objset: &Arc<Objset>) -> Result<(u64, u64), PoolError> {
        let volume = Volume::open(objset).await?;
        Ok((volume.size_bytes(), u64::from(volume.block_bytes())))
    }
}

#[cfg(test)]
mod tests;
