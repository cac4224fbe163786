//! Changes of the meta-objset: done by the sync loop, one after another.
//!
//! Whoever wants a dataset made, a property set, a vdev added, hands a task to the next txg's
//! sync and waits until that txg is stable. Nobody else changes the meta-objset, so tasks need
//! no locks. A task checks first and changes then, for there is no way back. What it cannot read before that is an error for
//! who asked. Once it has changed something it waits for its devices as all of the txg does. One that fails even then, because a
//! block of the meta-objset is damaged, ends the pool's txgs before they make half of it stable. The next import
//! finds the pool as it was.
//! (test: `a_task_that_cannot_be_done_whole_is_not_done`)
//!
//! # Order
//!
//! ```text
//!  txg 7, syncing:  datasets ─► tasks asked for while 7 was open ─► frees ─► …
//!  txg 8, open:     a clone joins ─► its log record is stable ─► a destroy is requested: in sync 8
//! ```
//! A task runs in the sync of the txg that was open when the task was requested, or in a later txg.
//! Tasks run in the order of their requests. Within one sync, tasks run after the changes of the
//! datasets, and so after [`Pool::count_clones`]. Three rules follow:
//! - A task that frees blocks (a destroy, a release, a rollback, the end of a receive) runs after
//!   every reference to these blocks that existed at the time of the request is counted. A clone by
//!   `copy_file_range` is such a reference. The sync of the txg that the clone joined counts it.
//!   (test: `a_clone_outlives_what_it_was_taken_from_though_an_older_txg_is_syncing`)
//! - A log record that was stable before the request belongs to the txg of the task or to an older
//!   one. After a crash, either the task is not done and the replay finds the blocks that the
//!   record names, or the txg of the record is stable too.
//!   (test: `a_logged_clone_is_replayed_whole_though_what_it_was_taken_from_is_being_destroyed`)
//! - A task sees all changes that were made before the request. A snapshot, for example, contains
//!   them.
//!   (test: `a_snapshot_has_what_was_acknowledged_before_it`)

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use dmu::{Tx, TxgGate};
use dsl::DslError;
use env::BoxFuture;
use futures::channel::oneshot;
use parking_lot::Mutex;
use units::Txg;

use crate::{Pool, PoolError};

type Task = Box<dyn FnOnce(Arc<Pool>, Tx) -> BoxFuture<'static, ()> + Send>;

/// A task, and the first txg in whose sync it may run.
struct Waiting {
    since: Txg,
    task: Task,
}

/// Tasks waiting for the next sync.
#[derive(Default)]
pub(crate) struct TaskQueue(Mutex<VecDeque<Waiting>>);

impl TaskQueue {
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Adds a task that runs in the sync of the open txg, or of a later one. The module
    /// documentation gives the reason.
    fn add(&self, gate: &TxgGate, task: Task) {
        let mut waiting = self.0.lock();
        // Read under the lock, so that a task never has to run before a task that was added
        // earlier.
        let since = gate.open_txg();
        assert!(
            waiting.back().is_none_or(|last| last.since <= since),
            "tasks are in the order of their txgs"
        );
        waiting.push_back(Waiting { since, task });
    }

    /// Takes those that may run in the sync of `txg`, in the order in which they came.
    pub fn take(&self, txg: Txg) -> Vec<Task> {
        let mut waiting = self.0.lock();
        let ready = waiting.partition_point(|waiting| waiting.since <= txg);
        waiting.drain(..ready).map(|waiting| waiting.task).collect()
    }
}

impl Pool {
    /// Runs `work` as [`Self::in_sync`] does. Nobody waits for the result, so a failure is only
    /// logged.
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
        self.tasks.add(&self.gate, task);
        Ok(())
    }

    /// Runs `work` in the sync of the open txg, or of a later one, and returns when that txg is
    /// stable. The module documentation lists the guarantees of this order.
    pub(crate) async fn in_sync<T, F, W>(self: &Arc<Self>, work: W) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PoolError>> + Send + 'static,
        W: FnOnce(Arc<Pool>, Tx) -> F + Send + 'static,
    {
        self.in_sync_by(&self.tasks, work).await
    }

    /// The same before anything else in that sync: nothing has been freed in its txg.
    pub(crate) async fn in_early_sync<T, F, W>(self: &Arc<Self>, work: W) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PoolError>> + Send + 'static,
        W: FnOnce(Arc<Pool>, Tx) -> F + Send + 'static,
    {
        self.in_sync_by(&self.early_tasks, work).await
    }

    async fn in_sync_by<T, F, W>(&self, queue: &TaskQueue, work: W) -> Result<T, PoolError>
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
                let footprint = tx.footprint();
                let result = work(Arc::clone(&pool), tx).await;
                if let Err(error) = &result
                    && footprint.is_there()
                {
                    pool.end_half_way(txg, error);
                }
                let _nobody_waits = sender.send((txg, result));
            })
        });
        queue.add(&self.gate, task);
        // The task runs in the txg that is open now, or in the txg before.
        self.gate.wait_synced(self.gate.open_txg()).await?;
        let lost = PoolError::Suspended { txg: self.gate.synced_txg().next() };
        let (txg, result) = receiver.await.map_err(|_| lost)?;
        self.gate.wait_synced(txg).await?;
        result
    }

    /// A task has changed something and then failed.
    fn end_half_way(&self, txg: Txg, error: &PoolError) {
        if is_refusal(error) {
            // It has looked too late: that is a fault of the task, and no reason to stop the pool.
            tracing::error!(%error, "a change was refused after it had begun");
            debug_assert!(false, "a task changes before it has checked: {error}");
            return;
        }
        tracing::error!(%error, txg = txg.get(), "a change is half done: no txg is synced any more");
        self.gate.fail(txg);
    }
}

/// Whether a task said no, rather than failed.
fn is_refusal(error: &PoolError) -> bool {
    match error {
        PoolError::Dsl(error) => {
            !matches!(error, DslError::Zap(_) | DslError::Dmu(_) | DslError::Damaged { .. })
        }
        PoolError::Busy { .. }
        | PoolError::NeedsFeature { .. }
        | PoolError::Encrypted { .. }
        | PoolError::NotFilesystem { .. }
        | PoolError::NotVolume { .. }
        | PoolError::Scrub(_)
        | PoolError::Checkpoint(_)
        | PoolError::Device(_)
        | PoolError::Split(_)
        | PoolError::Receive(_)
        | PoolError::Redact(_)
        | PoolError::VdevProp(_)
        | PoolError::Removal(_) => true,
        _ => false,
    }
}
