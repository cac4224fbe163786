//! Objects without a name that are still open, or too big to free in one go.
//!
//! A ZAP of the master node: the object's number in hexadecimal → the number. What stands in
//! it when a file system is mounted lost its last name before a crash and is freed then.

use std::sync::Arc;

use async_lock::{Mutex, MutexGuard};
use dmu::zap::{Zap, int_name};
use dmu::{Objset, Plan};
use units::ObjectId;

use crate::error::{Result, ZplError};

/// See the module.
pub(crate) struct DeleteQueue {
    zap: Zap,
    changing: Mutex<()>,
}

/// The right to change the queue, from the planning of a change to its end.
pub(crate) struct QueueTurn<'a> {
    queue: &'a DeleteQueue,
    _turn: MutexGuard<'a, ()>,
}

impl DeleteQueue {
    pub async fn open(os: &Arc<Objset>, object: ObjectId) -> Result<Self> {
        Ok(Self { zap: Zap::open(os.hold(object).await?).await?, changing: Mutex::new(()) })
    }

    pub async fn turn(&self) -> QueueTurn<'_> {
        QueueTurn { queue: self, _turn: self.changing.lock().await }
    }

    /// Whether an object is in the queue.
    pub async fn has(&self, object: ObjectId) -> Result<bool> {
        Ok(self.zap.lookup_u64(int_name(object.get()).as_bytes()).await?.is_some())
    }

    /// Everything in the queue.
    pub async fn all(&self) -> Result<Vec<ObjectId>> {
        let entries = self.zap.all().await?;
        Ok(entries.iter().filter_map(|entry| entry.value.as_u64()).map(ObjectId::new).collect())
    }
}

impl QueueTurn<'_> {
    pub async fn add(&self, plan: &Plan, object: ObjectId) -> Result<()> {
        Ok(self.queue.zap.update_u64(plan, int_name(object.get()).as_bytes(), object.get()).await?)
    }

    /// Takes an object off the queue; it need not be in it.
    pub async fn remove(&self, plan: &Plan, object: ObjectId) -> Result<()> {
        match self.queue.zap.remove(plan, int_name(object.get()).as_bytes()).await.map_err(ZplError::from) {
            Err(ZplError::NotFound) => Ok(()),
            other => other,
        }
    }
}
