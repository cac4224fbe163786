//! What is done with a hostile pool.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use dsl::PropValue;
use env::Env;
use futures::future::{Either, select};
use pool::{ImportSpec, Pool, Tuning};
use sim::Sim;
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, FileKind, NewNode, WriteFlags, Zfs};

/// Files and directories looked at, of a file system.
const NODES_MAX: usize = 60;
/// Bytes of a stream.
const SENT_BYTES_MAX: usize = 2 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// A pool that waits for longer than that, in virtual time, waits for somebody to mend its devices.
const PATIENCE: Duration = Duration::from_secs(600);

/// How far it came with an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Came {
    #[default]
    Refused,
    Imported,
    Waits,
    Exported,
}

pub fn tuning() -> Tuning {
    Tuning { txg_timeout: Duration::from_secs(1000), cache_bytes: 4 << 20, ..Tuning::default() }
}

/// Does `work` unless it waits for ever.
async fn patiently<T>(sim: &Sim, work: impl Future<Output = T>) -> Option<T> {
    match select(pin!(work), sim.sleep(PATIENCE)).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

pub fn exercise(sim: &Sim, name: &str, paths: &[&str]) -> Came {
    sim.run_until(async {
        let spec = ImportSpec {
            paths: paths.iter().map(Into::into).collect(),
            name: Some(name.into()),
            force: true,
            ..ImportSpec::default()
        };
        let Some(Ok(pool)) = patiently(sim, Pool::import(sim.env(), &spec, tuning())).await else {
            return Came::Refused;
        };
        let ends = patiently(sim, use_pool(sim, &pool)).await;
        if ends.is_none() {
            return Came::Waits;
        }
        match patiently(sim, pool.close(PoolState::Exported)).await {
            Some(Ok(())) => Came::Exported,
            Some(Err(_)) => Came::Imported,
            None => Came::Waits,
        }
    })
}

/// Every error is as good as success.
async fn use_pool(sim: &Sim, pool: &Arc<Pool>) {
    let datasets = pool.dsl().list(&pool.name()).await.unwrap_or_default();
    for dataset in datasets.iter().take(6) {
        let _ = pool.dsl().props(dataset).await;
        for snapshot in pool.dsl().snapshots(dataset).await.unwrap_or_default() {
            if let Ok(fs) = pool.snapshot_filesystem(&snapshot.name).await {
                walk(&fs.zfs).await;
            }
            send(pool, &snapshot.name, None).await;
        }
        send(pool, &dataset.name, None).await;
        if let Ok(fs) = pool.filesystem(&dataset.name).await {
            walk(&fs.zfs).await;
            write(&fs.zfs).await;
        }
    }
    let _ = pool.sync_now().await;
    if pool.scrub().await.is_ok() {
        sim.sleep(Duration::from_secs(60)).await;
    }
    let _ = pool.set_prop(&pool.name(), "atime", Some(PropValue::Number(0))).await;
    let _ = pool.create_filesystem(&format!("{}/made", pool.name()), Vec::new()).await;
    if let Some(dataset) = datasets.last().filter(|dataset| dataset.name != pool.name()) {
        let _ = pool.destroy_filesystem(&dataset.name).await;
    }
    for _ in 0..4 {
        let _ = pool.sync_now().await;
    }
}

/// Sends all that is in a dataset, or what follows a place in it, up to some bytes, in both forms: what is read, and
/// what is stored.
pub async fn send(pool: &Arc<Pool>, name: &str, resume: Option<stream::Resume>) {
    let Ok(Some(objset)) = pool.frozen_objset(name).await else { return };
    let (guid, creation_time, features) =
        (7, 0, stream::Features { large_blocks: true, ..Default::default() });
    let target = stream::Target { name: name.to_owned(), guid, creation_time, ignores_case: false, features };
    for is_all in [false, true] {
        let form = stream::Form { large_blocks: is_all, embedded: is_all, compressed: is_all };
        let order = stream::SendOrder {
            target: target.clone(),
            origin: None,
            form,
            resume,
            redaction: Default::default(),
            cut_after: None,
        };
        let mut room = vec![0; SENT_BYTES_MAX];
        let _ = stream::send(&objset, &order, futures::io::Cursor::new(&mut room[..])).await;
    }
}

pub async fn walk(zfs: &Zfs) {
    let mut todo = vec![zfs.root()];
    let mut seen = 0;
    while let Some(dir) = todo.pop() {
        let Ok(entries) = zfs.list(dir, 0, NODES_MAX).await else { continue };
        for entry in entries.into_iter().filter(|entry| entry.name != b"." && entry.name != b"..") {
            seen += 1;
            if seen > NODES_MAX {
                return;
            }
            if look(zfs, entry.object).await == Some(FileKind::Directory) {
                todo.push(entry.object);
            }
        }
    }
}

async fn look(zfs: &Zfs, object: ObjectId) -> Option<FileKind> {
    let of = zfs.attributes(object).await.ok()?;
    for name in zfs.xattr_names(object).await.unwrap_or_default() {
        let _ = zfs.xattr(object, &name).await;
    }
    match of.kind {
        FileKind::File => {
            let mut bytes = vec![0; READ_BYTES];
            let _ = zfs.read(object, 0, &mut bytes).await;
            let _ = zfs.read(object, of.size.saturating_sub(READ_BYTES as u64), &mut bytes).await;
        }
        FileKind::Symlink => _ = zfs.readlink(object).await,
        _ => {}
    }
    Some(of.kind)
}

/// Makes, changes and removes files, those that are there among them.
pub async fn write(zfs: &Zfs) {
    let root = zfs.root();
    if let Ok(made) = zfs.create(root, b"made", NewNode::File, 0o644, Cred::default()).await {
        let _ =
            zfs.write(made.object, 0, &[7; 70_000], WriteFlags { sync: true, ..WriteFlags::default() }).await;
        let _ = zfs.unlink(root, b"made").await;
    }
    let Ok(entries) = zfs.list(root, 0, NODES_MAX).await else { return };
    for entry in entries.iter().take(8) {
        let _ = zfs.write(entry.object, 100, &[8; 3000], WriteFlags::default()).await;
        let _ = zfs.fsync(entry.object, false).await;
    }
    for entry in entries.iter().rev().take(8) {
        let _ = zfs.unlink(root, &entry.name).await;
    }
}
