//! Views of the pool's datasets, for commands that read while others make changes.
//!
//! ```text
//!  view   ── name ─► dir ─► dataset ─► objset ──┐          waits ── name: not found
//!  task                            waits ───────┴─ destroy ─┘
//! ```
//! A change of the meta-objset consists of changes of many objects. Commands that only read
//! (`zfs list`, `zfs get`, the planning of a `zfs send`) do not wait for the turn of their pool. A
//! [`DatasetView`] lets such a command see the state before a task or the state after the task, and
//! nothing between the two.
//!
//! Invariants
//! - No task of a sync runs while a [`DatasetView`] exists.
//!   (test: `who_reads_without_a_turn_sees_datasets_before_a_change_or_after_it`)
//! - The holder of a view only reads. A holder that waited for a txg, or for a second view, could
//!   wait forever.
//! - A view does not wait for a task that itself waits for devices: in a suspended pool, the view
//!   shows the readable datasets as they are.

use std::time::Duration;

use async_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use env::boxed;
use futures::future::{Either, select};

use crate::Pool;

/// How often a view that waits for a task checks whether the pool has been suspended.
const SUSPENDED_LOOK: Duration = Duration::from_millis(100);

/// The lock between views and tasks: views share it, and a task holds it alone.
#[derive(Default)]
pub(crate) struct DatasetViews(RwLock<()>);

impl DatasetViews {
    /// Waits until no view exists. No view begins while the returned guard is held.
    #[boxed]
    pub async fn keep_out(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.write().await
    }
}

/// While this value exists, all datasets that its holder reads belong to one state.
pub struct DatasetView<'a> {
    /// `None` if the view began while the pool was suspended in a task.
    _no_task_runs: Option<RwLockReadGuard<'a, ()>>,
}

impl Pool {
    /// Begins a view of the datasets. Tasks of the sync wait for its end, so a view has to be
    /// short.
    #[boxed]
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
