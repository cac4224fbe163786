//! A pool whose devices do not do what it needs is suspended, and goes on when they do.
//!
//! ```text
//!              a request fails that nothing else can do
//!   at work ──────────────────────────────────────────► suspended ──┐ now and then, and at `clear`:
//!      ▲                                                 │   ▲      │ open failed devices anew, have
//!      └──────────────── nothing waits any more ─────────┘   └──────┘ what waits tried again
//!                                                        │ given up: `export -f`, `destroy -f`, the daemon's end
//!                                                        ▼
//!                                                     stopped: errors for everybody, until the next import
//! ```
//! What waits, and why a txg's sync never sees a device's error, is told in [`zio::Suspension`]. A txg that
//! was given up is as after a power cut: the next import replays what the logs promised.
//!
//! An error that is no device's, damaged metadata or a bug, stops the pool at once: to try again would
//! end in the same place.
//!
//! Invariants
//! - A txg that met failing devices is complete once they work again.
//!   (test: `a_txg_whose_devices_fail_at_any_request_is_complete_once_they_work`)
//! - Nobody waits for a pool that was given up, and what had been promised is there at the next import.
//!   (test: `a_suspended_pool_can_be_given_up_and_keeps_its_promises`)

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use dmu::{TxgGate, WhileSuspended};
use dsl::PropValue;
use env::boxed;
use futures::future::select;
use units::{Txg, VdevId};
use vdev::{Leaf, Top};
use zio::{FailMode, Suspension, SuspensionWatch};

use crate::events::PoolEvents;
use crate::{Pool, PoolError};

/// The property's name.
pub(crate) const FAILMODE: &str = "failmode";

/// Tells the txg gate of suspensions.
struct Watch {
    pool: String,
    gate: Arc<TxgGate>,
    events: Arc<PoolEvents>,
}

impl SuspensionWatch for Watch {
    fn suspended(&self, cause: &(dyn Error + Send + Sync + 'static), mode: FailMode) {
        let reason = cause.source().map_or_else(String::new, |source| format!(": {source}"));
        tracing::error!(pool = self.pool, ?mode, "suspended: {cause}{reason}");
        self.events.suspended(mode);
        match mode {
            FailMode::Wait => self.gate.suspend(WhileSuspended::Wait),
            FailMode::Continue => self.gate.suspend(WhileSuspended::Refuse),
            FailMode::Panic => self.gate.fail(self.gate.synced_txg().next()),
        }
    }

    fn resumed(&self) {
        tracing::info!(pool = self.pool, "no longer suspended");
        self.gate.resume();
    }
}

impl Pool {
    /// The txg that it cannot make stable: it waits for devices, or has stopped for good.
    #[must_use]
    pub fn suspended(&self) -> Option<Txg> {
        let waits = self.suspension().is_suspended().then(|| self.gate.synced_txg().next());
        self.gate.failed().or(waits)
    }

    /// The txg at which it stopped for good, if it did: only another import brings it back.
    #[must_use]
    pub fn stopped(&self) -> Option<Txg> {
        self.gate.failed()
    }

    /// What it does when its devices fail.
    #[must_use]
    pub fn failmode(&self) -> FailMode {
        self.suspension().mode()
    }

    pub(crate) fn suspension(&self) -> &Suspension {
        self.zio.suspension()
    }

    /// Takes over a value of the property.
    pub(crate) fn note_failmode(&self, value: Option<&PropValue>) {
        let number = value.and_then(PropValue::number).unwrap_or_default();
        self.suspension().set_mode(FailMode::from_number(number));
    }

    /// From now on what devices fail to do waits for them. Not before a pool is whole: who makes or imports
    /// one is to be told what is wrong.
    pub(crate) async fn engage_suspension(self: &Arc<Self>) -> Result<(), PoolError> {
        self.note_failmode(self.pool_props().await?.get(FAILMODE));
        let (pool, gate, events) = (self.name(), Arc::clone(&self.gate), Arc::clone(&self.events));
        self.suspension().engage(Box::new(Watch { pool, gate, events }));
        self.env.spawn("suspension", Box::pin(Arc::clone(self).keep_trying()));
        Ok(())
    }

    /// Tries again now and then while the pool is suspended. With `failmode=panic`, gives the pool up: the
    /// other pools of the process are not touched.
    async fn keep_trying(self: Arc<Self>) {
        while self.suspension().until_suspended().await {
            if self.failmode() == FailMode::Panic {
                return self.stop_for_good();
            }
            let mut is_any_back = false;
            // A device that works but has lost its cache is retried at once.
            let has_lost = |leaf: &Arc<Leaf>| leaf.is_suspect() && self.is_needed(leaf);
            let mut is_at_once = self.vdevs.leaves().iter().any(has_lost);
            while self.suspension().is_suspended() && !self.suspension().is_given_up() {
                let resumed = self.suspension().until_resumed();
                let span =
                    if std::mem::take(&mut is_at_once) { Duration::ZERO } else { self.tuning.retry_after };
                select(self.env.sleep(span), Box::pin(resumed)).await;
                if self.suspension().is_suspended() {
                    is_any_back |= !self.try_again(&|leaf| self.is_needed(leaf)).await.is_empty();
                    self.suspension().until_settled().await;
                }
            }
            if is_any_back && let Err(error) = self.resilver().await {
                tracing::warn!(%error, "devices that are back are not brought up to date");
            }
        }
    }

    /// Whether the pool cannot go on without a leaf that failed: nobody else is there, or has all that it has. What the
    /// administrator took out is not asked for.
    fn is_needed(&self, leaf: &Leaf) -> bool {
        let needs_it = |top: &Top| !top.is_trusted() || !self.vdevs.can_do_without(leaf);
        let is_needed = |top: Arc<Top>| !top.is_log() && needs_it(&top);
        leaf.has_failed_by_itself() && self.vdevs.top(leaf.vdev()).is_ok_and(is_needed)
    }

    /// Opens leaves anew that failed and are meant, and has what waits tried again. Says which vdevs got
    /// one back.
    async fn try_again(&self, is_meant: &(dyn Fn(&Leaf) -> bool + Sync)) -> BTreeSet<VdevId> {
        let back = self.reopen_failed(is_meant).await;
        if !self.suspension().is_given_up() {
            self.trust_with_logs(&back);
            self.suspension().resume();
        }
        back
    }

    /// Opens leaves anew that failed and are meant. Says which vdevs got one back.
    async fn reopen_failed(&self, is_meant: &(dyn Fn(&Leaf) -> bool + Sync)) -> BTreeSet<VdevId> {
        let _one_at_a_time = self.reopening.lock().await;
        let mut back = BTreeSet::new();
        if self.suspension().is_given_up() {
            return back;
        }
        for leaf in self.vdevs.failed_leaves().into_iter().filter(|leaf| is_meant(leaf)) {
            match self.vdevs.reopen(leaf.guid(), None, || self.gate.open_txg()).await {
                Ok(()) => _ = back.insert(leaf.vdev()),
                Err(error) => {
                    let reason = error.source().map_or_else(String::new, |source| format!(": {source}"));
                    tracing::warn!("still out of use: {error}{reason}");
                }
            }
        }
        back
    }

    /// Logs may use these vdevs again, as far as they can be used.
    pub(crate) fn trust_with_logs(&self, vdevs: &BTreeSet<VdevId>) {
        let doubtful = self.vdevs.doubtful();
        for dataset in self.open_datasets() {
            vdevs.difference(&doubtful).for_each(|vdev| dataset.trust_with_log(*vdev));
        }
    }

    /// Forgets errors of the leaves that are meant, opens those anew that failed, and has what waits for
    /// them tried again.
    ///
    /// # Errors
    /// [`PoolError::Suspended`] when that did not help, or could not; [`PoolError::ActiveElsewhere`] when heartbeats had failed,
    /// and another host has taken the pool; [`PoolError::ReadOnly`], as in OpenZFS.
    #[boxed]
    pub async fn clear(self: &Arc<Self>, is_meant: &(dyn Fn(&Leaf) -> bool + Sync)) -> Result<(), PoolError> {
        self.check_writable()?;
        if self.multihost.is_held() {
            self.reopen_failed(&|_| true).await;
            self.take_up_again().await?;
        }
        self.zio.forget_failed_writes();
        let mut forgiven = BTreeSet::new();
        for leaf in self.vdevs.leaves().into_iter().filter(|leaf| is_meant(leaf)) {
            let has_failed = leaf.has_failed();
            if has_failed {
                self.call_back(&leaf);
            }
            if leaf.forgive() {
                forgiven.insert(leaf.vdev());
            } else if !has_failed {
                continue;
            }
            self.tell_done("vdev_clear", Some(&leaf));
        }
        self.trust_with_logs(&forgiven);
        let has_failed = |leaf: &Leaf| leaf.has_failed() && is_meant(leaf);
        let failed = self.vdevs.leaves().into_iter().filter(|leaf| has_failed(leaf));
        let logs_out: Vec<_> = failed.filter(|leaf| self.is_log_declared_out(leaf)).collect();
        let back = self.try_again(&|leaf| is_meant(leaf) && !self.is_log_declared_out(leaf)).await;
        self.clear_caches(is_meant).await;
        self.suspension().until_settled().await;
        if let Some(txg) = self.suspended() {
            return Err(PoolError::Suspended { txg });
        }
        if !back.is_empty() && !self.read_only {
            self.resilver().await?;
            // Their labels are to say that they are in use.
            self.sync_now().await?;
        }
        for log in logs_out.into_iter().filter(|_| !self.read_only) {
            let _alone = self.adding.lock().await;
            self.open_again(&log).await?;
        }
        if forgiven.is_empty() {
            // OpenZFS writes the configuration at each clear, and programs wait for the event.
            self.tell_done("config_sync", None);
        }
        Ok(())
    }

    /// Whether the configuration says of a log's leaf that it is out of use: it has to be silent about that before anything
    /// is written there.
    pub(crate) fn is_log_declared_out(&self, leaf: &Leaf) -> bool {
        leaf.is_declared_out() && self.vdevs.top(leaf.vdev()).is_ok_and(|top| top.is_log())
    }

    /// Lets go of a pool that is suspended, as a crash would: what is not stable is lost but for what logs
    /// hold. Everybody who waits for it gets an error. Nothing can be done with it afterwards.
    #[boxed]
    pub async fn abandon(&self) {
        self.stop_for_good();
        self.halt_scrub().await;
        self.leave_sweeps().await;
        self.halt_evacuation().await;
        self.stop().await;
        self.close_devices().await;
    }

    /// Lets nothing of the pool wait for a device any more. Whatever waits gets an error.
    fn stop_for_good(&self) {
        self.gate.fail(self.gate.synced_txg().next());
        self.multihost.leave_off();
        self.suspension().give_up();
        self.vdevs.fence().give_up();
    }
}
