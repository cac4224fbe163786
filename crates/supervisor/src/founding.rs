//! Pools that get a process: made, imported, or only looked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use control::{
    DaemonStatusCall, Failure, FailureKind, FoundDevice, Holdings, ImportCandidate, ImportScan, Imported,
    LabelClear, PoolCreate, PoolExport, PoolImport, PoolReopen, ProcessFind, ProcessHoldings,
    ProcessSiblings,
};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::granted;
use crate::lists;
use crate::pool_process::PoolProcess;
use crate::seat::{PoolSeat, SeatState};
use crate::service::look;
use crate::watch::Started;
use crate::{Inner, SupervisorGround};

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

impl Inner {
    /// Makes a pool in a process of its own.
    pub async fn create(self: &Arc<Self>, call: PoolCreate) -> Done {
        let _turn = self.turns.of(&call.name).await;
        if self.seats.of(&call.name).is_some() {
            let reason = "pool already exists";
            return Err(Failure::cannot(FailureKind::Exists, "create", &call.name, reason));
        }
        let started = self.start_sibling().await?;
        granted::grant_for_create(&started.process.grants, &call);
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
        let is_down = |seat: &Arc<PoolSeat>| matches!(seat.state(), SeatState::Down(_));
        if let Some(seat) = self.seats.of(&name).filter(|seat| !is_down(seat)) {
            // The process has the pool open, and refuses; or could not open the pool before, and tries again.
            let process = seat.process().await?;
            self.tell_siblings(&process).await?;
            let found = self.find(&call.search).await?;
            self.grant_for_import(&process, &call, &found).await;
            return process.ask(&call).await;
        }
        let (found, started) = tokio::join!(self.find(&call.search), self.start_sibling());
        let started = started?;
        let found = match found {
            Ok(found) => found,
            Err(failure) => {
                self.end_blank(started).await;
                return Err(failure);
            }
        };
        self.grant_for_import(&started.process, &call, &found).await;
        let imported = started.process.ask(&call).await;
        // An import whose mounts have failed has opened the pool.
        let opened = started.process.ask(&DaemonStatusCall {}).await.unwrap_or_default().pools;
        match opened.into_iter().next() {
            Some(name) => {
                self.keep(name.clone(), started).await?;
                if !call.search.is_empty()
                    && let Err(failure) = self.complete(name.clone()).await
                {
                    tracing::warn!(pool = name, reason = %failure, "devices beside those that were searched stay out");
                }
                imported
            }
            None => {
                self.end_blank(started).await;
                imported
            }
        }
    }

    /// Reads the labels of devices, by a process that can only read.
    pub async fn find(self: &Arc<Self>, search: &[String]) -> Done<Vec<FoundDevice>> {
        let started = self.start_blank().await?;
        started.process.grants.set_searches(granted::searches_of(search));
        let found = started.process.ask(&ProcessFind { search: search.to_vec() }).await;
        self.end_in_background(started);
        found
    }

    /// Grants a process what an import names, and the devices that the import means. The devices of other pools that
    /// are open stay with these pools.
    async fn grant_for_import(&self, process: &PoolProcess, call: &PoolImport, found: &[FoundDevice]) {
        let others = self.held_by_others(process).await;
        granted::grant_for_import(&process.grants, call);
        process.grants.add_devices(granted::meant(call, found).filter(|device| !others.contains(device)));
    }

    /// Grants the process of a pool the devices that were missing when the pool was imported, if they have labels of
    /// the pool by now. The process says where they are, and a process that can only read looks there. Returns whether
    /// there are such devices.
    pub async fn grant_found(self: &Arc<Self>, seat: &PoolSeat) -> Done<bool> {
        let process = seat.process().await?;
        let holdings = process.ask(&ProcessHoldings {}).await?.into_iter().next().unwrap_or_default();
        let granted = process.grants.devices();
        let is_new = |device: &String| !granted.iter().any(|granted| granted == Path::new(device));
        let all = holdings.devices.iter().chain(&holdings.absent).chain(&holdings.spares);
        let search: Vec<String> = all.filter(|device| is_new(device)).cloned().collect();
        if search.is_empty() {
            return Ok(false);
        }
        let found = self.find(&search).await?;
        let others = self.held_by_others(&process).await;
        let own = granted::of_pool(&holdings, &found);
        let new = process.grants.add_devices(own.into_iter().filter(|device| !others.contains(device)));
        self.keep_grants(seat.number, &process.grants);
        Ok(!new.is_empty())
    }

    /// Has a pool that was imported by a search use its devices that the search did not meet, where the pool says that
    /// they are.
    async fn complete(self: &Arc<Self>, pool: String) -> Done {
        let Some(seat) = self.seats.of(&pool) else { return Ok(()) };
        if self.grant_found(&seat).await? {
            seat.ask(&PoolReopen { pool }).await?;
        }
        Ok(())
    }

    /// Returns the devices that other pools have open.
    async fn held_by_others(&self, process: &PoolProcess) -> BTreeSet<PathBuf> {
        let others = self.open().into_iter().filter(|other| other.pid() != process.pid()).collect::<Vec<_>>();
        let held = others.iter().map(|other| look(other, &ProcessHoldings {}));
        let held = futures::future::join_all(held).await.into_iter().flatten().flatten();
        held.flat_map(|holdings| holdings.devices).map(PathBuf::from).collect()
    }

    /// Ends a process that holds no device, so that nobody has to wait for its end.
    fn end_in_background(self: &Arc<Self>, started: Started) {
        let inner = Arc::clone(self);
        tokio::spawn(async move { inner.end_blank(started).await });
    }

    /// Starts a process that knows what the others hold.
    async fn start_sibling(self: &Arc<Self>) -> Done<Started> {
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
        let siblings: Vec<Holdings> = held.into_iter().flatten().flatten().collect();
        let paths = siblings.iter().flat_map(|sibling| sibling.devices.iter().chain(&sibling.spares));
        process.grants.set_others(paths.map(PathBuf::from));
        process.ask(&ProcessSiblings { siblings }).await
    }

    /// Gives the pool that a process has opened its seat.
    async fn keep(self: &Arc<Self>, name: String, started: Started) -> Done {
        self.drop_closed(&name, guid_of(&started.process).await).await;
        self.keep_grants(started.number, &started.process.grants);
        let Err(refused) = self.seat(name.clone(), started) else { return Ok(()) };
        // A pool that was named by its guid has the name of one that was opened at the same time.
        let export = PoolExport { pool: name.clone(), ..PoolExport::default() };
        let exported = refused.process.ask(&export).await;
        self.end_blank(*refused).await;
        exported?;
        let reason = "a pool with that name already exists";
        Err(Failure::cannot(FailureKind::Exists, "import", &name, reason))
    }

    /// A pool was opened under a name. Drops the seats of the same pool, and of other pools of that name, that no
    /// process could open.
    async fn drop_closed(&self, name: &str, guid: Option<u64>) {
        let SupervisorGround { machine, paths, .. } = &self.ground;
        for seat in self.seats.all() {
            let listed = || lists::pool_in(machine, paths, seat.number).map(|pool| pool.guid);
            let is_meant = seat.name == name || guid.is_some() && guid == listed();
            if is_meant && is_closed(&seat).await {
                tracing::warn!(pool = seat.name, "is not tried again");
                self.drop_seat(&seat);
                // The list of the process still has the pool, and the next daemon must not read the list.
                seat.until_closed().await;
            }
        }
    }

    /// Takes a pool that is closed out of the list of pools. Its process ends, if there is one.
    pub fn drop_seat(&self, seat: &Arc<PoolSeat>) {
        self.seats.remove(seat);
        match seat.state() {
            // Whoever watches over the process removes its directories.
            SeatState::Open(_) => seat.let_go(),
            _ => lists::forget(&self.ground.paths, seat.number),
        }
    }

    /// Looks for pools, by a process that ends afterwards.
    pub async fn scan(self: &Arc<Self>, call: ImportScan) -> Done<Vec<ImportCandidate>> {
        let started = self.start_sibling().await?;
        started.process.grants.set_searches(granted::searches_of(&call.search));
        let found = started.process.ask(&call).await;
        self.end_in_background(started);
        found
    }

    /// Wipes labels, by a process that ends afterwards.
    pub async fn clear_label(self: &Arc<Self>, call: LabelClear) -> Done {
        let started = self.start_sibling().await?;
        started.process.grants.add_devices([PathBuf::from(&call.device)]);
        let cleared = started.process.ask(&call).await;
        self.end_blank(started).await;
        cleared
    }
}

/// Returns the guid of the pool that a process has open.
async fn guid_of(process: &PoolProcess) -> Option<u64> {
    let holdings = process.ask(&ProcessHoldings {}).await.ok()?;
    holdings.first().map(|pool| pool.guid)
}

/// True if no process has the pool of a seat open, or is about to open it.
async fn is_closed(seat: &PoolSeat) -> bool {
    match seat.state() {
        SeatState::Open(process) => {
            let status = process.ask(&DaemonStatusCall {}).await;
            status.is_ok_and(|status| status.pools.is_empty())
        }
        SeatState::Down(_) => true,
        SeatState::Opening | SeatState::Closed => false,
    }
}
