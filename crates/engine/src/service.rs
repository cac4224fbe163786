//! The engine as the daemon's service: every request where the [`crate::Runner`] has it done.

use crate::names;
use crate::restore::{Absent, AtStart};
use crate::{Engine, Held, Holder, info, refusal, repair};
use async_trait::async_trait;
use control::*;
use env::{BoxFuture, boxed, impatient};
use futures::channel::oneshot;
use pool::BackgroundWork;
use std::future::Future;
use std::sync::Arc;
use vdev::PoolState;

type Done<T = ()> = Result<T, Failure>;

impl Engine {
    /// Has `work` done to its end, whoever waits for it.
    fn run<T, F>(&self, work: impl FnOnce(Arc<Holder>) -> F + Send + 'static) -> BoxFuture<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send,
    {
        let (tell, told) = oneshot::channel();
        let holder = Arc::clone(&self.0);
        let work = async move {
            // A command may be what ends a suspension: it never waits for one.
            // Whoever asked may have gone away.
            _ = tell.send(impatient(work(holder)).await);
        };
        let done = self.0.runner.run(Box::pin(work));
        Box::pin(async move {
            done.await;
            told.await.expect("work is done to its end, and then tells")
        })
    }
}

impl Engine {
    /// The same for a request that changes a pool, or a dataset of it, when it is that pool's turn. Who asks
    /// and goes away before that has changed nothing.
    async fn change<C, F>(
        &self,
        what: &'static str,
        call: C,
        work: impl FnOnce(Arc<Holder>, C) -> F + Send + 'static,
    ) -> Done<C::Answer>
    where
        C: Call,
        F: Future<Output = Done<C::Answer>> + Send,
    {
        let pool = names::pool_of(call.subject().unwrap_or_default()).to_owned();
        self.in_turn(&pool, what, |holder| work(holder, call)).await
    }

    async fn in_turn<T, F>(
        &self,
        pool: &str,
        what: &'static str,
        work: impl FnOnce(Arc<Holder>) -> F + Send + 'static,
    ) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send,
    {
        let turn = self.0.turns.of(pool, what).await;
        self.run(async move |holder| {
            let done = work(holder).await;
            drop(turn);
            done
        })
        .await
    }

    /// Mounts all datasets of all pools that are to be mounted automatically, in the order of mount
    /// points. Returns the first failure; the others are still mounted.
    async fn mount_all(&self, call: Mount) -> Done {
        let (mut due, mut outcome) = (Vec::new(), Ok(()));
        for held in self.0.all() {
            let (pool, call) = (held.pool.name(), call.clone());
            let find = async move |holder: Arc<Holder>| holder.due_mounts(&pool, &call).await;
            let (of_pool, found) = self.in_turn(&held.pool.name(), "mount", find).await;
            due.extend(of_pool);
            outcome = outcome.and(found);
        }
        due.sort_by(|a, b| a.order().cmp(&b.order()));
        for due in due {
            let pool = names::pool_of(due.mount.dataset.as_deref().unwrap_or_default()).to_owned();
            let mount = async move |holder: Arc<Holder>| holder.mount_due(&due.mount).await;
            outcome = outcome.and(self.in_turn(&pool, "mount", mount).await);
        }
        outcome
    }

    /// Unmounts everything, in the reverse order of mounting: one pool may be mounted below another.
    async fn unmount_all(&self, force: bool) -> Done {
        for mount in self.0.mounts.list().into_iter().rev() {
            let pool = names::pool_of(&mount.dataset).to_owned();
            let unmount = async move |holder: Arc<Holder>| {
                holder.unmount(&mount.mountpoint, force, UnmountScope::OfAll).await
            };
            self.in_turn(&pool, "unmount", unmount).await?;
        }
        Ok(())
    }

    async fn close(&self, pool: String, state: PoolState, force: bool, said: Said) -> Done {
        if force {
            // What waits for its suspended devices may be what has the turn.
            let name = pool.clone();
            self.run(async move |holder| holder.abandon_suspended(&name).await).await;
        }
        let what = if state == PoolState::Destroyed { "destroy" } else { "export" };
        let name = pool.clone();
        self.in_turn(&name, what, async move |holder| holder.close(&pool, state, force, &said).await).await
    }
}

#[async_trait]
impl Service for Engine {
    async fn pool_create(&self, call: PoolCreate) -> Done {
        self.change("create", call, async |holder, call| holder.create(call).await).await
    }

    async fn pool_add(&self, call: PoolAdd) -> Done {
        self.change("add", call, async |holder, call| holder.add(call).await).await
    }

    async fn pool_attach(&self, call: PoolAttach) -> Done {
        let what = if call.replace { "replace" } else { "attach" };
        self.change(what, call, async |holder, call| holder.attach(call).await).await
    }

    async fn pool_detach(&self, call: PoolDetach) -> Done {
        self.change("detach", call, async |holder, call| holder.detach(call).await).await
    }

    async fn pool_offline(&self, call: PoolOffline) -> Done {
        self.change("offline", call, async |holder, call| holder.offline(call).await).await
    }

    async fn pool_online(&self, call: PoolOnline) -> Done<DeviceState> {
        self.change("online", call, async |holder, call| holder.online(call).await).await
    }

    async fn pool_reguid(&self, call: PoolReguid) -> Done {
        self.change("reguid", call, async |holder, call| holder.reguid(call).await).await
    }

    async fn pool_split(&self, call: PoolSplit) -> Done<SplitOff> {
        self.change("split", call, async |holder, call| holder.split(call).await).await
    }

    async fn pool_prefetch(&self, call: PoolPrefetch) -> Done {
        self.run(async move |holder| holder.prefetch(call).await).await
    }

    async fn pool_reopen(&self, call: PoolReopen) -> Done {
        self.change("reopen", call, async |holder, call| holder.reopen(call).await).await
    }

    async fn pool_initialize(&self, call: PoolInitialize) -> Done {
        self.change("initialize", call, async |holder, call| holder.initialize(call).await).await
    }

    async fn pool_trim(&self, call: PoolTrim) -> Done {
        self.change("trim", call, async |holder, call| holder.trim(call).await).await
    }

    async fn pool_remove(&self, call: PoolRemove) -> Done {
        self.change("remove", call, async |holder, call| holder.remove(call).await).await
    }

    async fn pool_remove_stop(&self, call: PoolRemoveStop) -> Done {
        self.change("stop removal", call, async |holder, call| holder.stop_removal(call).await).await
    }

    async fn pool_remove_cost(&self, call: PoolRemoveCost) -> Done<u64> {
        self.run(async move |holder| holder.removal_cost(&call)).await
    }

    async fn pool_destroy(&self, call: PoolDestroy) -> Done {
        self.close(call.pool, PoolState::Destroyed, call.force, call.said).await
    }

    async fn pool_export(&self, call: PoolExport) -> Done {
        self.close(call.pool, PoolState::Exported, call.force, call.said).await
    }

    async fn import_scan(&self, call: ImportScan) -> Done<Vec<ImportCandidate>> {
        self.run(async move |holder| holder.scan(call).await).await
    }

    async fn pool_import(&self, call: PoolImport) -> Done<Imported> {
        let (call, new) = self
            .run(async move |holder| {
                let new = holder.name_to_be(&call).await;
                (call, new)
            })
            .await;
        let name = new.clone().unwrap_or_else(|| call.pool.clone());
        self.in_turn(&name, "import", async move |holder| holder.import(call, new).await).await
    }

    async fn label_clear(&self, call: LabelClear) -> Done {
        self.run(async move |holder| holder.label_clear(call).await).await
    }

    async fn pool_upgrade(&self, call: PoolUpgrade) -> Done<Vec<String>> {
        self.change("upgrade", call, async |holder, call| holder.upgrade(&call.pool).await).await
    }

    async fn pool_missing(&self, call: PoolMissing) -> Done<Vec<String>> {
        self.run(async move |holder| holder.missing_features(&call.pool).await).await
    }

    async fn pool_vdev_props(&self, call: PoolVdevProps) -> Done<Vec<Vec<NameValue>>> {
        self.run(async move |holder| holder.vdev_props(&call).await).await
    }

    async fn pool_note(&self, call: PoolNote) -> Done {
        self.run(async move |holder| holder.note(&call)).await
    }

    async fn pool_history(&self, call: PoolHistory) -> Done<Vec<Vec<u8>>> {
        self.run(async move |holder| holder.history(&call.pool).await).await
    }

    async fn events(&self, call: Events) -> Done<EventsPage> {
        self.run(async move |holder| Ok(holder.events(call).await)).await
    }

    async fn events_clear(&self, _: EventsClear) -> Done<u64> {
        Ok(self.0.tuning.events.clear())
    }

    async fn inject_list(&self, _: InjectList) -> Done<Vec<InjectHandler>> {
        Ok(self.0.injections())
    }

    async fn inject_add(&self, call: InjectAdd) -> Done<u64> {
        self.0.inject(call).await
    }

    async fn inject_flush(&self, _: InjectFlush) -> Done {
        self.0.empty_caches();
        Ok(())
    }

    async fn inject_cancel(&self, call: InjectCancel) -> Done {
        self.0.cancel_injection(call)
    }

    async fn inject_action(&self, call: InjectAction) -> Done {
        let pool = call.pool.clone();
        self.in_turn(&pool, "zinject", async move |holder| holder.declare_bad(call).await).await
    }

    async fn pool_list(&self, call: PoolList) -> Done<Vec<PoolInfo>> {
        self.run(async move |holder| {
            if call.with_absent {
                holder.try_complete().await;
            }
            let mut pools = holder.list_pools().await;
            mark_shared_spares(&mut pools);
            if call.with_absent {
                pools.extend(holder.absent_infos());
                pools.sort_by(|a, b| a.name.cmp(&b.name));
            }
            Ok(pools)
        })
        .await
    }

    async fn pool_io(&self, call: PoolIo) -> Done<PoolIoInfo> {
        self.run(async move |holder| holder.pool_io(&call)).await
    }

    async fn pool_counts(&self, call: PoolCounts) -> Done<PoolCounted> {
        self.run(async move |holder| holder.counts(&call)).await
    }

    async fn pool_log_facts(&self, call: PoolLogFacts) -> Done<LogFacts> {
        self.run(async move |holder| holder.log_facts(&call)).await
    }

    async fn pool_log_users(&self, call: PoolLogUsers) -> Done<LogUsers> {
        self.run(async move |holder| holder.log_users(&call)).await
    }

    async fn pool_log_record(&self, call: PoolLogRecord) -> Done<LogRecording> {
        self.run(async move |holder| holder.record_log(&call).await).await
    }

    async fn pool_set(&self, call: PoolSet) -> Done {
        self.change("set", call, async |holder, call| holder.set_pool(call).await).await
    }

    async fn pool_scrub(&self, call: PoolScrub) -> Done {
        self.run(async move |holder| holder.scrub(call).await).await
    }

    async fn pool_checkpoint(&self, call: PoolCheckpoint) -> Done {
        self.change("checkpoint", call, async |holder, call| holder.checkpoint(call).await).await
    }

    async fn pool_clear(&self, call: PoolClear) -> Done {
        self.run(async move |holder| holder.clear(call).await).await
    }

    async fn pool_sync(&self, call: PoolSync) -> Done {
        self.run(async move |holder| holder.sync(call).await).await
    }

    async fn dataset_list(&self, call: DatasetList) -> Done<Vec<DatasetInfo>> {
        self.run(async move |holder| holder.list_datasets(call).await).await
    }

    async fn dataset_accounts(&self, call: DatasetAccounts) -> Done<Vec<Account>> {
        self.run(async move |holder| holder.accounts(&call).await).await
    }

    async fn dataset_deleting(&self, call: DatasetDeleting) -> Done<u64> {
        self.run(async move |holder| holder.deleting(&call).await).await
    }

    async fn dataset_permissions(&self, call: DatasetPermissions) -> Done<Vec<Delegations>> {
        self.run(async move |holder| holder.permissions(&call).await).await
    }

    async fn dataset_allow(&self, call: DatasetAllow) -> Done {
        self.change("allow", call, async |holder, call| holder.allow(call).await).await
    }

    async fn check_delegated(&self, peer: Peer, call: Delegated) -> Done<bool> {
        self.run(async move |holder| holder.check_delegated(peer, call).await).await
    }

    async fn let_note(&self, uid: u32, subject: &str) {
        self.0.notable.add(uid, names::pool_of(subject));
    }

    async fn process_permit(&self, call: ProcessPermit) -> Done<bool> {
        match call.delegated {
            Some(delegated) => self.check_delegated(call.peer, delegated).await,
            None => Ok(false),
        }
    }

    async fn process_let_note(&self, call: ProcessLetNote) -> Done {
        self.let_note(call.uid, &call.subject).await;
        Ok(())
    }

    async fn process_due_mounts(&self, call: ProcessDueMounts) -> Done<DueMounts> {
        let pool = call.pool.clone();
        let find = async move |holder: Arc<Holder>| holder.due_mounts(&call.pool, &call.mount).await;
        let (mounts, found) = self.in_turn(&pool, "mount", find).await;
        Ok(DueMounts { mounts, failure: found.err() })
    }

    async fn process_find(&self, call: ProcessFind) -> Done<Vec<FoundDevice>> {
        self.run(async move |holder| holder.find_devices(&call.search).await).await
    }

    async fn process_holdings(&self, _: ProcessHoldings) -> Done<Vec<Holdings>> {
        self.run(async move |holder| Ok(holder.holdings())).await
    }

    async fn process_siblings(&self, call: ProcessSiblings) -> Done {
        self.0.siblings.set(call.siblings);
        Ok(())
    }

    async fn process_hold(&self, call: ProcessHold) -> Done {
        for held in self.0.all() {
            held.pool.hold_work(BackgroundWork::Scans, call.scans);
            held.pool.hold_work(BackgroundWork::Removals, call.removals);
        }
        Ok(())
    }

    async fn process_memory(&self, call: ProcessMemory) -> Done {
        self.0.memory.set_full(call.bytes);
        Ok(())
    }

    async fn dataset_logs(&self, call: DatasetLogs) -> Done<Vec<LogInfo>> {
        self.run(async move |holder| holder.dataset_logs(&call)).await
    }

    async fn dataset_create(&self, call: DatasetCreate) -> Done<DatasetMade> {
        self.change("create", call, async |holder, call| holder.create_dataset(call).await).await
    }

    async fn dataset_destroy(&self, call: DatasetDestroy) -> Done<Vec<String>> {
        self.change("destroy", call, async |holder, call| holder.destroy_dataset(call).await).await
    }

    async fn dataset_set(&self, call: DatasetSet) -> Done {
        self.change("set", call, async |holder, call| holder.set_dataset(call).await).await
    }

    async fn dataset_inherit(&self, call: DatasetInherit) -> Done {
        self.change("inherit", call, async |holder, call| holder.inherit_dataset(call).await).await
    }

    async fn dataset_rename(&self, call: DatasetRename) -> Done {
        self.change("rename", call, async |holder, call| holder.rename_dataset(call).await).await
    }

    async fn dataset_rollback(&self, call: DatasetRollback) -> Done {
        self.change("rollback", call, async |holder, call| holder.rollback(call).await).await
    }

    async fn dataset_clone(&self, call: DatasetClone) -> Done {
        self.change("clone", call, async |holder, call| holder.clone_dataset(call).await).await
    }

    async fn dataset_promote(&self, call: DatasetPromote) -> Done {
        self.change("promote", call, async |holder, call| holder.promote(call).await).await
    }

    async fn dataset_send(&self, call: DatasetSend, sink: ByteSink) -> Done {
        self.run(async move |holder| holder.send(&call, sink).await).await
    }

    async fn dataset_diff(&self, call: DatasetDiff, sink: ByteSink) -> Done {
        self.run(async move |holder| holder.diff(&call, sink).await).await
    }

    async fn dataset_receive(&self, call: DatasetReceive, source: ByteSource) -> Done<Vec<ReceivedSnapshot>> {
        self.run(async move |holder| holder.receive(&call, source).await).await
    }

    async fn dataset_send_skipped(&self, call: DatasetSendSkipped) -> Done<Vec<String>> {
        self.run(async move |holder| holder.send_skipped(&call.send).await).await
    }

    async fn dataset_receive_abort(&self, call: DatasetReceiveAbort) -> Done {
        self.change("destroy", call, async |holder, call| holder.abort_receive(call).await).await
    }

    async fn dataset_send_size(&self, call: DatasetSendSize) -> Done<Vec<SendSize>> {
        self.run(async move |holder| holder.send_size(&call.send).await).await
    }

    async fn snapshot_create(&self, call: SnapshotCreate) -> Done {
        self.change("snapshot", call, async |holder, call| holder.create_snapshots(call).await).await
    }

    async fn snapshot_destroy(&self, call: SnapshotDestroy) -> Done<SnapshotsGoing> {
        self.change("destroy", call, async |holder, call| holder.destroy_snapshots(call).await).await
    }

    async fn snapshot_hold(&self, call: SnapshotHold) -> Done {
        self.change("hold", call, async |holder, call| holder.hold(call).await).await
    }

    async fn snapshot_release(&self, call: SnapshotRelease) -> Done {
        self.change("release", call, async |holder, call| holder.release(call).await).await
    }

    async fn snapshot_holds(&self, call: SnapshotHolds) -> Done<Vec<HeldSnapshot>> {
        self.run(async move |holder| holder.holds(call).await).await
    }

    async fn bookmark_create(&self, call: BookmarkCreate) -> Done {
        self.change("bookmark", call, async |holder, call| holder.create_bookmark(call).await).await
    }

    async fn bookmark_redact(&self, call: BookmarkRedact) -> Done {
        self.run(async move |holder| holder.redact(call).await).await
    }

    async fn bookmark_destroy(&self, call: BookmarkDestroy) -> Done {
        self.change("destroy", call, async |holder, call| holder.destroy_bookmark(call).await).await
    }

    async fn mount(&self, call: Mount) -> Done {
        let Some(dataset) = call.dataset.clone() else {
            return self.mount_all(call).await;
        };
        let pool = names::pool_of(&dataset).to_owned();
        self.in_turn(&pool, "mount", async move |holder| holder.mount(&dataset, &call).await).await
    }

    async fn unmount(&self, call: Unmount) -> Done {
        let Unmount { target, force, scope } = call;
        let Some(target) = target else { return self.unmount_all(force).await };
        // What is not mounted at all is refused in nobody's turn.
        let pool = self.0.mounts.pool_of(&target).unwrap_or_default();
        self.in_turn(&pool, "unmount", async move |holder| holder.unmount(&target, force, scope).await).await
    }

    async fn mounts(&self, _: Mounts) -> Done<Vec<MountInfo>> {
        Ok(self.0.mounts.list())
    }

    async fn daemon_status(&self, _: DaemonStatusCall) -> Done<DaemonStatus> {
        let told = |absent: &Absent| (absent.cached.name.clone(), absent.why.stderr.clone());
        let failed = self.0.absent.lock().iter().map(told).collect();
        Ok(DaemonStatus {
            pid: self.0.pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_secs: self.0.env.now().saturating_sub(self.0.started).as_secs(),
            pools: self.0.pools.read().keys().cloned().collect(),
            failed,
            under_way: self.0.turns.under_way(),
            processes: Vec::new(),
        })
    }

    async fn daemon_stop(&self, _: DaemonStop) -> Done {
        self.run(async move |holder| holder.sync_before_end().await).await
    }
}

/// What the daemon does with its engine beside answering requests.
impl Engine {
    /// Brings back the pools of the cache file. Those it cannot it tells in the log, and
    /// in the daemon's status.
    #[boxed]
    pub async fn restore(&self) {
        self.run(async move |holder| holder.restore_all(AtStart::Mount).await).await;
    }

    /// The same, without mounts: who asks mounts the file systems of several engines in one order.
    #[boxed]
    pub async fn restore_unmounted(&self) {
        self.run(async move |holder| holder.restore_all(AtStart::LeaveUnmounted).await).await;
    }

    /// Ends what waits for pools whose devices fail: the daemon is about to end.
    #[boxed]
    pub async fn stop_waiting(&self) {
        self.0.tuning.ending.begin();
        self.0.streams.end();
        self.run(async move |holder| holder.abandon_all_suspended().await).await;
    }

    /// Syncs all pools: the daemon ends.
    #[boxed]
    pub async fn settle(&self) {
        self.run(async move |holder| holder.settle_all().await).await;
    }
}

impl Holder {
    async fn list_pools(&self) -> Vec<PoolInfo> {
        let mounted = self.mounts.list().into_iter().map(|m| (m.dataset, m.mountpoint)).collect();
        let now_secs = self.env.wall_clock().as_secs();
        let mut all = Vec::new();
        for held in self.all() {
            let mut pool = info::pool_info(&*self.machine, &held).await;
            repair::put(&mut pool, &held, &mounted, now_secs).await;
            all.push(pool);
        }
        all
    }

    fn note(&self, call: &PoolNote) -> Done {
        let held = self.pool(&call.pool)?;
        let who = call.maker.map_or(call.said.uid, u64::from);
        let noted = held.pool.log_history(&call.said.command, who);
        noted.map_err(|e| refusal::pool("note in", &call.pool, &e))
    }

    async fn history(&self, name: &str) -> Done<Vec<Vec<u8>>> {
        let held = self.pool(name)?;
        let records = held.pool.history().await.map_err(|e| refusal::pool("get history for", name, &e))?;
        Ok(records.iter().map(ondisk::NvList::encode).collect())
    }

    /// Syncs what can be synced. A suspended pool keeps no daemon from ending.
    async fn sync_before_end(&self) -> Done {
        self.streams.end();
        let goes_on = |held: &Arc<Held>| held.pool.suspended().is_none();
        let pools: Vec<_> = self.all().into_iter().filter(goes_on).map(|held| held.pool.name()).collect();
        if !pools.is_empty() {
            self.sync(PoolSync { pools, force: false }).await?;
        }
        // The daemon ends from here on.
        self.tuning.ending.begin();
        self.abandon_all_suspended().await;
        Ok(())
    }

    async fn sync(&self, call: PoolSync) -> Done {
        let pools = match call.pools.as_slice() {
            [] => self.all(),
            names => names.iter().map(|name| self.pool(name)).collect::<Result<_, _>>()?,
        };
        // What is only read has nothing to sync, and no groups that could.
        for held in pools.into_iter().filter(|held| !held.pool.is_read_only()) {
            self.mounts.write_back_below(&held.pool.name()).await;
            let synced: BoxFuture<'_, Result<(), pool::PoolError>> = match call.force {
                true => Box::pin(held.pool.sync_all()),
                false => Box::pin(held.pool.sync_now()),
            };
            synced.await.map_err(|error| {
                let line = format!("sync '{}' failed: {}", held.pool.name(), refusal::reason(&error));
                Failure::new(FailureKind::Unavailable, line)
            })?;
        }
        Ok(())
    }
}
