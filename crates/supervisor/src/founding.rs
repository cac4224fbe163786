//! Pools that get a process: made, imported, or only looked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use control::{
    Failure, FailureKind, ImportCandidate, ImportScan, Imported, LabelClear, PoolCreate, PoolExport,
    PoolImport, ProcessHoldings, ProcessSiblings, Service,
};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::Inner;
use crate::lists;
use crate::pool_process::PoolProcess;
use crate::seat::SeatState;
use crate::service::look;
use crate::watch::Started;

type Done<T = ()> = Result<T, Failure>;

/// Who may make or import a pool of a name: one request at a time.
#[derive(Default)]
pub struct NameTurns(Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>);

impl NameTurns {
    pub async fn of(&self, name: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            turns.retain(|_, turn| turn.strong_count() > 0);
            let known = turns.get(name).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let turn = Arc::default();
                turns.insert(name.to_owned(), Arc::downgrade(&turn));
                turn
            })
        };
        turn.lock_owned().await
    }
}

impl<B: Service> Inner<B> {
    /// Makes a pool in a process of its own.
    pub async fn create(self: &Arc<Self>, call: PoolCreate) -> Done {
        let _turn = self.turns.of(&call.name).await;
        if let Some(seat) = self.seats.of(&call.name) {
            // Refuses.
            return seat.ask(&call).await;
        }
        let started = self.start_sibling().await?;
        let made = started.process.ask(&call).await;
        if made.is_ok() && !call.dry_run {
            return self.keep(call.name, started).await;
        }
        self.end_blank(started).await;
        made
    }

    /// Opens a pool in a process of its own.
    pub async fn import(self: &Arc<Self>, call: PoolImport) -> Done<Imported> {
        let name = call.new_name.clone().unwrap_or_else(|| call.pool.clone());
        let _turn = self.turns.of(&name).await;
        self.drop_closed(&name);
        if let Some(seat) = self.seats.of(&name) {
            // The process has the pool open, and refuses; or could not open the pool before, and tries again.
            let process = seat.process().await?;
            self.tell_siblings(&process).await?;
            return process.ask(&call).await;
        }
        let started = self.start_sibling().await?;
        let imported = started.process.ask(&call).await;
        // An import whose mounts have failed has opened the pool.
        let opened = started.process.ask(&control::DaemonStatusCall {}).await.unwrap_or_default().pools;
        match opened.into_iter().next() {
            Some(name) => self.keep(name, started).await.and(imported),
            None => {
                self.end_blank(started).await;
                imported
            }
        }
    }

    /// Starts a process that knows what the others hold.
    async fn start_sibling(&self) -> Done<Started> {
        let started = self.start_blank().await?;
        match self.tell_siblings(&started.process).await {
            Ok(()) => Ok(started),
            Err(failure) => {
                self.end_blank(started).await;
                Err(failure)
            }
        }
    }

    /// Tells a process what the pools of all others hold, before it takes devices.
    pub async fn tell_siblings(&self, process: &Arc<PoolProcess>) -> Done {
        let others = self.open().into_iter().filter(|other| !Arc::ptr_eq(other, process)).collect::<Vec<_>>();
        let held =
            futures::future::join_all(others.iter().map(|other| look(other, &ProcessHoldings {}))).await;
        // A process that ends meanwhile holds nothing. The locks on the devices of a process that does not answer
        // stay.
        let siblings = held.into_iter().flatten().flatten().collect();
        process.ask(&ProcessSiblings { siblings }).await
    }

    async fn keep(self: &Arc<Self>, name: String, started: Started) -> Done {
        self.drop_absent(&name).await;
        let Err(refused) = self.seat(name.clone(), started) else { return Ok(()) };
        // A pool that was named by its guid has the name of one that was opened at the same time.
        let export = PoolExport { pool: name.clone(), ..PoolExport::default() };
        let exported = refused.process.ask(&export).await;
        self.end_blank(*refused).await;
        exported?;
        let reason = "a pool with that name already exists";
        Err(Failure::cannot(FailureKind::Exists, "import", &name, reason))
    }

    /// A pool that stays closed gives its name up for an import.
    fn drop_closed(&self, name: &str) {
        let Some(seat) = self.seats.of(name) else { return };
        if matches!(seat.state(), SeatState::Down(_)) {
            self.seats.remove(&seat);
            lists::forget(&self.ground.paths, seat.number);
        }
    }

    /// A pool that its process could not open was opened by another process, by its guid.
    async fn drop_absent(&self, name: &str) {
        let Some(seat) = self.seats.of(name) else { return };
        let Some(process) = seat.open() else { return };
        let status = process.ask(&control::DaemonStatusCall {}).await;
        if status.is_ok_and(|status| status.pools.is_empty()) {
            self.seats.remove(&seat);
            seat.let_go();
        }
    }

    /// Looks for pools, by a process that ends afterwards.
    pub async fn scan(self: &Arc<Self>, call: ImportScan) -> Done<Vec<ImportCandidate>> {
        let started = self.start_sibling().await?;
        let found = started.process.ask(&call).await;
        // It holds no device, so nobody has to wait for its end.
        let inner = Arc::clone(self);
        tokio::spawn(async move { inner.end_blank(started).await });
        found
    }

    /// Wipes labels, by a process that ends afterwards.
    pub async fn clear_label(&self, call: LabelClear) -> Done {
        let started = self.start_sibling().await?;
        let cleared = started.process.ask(&call).await;
        self.end_blank(started).await;
        cleared
    }
}
