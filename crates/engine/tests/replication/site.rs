//! Two pools of one engine: the replicated tree and its replica.

use crate::front::TableFront;
use control::{
    ByteSink, DatasetDestroy, DatasetInfo, DatasetList, DatasetPromote, DatasetReceive, DatasetSend, Failure,
    Layout, PoolCreate, ReceiveNaming, Service, SnapshotCreate, SnapshotHolds, SnapshotRelease, Value,
    VdevClass, VdevSpec,
};
use engine::{Engine, Ground, OnTheSpot, Options};
use futures::io::AsyncReadExt;
use pool::Tuning;
use sim::{DiskModel, DiskSpec, Sim, SimHost};
use std::sync::Arc;
use std::time::Duration;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

/// The name of the tree.
pub const TREE: &str = "p/t";
/// The name of the replica.
pub const REPLICA: &str = "q/t";
/// A file system that is excluded in some lives.
pub const EXCLUDED: &str = "p/t/x";

/// Creates a world with a disk for each pool.
pub fn world(seed: u64) -> Sim {
    let sim = Sim::seed(seed);
    sim.stop_recording();
    for pool in ["p", "q"] {
        sim.add_disk(format!("/dev/disk/{pool}"), DiskSpec::new(512 << 20, DiskModel::ssd()));
    }
    sim
}

/// The options of a package.
#[derive(Clone, Debug)]
pub struct Packaging {
    /// The snapshot that the replica has.
    pub from: Option<String>,
    /// True if all snapshots in between are sent.
    pub all: bool,
    /// A dataset that is left out.
    pub excluded: Option<String>,
}

/// Both pools and the engine.
pub struct Site {
    host: SimHost,
    engine: Engine,
    front: TableFront,
}

impl Site {
    pub async fn new(sim: &Sim) -> Self {
        let host = SimHost::new(sim);
        let front = TableFront::default();
        let ground = Ground {
            env: host.env(),
            machine: host.machine(),
            front: Some(Arc::new(front.clone())),
            runner: Arc::new(OnTheSpot),
        };
        let tuning = Tuning { txg_timeout: Duration::from_secs(1), ..Tuning::default() };
        let options = Options { cache: None, cache_files: None, memory_bytes: 256 << 20, tuning, pid: 1 };
        let site = Self { engine: Engine::new(ground, options), host, front };
        for name in ["p", "q"] {
            let vdev = VdevSpec {
                class: VdevClass::Normal,
                layout: Layout::Single,
                devices: vec![format!("/dev/disk/{name}")],
            };
            let call = PoolCreate { name: name.to_owned(), vdevs: vec![vdev], ..PoolCreate::default() };
            site.does(|engine| async move { engine.pool_create(call).await }).await.expect("a pool");
        }
        site
    }

    /// Runs `work` with the engine.
    pub async fn does<T, F>(&self, work: impl FnOnce(Engine) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.host.run(work(self.engine.clone())).await.expect("it lives")
    }

    /// Lists a dataset and the datasets below it with their snapshots.
    pub async fn list(&self, root: &str) -> Vec<DatasetInfo> {
        let call = DatasetList { root: Some(root.to_owned()), ..DatasetList::default() };
        self.does(|engine| async move { engine.dataset_list(call).await }).await.unwrap_or_default()
    }

    pub async fn snapshot_all(&self, snap: &str) {
        let call = SnapshotCreate {
            pool: "p".to_owned(),
            names: vec![format!("{TREE}@{snap}")],
            recursive: true,
            ..SnapshotCreate::default()
        };
        self.does(|engine| async move { engine.snapshot_create(call).await }).await.expect("a snapshot");
    }

    /// Runs `zfs send -R ... | zfs receive -F`.
    pub async fn replicate(&self, to: &str, packaging: &Packaging) -> Result<(), Failure> {
        let send = DatasetSend {
            snapshot: format!("{TREE}@{to}"),
            from: packaging.from.as_ref().map(|from| format!("{TREE}@{from}")),
            all: packaging.all,
            replicate: true,
            holds: true,
            excluded: packaging.excluded.iter().cloned().collect(),
            ..DatasetSend::default()
        };
        let receive = DatasetReceive {
            target: "q".to_owned(),
            naming: ReceiveNaming::AllButPool,
            force: true,
            no_mount: true,
            ..DatasetReceive::default()
        };
        self.does(|engine| async move {
            let (sink, source) = ByteSink::pipe();
            let (sent, received) =
                futures::join!(engine.dataset_send(send, sink), engine.dataset_receive(receive, source));
            // If the receiver has failed, its error is the cause, and the sender only reports a
            // closed pipe.
            match (sent, received) {
                (Err(sent), Err(received)) if sent.stderr.iter().any(|line| line.contains("Broken pipe")) => {
                    Err(received)
                }
                (sent, received) => sent.and(received.map(drop)),
            }
        })
        .await
    }

    /// Destroys the replica and creates it again from a full package.
    pub async fn start_anew(&self, to: &str) -> Result<(), String> {
        self.let_go_of_holds(REPLICA).await;
        while let Some(name) = self.clone_of_what_is_below().await {
            let call = DatasetPromote { name: name.clone() };
            self.does(|engine| async move { engine.dataset_promote(call).await })
                .await
                .map_err(|failure| format!("{name} cannot be promoted: {failure}"))?;
        }
        let call = DatasetDestroy {
            name: REPLICA.to_owned(),
            recursive: true,
            clones: true,
            ..DatasetDestroy::default()
        };
        self.does(|engine| async move { engine.dataset_destroy(call).await })
            .await
            .map_err(|failure| format!("the replica cannot be destroyed: {failure}"))?;
        let whole = Packaging { from: None, all: true, excluded: None };
        self.replicate(to, &whole).await.map_err(|failure| format!("a full package: {failure}"))
    }

    /// Returns a dataset of the replica that cannot be destroyed recursively, because it is a clone
    /// of a dataset below it.
    async fn clone_of_what_is_below(&self) -> Option<String> {
        let is_of_below = |info: &DatasetInfo| match info.props.get("origin").map(|prop| &prop.value) {
            Some(Value::Text(origin)) => origin.starts_with(&format!("{}/", info.name)),
            _ => false,
        };
        self.list(REPLICA).await.into_iter().find(is_of_below).map(|info| info.name)
    }

    pub async fn let_go_of_holds(&self, root: &str) {
        for snapshot in self.list(root).await.into_iter().filter(|info| info.name.contains('@')) {
            for tag in self.holds(&snapshot.name).await {
                let call = SnapshotRelease { name: snapshot.name.clone(), tag, recursive: false };
                self.does(|engine| async move { engine.snapshot_release(call).await }).await.expect("held");
            }
        }
    }

    /// Returns the holds of a snapshot.
    pub async fn holds(&self, snapshot: &str) -> Vec<String> {
        let call = SnapshotHolds { name: snapshot.to_owned(), recursive: false };
        let held = self.does(|engine| async move { engine.snapshot_holds(call).await }).await;
        let held = held.unwrap_or_default().into_iter().flat_map(|snapshot| snapshot.holds);
        held.map(|hold| hold.tag).collect()
    }

    /// Returns a full stream of a snapshot.
    pub async fn stream(&self, snapshot: &str) -> Vec<u8> {
        let send = DatasetSend { snapshot: snapshot.to_owned(), ..DatasetSend::default() };
        self.does(|engine| async move {
            let (sink, mut source) = ByteSink::pipe();
            let mut bytes = Vec::new();
            let (sent, read) =
                futures::join!(engine.dataset_send(send, sink), source.read_to_end(&mut bytes));
            sent.expect("it can be sent");
            read.expect("it comes to its end");
            bytes
        })
        .await
    }

    /// Overwrites a file if its file system is mounted.
    pub async fn write(&self, dataset: &str, name: String, bytes: Vec<u8>) {
        if let Some(zfs) = self.front.at(&format!("/{dataset}")) {
            self.host
                .run(async move { put(&zfs, &name, &bytes).await })
                .await
                .expect("it lives")
                .expect("written");
        }
    }
}

async fn put(zfs: &Zfs, name: &str, bytes: &[u8]) -> zpl::Result<()> {
    let file = match zfs.lookup(zfs.root(), name.as_bytes()).await {
        Ok(file) => file,
        Err(_) => zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await?,
    };
    zfs.write(file.object, 0, bytes, WriteFlags::default()).await.map(drop)
}
