//! What is done, told to the intent log; or, at replay, told back that it was done.
//!
//! Every operation passes here once in each txg that it changes, with its changes made and the txg still
//! held. Without a log (or with `sync=disabled`) nothing is recorded; the txg
//! is remembered instead, and who asks for durability waits for that txg.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use dmu::Objset;
use env::boxed;
use units::{ObjectId, Txg};
use zil::{IntentLog, Itx, Live, LoggedWrite, Record, Scope};

use crate::error::Result;

/// Who does it.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// Somebody from outside: the log is told.
    Client,
    /// Replay of the log: the log is told that the record need not be replayed again.
    Replay(&'a (dyn Fn(Txg) + Send + Sync)),
}

impl Origin<'_> {
    /// It is the log's replay.
    #[must_use]
    pub fn is_replay(self) -> bool {
        matches!(self, Self::Replay(_))
    }
}

/// What tells the log of an objset's changes. See the module.
pub struct Journal {
    pub(crate) os: Arc<Objset>,
    log: OnceLock<IntentLog<Live>>,
    /// The newest txg with changes that the log does not know.
    unlogged: AtomicU64,
}

impl Journal {
    /// Without a log: durability means waiting for the txg, until [`Journal::start`].
    #[must_use]
    pub fn new(os: Arc<Objset>) -> Self {
        Self { os, log: OnceLock::new(), unlogged: AtomicU64::new(0) }
    }

    /// From now on changes go to `log`.
    ///
    /// # Panics
    /// When there is a log already.
    pub fn start(&self, log: IntentLog<Live>) {
        assert!(self.log.set(log).is_ok(), "an objset has one log");
    }

    /// The log in use.
    #[must_use]
    pub fn log(&self) -> Option<&IntentLog<Live>> {
        self.log.get()
    }

    /// Records a change of names.
    pub fn names(
        &self,
        origin: Origin<'_>,
        txg: Txg,
        logged: bool,
        record: impl FnOnce() -> ondisk::LogRecord,
    ) {
        self.record(origin, txg, logged, || Itx { scope: Scope::Namespace, record: Record::Plain(record()) });
    }

    /// Records a change of names. Any commit includes it, together with the earlier records of
    /// `object`.
    pub fn names_with(
        &self,
        origin: Origin<'_>,
        txg: Txg,
        logged: bool,
        object: ObjectId,
        record: impl FnOnce() -> ondisk::LogRecord,
    ) {
        let scope = Scope::NamespaceWith(object);
        self.record(origin, txg, logged, || Itx { scope, record: Record::Plain(record()) });
    }

    /// Records a change of one object.
    pub fn object(
        &self,
        origin: Origin<'_>,
        txg: Txg,
        logged: bool,
        object: ObjectId,
        record: impl FnOnce() -> ondisk::LogRecord,
    ) {
        self.record(origin, txg, logged, || Itx {
            scope: Scope::Object(object),
            record: Record::Plain(record()),
        });
    }

    /// Records a write.
    pub fn write(&self, origin: Origin<'_>, txg: Txg, logged: bool, write: impl FnOnce() -> LoggedWrite) {
        self.record(origin, txg, logged, || {
            let write = write();
            Itx { scope: Scope::Object(write.object), record: Record::Write(write) }
        });
    }

    /// Records a client's write that any commit is to take along.
    pub fn write_as_name(&self, txg: Txg, logged: bool, write: impl FnOnce() -> LoggedWrite) {
        self.record(Origin::Client, txg, logged, || Itx {
            scope: Scope::Namespace,
            record: Record::Write(write()),
        });
    }

    fn record(&self, origin: Origin<'_>, txg: Txg, logged: bool, itx: impl FnOnce() -> Itx) {
        match (origin, self.log()) {
            (Origin::Replay(applied), _) => applied(txg),
            (Origin::Client, Some(log)) if logged => log.assign(txg, itx()),
            (Origin::Client, _) => {
                self.unlogged.fetch_max(txg.get(), Ordering::AcqRel);
            }
        }
    }

    /// The object is gone for good: records that only its own commit would take are void.
    pub fn forget(&self, object: ObjectId) {
        if let Some(log) = self.log() {
            log.forget(object);
        }
    }

    /// Makes the object's changes, and those of all names, stable; `None`: everything.
    ///
    /// # Errors
    /// When neither the log nor a synced txg can hold them.
    #[boxed]
    pub async fn commit(&self, object: Option<ObjectId>) -> Result<()> {
        let unlogged = Txg::new(self.unlogged.load(Ordering::Acquire));
        if unlogged > self.os.txgs().synced_txg() {
            self.os.txgs().wait_synced(unlogged).await?;
        }
        if let Some(log) = self.log() {
            log.commit(object).await?;
        }
        Ok(())
    }
}
