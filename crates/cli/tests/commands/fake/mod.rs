//! A service that keeps pools as trees in memory: everything about commands can be tested
//! on it, and nothing about data. Its devices are real files, whose sizes count.

mod descent;

use control::*;
use engine::admit::{self, Allowance, Claim, Facts, LeafFacts, Purpose};
use engine::names;
use engine::props::{Occasion, Prop, Props, Source, Value, parse_dataset, parse_pool};
use engine::spec::{Layout, VdevSpec};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

type Done<T = ()> = Result<T, Failure>;

/// What was exported, with the paths of its devices.
#[derive(Clone)]
struct Exported {
    pool: PoolInfo,
    datasets: BTreeMap<String, DatasetInfo>,
    destroyed: bool,
}

#[derive(Default)]
struct State {
    pools: BTreeMap<String, PoolInfo>,
    datasets: BTreeMap<String, DatasetInfo>,
    mounts: Vec<MountInfo>,
    /// What holds snapshots, by their names.
    holds: BTreeMap<String, Vec<HoldInfo>>,
    exported: Vec<Exported>,
    next_guid: u64,
}

/// Pools in memory.
#[derive(Default)]
pub struct FakeService {
    state: Mutex<State>,
}

fn fact(value: impl Into<Value>) -> Prop {
    Prop { value: value.into(), source: Source::None }
}

fn leaf_paths(pool: &PoolInfo) -> Vec<String> {
    pool.root.leaves().filter_map(|v| v.path.clone()).collect()
}

impl State {
    fn pool(&mut self, name: &str) -> Done<&mut PoolInfo> {
        self.pools.get_mut(name).ok_or_else(|| Failure::no_such_pool(name))
    }

    fn dataset(&mut self, name: &str) -> Done<&mut DatasetInfo> {
        self.datasets.get_mut(name).ok_or_else(|| Failure::no_such_dataset(name))
    }

    fn facts(&self, specs: &[VdevSpec]) -> Facts {
        let devices = specs.iter().flat_map(|s| &s.devices);
        devices.filter_map(|path| Some((path.clone(), self.leaf(path)?))).collect()
    }

    fn leaf(&self, path: &str) -> Option<LeafFacts> {
        let meta = std::fs::metadata(path).ok()?;
        let holds = |pool: &&PoolInfo| leaf_paths(pool).iter().any(|p| p == path);
        let active = self.pools.values().find(holds).map(|p| (Claim::Active, p.name.clone()));
        let exported = self.exported.iter().filter(|e| !e.destroyed).map(|e| &e.pool).find(holds);
        let claim = active.or_else(|| exported.map(|p| (Claim::Exported, p.name.clone())));
        let identity = (meta.dev(), meta.ino());
        Some(LeafFacts {
            size_bytes: meta.len(),
            is_block_device: false,
            identity: Some(identity),
            claim,
            foreign: None,
        })
    }

    fn vdev(&mut self, id: u64, spec: &VdevSpec) -> VdevInfo {
        let mut leaves = Vec::new();
        for (place, path) in spec.devices.iter().enumerate() {
            self.next_guid += 1;
            let mut leaf = VdevInfo::new(VdevKind::File, place as u64, self.next_guid, spec.class);
            leaf.path = Some(path.clone());
            leaf.stats.physical_bytes = std::fs::metadata(path).map_or(0, |m| m.len());
            leaves.push(leaf);
        }
        let size = leaves.iter().map(|l| l.stats.physical_bytes).min().unwrap_or(0);
        let mut top = match spec.layout {
            Layout::Single => leaves.remove(0),
            _ => {
                self.next_guid += 1;
                let mut mirror = VdevInfo::new(VdevKind::Mirror, 0, self.next_guid, spec.class);
                mirror.children = leaves;
                mirror
            }
        };
        top.id = id;
        top.stats.space_bytes = size.saturating_sub(16 << 20);
        top.stats.fragmentation = Some(0);
        top
    }

    fn add_vdevs(&mut self, mut pool: PoolInfo, specs: &[VdevSpec]) -> PoolInfo {
        for spec in specs {
            let vdev = self.vdev(pool.root.children.len() as u64, spec);
            pool.root.children.push(vdev);
        }
        let space: u64 = pool.tops(VdevClass::Normal).map(|v| v.stats.space_bytes).sum();
        pool.root.stats.space_bytes = space;
        for (name, value) in [("size", space), ("free", space), ("allocated", 0), ("capacity", 0)] {
            pool.props.insert(name.into(), fact(Value::Number(value)));
        }
        pool
    }

    fn dataset_info(&mut self, name: &str, kind: DatasetKind) -> DatasetInfo {
        self.next_guid += 1;
        let facts = [("used", 98_304), ("available", 41_943_040), ("referenced", 24_576)];
        let mut props: Props = facts.map(|(n, v)| (n.to_owned(), fact(Value::Number(v)))).into();
        props.insert("type".into(), fact(kind.word()));
        DatasetInfo {
            name: name.to_owned(),
            kind,
            createtxg: self.next_guid,
            props,
            received: BTreeMap::new(),
        }
    }

    fn mount(&mut self, name: &str) -> Done {
        if self.mounts.iter().any(|m| m.dataset == name) {
            return Err(Failure::cannot(FailureKind::Busy, "mount", name, "filesystem already mounted"));
        }
        let mountpoint = match self.dataset(name)?.props.get("mountpoint").map(|p| p.value.clone()) {
            Some(Value::Text(text)) => text,
            _ => format!("/{name}"),
        };
        if mountpoint != "none" && mountpoint != "legacy" {
            self.mounts.push(MountInfo { dataset: name.to_owned(), mountpoint });
        }
        Ok(())
    }

    fn close(&mut self, name: &str, destroyed: bool) -> Done {
        self.pool(name)?;
        let pool = self.pools.remove(name).expect("just found");
        let (mine, others) =
            std::mem::take(&mut self.datasets).into_iter().partition(|(n, _)| names::is_within(n, name));
        self.datasets = others;
        self.mounts.retain(|m| !names::is_within(&m.dataset, name));
        self.exported.push(Exported { pool, datasets: mine, destroyed });
        Ok(())
    }
}

impl FakeService {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it holds this")
    }

    fn create(&self, call: PoolCreate) -> Done {
        let mut state = self.state();
        let facts = state.facts(&call.vdevs);
        let allow = Allowance { in_use: call.force, replication_mismatch: call.force, forced: call.force };
        admit::check_spec(&call.vdevs, &facts, None, allow)?;
        if let Some(mountpoint) = &call.mountpoint {
            admit::check_mountpoint(mountpoint)?;
        }
        if call.dry_run {
            return Ok(());
        }
        admit::check_pool_name(&call.name)?;
        for (name, value) in &call.props {
            parse_pool(name, value, Occasion::Creation).map_err(|e| e.failure(&call.name))?;
        }
        if state.pools.contains_key(&call.name) {
            let reason = "pool already exists";
            return Err(Failure::cannot(FailureKind::Exists, "create", &call.name, reason));
        }
        admit::check_devices(Purpose::Create, &call.name, &call.vdevs, &facts)?;
        admit::check_supported(&call.vdevs)?;
        state.next_guid += 1000;
        let root = VdevInfo::new(VdevKind::Root, 0, state.next_guid, VdevClass::Normal);
        let pool = PoolInfo {
            txg: 4,
            open_nanos: 1_000_000_000,
            props: [("health".to_owned(), fact("ONLINE")), ("dedupratio".to_owned(), fact(100))].into(),
            ..PoolInfo::new(call.name.clone(), root)
        };
        let pool = state.add_vdevs(pool, &call.vdevs);
        state.pools.insert(call.name.clone(), pool);
        let mut dataset = state.dataset_info(&call.name, DatasetKind::Filesystem);
        let mountpoint = call.mountpoint.as_deref().unwrap_or("none");
        let prop = Prop { value: mountpoint.into(), source: Source::Local };
        dataset.props.insert("mountpoint".into(), prop);
        state.datasets.insert(call.name.clone(), dataset);
        state.mount(&call.name)
    }

    fn add(&self, call: PoolAdd) -> Done {
        let mut state = self.state();
        let facts = state.facts(&call.vdevs);
        let pool = state.pool(&call.pool)?.clone();
        let allow = Allowance {
            in_use: call.allow_in_use,
            replication_mismatch: call.allow_replication_mismatch,
            forced: call.force,
        };
        admit::check_spec(&call.vdevs, &facts, Some(&pool), allow)?;
        if call.dry_run {
            return Ok(());
        }
        admit::check_devices(Purpose::Add, &call.pool, &call.vdevs, &facts)?;
        admit::check_supported(&call.vdevs)?;
        let pool = state.add_vdevs(pool, &call.vdevs);
        state.pools.insert(call.pool, pool);
        Ok(())
    }

    fn import(&self, call: PoolImport) -> Done<Imported> {
        let mut state = self.state();
        let meant = |e: &Exported| {
            (e.pool.name == call.pool || e.pool.guid.to_string() == call.pool)
                && e.destroyed == call.destroyed
        };
        let Some(place) = state.exported.iter().position(meant) else {
            let reason = "no such pool available";
            return Err(Failure::cannot(FailureKind::NoSuchPool, "import", &call.pool, reason));
        };
        let found = state.exported.remove(place);
        let old = found.pool.name.clone();
        let new = call.new_name.unwrap_or_else(|| old.clone());
        state.pools.insert(new.clone(), PoolInfo { name: new.clone(), ..found.pool });
        for (name, info) in found.datasets {
            let name = format!("{new}{}", &name[old.len()..]);
            state.datasets.insert(name.clone(), DatasetInfo { name, ..info });
        }
        Ok(Imported { name: new, rewound: None, lost: Vec::new() })
    }

    fn create_dataset(&self, call: DatasetCreate) -> Done<DatasetMade> {
        let mut state = self.state();
        let refuse = |kind, reason: &str| Failure::cannot(kind, "create", &call.name, reason);
        let Some(parent) = names::parent_of(&call.name) else {
            return Err(refuse(FailureKind::Invalid, "missing dataset name"));
        };
        let pool = names::pool_of(&call.name);
        if !state.pools.contains_key(pool) {
            return Err(refuse(FailureKind::NoSuchPool, &format!("no such pool '{pool}'")));
        }
        if state.datasets.contains_key(&call.name) {
            return Err(refuse(FailureKind::Exists, "dataset already exists"));
        }
        if !state.datasets.contains_key(parent) {
            return Err(refuse(FailureKind::NoSuchDataset, "parent does not exist"));
        }
        let mut info = state.dataset_info(&call.name, DatasetKind::Filesystem);
        for (name, text) in &call.props {
            let parsed = parse_dataset(name, text, info.kind, Occasion::Creation);
            let (name, value) = parsed.map_err(|e| refuse(FailureKind::Invalid, &e.to_string()))?;
            info.props.insert(name, Prop { value, source: Source::Local });
        }
        let made = DatasetMade { props: call.props, ..DatasetMade::default() };
        if call.dry_run {
            return Ok(made);
        }
        state.datasets.insert(call.name.clone(), info);
        if !call.no_mount {
            state.mount(&call.name)?;
        }
        Ok(made)
    }
}

#[async_trait::async_trait]
impl Service for FakeService {
    async fn let_note(&self, _: u32, _: &str) {}

    async fn dataset_send(&self, call: DatasetSend, mut sink: ByteSink) -> Done {
        self.send(&call, &mut sink).await
    }

    async fn dataset_diff(&self, call: DatasetDiff, mut sink: ByteSink) -> Done {
        use futures::AsyncWriteExt;
        let line = format!("M\t/{}\n", call.dataset);
        sink.write_all(line.as_bytes()).await.expect("somebody reads");
        Ok(())
    }

    async fn dataset_receive(&self, call: DatasetReceive, source: ByteSource) -> Done<Vec<ReceivedSnapshot>> {
        self.receive(&call, source).await
    }

    async fn dataset_send_size(&self, call: DatasetSendSize) -> Done<Vec<SendSize>> {
        self.send_size(&call.send)
    }

    async fn dataset_send_skipped(&self, _: DatasetSendSkipped) -> Done<Vec<String>> {
        Ok(vec!["p1/a/late".to_owned()])
    }

    async fn dataset_receive_abort(&self, call: DatasetReceiveAbort) -> Done {
        let line = format!("'{}' does not have any resumable receive state to abort", call.name);
        Err(Failure::new(FailureKind::Invalid, line))
    }

    async fn pool_create(&self, call: PoolCreate) -> Done {
        self.create(call)
    }
    async fn pool_add(&self, call: PoolAdd) -> Done {
        self.add(call)
    }
    async fn pool_attach(&self, call: PoolAttach) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_detach(&self, call: PoolDetach) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_offline(&self, call: PoolOffline) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_online(&self, call: PoolOnline) -> Done<DeviceState> {
        self.state().pool(&call.pool).map(|_| DeviceState { state: VdevState::Online })
    }
    async fn pool_reguid(&self, call: PoolReguid) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_vdev_props(&self, call: PoolVdevProps) -> Done<Vec<Vec<NameValue>>> {
        Ok(call.vdevs.iter().map(|_| Vec::new()).collect())
    }
    async fn pool_split(&self, call: PoolSplit) -> Done<SplitOff> {
        self.state().pool(&call.pool).map(|_| SplitOff::default())
    }
    async fn pool_prefetch(&self, call: PoolPrefetch) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_reopen(&self, call: PoolReopen) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_initialize(&self, call: PoolInitialize) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_trim(&self, call: PoolTrim) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_remove(&self, call: PoolRemove) -> Done {
        let mut state = self.state();
        state.pool(&call.pool)?.root.children.retain(|top| top.guid != call.vdev);
        Ok(())
    }
    async fn pool_remove_stop(&self, call: PoolRemoveStop) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_remove_cost(&self, call: PoolRemoveCost) -> Done<u64> {
        self.state().pool(&call.pool).map(|_| 0)
    }
    async fn pool_destroy(&self, call: PoolDestroy) -> Done {
        self.state().close(&call.pool, true)
    }
    async fn pool_export(&self, call: PoolExport) -> Done {
        self.state().close(&call.pool, false)
    }
    async fn import_scan(&self, call: ImportScan) -> Done<Vec<ImportCandidate>> {
        let state = self.state();
        let found = state.exported.iter().filter(|e| e.destroyed == call.destroyed);
        let candidate = |e: &Exported| ImportCandidate {
            pool: e.pool.clone(),
            destroyed: e.destroyed,
            foreign: false,
            in_use: None,
            unsupported_features: Vec::new(),
            readable: false,
        };
        Ok(found.map(candidate).collect())
    }
    async fn pool_import(&self, call: PoolImport) -> Done<Imported> {
        self.import(call)
    }
    async fn pool_upgrade(&self, call: PoolUpgrade) -> Done<Vec<String>> {
        self.state().pool(&call.pool).map(|_| Vec::new())
    }
    async fn pool_missing(&self, call: PoolMissing) -> Done<Vec<String>> {
        self.state().pool(&call.pool).map(|_| Vec::new())
    }
    async fn pool_note(&self, call: PoolNote) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_history(&self, call: PoolHistory) -> Done<Vec<Vec<u8>>> {
        self.state().pool(&call.pool).map(|_| Vec::new())
    }
    async fn events(&self, _: Events) -> Done<EventsPage> {
        Ok(EventsPage::default())
    }
    async fn events_clear(&self, _: EventsClear) -> Done<u64> {
        Ok(0)
    }
    async fn inject_list(&self, _: InjectList) -> Done<Vec<InjectHandler>> {
        Ok(Vec::new())
    }
    async fn inject_add(&self, call: InjectAdd) -> Done<u64> {
        self.state().pool(&call.pool).map(|_| 1)
    }
    async fn inject_flush(&self, _: InjectFlush) -> Done {
        Ok(())
    }
    async fn inject_cancel(&self, _: InjectCancel) -> Done {
        Ok(())
    }
    async fn inject_action(&self, call: InjectAction) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_list(&self, _: PoolList) -> Done<Vec<PoolInfo>> {
        let mut state = self.state();
        for pool in state.pools.values_mut() {
            pool.open_nanos += 1_000_000_000;
        }
        Ok(state.pools.values().cloned().collect())
    }
    async fn dataset_accounts(&self, call: DatasetAccounts) -> Done<Vec<Account>> {
        self.state().dataset(&call.name).map(|_| Vec::new())
    }
    async fn dataset_deleting(&self, call: DatasetDeleting) -> Done<u64> {
        self.state().dataset(&call.name).map(|_| 0)
    }
    async fn dataset_permissions(&self, call: DatasetPermissions) -> Done<Vec<Delegations>> {
        self.state().dataset(&call.name).map(|_| Vec::new())
    }
    async fn dataset_allow(&self, call: DatasetAllow) -> Done {
        self.state().dataset(&call.name).map(|_| ())
    }
    async fn check_delegated(&self, _: Peer, _: Delegated) -> Done<bool> {
        Ok(false)
    }
    async fn dataset_logs(&self, _: DatasetLogs) -> Done<Vec<LogInfo>> {
        Ok(Vec::new())
    }
    async fn pool_io(&self, call: PoolIo) -> Done<PoolIoInfo> {
        self.state().pool(&call.pool).map(|_| PoolIoInfo::default())
    }
    async fn pool_counts(&self, call: PoolCounts) -> Done<PoolCounted> {
        self.state().pool(&call.pool).map(|_| PoolCounted::default())
    }
    async fn pool_log_facts(&self, call: PoolLogFacts) -> Done<LogFacts> {
        self.state().pool(&call.pool).map(|_| LogFacts::default())
    }
    async fn pool_log_users(&self, call: PoolLogUsers) -> Done<LogUsers> {
        self.state().pool(&call.pool).map(|_| LogUsers::default())
    }
    async fn pool_log_record(&self, call: PoolLogRecord) -> Done<LogRecording> {
        self.state().pool(&call.pool).map(|_| LogRecording { pool: call.pool, ..LogRecording::default() })
    }

    async fn pool_set(&self, call: PoolSet) -> Done {
        let parsed = parse_pool(&call.name, &call.value, Occasion::Later);
        let (name, value) = parsed.map_err(|e| e.failure(&call.pool))?;
        let mut state = self.state();
        state.pool(&call.pool)?.props.insert(name, Prop { value, source: Source::Local });
        Ok(())
    }
    async fn pool_checkpoint(&self, call: PoolCheckpoint) -> Done {
        let mut state = self.state();
        let pool = state.pool(&call.pool)?;
        let refuse = |verb: &str, why: &str| Err(Failure::cannot(FailureKind::Busy, verb, &call.pool, why));
        match (call.discard, pool.checkpoint) {
            (false, Some(_)) => refuse("checkpoint", "checkpoint exists"),
            (true, None) => refuse("discard checkpoint in", "checkpoint does not exist"),
            (true, Some(_)) => {
                pool.checkpoint = None;
                Ok(())
            }
            (false, None) => {
                let created_secs = 1_795_288_708;
                pool.checkpoint =
                    Some(CheckpointInfo { created_secs, kept_bytes: 56_832, is_discarding: false });
                Ok(())
            }
        }
    }
    async fn pool_scrub(&self, call: PoolScrub) -> Done {
        let mut state = self.state();
        let pool = state.pool(&call.pool)?;
        let mut scan = ScanInfo {
            function: ScanFunction::Scrub,
            state: ScanState::Finished,
            start_secs: 1_795_288_708,
            end_secs: 1_795_288_709,
            repaired_bytes: 4096,
            errors: 0,
            issued_bytes: 0,
            total_bytes: 0,
            paused_secs: None,
            pass_bytes: 0,
            pass_start_secs: 0,
            pass_secs: 0,
        };
        if call.how == ScrubHow::Stop {
            scan.state = ScanState::Canceled;
        }
        pool.scan = Some(scan);
        Ok(())
    }
    async fn pool_clear(&self, call: PoolClear) -> Done {
        self.state().pool(&call.pool).map(|_| ())
    }
    async fn pool_sync(&self, _: PoolSync) -> Done {
        Ok(())
    }
    async fn dataset_list(&self, call: DatasetList) -> Done<Vec<DatasetInfo>> {
        let mut state = self.state();
        let has_snapshots = !call.without_snapshots;
        let Some(root) = call.root else {
            let meant = |d: &&DatasetInfo| match d.kind {
                DatasetKind::Bookmark => call.bookmarks,
                DatasetKind::Snapshot => has_snapshots,
                DatasetKind::Filesystem | DatasetKind::Volume => true,
            };
            return Ok(state.datasets.values().filter(meant).cloned().collect());
        };
        state.open(&root)?;
        let below = |name: &str| name[root.len()..].matches(['/', '@', '#']).count() as u32;
        let is_told = |name: &str| {
            name == root || (call.bookmarks || !name.contains('#')) && (has_snapshots || !name.contains('@'))
        };
        let is_within = |name: &str| names::is_within(names::head_of(name), &root) || name == root;
        let meant = |d: &&DatasetInfo| {
            is_within(&d.name) && is_told(&d.name) && call.depth.is_none_or(|depth| below(&d.name) <= depth)
        };
        Ok(state.datasets.values().filter(meant).cloned().collect())
    }
    async fn dataset_create(&self, call: DatasetCreate) -> Done<DatasetMade> {
        self.create_dataset(call)
    }
    async fn dataset_destroy(&self, call: DatasetDestroy) -> Done<Vec<String>> {
        self.destroy_dataset(&call)
    }
    async fn snapshot_create(&self, call: SnapshotCreate) -> Done {
        self.create_snapshots(&call)
    }
    async fn snapshot_destroy(&self, call: SnapshotDestroy) -> Done<SnapshotsGoing> {
        self.destroy_snapshots(&call)
    }
    async fn snapshot_hold(&self, call: SnapshotHold) -> Done {
        self.hold(&call)
    }
    async fn snapshot_release(&self, call: SnapshotRelease) -> Done {
        self.release(&call)
    }
    async fn snapshot_holds(&self, call: SnapshotHolds) -> Done<Vec<HeldSnapshot>> {
        self.holds(&call)
    }
    async fn dataset_rollback(&self, call: DatasetRollback) -> Done {
        self.rollback(&call)
    }
    async fn dataset_clone(&self, call: DatasetClone) -> Done {
        self.clone_dataset(call)
    }
    async fn dataset_promote(&self, call: DatasetPromote) -> Done {
        self.promote(&call)
    }
    async fn bookmark_create(&self, call: BookmarkCreate) -> Done {
        self.create_bookmark(&call)
    }
    async fn bookmark_redact(&self, _: BookmarkRedact) -> Done {
        Ok(())
    }
    async fn bookmark_destroy(&self, call: BookmarkDestroy) -> Done {
        self.destroy_bookmark(&call)
    }
    async fn dataset_set(&self, call: DatasetSet) -> Done {
        let mut state = self.state();
        let kind = state.dataset(&call.name)?.kind;
        for (name, text) in &call.props {
            let parsed = parse_dataset(name, text, kind, Occasion::Later);
            let (name, value) = parsed.map_err(|e| e.failure(&call.name).exits(255))?;
            let prop = Prop { value, source: Source::Local };
            state.dataset(&call.name)?.props.insert(name, prop);
        }
        Ok(())
    }
    async fn dataset_inherit(&self, call: DatasetInherit) -> Done {
        self.state().dataset(&call.name)?.props.remove(&call.property);
        Ok(())
    }
    async fn dataset_rename(&self, call: DatasetRename) -> Done {
        if call.name.contains('@') {
            return self.rename_snapshots(&call);
        }
        let mut state = self.state();
        let mut dataset =
            state.datasets.remove(&call.name).ok_or_else(|| Failure::no_such_dataset(&call.name))?;
        dataset.name.clone_from(&call.new_name);
        state.datasets.insert(call.new_name, dataset);
        Ok(())
    }
    async fn label_clear(&self, _: LabelClear) -> Done {
        Ok(())
    }
    async fn mount(&self, call: Mount) -> Done {
        let mut state = self.state();
        match call.dataset {
            Some(name) => state.mount(&name),
            None => {
                let all: Vec<String> = state.datasets.keys().cloned().collect();
                all.iter().for_each(|name| _ = state.mount(name));
                Ok(())
            }
        }
    }
    async fn unmount(&self, call: Unmount) -> Done {
        let mut state = self.state();
        let Some(target) = call.target else {
            state.mounts.clear();
            return Ok(());
        };
        let before = state.mounts.len();
        state.mounts.retain(|m| m.dataset != target && m.mountpoint != target);
        match state.mounts.len() == before {
            true => Err(Failure::cannot(FailureKind::Invalid, "unmount", &target, "not currently mounted")),
            false => Ok(()),
        }
    }
    async fn mounts(&self, _: Mounts) -> Done<Vec<MountInfo>> {
        Ok(self.state().mounts.clone())
    }
    async fn process_permit(&self, _: ProcessPermit) -> Done<bool> {
        Ok(false)
    }
    async fn process_let_note(&self, _: ProcessLetNote) -> Done {
        Ok(())
    }
    async fn process_due_mounts(&self, _: ProcessDueMounts) -> Done<DueMounts> {
        Ok(DueMounts::default())
    }
    async fn process_find(&self, _: ProcessFind) -> Done<Vec<FoundDevice>> {
        Ok(Vec::new())
    }
    async fn process_holdings(&self, _: ProcessHoldings) -> Done<Vec<Holdings>> {
        Ok(Vec::new())
    }
    async fn process_siblings(&self, _: ProcessSiblings) -> Done {
        Ok(())
    }
    async fn process_hold(&self, _: ProcessHold) -> Done {
        Ok(())
    }
    async fn process_memory(&self, _: ProcessMemory) -> Done {
        Ok(())
    }
    async fn daemon_status(&self, _: DaemonStatusCall) -> Done<DaemonStatus> {
        let pools = self.state().pools.keys().cloned().collect();
        Ok(DaemonStatus { pid: std::process::id(), version: "0".into(), pools, ..DaemonStatus::default() })
    }
    async fn daemon_stop(&self, _: DaemonStop) -> Done {
        Ok(())
    }
}
