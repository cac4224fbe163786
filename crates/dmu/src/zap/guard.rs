//! The lock that all handles of one ZAP share, and what it guards: what is known of the ZAP's form.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use async_lock::{RwLock, RwLockReadGuard, RwLockWriteGuardArc};

use super::Blocks;
use super::micro::MicroIndex;

/// What all handles of one ZAP share; lives in the dnode, made at first use.
#[derive(Debug, Default)]
pub struct Shared(OnceLock<Arc<RwLock<Form>>>);

/// What is known of a ZAP's form.
#[derive(Debug, Default)]
pub(super) enum Form {
    /// Not looked at yet.
    #[default]
    Unknown,
    /// A single block, indexed.
    Micro(MicroIndex),
    /// Header, table and leaves.
    Fat,
}

impl Shared {
    fn lock(&self) -> &Arc<RwLock<Form>> {
        self.0.get_or_init(Arc::default)
    }

    /// To look at the ZAP.
    pub(super) async fn read(&self) -> RwLockReadGuard<'_, Form> {
        self.lock().read().await
    }

    /// To change the ZAP.
    pub(super) async fn write(&self) -> Guard {
        let lock = Arc::clone(self.lock());
        let form = lock.write_arc().await;
        Guard { lock, form }
    }
}

/// The right to change a ZAP.
#[derive(Debug)]
pub struct Guard {
    lock: Arc<RwLock<Form>>,
    form: RwLockWriteGuardArc<Form>,
}

impl Guard {
    /// Whether this is the right to change that ZAP.
    pub(crate) fn is_of(&self, shared: &Shared) -> bool {
        shared.0.get().is_some_and(|lock| Arc::ptr_eq(lock, &self.lock))
    }

    pub(super) fn form(&mut self) -> &mut Form {
        &mut self.form
    }

    /// Lets go of a ZAP whose planned changes are not made: what was noted of them is forgotten.
    pub(crate) fn forget(mut self) {
        *self.form = Form::Unknown;
    }
}

/// A ZAP while it is changed; then its guard goes to the transaction.
pub(super) struct Writing<'a, B: Blocks> {
    tx: &'a B::Tx,
    guard: Option<Guard>,
}

impl<'a, B: Blocks> Writing<'a, B> {
    /// Waits until the ZAP may be changed in `tx`.
    pub(super) async fn begin(blocks: &B, tx: &'a B::Tx) -> Self {
        let guard = match blocks.take_guard(tx) {
            Some(guard) => guard,
            None => blocks.shared().write().await,
        };
        Self { tx, guard: Some(guard) }
    }
}

impl<B: Blocks> Drop for Writing<'_, B> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            B::keep_guard(self.tx, guard);
        }
    }
}

impl<B: Blocks> Deref for Writing<'_, B> {
    type Target = Form;

    fn deref(&self) -> &Form {
        &self.guard.as_ref().expect("there until it is dropped").form
    }
}

impl<B: Blocks> DerefMut for Writing<'_, B> {
    fn deref_mut(&mut self) -> &mut Form {
        self.guard.as_mut().expect("there until it is dropped").form()
    }
}
