//! The snapshots of a test's pool, as the engine has them, without its turns.

use std::sync::{Arc, Weak};

use engine::{ListedSnapshot, Peer, SnapshotError, SnapshotId, SnapshotSummary, Snapshots};
use env::BoxFuture;
use pool::{Pool, PoolError};
use zpl::Zfs;

type Done<T> = Result<T, SnapshotError>;

/// Of the pool's root file system.
pub struct PoolSnapshots(pub Weak<Pool>);

impl PoolSnapshots {
    fn pool(&self) -> Arc<Pool> {
        self.0.upgrade().expect("it is open as long as it is mounted")
    }
}

fn full(name: &str) -> String {
    format!("tank@{name}")
}

fn failed(error: PoolError) -> SnapshotError {
    match error {
        PoolError::Busy { .. } => SnapshotError::Busy,
        PoolError::Dsl(dsl::DslError::NoSuchDataset { .. }) => SnapshotError::NotFound,
        PoolError::Dsl(dsl::DslError::Exists { .. }) => SnapshotError::Exists,
        error => SnapshotError::Failed(error.to_string()),
    }
}

impl Snapshots for PoolSnapshots {
    fn list(&self) -> BoxFuture<'_, Done<Vec<ListedSnapshot>>> {
        Box::pin(async {
            let pool = self.pool();
            let head = pool.dsl().resolve("tank").await.map_err(|e| failed(e.into()))?;
            let all = pool.dsl().snapshots(&head).await.map_err(|e| failed(e.into()))?;
            let listed = |one: dsl::DatasetName| ListedSnapshot {
                objset: one.objset(),
                name: one.name["tank@".len()..].to_owned(),
            };
            Ok(all.into_iter().map(listed).collect())
        })
    }

    fn summary(&self) -> BoxFuture<'_, Done<SnapshotSummary>> {
        Box::pin(async {
            let count = self.list().await?.len() as u64;
            Ok(SnapshotSummary { count, changed: None })
        })
    }

    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Done<SnapshotId>> {
        Box::pin(async move {
            let pool = self.pool();
            let found = pool.dsl().resolve(&full(name)).await.map_err(|e| failed(e.into()))?;
            let phys = pool.dsl().dataset(found.dataset).await.map_err(|e| failed(e.into()))?;
            Ok(SnapshotId { objset: found.objset(), guid: phys.guid.get() })
        })
    }

    fn open<'a>(&'a self, which: SnapshotId, name: &'a str) -> BoxFuture<'a, Done<Arc<Zfs>>> {
        Box::pin(async move {
            if self.find(name).await? != which {
                return Err(SnapshotError::NotFound);
            }
            let fs = self.pool().snapshot_filesystem(&full(name)).await.map_err(failed)?;
            Ok(Arc::clone(&fs.zfs))
        })
    }

    fn create<'a>(&'a self, name: &'a str, _: Option<Peer>) -> BoxFuture<'a, Done<()>> {
        Box::pin(async move { self.pool().snapshot(vec![full(name)], Vec::new()).await.map_err(failed) })
    }

    fn destroy<'a>(&'a self, name: &'a str, _: Option<Peer>) -> BoxFuture<'a, Done<()>> {
        Box::pin(async move { self.pool().destroy_snapshots(vec![full(name)], false).await.map_err(failed) })
    }

    fn rename<'a>(&'a self, name: &'a str, new: &'a str, _: Option<Peer>) -> BoxFuture<'a, Done<()>> {
        Box::pin(
            async move { self.pool().rename_snapshots(vec![(full(name), full(new))]).await.map_err(failed) },
        )
    }
}
