//! Rolling a dataset back to its latest snapshot.

use std::sync::Arc;

use dmu::Tx;
use env::boxed;

use crate::dataset::snapshots::came_too_early;
use crate::{Pool, PoolError};

impl Pool {
    /// Gives a file system, which nobody may be using, the contents of its latest snapshot, which has to be
    /// `snapshot`. What is open of it is closed.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`], [`dsl::DslError::NotLatest`], [`dsl::DslError::NoSpace`].
    /// [`PoolError::Busy`] while a stream is being received into it.
    #[boxed]
    pub async fn rollback(self: &Arc<Self>, name: String, snapshot: String) -> Result<(), PoolError> {
        // A log that was claimed has blocks that only it can give back.
        self.replay_log_of(&name).await?;
        self.check_not_receiving(&self.dsl.resolve(&name).await?).await?;
        let _nobody_opens_it = self.loading.write().await;
        self.close_filesystem(&name).await?;
        loop {
            let (name, snapshot) = (name.clone(), snapshot.clone());
            let done =
                self.in_sync(|pool, tx| async move { pool.roll_back(&tx, &name, &snapshot).await }).await;
            if !came_too_early(&done) {
                return done;
            }
        }
    }

    async fn roll_back(&self, tx: &Tx, name: &str, snapshot: &str) -> Result<(), PoolError> {
        let (head, to) = (self.dsl.resolve(name).await?, self.dsl.resolve(snapshot).await?);
        if self.datasets.read().contains_key(&head.objset()) {
            return Err(PoolError::Busy { objset: head.objset() });
        }
        self.check_not_receiving(&head).await?;
        self.dsl.check_rollback(tx, &head, &to).await?;
        let _nobody_reads_it = self.readers.keep_out(head.objset())?;
        if let Some(abandoned) = self.dsl.roll_back(tx, &head).await? {
            self.free_tree(tx, abandoned.root, abandoned.born_after).await?;
        }
        self.note_event(tx, "rollback", Some(&head), &format!("target={snapshot}")).await?;
        self.use_without_log(tx, &head).await
    }
}
