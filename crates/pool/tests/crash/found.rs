//! What a file system holds, read out of it: to be judged once, or by several models.

use std::collections::BTreeMap;
use std::sync::Arc;

use units::ObjectId;
use zpl::{Attributes, FileKind, Zfs};

use crate::model::FileState;

/// What a path leads to.
#[derive(Debug)]
pub enum Node {
    /// An object and its generation: numbers are used again, generations are not.
    File((ObjectId, u64)),
    Directory,
    Symlink(Vec<u8>),
}

/// All that lies below the directories of the root, and the file `shared` there.
#[derive(Debug, Default)]
pub struct Found {
    pub trees: BTreeMap<Vec<u8>, BTreeMap<String, Node>>,
    pub files: BTreeMap<(ObjectId, u64), FileState>,
    /// How many names each file says it has.
    links: BTreeMap<(ObjectId, u64), usize>,
    pub shared: Vec<u8>,
}

impl Found {
    pub async fn read(zfs: &Zfs) -> Self {
        let mut found = Self::default();
        for entry in zfs.list(zfs.root(), 0, 1 << 20).await.expect("the root lists").into_iter().skip(2) {
            let of = zfs.attributes(entry.object).await.expect("what has a name has attributes");
            if of.kind == FileKind::Directory {
                let tree = found.tree(zfs, entry.object).await;
                found.trees.insert(entry.name, tree);
            } else if entry.name == b"shared" {
                found.shared = contents(zfs, &of).await;
            }
        }
        found.count_names();
        found
    }

    /// Each file has as many names as it says.
    fn count_names(&self) {
        let mut names: BTreeMap<(ObjectId, u64), usize> = BTreeMap::new();
        for node in self.trees.values().flat_map(BTreeMap::values) {
            if let Node::File(object) = node {
                *names.entry(*object).or_default() += 1;
            }
        }
        assert_eq!(self.links, names, "links, and names");
    }

    async fn tree(&mut self, zfs: &Zfs, dir: ObjectId) -> BTreeMap<String, Node> {
        let mut tree = BTreeMap::new();
        let mut todo = vec![(String::new(), dir)];
        while let Some((prefix, dir)) = todo.pop() {
            for entry in zfs.list(dir, 0, 1 << 20).await.expect("a directory lists").into_iter().skip(2) {
                let path = format!("{prefix}{}", String::from_utf8(entry.name).expect("names are text"));
                let of = zfs.attributes(entry.object).await;
                let of = of.unwrap_or_else(|e| panic!("{path} (object {}): {e}", entry.object));
                if of.kind == FileKind::Directory {
                    todo.push((format!("{path}/"), entry.object));
                }
                let node = self.node(zfs, &of).await;
                tree.insert(path, node);
            }
        }
        tree
    }

    async fn node(&mut self, zfs: &Zfs, of: &Attributes) -> Node {
        match of.kind {
            FileKind::Directory => Node::Directory,
            FileKind::Symlink => Node::Symlink(zfs.readlink(of.object).await.expect("a link reads")),
            _ => {
                let object = (of.object, of.generation);
                if self.links.insert(object, of.links as usize).is_none() {
                    self.files.insert(object, read_file(zfs, of).await);
                }
                Node::File(object)
            }
        }
    }
}

async fn read_file(zfs: &Zfs, of: &Attributes) -> FileState {
    let mut xattrs = BTreeMap::new();
    for name in zfs.xattr_names(of.object).await.expect("attributes list") {
        let value = zfs.xattr(of.object, &name).await.expect("an attribute listed reads");
        xattrs.insert(name, value);
    }
    FileState {
        data: Arc::new(contents(zfs, of).await),
        permissions: of.permissions,
        uid: of.uid,
        xattrs,
        ..FileState::default()
    }
}

async fn contents(zfs: &Zfs, of: &Attributes) -> Vec<u8> {
    let mut data = vec![0; of.size as usize];
    assert_eq!(zfs.read(of.object, 0, &mut data).await.expect("a file reads"), data.len());
    data
}
