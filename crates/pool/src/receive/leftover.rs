//! What a receive left that was under way when the pool went down.

use std::sync::Arc;

use dsl::DatasetName;

use crate::{Pool, PoolError, Sealed};

impl Pool {
    /// Destroys datasets that were received by half, but for those from which a receive can go on. One that cannot be
    /// destroyed stays, and keeps nobody from the pool.
    pub(crate) async fn destroy_leftovers(self: &Arc<Self>) -> Result<(), PoolError> {
        for head in self.dsl.list(&self.name()).await? {
            let below = self.dsl.receiving_below(&head).await?;
            for dataset in below.into_iter().chain([head]) {
                match self.destroy_leftover(&dataset).await {
                    Ok(false) => {}
                    Ok(true) => tracing::info!(dataset = dataset.name, "received by half, and destroyed"),
                    Err(error) => {
                        tracing::warn!(dataset = dataset.name, %error, "may be received by half, and stays");
                    }
                }
            }
        }
        Ok(())
    }

    /// Destroys a dataset if that is what it is.
    async fn destroy_leftover(self: &Arc<Self>, dataset: &DatasetName) -> Result<bool, PoolError> {
        let is_half = self.sealed(&dataset.name).await? == Some(Sealed::HalfReceived);
        if !is_half || self.dsl.can_be_resumed(dataset.dataset).await? {
            return Ok(false);
        }
        self.destroy_filesystem(&dataset.name).await.map(|()| true)
    }
}
