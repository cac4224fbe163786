//! What a file system may look like after a crash.
//!
//! Everything has versions, one after another: a client's names, each file, each slot of a file
//! that all clients write to. A change adds its version before it is begun. After a crash each
//! thing must be as one of its versions is, none older than what was promised.
//!
//! - Names of one client change in one order, and the log keeps that order.
//! - A file is private to its client. The last change, if not promised, may be there in part: a
//!   long write lies in several records of the log. A long write that nobody waited for is read
//!   back, or written in place, for the log later and may bring newer bytes along; then each byte is
//!   judged by itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use units::ObjectId;
use zpl::Zfs;

use crate::found::{Found, Node};
use crate::promise::{Promise, Subject};

pub const SLOT_BYTES: usize = 8 << 10;
/// Longer writes that nobody waits for are not copied for the log.
pub const READ_BACK_OVER: usize = 32 << 10;

/// A file at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileState {
    pub data: Arc<Vec<u8>>,
    pub permissions: u32,
    pub uid: u32,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The change that led here is a write that the log reads back.
    pub read_back: bool,
    /// The change that led here is a write of this many bytes from this offset.
    pub written: Option<(usize, usize)>,
}

impl FileState {
    /// After a write, which the log may read back.
    pub fn with_write(&self, offset: usize, bytes: &[u8], read_back: bool) -> Self {
        let mut data = (*self.data).clone();
        data.resize(data.len().max(offset + bytes.len()), 0);
        data[offset..offset + bytes.len()].copy_from_slice(bytes);
        Self { data: Arc::new(data), read_back, written: Some((offset, bytes.len())), ..self.clone() }
    }

    /// After any other change.
    pub fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut state = Self { read_back: false, written: None, ..self.clone() };
        change(&mut state);
        state
    }

    fn same_attributes(&self, other: &Self) -> bool {
        self.permissions == other.permissions && self.uid == other.uid && self.xattrs == other.xattrs
    }

    fn same(&self, other: &Self) -> bool {
        self.same_attributes(other) && self.data == other.data
    }
}

/// What a name refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    File(u64),
    Directory,
    Symlink(Vec<u8>),
}

/// The names below a client's directory, by path.
pub type Names = BTreeMap<String, Named>;

/// Versions of one thing.
#[derive(Clone, Debug)]
pub struct Versions<T> {
    pub all: Vec<T>,
    /// The number of the last whose change has returned.
    pub done: usize,
}

impl<T> Versions<T> {
    pub fn new(first: T) -> Self {
        Self { all: vec![first], done: 0 }
    }

    pub fn last(&self) -> &T {
        self.all.last().expect("there is a first version")
    }

    /// A change is begun.
    pub fn begin(&mut self, version: T) {
        self.all.push(version);
    }

    /// The change has returned.
    pub fn end(&mut self) {
        self.done = self.all.len() - 1;
    }
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub names: BTreeMap<u64, Versions<Names>>,
    pub files: BTreeMap<u64, Versions<FileState>>,
    pub slots: BTreeMap<u64, Versions<Vec<u8>>>,
    /// Object and generation of each file, once known.
    pub objects: BTreeMap<u64, (ObjectId, u64)>,
}

impl Model {
    /// What of everything is done by now.
    pub fn done(&self) -> Promise {
        let names = self.names.iter().map(|(&n, versions)| (Subject::Names(n), versions.done));
        let files = self.files.iter().map(|(&n, versions)| (Subject::File(n), versions.done));
        let slots = self.slots.iter().map(|(&n, versions)| (Subject::Slot(n), versions.done));
        Promise::new(names.chain(files).chain(slots))
    }

    /// The file system keeps `promise`.
    pub async fn check(&self, zfs: &Zfs, promise: &Promise) {
        self.judge(&Found::read(zfs).await, promise);
    }

    /// What was found keeps `promise`.
    pub fn judge(&self, found: &Found, promise: &Promise) {
        for (&client, versions) in &self.names {
            self.judge_client(found, client, versions, promise);
        }
        for (&slot, versions) in &self.slots {
            let at = slot as usize * SLOT_BYTES;
            let bytes = &found.shared[at..at + SLOT_BYTES];
            let oldest = promise.oldest(Subject::Slot(slot));
            let fits =
                versions.all[oldest..].windows(2).any(|pair| is_prefix_written(bytes, &pair[0], &pair[1]))
                    || *versions.last() == bytes;
            let is = versions.all.iter().rposition(|version| version == bytes);
            assert!(fits, "slot {slot}: not a version from {oldest} on; it is {is:?}");
        }
    }

    fn judge_client(&self, found: &Found, client: u64, versions: &Versions<Names>, promise: &Promise) {
        let tree = found.trees.get(format!("client{client}").as_bytes());
        let tree = tree.expect("a client's directory is there");
        let named = tree.iter().map(|(path, node)| (path.clone(), self.named(path, node)));
        let is_names: Names = named.collect();
        let oldest = promise.oldest(Subject::Names(client));
        let Some(names) = versions.all[oldest..].iter().find(|names| **names == is_names) else {
            let is = position(&versions.all, &is_names);
            panic!(
                "names of client {client}: not a version from {oldest} on; they are {is:?}: {is_names:?}, promised {:?}",
                versions.all[oldest]
            );
        };
        for named in names.values() {
            if let Named::File(file) = named {
                self.judge_file(found, *file, promise);
            }
        }
    }

    fn named(&self, path: &str, node: &Node) -> Named {
        match node {
            Node::Directory => Named::Directory,
            Node::Symlink(target) => Named::Symlink(target.clone()),
            Node::File(object) => Named::File(self.file_of(path, *object)),
        }
    }

    /// Numbers of objects are used again, generations are not.
    fn file_of(&self, path: &str, object: (ObjectId, u64)) -> u64 {
        let found = self.objects.iter().find(|&(_, &ours)| ours == object);
        let Some((&file, _)) = found else {
            panic!("{path} is object {} of generation {}, which is none we made", object.0, object.1)
        };
        file
    }

    fn judge_file(&self, found: &Found, file: u64, promise: &Promise) {
        let object = self.objects[&file];
        let found = &found.files[&object];
        let object = object.0;
        let oldest = promise.oldest(Subject::File(file));
        let versions = &self.files[&file].all[oldest..];
        let is_version = versions.iter().any(|version| version.same(found));
        let is_half_way = || versions.windows(2).any(|pair| is_half_way(found, &pair[0], &pair[1]));
        let is_mixed = || versions.iter().any(|version| version.read_back) && is_mixed(found, versions);
        assert!(
            is_version || is_half_way() || is_mixed(),
            "file {file} (object {object}) of {} bytes is no version of {oldest}..={}: {}",
            found.data.len(),
            self.files[&file].all.len() - 1,
            describe(found, &self.files[&file].all)
        );
    }
}

/// Whether `found` has a head of the write that leads from `before` to `after`.
fn is_half_way(found: &FileState, before: &FileState, after: &FileState) -> bool {
    let Some((offset, len)) = after.written else { return false };
    if !found.same_attributes(before) {
        return false;
    }
    let same = found.data.iter().zip(after.data.iter()).take_while(|(a, b)| a == b).count();
    let head = same.min(offset + len).saturating_sub(offset);
    found.data == before.with_write(offset, &after.data[offset..offset + head], false).data
}

fn is_prefix_written(found: &[u8], before: &[u8], after: &[u8]) -> bool {
    let head = found.iter().zip(after).take_while(|(a, b)| a == b).count();
    found[head..] == before[head..]
}

/// Whether each byte is that of some version.
fn is_mixed(found: &FileState, versions: &[FileState]) -> bool {
    let sizes = versions.iter().map(|version| version.data.len());
    let (min, max) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
    let at = |version: &FileState, i: usize| version.data.get(i).copied().unwrap_or(0);
    (min..=max).contains(&found.data.len())
        && versions.iter().any(|version| version.same_attributes(found))
        && found
            .data
            .iter()
            .enumerate()
            .all(|(i, &byte)| versions.iter().any(|version| at(version, i) == byte))
}

fn position<T: PartialEq>(all: &[T], found: &T) -> Option<usize> {
    all.iter().rposition(|version| version == found)
}

fn describe(found: &FileState, all: &[FileState]) -> String {
    if let Some(version) = all.iter().rposition(|version| version.same(found)) {
        return format!("it is version {version}");
    }
    let lines = all.iter().enumerate().map(|(n, version)| {
        let differs = found.data.iter().zip(version.data.iter()).position(|(a, b)| a != b);
        format!(
            "\n  version {n}: {} bytes, first other byte {differs:?}, same attributes {}, write {:?}",
            version.data.len(),
            found.same_attributes(version),
            version.written
        )
    });
    lines.collect()
}
