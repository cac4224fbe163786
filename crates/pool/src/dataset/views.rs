//! Views of the pool's datasets, for commands that read beside the changes of others.
//!
//! ```text
//!  view   ── name ─► dir ─► dataset ─► objset ──┐          waits ── name: not there any more
//!  task                            waits ───────┴─ destroy ─┘
//! ```
//! A change of the meta-objset consists of changes of many objects. Commands that only read (`zfs list`, `zfs get`, the
//! planning of a `zfs send`) do not wait for the turn of their pool. A [`DatasetView`] lets such a command see the state
//! before a task or the state after the task, and nothing between the two.
//!
//! Invariants
//! - No task of a sync runs while somebody has a [`DatasetView`].
//!   (test: `who_reads_without_a_turn_sees_datasets_before_a_change_or_after_it`)
//! - Who has a view only reads. A holder that waited for a txg, or for a second view, could wait for ever.
//! - Nobody waits for a task that itself waits for devices: of a suspended pool, what can be read is shown as it is.

use std::time::Duration;

use async_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use futures::future::{Either, select};

use crate::Pool;

/// Who waits for a task looks so often whether the pool has been suspended.
const SUSPENDED_LOOK: Duration = Duration::from_millis(100);

/// The views that there are, and the task that waits for their end.
#[derive(Default)]
pub(crate) struct DatasetViews(RwLock<()>);

impl DatasetViews {
    /// Waits until nobody has a view. Nobody gets one while the result is held.
    pub async fn keep_out(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.write().await
    }
}

/// What is read of datasets while this is held belongs to one state.
pub struct DatasetView<'a> {
    /// None while the pool is suspended in a task.
    _no_task_runs: Option<RwLockReadGuard<'a, ()>>,
}

impl Pool {
    /// Begins a view of the datasets. Tasks of the sync wait for its end, so a view has to be short.
    pub async fn view(&self) -> DatasetView<'_> {
        if let Some(guard) = self.views.0.try_read() {
            return DatasetView { _no_task_runs: Some(guard) };
        }
        let mut waiting = Box::pin(self.views.0.read());
        loop {
            match select(&mut waiting, self.env.sleep(SUSPENDED_LOOK)).await {
                Either::Left((guard, _)) => return DatasetView { _no_task_runs: Some(guard) },
                Either::Right(_) if self.suspended().is_some() => return DatasetView { _no_task_runs: None },
                Either::Right(_) => {}
            }
        }
    }
}
