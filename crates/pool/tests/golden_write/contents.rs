//! What a file system holds, small enough to be compared.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use units::ObjectId;
use zpl::{FileKind, Zfs};

/// Larger files are looked at only so far.
const READ_BYTES_MAX: u64 = 8 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    pub object: ObjectId,
    pub kind: FileKind,
    pub size: u64,
    /// Of the contents of a file, or a link's target.
    pub hash: u64,
}

/// Everything below the root, by path.
pub async fn contents(zfs: &Zfs) -> BTreeMap<String, File> {
    let mut found = BTreeMap::new();
    let mut todo = vec![(String::new(), zfs.root())];
    while let Some((path, dir)) = todo.pop() {
        for (name, object) in entries(zfs, dir).await {
            let path = format!("{path}/{name}");
            let of = zfs.attributes(object).await.unwrap();
            if of.kind == FileKind::Directory {
                todo.push((path.clone(), object));
            }
            let size = if of.kind == FileKind::Directory { 0 } else { of.size };
            let hash = hash(zfs, object, of.kind, size).await;
            found.insert(path, File { object, kind: of.kind, size, hash });
        }
    }
    found
}

/// Directory and name of a path.
pub async fn place<'a>(zfs: &Zfs, path: &'a str) -> (ObjectId, &'a str) {
    let (above, name) = path.rsplit_once('/').unwrap();
    let mut dir = zfs.root();
    for component in above.split('/').filter(|component| !component.is_empty()) {
        dir = zfs.lookup(dir, component.as_bytes()).await.unwrap().object;
    }
    (dir, name)
}

async fn entries(zfs: &Zfs, dir: ObjectId) -> Vec<(String, ObjectId)> {
    let mut all = Vec::new();
    let mut cookie = 0;
    loop {
        let some = zfs.list(dir, cookie, 1000).await.unwrap();
        let Some(last) = some.last() else { return all };
        cookie = last.next;
        let named =
            some.into_iter().map(|entry| (String::from_utf8_lossy(&entry.name).into_owned(), entry.object));
        all.extend(named.filter(|(name, _)| name != "." && name != ".."));
    }
}

async fn hash(zfs: &Zfs, object: ObjectId, kind: FileKind, size: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    match kind {
        FileKind::Symlink => zfs.readlink(object).await.unwrap().hash(&mut hasher),
        FileKind::File => {
            let mut bytes = vec![0; size.min(READ_BYTES_MAX) as usize];
            assert_eq!(zfs.read(object, 0, &mut bytes).await.unwrap(), bytes.len());
            bytes.hash(&mut hasher);
        }
        _ => {}
    }
    hasher.finish()
}
