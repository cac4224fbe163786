//! Reads everything there is in a pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use device::RealEnv;
use dmu::SeekTo;
use pool::{Filesystem, Pool, PoolError, Volume};
use sha2::{Digest, Sha256};
use units::ObjectId;
use zpl::{Attributes, FileKind, Zfs, ZplError};

use crate::manifest::{Content, Entry, Manifest, Place};

/// Files up to this size are digested whole.
const WHOLE_BYTES_MAX: u64 = 1 << 30;
/// Bytes read at a time; also what counts as a chunk of a sparse file.
const CHUNK_BYTES: usize = 128 << 10;
const THREADS: usize = 4;

/// An object that was found, and what is known of it without its contents.
struct Found {
    place: Place,
    reader: Reader,
    attributes: Option<Attributes>,
}

enum Reader {
    File(Arc<Zfs>, ObjectId),
    Volume(Volume),
}

/// What stands in a pool, and what could not be read.
#[derive(Default)]
pub struct Walked {
    pub manifest: Manifest,
    pub errors: BTreeMap<Place, PoolError>,
}

impl Walked {
    fn add(&mut self, place: Place, read: Result<Entry, PoolError>) {
        match read {
            Ok(entry) => _ = self.manifest.insert(place, entry),
            Err(error) => _ = self.errors.insert(place, error),
        }
    }
}

/// Reads every object of every dataset, snapshot and volume.
pub fn walk(env: &RealEnv, pool: &Arc<Pool>) -> Walked {
    let mut walked = Walked::default();
    let found = env.block_on(find_all(pool, &mut walked));
    read_all(env, &found, &mut walked);
    walked
}

/// The same in one task, for worlds that one thread runs.
pub async fn walk_alone(pool: &Arc<Pool>) -> Walked {
    let mut walked = Walked::default();
    for one in find_all(pool, &mut walked).await {
        let read = entry(&one).await;
        walked.add(one.place, read);
    }
    walked
}

async fn find_all(pool: &Arc<Pool>, walked: &mut Walked) -> Vec<Found> {
    let mut found = Vec::new();
    for name in names(pool).await.expect("datasets can be listed") {
        if let Err(error) = walk_dataset(pool, &name, &mut found, walked).await {
            walked.errors.insert((name, Vec::new()), error);
        }
    }
    found
}

/// Names of all datasets and their snapshots.
pub async fn names(pool: &Arc<Pool>) -> Result<Vec<String>, PoolError> {
    let mut names = Vec::new();
    for dataset in pool.dsl().list(&pool.name()).await? {
        let snapshots = pool.dsl().snapshots(&dataset).await?;
        names.push(dataset.name);
        names.extend(snapshots.into_iter().map(|snapshot| snapshot.name));
    }
    Ok(names)
}

async fn walk_dataset(
    pool: &Arc<Pool>,
    name: &str,
    found: &mut Vec<Found>,
    walked: &mut Walked,
) -> Result<(), PoolError> {
    match filesystem(pool, name).await {
        Ok(fs) => {
            walk_files(&fs, found, walked).await;
            Ok(())
        }
        Err(PoolError::NotFilesystem { .. }) => {
            let reader = Reader::Volume(pool.volume(name).await?);
            found.push(Found { place: (name.to_owned(), Vec::new()), reader, attributes: None });
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// The file system of this name, a snapshot's too.
pub async fn filesystem(pool: &Arc<Pool>, name: &str) -> Result<Arc<Filesystem>, PoolError> {
    if name.contains('@') { pool.snapshot_filesystem(name).await } else { pool.filesystem(name).await }
}

async fn walk_files(fs: &Filesystem, found: &mut Vec<Found>, walked: &mut Walked) {
    let mut todo = vec![(Vec::new(), fs.zfs.root())];
    while let Some((path, object)) = todo.pop() {
        let place = (fs.name.clone(), path.clone());
        match look_at(fs, &path, object, &mut todo).await {
            Ok(attributes) => {
                let reader = Reader::File(Arc::clone(&fs.zfs), object);
                found.push(Found { place, reader, attributes: Some(attributes) });
            }
            Err(error) => {
                walked.errors.insert(place, error.into());
            }
        }
    }
}

/// An object's attributes; if it is a directory, what is in it is still to be looked at.
async fn look_at(
    fs: &Filesystem,
    path: &[u8],
    object: ObjectId,
    todo: &mut Vec<(Vec<u8>, ObjectId)>,
) -> Result<Attributes, ZplError> {
    let attributes = fs.zfs.attributes(object).await?;
    if attributes.kind == FileKind::Directory {
        let mut cookie = 0;
        loop {
            let entries = fs.zfs.list(object, cookie, 1000).await?;
            let Some(last) = entries.last() else { break };
            cookie = last.next;
            for entry in entries.into_iter().filter(|e| e.name != b"." && e.name != b"..") {
                let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
                todo.push(([path, separator, &entry.name].concat(), entry.object));
            }
        }
    }
    Ok(attributes)
}

/// Reads the contents, on several threads.
fn read_all(env: &RealEnv, found: &[Found], walked: &mut Walked) {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(one) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((one.place.clone(), env.block_on(entry(one))));
        }
        done
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no reader panics")).collect()
    });
    for (place, entry) in done {
        walked.add(place, entry);
    }
}

async fn entry(found: &Found) -> Result<Entry, PoolError> {
    match (&found.reader, &found.attributes) {
        (Reader::File(zfs, object), Some(attributes)) => file_entry(zfs, *object, attributes).await,
        (Reader::Volume(volume), _) => {
            let content = Some(Content::Whole(whole(&found.reader, volume.size_bytes()).await?));
            Ok(Entry { kind: "zvol".into(), size: Some(volume.size_bytes()), content, ..Entry::default() })
        }
        (Reader::File(..), None) => unreachable!("files have attributes"),
    }
}

async fn file_entry(zfs: &Arc<Zfs>, object: ObjectId, at: &Attributes) -> Result<Entry, PoolError> {
    let reader = Reader::File(Arc::clone(zfs), object);
    let content = match at.kind {
        FileKind::File if at.size <= WHOLE_BYTES_MAX => Some(Content::Whole(whole(&reader, at.size).await?)),
        FileKind::File => Some(Content::Sparse(sparse(zfs, object).await?)),
        _ => None,
    };
    let target = match at.kind {
        FileKind::Symlink => Some(zfs.readlink(object).await?),
        _ => None,
    };
    let mut xattrs = BTreeMap::new();
    for name in zfs.xattr_names(object).await? {
        let value = zfs.xattr(object, &name).await?;
        xattrs.insert(String::from_utf8_lossy(&name).into_owned(), hex(&value));
    }
    Ok(Entry {
        kind: letter(at.kind).into(),
        mode: Some(at.permissions),
        uid: Some(at.uid),
        gid: Some(at.gid),
        links: Some(at.links),
        size: Some(at.size),
        mtime_ns: Some(i128::from(at.mtime.secs) * 1_000_000_000 + i128::from(at.mtime.nanos)),
        content,
        target,
        device: at.kind.is_device().then_some((at.device.major, at.device.minor)),
        xattrs,
    })
}

fn letter(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Fifo => "p",
        FileKind::CharDevice => "c",
        FileKind::Directory => "d",
        FileKind::BlockDevice => "b",
        FileKind::File => "f",
        FileKind::Symlink => "l",
        FileKind::Socket => "s",
    }
}

async fn whole(reader: &Reader, size: u64) -> Result<String, PoolError> {
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < size {
        let count = match reader {
            Reader::File(zfs, object) => zfs.read(*object, at, &mut chunk).await?,
            Reader::Volume(volume) => volume.read(at, &mut chunk).await?,
        };
        assert!(count > 0, "a read before the end gives something");
        digest.update(&chunk[..count]);
        at += count as u64;
    }
    Ok(hex(&digest.finalize()))
}

async fn sparse(zfs: &Zfs, object: ObjectId) -> Result<String, PoolError> {
    let mut digest = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = 0;
    loop {
        at = match zfs.seek(object, at, SeekTo::Data).await {
            Ok(data) => data - data % CHUNK_BYTES as u64,
            Err(ZplError::NoSuchOffset) => return Ok(hex(&digest.finalize())),
            Err(error) => return Err(error.into()),
        };
        let count = zfs.read(object, at, &mut chunk).await?;
        if chunk[..count].iter().any(|&byte| byte != 0) {
            digest.update(at.to_le_bytes());
            digest.update(&chunk[..count]);
        }
        at += CHUNK_BYTES as u64;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
