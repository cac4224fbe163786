//! Changes of the meta-objset: done by the sync loop, one after another.
//!
//! Whoever wants a dataset made, a property set, a vdev added, hands a task to the next group's
//! sync and waits until that group is stable. Nobody else changes the meta-objset, so tasks need
//! no locks; a task checks first and changes then, for there is no way back.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use device::BoxFuture;
use dmu::Tx;
use futures::channel::oneshot;
use parking_lot::Mutex;

use crate::{Pool, PoolError};

type Task = Box<dyn FnOnce(Arc<Pool>, Tx) -> BoxFuture<'static, ()> + Send>;

/// Tasks waiting for the next sync.
#[derive(Default)]
pub(crate) struct TaskQueue(Mutex<VecDeque<Task>>);

impl TaskQueue {
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    pub fn take(&self) -> VecDeque<Task> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Pool {
    /// Runs `work` in the sync of the next group. Nobody waits for it: that it failed is only told.
    pub(crate) fn in_next_sync<F, W>(self: &Arc<Self>, what: &'static str, work: W) -> Result<(), PoolError>
    where
        F: Future<Output = Result<(), PoolError>> + Send + 'static,
        W: FnOnce(Arc<Pool>, Tx) -> F + Send + 'static,
    {
        self.check_writable()?;
        let task: Task = Box::new(move |pool, tx| {
            Box::pin(async move {
                if let Err(error) = work(pool, tx).await {
                    tracing::error!(what, %error, "not noted");
                }
            })
        });
        self.tasks.0.lock().push_back(task);
        Ok(())
    }

    /// Runs `work` in the sync of the next group, and returns when that is stable.
    pub(crate) async fn in_sync<T, F, W>(self: &Arc<Self>, work: W) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PoolError>> + Send + 'static,
        W: FnOnce(Arc<Pool>, Tx) -> F + Send + 'static,
    {
        self.check_writable()?;
        let (sender, receiver) = oneshot::channel();
        let task: Task = Box::new(move |pool, tx| {
            Box::pin(async move {
                let txg = tx.txg();
                // Who asked has been told that it is not done.
                if sender.is_canceled() {
                    return;
                }
                let result = work(pool, tx).await;
                let _nobody_waits = sender.send((txg, result));
            })
        });
        self.tasks.0.lock().push_back(task);
        // Whatever group is open now syncs after this; the task runs in it or in an earlier one.
        self.gate.wait_synced(self.gate.open_txg()).await?;
        let lost = PoolError::Suspended { txg: self.gate.synced_txg().next() };
        let (txg, result) = receiver.await.map_err(|_| lost)?;
        self.gate.wait_synced(txg).await?;
        result
    }
}
