//! The requests: each goes to the process of its pool, and what is about all pools to all processes.

use std::sync::Arc;

use async_trait::async_trait;
use control::*;
use events::Seen;
use futures::future::{BoxFuture, join_all, select};
use std::path::PathBuf;
use std::time::Duration;

use crate::granted;
use crate::pool_process::PoolProcess;
use crate::seat::{PoolSeat, SeatState};
use crate::{Inner, Supervisor};

type Done<T = ()> = Result<T, Failure>;

/// A list of all pools waits so long for a process. A pool answers such a request in milliseconds, but the
/// machine may be busy, and a pool that is missing in a list alarms whoever watches.
const LOOK_MAX: Duration = Duration::from_secs(15);

/// So long a request for events waits at most.
const EVENTS_WAIT_MAX: Duration = Duration::from_secs(1);

/// Sends requests to the process of the pool that a field names. `async_trait` does not look into
/// macros, so the macro writes the signature that `async_trait` would make.
macro_rules! to_pool_of {
    ($($method:ident($call:ident) by $field:ident -> $answer:ty;)*) => {
        $(
            fn $method<'a, 'async_trait>(&'a self, call: $call) -> BoxFuture<'async_trait, Done<$answer>>
            where
                'a: 'async_trait,
            {
                Box::pin(async move {
                    match self.0.seats.of(&call.$field) {
                        Some(seat) => seat.ask(&call).await,
                        None => self.0.blank.$method(call).await,
                    }
                })
            }
        )*
    };
}

/// The same, and the process learns before what the pools of other processes hold.
macro_rules! to_knowing_pool_of {
    ($($method:ident($call:ident) -> $answer:ty;)*) => {
        $(
            fn $method<'a, 'async_trait>(&'a self, call: $call) -> BoxFuture<'async_trait, Done<$answer>>
            where
                'a: 'async_trait,
            {
                Box::pin(async move {
                    let Some(seat) = self.0.seats.of(&call.pool) else { return self.0.blank.$method(call).await };
                    let process = seat.process().await?;
                    self.0.tell_siblings(&process).await?;
                    process.ask(&call).await
                })
            }
        )*
    };
}

/// The same for requests that may name no pool, which go to all processes.
macro_rules! to_pool_of_or_all {
    ($($method:ident($call:ident) by $field:ident -> $answer:ty;)*) => {
        $(
            fn $method<'a, 'async_trait>(&'a self, call: $call) -> BoxFuture<'async_trait, Done<$answer>>
            where
                'a: 'async_trait,
            {
                Box::pin(async move {
                    match call.$field.as_deref().map(|name| self.0.seats.of(name)) {
                        Some(Some(seat)) => seat.ask(&call).await,
                        Some(None) => self.0.blank.$method(call).await,
                        None => Ok(self.0.of_each_that_answers(&call).await?.into_iter().flatten().collect()),
                    }
                })
            }
        )*
    };
}

#[async_trait]
impl Service for Supervisor {
    to_pool_of! {
        pool_detach(PoolDetach) by pool -> ();
        pool_remove(PoolRemove) by pool -> ();
        pool_remove_stop(PoolRemoveStop) by pool -> ();
        pool_remove_cost(PoolRemoveCost) by pool -> u64;
        pool_offline(PoolOffline) by pool -> ();
        pool_initialize(PoolInitialize) by pool -> ();
        pool_trim(PoolTrim) by pool -> ();
        pool_upgrade(PoolUpgrade) by pool -> Vec<String>;
        pool_missing(PoolMissing) by pool -> Vec<String>;
        pool_vdev_props(PoolVdevProps) by pool -> Vec<Vec<NameValue>>;
        pool_note(PoolNote) by pool -> ();
        pool_history(PoolHistory) by pool -> Vec<Vec<u8>>;
        inject_action(InjectAction) by pool -> ();
        pool_io(PoolIo) by pool -> PoolIoInfo;
        pool_counts(PoolCounts) by pool -> PoolCounted;
        pool_log_facts(PoolLogFacts) by pool -> LogFacts;
        pool_log_users(PoolLogUsers) by pool -> LogUsers;
        pool_log_record(PoolLogRecord) by pool -> LogRecording;
        pool_scrub(PoolScrub) by pool -> ();
        pool_prefetch(PoolPrefetch) by pool -> ();
        pool_checkpoint(PoolCheckpoint) by pool -> ();
        dataset_accounts(DatasetAccounts) by name -> Vec<Account>;
        dataset_deleting(DatasetDeleting) by name -> u64;
        dataset_permissions(DatasetPermissions) by name -> Vec<Delegations>;
        dataset_allow(DatasetAllow) by name -> ();
        dataset_create(DatasetCreate) by name -> DatasetMade;
        dataset_destroy(DatasetDestroy) by name -> Vec<String>;
        dataset_set(DatasetSet) by name -> ();
        dataset_inherit(DatasetInherit) by name -> ();
        dataset_rename(DatasetRename) by name -> ();
        dataset_rollback(DatasetRollback) by snapshot -> ();
        dataset_clone(DatasetClone) by name -> ();
        dataset_promote(DatasetPromote) by name -> ();
        dataset_receive_abort(DatasetReceiveAbort) by name -> ();
        snapshot_create(SnapshotCreate) by pool -> ();
        snapshot_destroy(SnapshotDestroy) by dataset -> SnapshotsGoing;
        snapshot_hold(SnapshotHold) by name -> ();
        snapshot_release(SnapshotRelease) by name -> ();
        snapshot_holds(SnapshotHolds) by name -> Vec<HeldSnapshot>;
        bookmark_create(BookmarkCreate) by name -> ();
        bookmark_redact(BookmarkRedact) by snapshot -> ();
        bookmark_destroy(BookmarkDestroy) by name -> ();
        process_due_mounts(ProcessDueMounts) by pool -> DueMounts;
    }

    // They take devices, names or guids.
    to_knowing_pool_of! {
        pool_split(PoolSplit) -> SplitOff;
        pool_reguid(PoolReguid) -> ();
    }

    to_pool_of_or_all! {
        dataset_list(DatasetList) by root -> Vec<DatasetInfo>;
        dataset_logs(DatasetLogs) by pool -> Vec<LogInfo>;
    }

    async fn pool_add(&self, call: PoolAdd) -> Done {
        match self.0.seats.of(&call.pool) {
            Some(seat) => {
                let inner = Arc::clone(&self.0);
                let devices = granted::devices_of(&call.vdevs);
                to_its_end(async move { inner.ask_with_devices(&seat, devices, &call).await }).await
            }
            None => self.0.blank.pool_add(call).await,
        }
    }

    async fn pool_attach(&self, call: PoolAttach) -> Done {
        match self.0.seats.of(&call.pool) {
            Some(seat) => {
                let inner = Arc::clone(&self.0);
                let devices = vec![PathBuf::from(&call.path)];
                to_its_end(async move { inner.ask_with_devices(&seat, devices, &call).await }).await
            }
            None => self.0.blank.pool_attach(call).await,
        }
    }

    async fn pool_set(&self, call: PoolSet) -> Done {
        let Some(seat) = self.0.seats.of(&call.pool) else { return self.0.blank.pool_set(call).await };
        let process = seat.process().await?;
        granted::grant_for_set(&process.grants, &call);
        self.0.keep_grants(seat.number, &process.grants);
        process.ask(&call).await
    }

    async fn pool_online(&self, call: PoolOnline) -> Done<DeviceState> {
        let Some(seat) = self.0.seats.of(&call.pool) else { return self.0.blank.pool_online(call).await };
        self.0.grant_found(&seat).await?;
        seat.ask(&call).await
    }

    async fn pool_reopen(&self, call: PoolReopen) -> Done {
        let Some(seat) = self.0.seats.of(&call.pool) else { return self.0.blank.pool_reopen(call).await };
        self.0.grant_found(&seat).await?;
        seat.ask(&call).await
    }

    async fn pool_clear(&self, call: PoolClear) -> Done {
        let Some(seat) = self.0.seats.of(&call.pool) else { return self.0.blank.pool_clear(call).await };
        self.0.grant_found(&seat).await?;
        seat.ask(&call).await
    }

    async fn pool_create(&self, call: PoolCreate) -> Done {
        let inner = Arc::clone(&self.0);
        to_its_end(async move { inner.create(call).await }).await
    }

    async fn pool_import(&self, call: PoolImport) -> Done<Imported> {
        let inner = Arc::clone(&self.0);
        to_its_end(async move { inner.import(call).await }).await
    }

    async fn import_scan(&self, call: ImportScan) -> Done<Vec<ImportCandidate>> {
        let inner = Arc::clone(&self.0);
        to_its_end(async move { inner.scan(call).await }).await
    }

    async fn label_clear(&self, call: LabelClear) -> Done {
        let inner = Arc::clone(&self.0);
        to_its_end(async move { inner.clear_label(call).await }).await
    }

    async fn pool_destroy(&self, call: PoolDestroy) -> Done {
        match self.0.seats.of(&call.pool) {
            Some(seat) => self.0.close(seat, call).await,
            None => self.0.blank.pool_destroy(call).await,
        }
    }

    async fn pool_export(&self, call: PoolExport) -> Done {
        match self.0.seats.of(&call.pool) {
            // The daemon forgets a pool that no process can open.
            Some(seat) if matches!(seat.state(), SeatState::Down(_)) => {
                self.0.drop_seat(&seat);
                Ok(())
            }
            Some(seat) => self.0.close(seat, call).await,
            None => self.0.blank.pool_export(call).await,
        }
    }

    async fn pool_list(&self, call: PoolList) -> Done<Vec<PoolInfo>> {
        let mut pools: Vec<_> = self.0.of_each_open(&call).await.into_iter().flatten().collect();
        mark_shared_spares(&mut pools);
        if call.with_absent {
            pools.extend(self.0.infos_of_closed());
            pools.sort_by(|a, b| a.name.cmp(&b.name));
        }
        Ok(pools)
    }

    async fn pool_sync(&self, call: PoolSync) -> Done {
        if call.pools.is_empty() {
            return self.0.of_each(&call).await.map(drop);
        }
        for name in call.pools {
            let one = PoolSync { pools: vec![name.clone()], force: call.force };
            match self.0.seats.of(&name) {
                Some(seat) => seat.ask(&one).await?,
                None => self.0.blank.pool_sync(one).await?,
            }
        }
        Ok(())
    }

    async fn events(&self, call: Events) -> Done<EventsPage> {
        let ring = &self.0.events;
        let seen = Seen { run: call.seen.run, eid: call.seen.eid };
        let wait = Duration::from_millis(call.wait_millis).min(EVENTS_WAIT_MAX);
        if wait > Duration::ZERO {
            select(Box::pin(ring.until_after(seen)), Box::pin(tokio::time::sleep(wait))).await;
        }
        let page = ring.after(seen);
        Ok(EventsPage {
            events: page.events.iter().map(ondisk::NvList::encode).collect(),
            dropped: page.dropped,
            seen: EventsSeen { run: page.seen.run, eid: page.seen.eid },
        })
    }

    async fn events_clear(&self, _: EventsClear) -> Done<u64> {
        for process in self.0.open() {
            // A process that has just ended has no events.
            _ = process.take_events(&self.0.events).await;
        }
        Ok(self.0.events.clear())
    }

    async fn inject_list(&self, call: InjectList) -> Done<Vec<InjectHandler>> {
        let mut all = Vec::new();
        for process in self.0.open() {
            let listed = process.ask(&call).await.unwrap_or_default();
            all.extend(self.0.injections.rename(process.pid(), listed));
        }
        all.sort_by_key(|handler| handler.id);
        Ok(all)
    }

    async fn inject_add(&self, call: InjectAdd) -> Done<u64> {
        let Some(seat) = self.0.seats.of(&call.pool) else { return self.0.blank.inject_add(call).await };
        let process = seat.process().await?;
        let own = process.ask(&call).await?;
        Ok(self.0.injections.add(process.pid(), own))
    }

    async fn inject_flush(&self, call: InjectFlush) -> Done {
        self.0.of_each(&call).await.map(drop)
    }

    async fn inject_cancel(&self, call: InjectCancel) -> Done {
        let Some(id) = call.id else { return self.0.of_each(&call).await.map(drop) };
        let found = self.0.injections.find(id);
        let process = found.and_then(|(pid, _)| self.0.open().into_iter().find(|open| open.pid() == pid));
        match (found, process) {
            (Some((_, own)), Some(process)) => process.ask(&InjectCancel { id: Some(own) }).await,
            _ => self.0.blank.inject_cancel(call).await,
        }
    }

    async fn dataset_send(&self, call: DatasetSend, sink: ByteSink) -> Done {
        match self.0.seat_of_send(&call) {
            Some(seat) => seat.ask_for_bytes(&call, sink).await,
            None => self.0.blank.dataset_send(call, sink).await,
        }
    }

    async fn dataset_send_size(&self, call: DatasetSendSize) -> Done<Vec<SendSize>> {
        match self.0.seat_of_send(&call.send) {
            Some(seat) => seat.ask(&call).await,
            None => self.0.blank.dataset_send_size(call).await,
        }
    }

    async fn dataset_send_skipped(&self, call: DatasetSendSkipped) -> Done<Vec<String>> {
        match self.0.seat_of_send(&call.send) {
            Some(seat) => seat.ask(&call).await,
            None => self.0.blank.dataset_send_skipped(call).await,
        }
    }

    async fn dataset_diff(&self, call: DatasetDiff, sink: ByteSink) -> Done {
        match self.0.seats.of(&call.dataset) {
            Some(seat) => seat.ask_for_bytes(&call, sink).await,
            None => self.0.blank.dataset_diff(call, sink).await,
        }
    }

    async fn dataset_receive(&self, call: DatasetReceive, source: ByteSource) -> Done<Vec<ReceivedSnapshot>> {
        match self.0.seats.of(&call.target) {
            Some(seat) => seat.ask_with_source(&call, source).await,
            None => self.0.blank.dataset_receive(call, source).await,
        }
    }

    async fn mount(&self, call: Mount) -> Done {
        match call.dataset.as_deref().map(|name| self.0.seats.of(name)) {
            Some(Some(seat)) => seat.ask(&call).await,
            Some(None) => self.0.blank.mount(call).await,
            None => self.mount_all(call).await,
        }
    }

    async fn unmount(&self, call: Unmount) -> Done {
        match call.target.clone() {
            Some(target) => self.0.unmount_one(target, call).await,
            None => self.0.unmount_all(call.force).await,
        }
    }

    async fn mounts(&self, _: Mounts) -> Done<Vec<MountInfo>> {
        Ok(self.0.list_mounts().await)
    }

    async fn check_delegated(&self, peer: Peer, call: Delegated) -> Done<bool> {
        let seat = match &call {
            Delegated::Send(send) => self.0.seat_of_send(send),
            other => self.0.seats.of(other.pool()),
        };
        match seat {
            Some(seat) => seat.ask(&ProcessPermit { peer, delegated: Some(call) }).await,
            None => self.0.blank.check_delegated(peer, call).await,
        }
    }

    async fn let_note(&self, uid: u32, subject: &str) {
        let Some(seat) = self.0.seats.of(subject) else { return };
        let call = ProcessLetNote { uid, subject: subject.to_owned() };
        if let Err(failure) = seat.ask(&call).await {
            tracing::warn!(pool = seat.name, %failure, "a command of a user is not in the history");
        }
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

    async fn process_find(&self, call: ProcessFind) -> Done<Vec<FoundDevice>> {
        self.0.find(&call.search).await
    }

    async fn process_holdings(&self, call: ProcessHoldings) -> Done<Vec<Holdings>> {
        Ok(self.0.of_each_open(&call).await.into_iter().flatten().collect())
    }

    async fn process_siblings(&self, _: ProcessSiblings) -> Done {
        Err(Failure::new(FailureKind::Unsupported, "a daemon has no siblings"))
    }

    async fn process_hold(&self, call: ProcessHold) -> Done {
        self.0.of_each_open(&call).await;
        Ok(())
    }

    async fn process_memory(&self, _: ProcessMemory) -> Done {
        let line = "the daemon shares its memory among its processes itself";
        Err(Failure::new(FailureKind::Unsupported, line))
    }

    async fn daemon_status(&self, call: DaemonStatusCall) -> Done<DaemonStatus> {
        let ground = &self.0.ground;
        let mut status = DaemonStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_secs: ground.env.now().saturating_sub(self.0.started).as_secs(),
            ..DaemonStatus::default()
        };
        let seats = self.0.seats.all();
        for own in join_all(seats.iter().map(|seat| status_of(seat, &call))).await {
            status.pools.extend(own.pools);
            status.failed.extend(own.failed);
            status.under_way.extend(own.under_way);
            status.processes.extend(own.processes);
        }
        Ok(status)
    }

    async fn daemon_stop(&self, call: DaemonStop) -> Done {
        // A pool that cannot be synced keeps the daemon, and with it all processes, from ending.
        let mut pools = self.0.pool_infos().await;
        pools.retain(|pool| pool.health != PoolHealth::Suspended);
        let sync =
            async |pool: PoolInfo| self.pool_sync(PoolSync { pools: vec![pool.name], force: false }).await;
        join_all(pools.into_iter().map(sync)).await.into_iter().collect::<Done>()?;
        self.0.seats.begin_ending();
        for failure in join_all(self.0.open().iter().map(|process| process.ask(&call))).await {
            if let Err(failure) = failure {
                tracing::error!(%failure, "the process of a pool was not told to stop");
            }
        }
        Ok(())
    }
}

/// What the process of a seat says of itself, or why it says nothing.
async fn status_of(seat: &PoolSeat, call: &DaemonStatusCall) -> DaemonStatus {
    let missing =
        |lines| DaemonStatus { failed: vec![(seat.name.clone(), lines)], ..DaemonStatus::default() };
    match seat.state() {
        SeatState::Open(process) => {
            let pid = process.pid();
            let silent = || missing(vec![format!("its process (pid {pid}) does not answer")]);
            let mut status = look(&process, call).await.unwrap_or_else(silent);
            status.processes = vec![ProcessOfPool { pool: seat.name.clone(), pid }];
            status
        }
        SeatState::Opening => missing(vec!["its process has ended, and another process opens it".to_owned()]),
        SeatState::Down(why) => missing(why.stderr),
        SeatState::Closed => DaemonStatus::default(),
    }
}

/// Asks a process for something that takes no time.
pub async fn look<C: Call>(process: &PoolProcess, call: &C) -> Option<C::Answer> {
    match tokio::time::timeout(LOOK_MAX, process.ask(call)).await {
        Ok(answer) => answer.ok(),
        Err(_) => {
            tracing::warn!(pid = process.pid(), path = C::PATH, "the process of a pool does not answer");
            None
        }
    }
}

/// Has work done to its end, whoever waits for it: a process that was started has to get its seat, or to end.
async fn to_its_end<T: Send + 'static>(work: impl Future<Output = Done<T>> + Send + 'static) -> Done<T> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| Err(Failure::new(FailureKind::Other, error.to_string())))
}

impl Inner {
    /// Returns the seat of the pool that a stream is sent from. A token names the snapshot in its own words.
    fn seat_of_send(&self, call: &DatasetSend) -> Option<Arc<PoolSeat>> {
        match call.token.as_deref().map(stream::token_state) {
            Some(state) => self.seats.of(&state.ok()?.toname),
            None => self.seats.of(&call.snapshot),
        }
    }

    /// Returns the processes that answer.
    pub fn open(&self) -> Vec<Arc<PoolProcess>> {
        self.seats.all().iter().filter_map(|seat| seat.open()).collect()
    }

    /// Asks the process of each open pool, all at the same time. A process that ends meanwhile, or that does not
    /// answer, is left out.
    pub async fn of_each_open<C: Call>(&self, call: &C) -> Vec<C::Answer> {
        let asked = self.open();
        let answers = join_all(asked.iter().map(|process| look(process, call))).await;
        answers.into_iter().flatten().collect()
    }

    /// The same, and the first refusal counts.
    async fn of_each<C: Call>(&self, call: &C) -> Done<Vec<C::Answer>> {
        let seats = self.seats.all();
        let ask = async |seat: &Arc<PoolSeat>| match seat.state() {
            SeatState::Open(process) => process.ask(call).await.map(Some),
            _ => Ok(None),
        };
        let answers = join_all(seats.iter().map(ask)).await;
        answers.into_iter().filter_map(Result::transpose).collect()
    }

    /// The same for an answer that may take time. A process that ends meanwhile, or that does not answer a
    /// request that takes no time, is left out.
    async fn of_each_that_answers<C: Call>(&self, call: &C) -> Done<Vec<C::Answer>> {
        let asked = self.open();
        let ask = async |process: &Arc<PoolProcess>| match look(process, &DaemonStatusCall {}).await {
            Some(_) => process.ask_while_alive(call).await,
            None => Ok(None),
        };
        let answers = join_all(asked.iter().map(ask)).await;
        answers.into_iter().filter_map(Result::transpose).collect()
    }

    /// Describes all open pools, in the order of their names.
    pub async fn pool_infos(&self) -> Vec<PoolInfo> {
        self.of_each_open(&PoolList::default()).await.into_iter().flatten().collect()
    }

    /// The pools whose processes have ended for good, as their lists have them.
    fn infos_of_closed(&self) -> Vec<PoolInfo> {
        let crate::SupervisorGround { machine, paths, .. } = &self.ground;
        let down = |seat: &Arc<PoolSeat>| match seat.state() {
            SeatState::Down(failure) => {
                let cached = crate::lists::pool_in(machine, paths, seat.number)?;
                let why = failure.stderr.into_iter().filter(|line| !line.is_empty()).collect();
                Some(engine::absent::info_of(&**machine, &cached, why))
            }
            _ => None,
        };
        self.seats.all().iter().filter_map(down).collect()
    }

    /// Asks the process of a pool for something that needs devices. The pool may have them from then on, if the
    /// request succeeds.
    async fn ask_with_devices<C: Call<Answer = ()>>(
        &self,
        seat: &PoolSeat,
        devices: Vec<PathBuf>,
        call: &C,
    ) -> Done {
        let process = seat.process().await?;
        self.tell_siblings(&process).await?;
        let new = process.grants.add_devices(devices);
        // Whatever ends now, the next process finds all devices of the pool.
        self.keep_grants(seat.number, &process.grants);
        let done = process.ask(call).await;
        if done.is_err() && process.is_alive() {
            process.grants.take_back_devices(&new);
            self.keep_grants(seat.number, &process.grants);
        }
        done
    }

    /// Exports or destroys a pool. Its process ends afterwards.
    async fn close<C: Call<Answer = ()>>(&self, seat: Arc<PoolSeat>, call: C) -> Done {
        let process = seat.process().await?;
        process.ask(&call).await?;
        // Its last events.
        _ = process.take_events(&self.events).await;
        // The devices were closed with the pool, so nobody has to wait for the end of the process.
        self.drop_seat(&seat);
        Ok(())
    }
}
