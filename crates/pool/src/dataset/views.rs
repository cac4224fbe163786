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

use async_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::Pool;

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
    _no_task_runs: RwLockReadGuard<'a, ()>,
}

impl Pool {
    /// Begins a view of the datasets. Tasks of the sync wait for its end, so a view has to be short.
    pub async fn view(&self) -> DatasetView<'_> {
        DatasetView { _no_task_runs: self.views.0.read().await }
    }
}
