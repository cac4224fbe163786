//! What the daemon's engine must be able to do.

use crate::server::{self, Caller};
use crate::source::read_from;
use crate::transfer;
use crate::{
    Account, BookmarkCreate, BookmarkDestroy, BookmarkRedact, ByteSink, ByteSource, Call, DaemonStatus,
    DaemonStatusCall, DaemonStop, DatasetAccounts, DatasetAllow, DatasetClone, DatasetCreate,
    DatasetDeleting, DatasetDestroy, DatasetDiff, DatasetInfo, DatasetInherit, DatasetList, DatasetLogs,
    DatasetMade, DatasetPermissions, DatasetPromote, DatasetReceive, DatasetReceiveAbort, DatasetRename,
    DatasetRollback, DatasetSend, DatasetSendSize, DatasetSendSkipped, DatasetSet, Delegated, Delegations,
    DeviceState, DueMounts, Events, EventsClear, EventsPage, Failure, FoundDevice, HeldSnapshot, Holdings,
    ImportCandidate, ImportScan, Imported, InjectAction, InjectAdd, InjectCancel, InjectFlush, InjectHandler,
    InjectList, LabelClear, LogFacts, LogInfo, LogRecording, LogUsers, Mount, MountInfo, Mounts, NameValue,
    Peer, PoolAdd, PoolAttach, PoolCheckpoint, PoolClear, PoolCounted, PoolCounts, PoolCreate, PoolDestroy,
    PoolDetach, PoolExport, PoolHistory, PoolImport, PoolInfo, PoolInitialize, PoolIo, PoolIoInfo, PoolList,
    PoolLogFacts, PoolLogRecord, PoolLogUsers, PoolMissing, PoolNote, PoolOffline, PoolOnline, PoolPrefetch,
    PoolReguid, PoolRemove, PoolRemoveCost, PoolRemoveStop, PoolReopen, PoolScrub, PoolSet, PoolSplit,
    PoolSync, PoolTrim, PoolUpgrade, PoolVdevProps, ProcessDueMounts, ProcessFind, ProcessHold,
    ProcessHoldings, ProcessLetNote, ProcessMemory, ProcessPermit, ProcessSiblings, ReceivedSnapshot,
    SendSize, SnapshotCreate, SnapshotDestroy, SnapshotHold, SnapshotHolds, SnapshotRelease, SnapshotsGoing,
    SplitOff, Unmount,
};
use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use futures::future::BoxFuture;
use serde::Serialize;
use std::sync::Arc;

/// By which socket a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// That of the daemon's own user.
    Owner,
    /// That of everybody.
    Public,
}

/// Whether a request is to be worked on that came by this socket; who asks is noted in it.
///
/// # Errors
/// Its refusal.
async fn admit<C: Call>(
    service: &dyn Service,
    door: Door,
    peer: Option<Peer>,
    call: &mut C,
) -> Result<(), Failure> {
    if door == Door::Owner || C::PUBLIC {
        return Ok(());
    }
    match (call.delegated(), peer) {
        (Some(delegated), Some(peer)) => {
            call.set_maker(&peer);
            let is_granted = service.check_delegated(peer, delegated).await?;
            if is_granted { Ok(()) } else { Err(call.denied()) }
        }
        _ => Err(call.denied()),
    }
}

/// What somebody else than the daemon's own user has changed, once it is done.
pub(crate) struct Deed {
    uid: u32,
    /// A pool, or a dataset of one.
    subject: String,
}

impl Deed {
    fn of<C: Call>(door: Door, peer: Option<&Peer>, call: &C) -> Option<Self> {
        let peer = peer.filter(|_| door == Door::Public && !call.is_dry())?;
        Some(Self { uid: peer.uid, subject: call.subject()?.to_owned() })
    }
}

/// A request that is to be worked on, or the response that says why not.
pub(crate) async fn admitted<C: Call>(
    service: &dyn Service,
    door: Door,
    caller: &Caller,
    body: &[u8],
) -> Result<(C, Option<Deed>), Box<Response>> {
    let mut call = server::read(body)?;
    let peer = caller.peer.as_ref();
    let admitted = async {
        caller.begin(C::WORK).await?;
        admit(service, door, peer.cloned(), &mut call).await
    };
    match admitted.await {
        Ok(()) => {
            let deed = Deed::of(door, peer, &call);
            Ok((call, deed))
        }
        Err(refusal) => Err(Box::new(server::answer::<()>(Err(refusal)))),
    }
}

/// The answer to what was worked on. If it is done, its command may be noted.
async fn answered<T: Serialize>(
    service: &dyn Service,
    deed: Option<Deed>,
    outcome: Result<T, Failure>,
) -> Response {
    if let (Some(deed), Ok(_)) = (deed, &outcome) {
        service.let_note(deed.uid, &deed.subject).await;
    }
    server::answer(outcome)
}

/// True if a stream had a snapshot that was not there before.
fn has_new(received: &Result<Vec<ReceivedSnapshot>, Failure>) -> bool {
    received.iter().flatten().any(|snapshot| !snapshot.is_known)
}

/// Answers a request that came by a door. Each kind of request has its own.
type Answerer = fn(Arc<dyn Service>, Door, Caller, Bytes) -> BoxFuture<'static, Response>;

async fn send(service: Arc<dyn Service>, door: Door, caller: Caller, body: Bytes) -> Response {
    match admitted::<DatasetSend>(&*service, door, &caller, &body).await {
        Ok((call, _)) => {
            transfer::answer(|sink| caller.counting(async move { service.dataset_send(call, sink).await }))
        }
        Err(refusal) => *refusal,
    }
}

async fn diff(service: Arc<dyn Service>, door: Door, caller: Caller, body: Bytes) -> Response {
    match admitted::<DatasetDiff>(&*service, door, &caller, &body).await {
        Ok((call, _)) => {
            transfer::answer(|sink| caller.counting(async move { service.dataset_diff(call, sink).await }))
        }
        Err(refusal) => *refusal,
    }
}

async fn receive(service: Arc<dyn Service>, door: Door, caller: Caller, body: Bytes) -> Response {
    let call = admitted::<DatasetReceive>(&*service, door, &caller, &body).await;
    match (call, caller.handed.take()) {
        (Ok((call, deed)), Some(given)) => {
            let work = async move {
                let received = service.dataset_receive(call, read_from(given)).await;
                let deed = deed.filter(|_| has_new(&received));
                answered(&*service, deed, received).await
            };
            caller.to_its_end(Box::pin(work)).await
        }
        (Ok(_), None) => server::refuse(StatusCode::BAD_REQUEST, "nothing came to be read from"),
        (Err(refusal), _) => *refusal,
    }
}

/// Returns the routes of a service, one for each method. A request that others than the daemon's own user may not make
/// is answered with its refusal.
pub(crate) fn routes(service: &Arc<dyn Service>, door: Door) -> Router {
    let streams: [(&str, Answerer); 3] = [
        (DatasetSend::PATH, |service, door, caller, body| Box::pin(send(service, door, caller, body))),
        (DatasetDiff::PATH, |service, door, caller, body| Box::pin(diff(service, door, caller, body))),
        (DatasetReceive::PATH, |service, door, caller, body| Box::pin(receive(service, door, caller, body))),
    ];
    answerers().into_iter().chain(streams).fold(Router::new(), |router, (path, answerer)| {
        let service = Arc::clone(service);
        let answer = move |ConnectInfo(caller): ConnectInfo<Caller>, body: Bytes| {
            answerer(Arc::clone(&service), door, caller, body)
        };
        router.route(path, post(answer))
    })
}

macro_rules! service {
    ($($(#[$doc:meta])* $method:ident($call:ty) -> $answer:ty;)*) => {
        /// One method for each request. All may run at the same time.
        #[async_trait::async_trait]
        pub trait Service: Send + Sync + 'static {
            $(
                $(#[$doc])*
                async fn $method(&self, call: $call) -> Result<$answer, Failure>;
            )*

            /// Whether somebody else than the daemon's own user may have this done, because it was delegated to him.
            /// A refusal that says more than that he may not is an error.
            async fn check_delegated(&self, peer: Peer, call: Delegated) -> Result<bool, Failure>;

            /// Somebody else than the daemon's own user has changed a pool, or a dataset of one: its history may be told how,
            /// once.
            async fn let_note(&self, uid: u32, subject: &str);

            /// Writes snapshots as a stream. What it cannot write to any more nobody reads.
            async fn dataset_send(&self, call: DatasetSend, sink: ByteSink) -> Result<(), Failure>;

            /// Writes what changed in a file system. What it cannot write to any more nobody reads.
            async fn dataset_diff(&self, call: DatasetDiff, sink: ByteSink) -> Result<(), Failure>;

            /// Makes snapshots of a stream; gives them in its order.
            async fn dataset_receive(
                &self,
                call: DatasetReceive,
                source: ByteSource,
            ) -> Result<Vec<ReceivedSnapshot>, Failure>;
        }

        /// Returns the path and the default body of each request that is answered by one JSON value.
        #[must_use]
        pub fn blank_requests() -> Vec<(&'static str, serde_json::Value)> {
            vec![$((<$call as Call>::PATH, serde_json::to_value(<$call>::default()).unwrap_or_default()),)*]
        }

        /// Returns what answers each request that is answered by one JSON value, by path.
        fn answerers() -> Vec<(&'static str, Answerer)> {
            vec![$(
                (<$call as Call>::PATH, |service, door, caller, body| Box::pin(async move {
                    match admitted::<$call>(&*service, door, &caller, &body).await {
                        Ok((call, deed)) => {
                            let work =
                                async move { answered(&*service, deed, service.$method(call).await).await };
                            caller.to_its_end(Box::pin(work)).await
                        }
                        Err(refusal) => *refusal,
                    }
                })),
            )*]
        }
    };
}

service! {
    /// Makes a pool.
    pool_create(PoolCreate) -> ();
    /// Adds vdevs to a pool.
    pool_add(PoolAdd) -> ();
    /// Puts a device beside another.
    pool_attach(PoolAttach) -> ();
    /// Lets go of a device.
    pool_detach(PoolDetach) -> ();
    /// Takes a device out of a pool.
    pool_remove(PoolRemove) -> ();
    /// Gives up a removal.
    pool_remove_stop(PoolRemoveStop) -> ();
    /// What a removal would cost.
    pool_remove_cost(PoolRemoveCost) -> u64;
    /// Destroys a pool.
    pool_destroy(PoolDestroy) -> ();
    /// Takes a device out of use.
    pool_offline(PoolOffline) -> ();
    /// Brings a device back.
    pool_online(PoolOnline) -> DeviceState;
    /// Gives a pool another guid.
    pool_reguid(PoolReguid) -> ();
    /// Splits a pool.
    pool_split(PoolSplit) -> SplitOff;
    /// Looks for devices again.
    pool_reopen(PoolReopen) -> ();
    /// Reads tables of shared blocks ahead.
    pool_prefetch(PoolPrefetch) -> ();
    /// Writes a pattern where devices have nothing.
    pool_initialize(PoolInitialize) -> ();
    /// Tells devices to forget.
    pool_trim(PoolTrim) -> ();
    /// Closes a pool.
    pool_export(PoolExport) -> ();
    /// Looks for pools to import.
    import_scan(ImportScan) -> Vec<ImportCandidate>;
    /// Opens a pool from its devices.
    pool_import(PoolImport) -> Imported;
    /// Wipes labels.
    label_clear(LabelClear) -> ();
    /// Enables features.
    pool_upgrade(PoolUpgrade) -> Vec<String>;
    /// What an upgrade would enable.
    pool_missing(PoolMissing) -> Vec<String>;
    /// What was set on vdevs.
    pool_vdev_props(PoolVdevProps) -> Vec<Vec<NameValue>>;
    /// Notes a command in a pool's history.
    pool_note(PoolNote) -> ();
    /// A pool's history.
    pool_history(PoolHistory) -> Vec<Vec<u8>>;
    /// What happened lately.
    events(Events) -> EventsPage;
    /// Forgets what happened.
    events_clear(EventsClear) -> u64;
    /// Faults on order.
    inject_list(InjectList) -> Vec<InjectHandler>;
    /// Puts a fault on order.
    inject_add(InjectAdd) -> u64;
    /// Has pools forget the blocks that were read.
    inject_flush(InjectFlush) -> ();
    /// Takes faults back.
    inject_cancel(InjectCancel) -> ();
    /// Declares a device bad.
    inject_action(InjectAction) -> ();
    /// All open pools, by name.
    pool_list(PoolList) -> Vec<PoolInfo>;
    /// What a pool's devices did.
    pool_io(PoolIo) -> PoolIoInfo;
    /// What a pool has counted.
    pool_counts(PoolCounts) -> PoolCounted;
    /// What a pool's intent logs had to do.
    pool_log_facts(PoolLogFacts) -> LogFacts;
    /// Who uses a pool's intent logs.
    pool_log_users(PoolLogUsers) -> LogUsers;
    /// Records commits, one by one.
    pool_log_record(PoolLogRecord) -> LogRecording;
    /// Sets a pool's property.
    pool_set(PoolSet) -> ();
    /// Starts, pauses or stops a scrub.
    pool_scrub(PoolScrub) -> ();
    /// Makes or discards a checkpoint.
    pool_checkpoint(PoolCheckpoint) -> ();
    /// Sets error counters back.
    pool_clear(PoolClear) -> ();
    /// Waits for a sync.
    pool_sync(PoolSync) -> ();
    /// Datasets, parents first.
    dataset_list(DatasetList) -> Vec<DatasetInfo>;
    /// Who uses how much.
    dataset_accounts(DatasetAccounts) -> Vec<Account>;
    /// Files that are still to be freed.
    dataset_deleting(DatasetDeleting) -> u64;
    /// What was delegated.
    dataset_permissions(DatasetPermissions) -> Vec<Delegations>;
    /// Delegates permissions.
    dataset_allow(DatasetAllow) -> ();
    /// What datasets' intent logs had to do.
    dataset_logs(DatasetLogs) -> Vec<LogInfo>;
    /// Makes a dataset.
    dataset_create(DatasetCreate) -> DatasetMade;
    /// Destroys a dataset.
    dataset_destroy(DatasetDestroy) -> Vec<String>;
    /// Sets a dataset's properties.
    dataset_set(DatasetSet) -> ();
    /// Inherits a property again.
    dataset_inherit(DatasetInherit) -> ();
    /// Renames a dataset.
    dataset_rename(DatasetRename) -> ();
    /// Makes a dataset what it was.
    dataset_rollback(DatasetRollback) -> ();
    /// Makes a dataset of a snapshot.
    dataset_clone(DatasetClone) -> ();
    /// Has a clone and its origin change places.
    dataset_promote(DatasetPromote) -> ();
    /// What a stream would have.
    dataset_send_size(DatasetSendSize) -> Vec<SendSize>;
    /// What a stream leaves out.
    dataset_send_skipped(DatasetSendSkipped) -> Vec<String>;
    /// Gives up what was received in part.
    dataset_receive_abort(DatasetReceiveAbort) -> ();
    /// Makes snapshots.
    snapshot_create(SnapshotCreate) -> ();
    /// Destroys snapshots.
    snapshot_destroy(SnapshotDestroy) -> SnapshotsGoing;
    /// Holds snapshots.
    snapshot_hold(SnapshotHold) -> ();
    /// Takes holds back.
    snapshot_release(SnapshotRelease) -> ();
    /// What holds snapshots.
    snapshot_holds(SnapshotHolds) -> Vec<HeldSnapshot>;
    /// Makes a bookmark.
    bookmark_create(BookmarkCreate) -> ();
    /// Makes a redaction bookmark.
    bookmark_redact(BookmarkRedact) -> ();
    /// Destroys a bookmark.
    bookmark_destroy(BookmarkDestroy) -> ();
    /// Mounts.
    mount(Mount) -> ();
    /// Unmounts.
    unmount(Unmount) -> ();
    /// What is mounted.
    mounts(Mounts) -> Vec<MountInfo>;
    /// Whether a user may have something done.
    process_permit(ProcessPermit) -> bool;
    /// A user has changed a pool.
    process_let_note(ProcessLetNote) -> ();
    /// Lists the datasets that are to be mounted.
    process_due_mounts(ProcessDueMounts) -> DueMounts;
    /// Lists the devices that have labels of pools.
    process_find(ProcessFind) -> Vec<FoundDevice>;
    /// Lists what the pools of a process hold.
    process_holdings(ProcessHoldings) -> Vec<Holdings>;
    /// Says what the pools of other processes hold.
    process_siblings(ProcessSiblings) -> ();
    /// Holds back background work.
    process_hold(ProcessHold) -> ();
    /// Sets the memory of a process.
    process_memory(ProcessMemory) -> ();
    /// Who answers.
    daemon_status(DaemonStatusCall) -> DaemonStatus;
    /// Prepares the end; the server stops after it has answered.
    daemon_stop(DaemonStop) -> ();
}
