//! What the control directory of a mounted file system asks for, done as the requests of commands are: in the pool's
//! turn, under the same rules, and noted in its history.
//!
//! A mount keeps this, and the engine keeps mounts: it knows both the engine and the pool only as long as they are there.

use crate::front::{LetGo, ListedSnapshot, SnapshotError, SnapshotId, SnapshotSummary, Snapshots};
use crate::names::{self, NameError};
use crate::{Engine, Held, Holder, refusal};
use control::{
    DatasetRename, Delegated, Failure, FailureKind, Peer, Service, SnapshotCreate, SnapshotDestroy,
};
use dsl::{DatasetName, DslError};
use env::BoxFuture;
use pool::{Filesystem, Pool, PoolError};
use std::sync::{Arc, Weak};
use units::ObjsetId;
use zpl::Zfs;

type Done<T> = Result<T, SnapshotError>;

/// The snapshots of one file system.
pub struct ShownSnapshots {
    engine: Weak<Holder>,
    pool: Weak<Pool>,
    /// Its name may change while it is mounted.
    head: ObjsetId,
}

impl ShownSnapshots {
    /// Those of `fs`.
    pub fn of(holder: &Holder, held: &Held, fs: &Filesystem) -> Self {
        Self {
            engine: Weak::clone(&holder.own),
            pool: Arc::downgrade(&held.pool),
            head: fs.zfs.objset().id(),
        }
    }

    fn engine(&self) -> Done<Engine> {
        self.engine.upgrade().map(Engine).ok_or_else(closed)
    }

    fn pool_and_head(&self) -> Done<(Arc<Pool>, DatasetName)> {
        let pool = self.pool.upgrade().ok_or_else(closed)?;
        let head = pool.name_of(self.head).ok_or_else(closed)?;
        Ok((pool, head))
    }

    /// The full name of a snapshot that may be called that.
    fn full_name(&self, name: &str) -> Done<String> {
        let (_, head) = self.pool_and_head()?;
        let full = format!("{}@{name}", head.name);
        match names::check_snapshot(&full) {
            Ok(()) => Ok(full),
            Err(NameError::TooLong) => Err(SnapshotError::NameTooLong),
            Err(_) => Err(SnapshotError::BadName),
        }
    }

    /// Refuses a user to whom a request was not delegated. Nobody: an administrator.
    async fn check(&self, by: Option<Peer>, call: Delegated) -> Done<()> {
        let Some(peer) = by else { return Ok(()) };
        match self.engine()?.check_delegated(peer, call).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(SnapshotError::Denied),
            Err(failure) => Err(failed(&failure)),
        }
    }

    async fn open_named(pool: &Arc<Pool>, which: SnapshotId, dataset: &DatasetName) -> Done<Arc<Zfs>> {
        let guid = pool.dsl().dataset(dataset.dataset).await.map_err(dsl_error)?.guid.get();
        if guid != which.guid {
            return Err(SnapshotError::NotFound);
        }
        let fs = pool.open_snapshot(dataset).await.map_err(|error| pool_error(&error))?;
        Ok(Arc::clone(&fs.zfs))
    }
}

impl Snapshots for ShownSnapshots {
    fn list(&self) -> BoxFuture<'_, Done<Vec<ListedSnapshot>>> {
        Box::pin(async {
            let (pool, head) = self.pool_and_head()?;
            let all = pool.dsl().snapshots(&head).await.map_err(dsl_error)?;
            let listed = |one: DatasetName| ListedSnapshot {
                objset: one.objset(),
                name: one.name[head.name.len() + 1..].to_owned(),
            };
            Ok(all.into_iter().map(listed).collect())
        })
    }

    fn summary(&self) -> BoxFuture<'_, Done<SnapshotSummary>> {
        Box::pin(async {
            let (pool, head) = self.pool_and_head()?;
            let count = pool.dsl().snapshot_count(&head).await.map_err(dsl_error)?;
            let changed = pool.dsl().snapshots_changed(head.dir).await.map_err(dsl_error)?;
            Ok(SnapshotSummary { count, changed })
        })
    }

    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Done<SnapshotId>> {
        Box::pin(async {
            let (pool, _) = self.pool_and_head()?;
            // What cannot be a name is none.
            let full = self.full_name(name).map_err(|_| SnapshotError::NotFound)?;
            let found = pool.dsl().resolve(&full).await.map_err(dsl_error)?;
            let guid = pool.dsl().dataset(found.dataset).await.map_err(dsl_error)?.guid.get();
            Ok(SnapshotId { objset: found.objset(), guid })
        })
    }

    fn open<'a>(&'a self, which: SnapshotId, name: &'a str) -> BoxFuture<'a, Done<Arc<Zfs>>> {
        Box::pin(async move {
            let (pool, head) = self.pool_and_head()?;
            match pool.dsl().resolve(&format!("{}@{name}", head.name)).await {
                Ok(found) if found.objset() == which.objset => {
                    return Self::open_named(&pool, which, &found).await;
                }
                // Another has the name now, or none.
                Ok(_) | Err(DslError::NoSuchDataset { .. }) => {}
                Err(error) => return Err(dsl_error(error)),
            }
            let all = pool.dsl().snapshots(&head).await.map_err(dsl_error)?;
            let found = all.iter().find(|one| one.objset() == which.objset);
            Self::open_named(&pool, which, found.ok_or(SnapshotError::NotFound)?).await
        })
    }

    fn create<'a>(&'a self, name: &'a str, by: Option<Peer>) -> BoxFuture<'a, Done<()>> {
        Box::pin(async {
            let full = self.full_name(name)?;
            let pool = names::pool_of(&full).to_owned();
            let call = SnapshotCreate { pool, names: vec![full], ..SnapshotCreate::default() };
            self.check(by, Delegated::Snapshot(call.clone())).await?;
            self.engine()?.snapshot_create(call).await.map_err(|failure| failed(&failure))
        })
    }

    fn destroy<'a>(&'a self, name: &'a str, by: Option<Peer>) -> BoxFuture<'a, Done<()>> {
        Box::pin(async {
            let full = self.full_name(name).map_err(|_| SnapshotError::NotFound)?;
            let dataset = names::head_of(&full).to_owned();
            let call = SnapshotDestroy { dataset, snapshots: name.to_owned(), ..SnapshotDestroy::default() };
            self.check(by, Delegated::DestroySnapshots(call.clone())).await?;
            let gone = self.engine()?.snapshot_destroy(call).await;
            gone.map(|_| ()).map_err(|failure| failed(&failure))
        })
    }

    fn rename<'a>(&'a self, name: &'a str, new: &'a str, by: Option<Peer>) -> BoxFuture<'a, Done<()>> {
        Box::pin(async {
            let name = self.full_name(name).map_err(|_| SnapshotError::NotFound)?;
            let new_name = self.full_name(new)?;
            let call = DatasetRename { name, new_name, ..DatasetRename::default() };
            self.check(by, Delegated::Rename(call.clone())).await?;
            self.engine()?.dataset_rename(call).await.map_err(|failure| failed(&failure))
        })
    }
}

impl Holder {
    /// Has what is mounted let go of snapshots among these datasets, before they are destroyed. None of them is opened
    /// before what this gives is dropped.
    pub(super) async fn let_go_of(&self, held: &Held, datasets: &[String]) -> Vec<LetGo> {
        let mut objsets = Vec::new();
        for name in datasets.iter().filter(|name| name.contains('@')) {
            // One that is not there is in nobody's way.
            objsets.extend(held.pool.dsl().resolve(name).await.ok().map(|found| found.objset()));
        }
        self.mounts.let_go_of(&held.pool.name(), &objsets).await
    }

    /// The same of what a clone began from: it goes with the clone if it was only waiting for that.
    pub(super) async fn let_go_of_origin(&self, held: &Held, clone: &str) -> Vec<LetGo> {
        let dsl = held.pool.dsl();
        let Ok(dataset) = dsl.resolve(clone).await else { return Vec::new() };
        let Ok(dir) = dsl.dir(dataset.dir).await else { return Vec::new() };
        self.mounts.let_go_of(&held.pool.name(), &[ObjsetId::new(dir.origin.get())]).await
    }
}

fn closed() -> SnapshotError {
    SnapshotError::Failed("the pool is closed".to_owned())
}

fn dsl_error(error: DslError) -> SnapshotError {
    pool_error(&PoolError::Dsl(error))
}

fn pool_error(error: &PoolError) -> SnapshotError {
    match error {
        PoolError::ReadOnly => SnapshotError::ReadOnly,
        error => failed(&refusal::pool("open", "snapshot", error)),
    }
}

fn failed(failure: &Failure) -> SnapshotError {
    match failure.kind {
        FailureKind::NoSuchPool | FailureKind::NoSuchDataset => SnapshotError::NotFound,
        FailureKind::Exists => SnapshotError::Exists,
        FailureKind::Busy => SnapshotError::Busy,
        FailureKind::NoSpace => SnapshotError::NoSpace,
        FailureKind::Invalid
        | FailureKind::Unavailable
        | FailureKind::Unsupported
        | FailureKind::Denied
        | FailureKind::Other => SnapshotError::Failed(failure.to_string()),
    }
}
