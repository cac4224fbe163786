//! Objects without a name that are still open, or too big to free in one go.
//!
//! A ZAP of the master node that maps the object's number in hexadecimal to the number. Objects in
//! the queue when a file system is mounted lost their last name before a crash. They are freed
//! after the mount, one by one, while the file system is already in use. A damaged object stays in
//! the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_lock::{Mutex, MutexGuard};
use dmu::zap::{Zap, int_name};
use dmu::{Objset, Plan};
use env::boxed;
use units::ObjectId;

use crate::error::{Result, ZplError};

/// See the module.
pub(crate) struct DeleteQueue {
    os: Arc<Objset>,
    zap: Zap,
    changing: Mutex<()>,
    /// The objects that were in the queue when the file system was mounted, and are still to be
    /// freed.
    leftovers: parking_lot::Mutex<Vec<ObjectId>>,
    /// Held while a leftover is freed.
    purging: Mutex<()>,
    is_closing: AtomicBool,
}

/// The right to change the queue, from the planning of a change to its end.
pub(crate) struct QueueTurn<'a> {
    queue: &'a DeleteQueue,
    _turn: MutexGuard<'a, ()>,
}

impl DeleteQueue {
    #[boxed]
    pub async fn open(os: &Arc<Objset>, object: ObjectId) -> Result<Self> {
        Ok(Self {
            os: Arc::clone(os),
            zap: Zap::open(os.hold(object).await?).await?,
            changing: Mutex::new(()),
            leftovers: parking_lot::Mutex::default(),
            purging: Mutex::new(()),
            is_closing: AtomicBool::new(false),
        })
    }

    /// Records the objects in the queue that are not about to be opened. Called before anyone can
    /// unlink a file.
    #[boxed]
    pub async fn find_leftovers(&self, open: &[ObjectId]) -> Result<()> {
        let mut found = self.all().await?;
        found.retain(|object| !open.contains(object));
        *self.leftovers.lock() = found;
        Ok(())
    }

    /// Returns the next leftover and the right to free it. Returns `None` at the end, or when the
    /// file system is being closed.
    #[boxed]
    pub async fn next_leftover(&self) -> Option<(ObjectId, MutexGuard<'_, ()>)> {
        let right = self.purging.lock().await;
        let next = || self.leftovers.lock().pop();
        let object = if self.is_closing.load(Ordering::Acquire) { None } else { next() };
        Some((object?, right))
    }

    /// Stops the freeing of leftovers. Returns when no leftover is being freed.
    #[boxed]
    pub async fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.purging.lock().await;
    }

    #[boxed]
    pub async fn turn(&self) -> QueueTurn<'_> {
        QueueTurn { queue: self, _turn: self.changing.lock().await }
    }

    /// Whether an object is in the queue.
    #[boxed]
    pub async fn has(&self, object: ObjectId) -> Result<bool> {
        Ok(self.zap.lookup_u64(int_name(object.get()).as_bytes()).await?.is_some())
    }

    /// Everything in the queue.
    #[boxed]
    pub async fn all(&self) -> Result<Vec<ObjectId>> {
        let entries = self.zap.all().await?;
        Ok(entries.iter().filter_map(|entry| entry.value.as_u64()).map(ObjectId::new).collect())
    }
}

impl QueueTurn<'_> {
    #[boxed]
    pub async fn add(&self, plan: &Plan, object: ObjectId) -> Result<()> {
        self.queue.zap.update_u64(plan, int_name(object.get()).as_bytes(), object.get()).await?;
        let os = Arc::clone(&self.queue.os);
        plan.then(move |_| os.uses().note_unlink());
        Ok(())
    }

    /// Takes an object off the queue; it need not be in it.
    #[boxed]
    pub async fn remove(&self, plan: &Plan, object: ObjectId) -> Result<()> {
        match self.queue.zap.remove(plan, int_name(object.get()).as_bytes()).await.map_err(ZplError::from) {
            Err(ZplError::NotFound) => Ok(()),
            Ok(()) => {
                let os = Arc::clone(&self.queue.os);
                plan.then(move |_| os.uses().note_unlinked());
                Ok(())
            }
            other => other,
        }
    }
}
