//! Clones: datasets that begin with what a snapshot has.

use std::sync::Arc;

use dmu::{Objset, Tx};
use dsl::{DatasetName, PropValue};
use env::boxed;
use ondisk::zil::ZilHeader;
use zerocopy::FromZeros;

use crate::create::birth;
use crate::dataset::open::State;
use crate::dataset::snapshots::came_too_early;
use crate::space::task_room::DATASET_BYTES;
use crate::{Pool, PoolError};

impl Pool {
    /// Makes a file system or volume called `name` that begins with what a snapshot has.
    ///
    /// # Errors
    /// [`dsl::DslError::Exists`]; [`dsl::DslError::NoSuchDataset`] of the snapshot or the parent;
    /// [`dsl::DslError::NoSpace`].
    #[boxed]
    pub async fn clone_snapshot(
        self: &Arc<Self>,
        snapshot: String,
        name: String,
        props: Vec<(String, PropValue)>,
    ) -> Result<(), PoolError> {
        self.clone_snapshot_by(snapshot, name, props, self.tuning.host.uid).await
    }

    /// The same on behalf of `maker`.
    ///
    /// # Errors
    /// As [`Self::clone_snapshot`].
    #[boxed]
    pub async fn clone_snapshot_by(
        self: &Arc<Self>,
        snapshot: String,
        name: String,
        props: Vec<(String, PropValue)>,
        maker: u32,
    ) -> Result<(), PoolError> {
        loop {
            let (snapshot, name, props) = (snapshot.clone(), name.clone(), props.clone());
            let made = self.in_sync(move |pool, tx| async move {
                pool.make_clone(&tx, &snapshot, &name, &props, maker).await
            });
            let made = made.await;
            if !came_too_early(&made) {
                return made;
            }
        }
    }

    async fn make_clone(
        &self,
        tx: &Tx,
        snapshot: &str,
        name: &str,
        props: &[(String, PropValue)],
        maker: u32,
    ) -> Result<(), PoolError> {
        self.check_new_props(name, props).await?;
        self.check_task_room(name, DATASET_BYTES)?;
        let origin = self.dsl.resolve(snapshot).await?;
        let made = self.dsl.clone_snapshot(tx, &origin, name, birth(&self.env)).await?;
        self.dsl.begin_livelist(tx, &made).await?;
        for (prop, value) in props {
            self.dsl.set_prop(tx, made.dir, prop, value).await?;
        }
        self.dsl.grant_to_maker(tx, &made, maker).await?;
        self.note_event(tx, "clone", Some(&made), &format!("origin={snapshot} ({})", origin.dataset)).await?;
        self.use_without_log(tx, &made).await
    }

    /// Has a dataset take part in txgs that has just been given a snapshot's contents. The header of the log that the
    /// snapshot's dataset had then goes: the blocks that it names are not this dataset's.
    pub(crate) async fn use_without_log(&self, tx: &Tx, dataset: &DatasetName) -> Result<(), PoolError> {
        let root = self.dsl.dataset(dataset.dataset).await?.bp;
        if root.is_hole() {
            return Ok(());
        }
        let props = self.effective_props(dataset).await?;
        let objset = Objset::open(self.objset_context(dataset, &props), root).await?;
        if objset.zil_header() != ZilHeader::new_zeroed() {
            objset.set_zil_header(tx.txg(), ZilHeader::new_zeroed());
            self.adopt(dataset, objset, props, State::Idle).await?;
        }
        Ok(())
    }

    /// Has a clone and the dataset that it came from change places.
    ///
    /// # Errors
    /// [`dsl::DslError::NotClone`]; [`dsl::DslError::Exists`] when both have snapshots of the same
    /// name; [`dsl::DslError::NoSpace`]; [`PoolError::Busy`] while a stream is being received into
    /// the clone.
    #[boxed]
    pub async fn promote(self: &Arc<Self>, name: String) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            let clone = pool.dsl.resolve(&name).await?;
            pool.check_not_receiving(&clone).await?;
            pool.dsl.check_promote(&clone, &pool.space.pool_space()).await?;
            pool.dsl.promote(&tx, &clone, pool.env.wall_clock()).await?;
            pool.note_event(&tx, "promote", Some(&clone), " ").await
        })
        .await
    }
}
