//! A file system that is only maps and vectors, and random operations done to both.
//!
//! Operations are chosen so that they must succeed; what must fail is tested in `zpl`.

use std::collections::BTreeMap;

use units::ObjectId;
use zpl::{
    Allocate, Attributes, Cred, FileKind, FilePlace, NewNode, Place, RenameMode, SetAttributes, SetTime,
    Timestamp, WriteFlags, XattrMode, Zfs,
};

use crate::dice::Dice;

#[derive(Clone, Debug)]
struct Node {
    kind: FileKind,
    permissions: u32,
    uid: u32,
    gid: u32,
    links: u32,
    /// Where it was set and nothing has changed it since.
    mtime: Option<Timestamp>,
    data: Vec<u8>,
    target: Vec<u8>,
    entries: BTreeMap<Vec<u8>, ObjectId>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// What a file system should hold.
#[derive(Clone)]
pub struct Tree {
    nodes: BTreeMap<ObjectId, Node>,
    /// Open files without a name, and their contents.
    orphans: BTreeMap<ObjectId, Vec<u8>>,
    /// Makes names that are new.
    names: u64,
}

/// The dice, the file system, the tree: where an operation is done.
struct Step<'a> {
    tree: &'a mut Tree,
    zfs: &'a Zfs,
    dice: &'a mut Dice,
}

impl Tree {
    pub async fn of_empty(zfs: &Zfs) -> Self {
        let of = zfs.attributes(zfs.root()).await.unwrap();
        let nodes = BTreeMap::from([(zfs.root(), Node::new(&of))]);
        Self { nodes, orphans: BTreeMap::new(), names: 0 }
    }

    /// Does `count` random operations.
    pub async fn steps(&mut self, zfs: &Zfs, dice: &mut Dice, count: usize) {
        for _ in 0..count {
            Step { tree: self, zfs, dice }.any().await;
        }
    }

    /// Everything that an import does not bring back: open files without a name.
    pub fn forget_orphans(&mut self) {
        self.orphans.clear();
    }

    /// Closes all files that have no name.
    pub async fn close_orphans(&mut self, zfs: &Zfs) {
        for object in std::mem::take(&mut self.orphans).into_keys() {
            zfs.close(object).await.unwrap();
        }
    }

    /// Removes everything but the root directory.
    pub async fn clear(&mut self, zfs: &Zfs) {
        self.close_orphans(zfs).await;
        while let Some((dir, name, object)) = self.leaf() {
            if self.nodes[&object].kind == FileKind::Directory {
                zfs.rmdir(dir, &name).await.unwrap();
            } else {
                zfs.unlink(dir, &name).await.unwrap();
            }
            self.drop_entry(dir, &name);
            self.drop_link(object);
        }
    }

    /// A name that can be removed.
    fn leaf(&self) -> Option<(ObjectId, Vec<u8>, ObjectId)> {
        self.nodes.iter().find_map(|(&dir, node)| {
            let mut entries = node.entries.iter();
            let (name, &object) = entries.find(|(_, object)| self.nodes[object].entries.is_empty())?;
            Some((dir, name.clone(), object))
        })
    }

    fn those(&self, wanted: impl Fn(&Node) -> bool) -> Vec<ObjectId> {
        self.nodes.iter().filter(|(_, node)| wanted(node)).map(|(&object, _)| object).collect()
    }

    fn is_within(&self, inner: ObjectId, outer: ObjectId) -> bool {
        inner == outer || self.nodes[&outer].entries.values().any(|&child| self.is_within(inner, child))
    }

    fn node(&mut self, object: ObjectId) -> &mut Node {
        self.nodes.get_mut(&object).expect("is in the tree")
    }

    fn add_entry(&mut self, dir: ObjectId, name: Vec<u8>, object: ObjectId) {
        let is_dir = self.nodes[&object].kind == FileKind::Directory;
        let dir = self.node(dir);
        dir.links += u32::from(is_dir);
        dir.mtime = None;
        assert!(dir.entries.insert(name, object).is_none());
    }

    fn drop_entry(&mut self, dir: ObjectId, name: &[u8]) -> ObjectId {
        let object = self.node(dir).entries.remove(name).expect("has that name");
        self.node(dir).mtime = None;
        if self.nodes[&object].kind == FileKind::Directory {
            self.node(dir).links -= 1;
        }
        object
    }

    /// Gives the node if that was its last name.
    fn drop_link(&mut self, object: ObjectId) -> Option<Node> {
        let node = self.node(object);
        node.links -= 1;
        if node.links == 0 || node.kind == FileKind::Directory { self.nodes.remove(&object) } else { None }
    }

    fn new_name(&mut self, dice: &mut Dice) -> Vec<u8> {
        self.names += 1;
        // Some are too long for a micro ZAP.
        let tail = if dice.below(40) == 0 { "long".repeat(30) } else { String::new() };
        format!("n{}{tail}", self.names).into_bytes()
    }

    /// The file system holds what this tree holds, and not an object more.
    pub async fn check(&self, zfs: &Zfs) {
        // After an import, unlinked objects are freed in the background.
        zfs.purge().await.expect("what has no name is freed");
        for (&object, node) in &self.nodes {
            self.check_node(zfs, object, node).await;
        }
        for (&object, data) in &self.orphans {
            assert!(contents(zfs, object, data.len()).await == *data, "contents of open {object}");
        }
        let mut at = ObjectId::new(0);
        while let Some(next) = zfs.objset().next_object(at).await.unwrap() {
            at = next;
            // One freed since the last sync is still in its block.
            let Ok(dnode) = zfs.objset().hold(at).await else { continue };
            let is_node = dnode.bonus_type() == ondisk::ObjectType::SA;
            if is_node {
                let owner = owner(zfs, at).await;
                let is_known = self.nodes.contains_key(&owner) || self.orphans.contains_key(&owner);
                assert!(is_known, "object {at} is nobody's");
            }
        }
    }

    async fn check_node(&self, zfs: &Zfs, object: ObjectId, node: &Node) {
        let of = zfs.attributes(object).await.unwrap_or_else(|e| panic!("object {object}: {e}"));
        let have = (of.kind, of.permissions, of.uid, of.gid, of.links);
        assert_eq!(have, (node.kind, node.permissions, node.uid, node.gid, node.links), "object {object}");
        assert!(node.mtime.is_none_or(|mtime| mtime == of.mtime), "time of {object}");
        match node.kind {
            FileKind::File => {
                assert_eq!(of.size, node.data.len() as u64, "size of {object}");
                assert!(contents(zfs, object, node.data.len()).await == node.data, "contents of {object}");
            }
            FileKind::Symlink => assert_eq!(zfs.readlink(object).await.unwrap(), node.target),
            FileKind::Directory => {
                let list = zfs.list(object, 0, 1 << 20).await.unwrap();
                let entries: BTreeMap<Vec<u8>, ObjectId> =
                    list.into_iter().skip(2).map(|entry| (entry.name, entry.object)).collect();
                assert_eq!(entries, node.entries, "directory {object}");
                assert_eq!(of.size, node.entries.len() as u64 + 2, "entries of {object}");
            }
            _ => {}
        }
        let mut xattrs = BTreeMap::new();
        for name in zfs.xattr_names(object).await.unwrap() {
            let value = zfs.xattr(object, &name).await.unwrap();
            xattrs.insert(name, value);
        }
        assert!(xattrs == node.xattrs, "extended attributes of {object}");
    }
}

async fn contents(zfs: &Zfs, object: ObjectId, len: usize) -> Vec<u8> {
    let mut data = vec![0xa5; len];
    assert_eq!(zfs.read(object, 0, &mut data).await.unwrap(), len, "bytes of {object}");
    data
}

impl Step<'_> {
    async fn any(&mut self) {
        match self.dice.below(215) {
            0..35 => self.create().await,
            35..40 => self.burst().await,
            40..95 => self.write().await,
            95..110 => self.resize().await,
            110..120 => self.change_space().await,
            120..135 => self.rename().await,
            135..143 => self.link().await,
            143..160 => self.remove().await,
            160..166 => self.close().await,
            166..180 => self.set_attributes().await,
            180..194 => self.xattr().await,
            200..215 => self.clone_range().await,
            _ => self.fsync().await,
        }
    }

    fn file(&mut self) -> Option<ObjectId> {
        let files = self.tree.those(|node| node.kind == FileKind::File);
        self.dice.pick(&files)
    }

    fn dir(&mut self) -> ObjectId {
        let dirs = self.tree.those(|node| node.kind == FileKind::Directory);
        self.dice.pick(&dirs).expect("the root is one")
    }

    /// Some name of something.
    fn entry(&mut self) -> Option<(ObjectId, Vec<u8>, ObjectId)> {
        let dirs = self.tree.those(|node| !node.entries.is_empty());
        let dir = self.dice.pick(&dirs)?;
        let entries: Vec<(&Vec<u8>, &ObjectId)> = self.tree.nodes[&dir].entries.iter().collect();
        let (name, &object) = self.dice.pick(&entries)?;
        Some((dir, name.clone(), object))
    }

    async fn make(&mut self, dir: ObjectId, node: NewNode<'_>) -> ObjectId {
        let name = self.tree.new_name(self.dice);
        let cred = Cred { uid: self.dice.below(1 << 32) as u32, gid: 7, umask: 0o022 };
        let made = self.zfs.create(dir, &name, node, 0o777, cred).await.unwrap();
        let mut new = Node::new(&made);
        if let NewNode::Symlink(target) = node {
            new.target = target.to_vec();
        }
        assert!(self.tree.nodes.insert(made.object, new).is_none(), "{} is in use", made.object);
        self.tree.add_entry(dir, name, made.object);
        made.object
    }

    async fn create(&mut self) {
        let dir = self.dir();
        let target = vec![b't'; 1 + self.dice.mostly(80, 900) as usize];
        match self.dice.below(10) {
            0 | 1 => self.make(dir, NewNode::Directory).await,
            2 => self.make(dir, NewNode::Symlink(&target)).await,
            3 => self.make(dir, NewNode::Fifo).await,
            _ => {
                let file = self.make(dir, NewNode::File).await;
                let len = self.dice.mostly(8_000, 300_000) as usize;
                self.write_at(file, 0, len, WriteFlags::default()).await;
                file
            }
        };
    }

    /// Many small files at once.
    async fn burst(&mut self) {
        let dir = self.dir();
        for _ in 0..self.dice.below(40) {
            let file = self.make(dir, NewNode::File).await;
            let len = self.dice.below(700) as usize;
            self.write_at(file, 0, len, WriteFlags::default()).await;
        }
    }

    async fn write(&mut self) {
        let Some(object) = self.file() else { return };
        let size = self.tree.nodes[&object].data.len() as u64;
        // Over what is there, or beyond it with a hole between.
        let offset = self.dice.below(size + 1) + self.dice.mostly(1, 300_000);
        let len = 1 + self.dice.mostly(9_000, 500_000) as usize;
        let append = self.dice.below(4) == 0;
        let sync = self.dice.below(10) == 0;
        self.write_at(object, offset, len, WriteFlags { append, sync, drop_setid: false }).await;
    }

    async fn write_at(&mut self, object: ObjectId, offset: u64, len: usize, how: WriteFlags) {
        let bytes = self.dice.bytes(len);
        let at = self.zfs.write(object, offset, &bytes, how).await.unwrap() as usize;
        let node = self.tree.node(object);
        if len > 0 {
            assert_eq!(at, if how.append { node.data.len() } else { offset as usize });
            node.data.resize(node.data.len().max(at + len), 0);
            node.data[at..at + len].copy_from_slice(&bytes);
            node.mtime = None;
        }
    }

    /// Shares blocks of a file with another, or with another place in it; mostly blocks that are on disk.
    async fn clone_range(&mut self) {
        let (Some(from), Some(to)) = (self.file(), self.file()) else { return };
        if self.dice.below(3) == 0 {
            let txgs = self.zfs.objset().txgs();
            txgs.wait_synced(txgs.open_txg()).await.unwrap();
        }
        let block = u64::from(self.zfs.attributes(from).await.unwrap().block_bytes);
        let [size, room] = [from, to].map(|object| self.tree.nodes[&object].data.len() as u64);
        let (offset, at) =
            (self.dice.below(size / block + 1) * block, self.dice.below(room / block + 2) * block);
        let (offset, at) = if self.dice.below(3) == 0 { (0, 0) } else { (offset, at) };
        let len = 1 + self.dice.mostly(block * 3, 1_000_000);
        let place = FilePlace { zfs: self.zfs, object: from, offset };
        let how = WriteFlags { sync: self.dice.below(6) == 0, ..WriteFlags::default() };
        let shared = self.zfs.clone_range(place, (to, at), len, how).await.unwrap();
        assert!(shared <= len, "{shared} of {len} bytes");
        let bytes = self.tree.nodes[&from].data[offset as usize..(offset + shared) as usize].to_vec();
        if shared > 0 {
            let (node, end) = (self.tree.node(to), (at + shared) as usize);
            node.data.resize(node.data.len().max(end), 0);
            node.data[at as usize..end].copy_from_slice(&bytes);
            node.mtime = None;
        }
    }

    async fn resize(&mut self) {
        let Some(object) = self.file() else { return };
        let size = match self.dice.below(4) {
            0 => 0,
            1 => self.dice.below(600_000),
            _ => self.dice.below(self.tree.nodes[&object].data.len() as u64 + 1),
        };
        self.zfs
            .set_attributes(object, SetAttributes { size: Some(size), ..Default::default() })
            .await
            .unwrap();
        let node = self.tree.node(object);
        node.data.resize(size as usize, 0);
        node.mtime = None;
    }

    async fn change_space(&mut self) {
        let Some(object) = self.file() else { return };
        let size = self.tree.nodes[&object].data.len();
        let (offset, length) = (self.dice.below(size as u64 + 1), 1 + self.dice.mostly(9_000, 300_000));
        let keep_size = self.dice.below(2) == 0;
        let how = self.dice.pick(&[Allocate::PunchHole, Allocate::Zero { keep_size }]).expect("two of them");
        self.zfs.allocate_range(object, offset, length, how).await.unwrap();
        let node = self.tree.node(object);
        node.mtime = None;
        let end = (offset + length) as usize;
        if how == (Allocate::Zero { keep_size: false }) {
            node.data.resize(size.max(end), 0);
        }
        let end = end.min(node.data.len());
        node.data[offset as usize..end].fill(0);
    }

    async fn rename(&mut self) {
        let Some((from, old, moved)) = self.entry() else { return };
        if self.dice.below(3) == 0 {
            return self.rename_over(from, old, moved).await;
        }
        let to = self.dir();
        if self.tree.is_within(to, moved) {
            return;
        }
        let new = self.tree.new_name(self.dice);
        let places = (Place { dir: from, name: &old }, Place { dir: to, name: &new });
        self.zfs.rename(places.0, places.1, RenameMode::NoReplace).await.unwrap();
        self.tree.drop_entry(from, &old);
        self.tree.add_entry(to, new, moved);
    }

    /// Onto a name that is taken: replaced or exchanged, where both are files.
    async fn rename_over(&mut self, from: ObjectId, old: Vec<u8>, moved: ObjectId) {
        let Some((to, new, taken)) = self.entry() else { return };
        let is_dir = |object| self.tree.nodes[object].kind == FileKind::Directory;
        if taken == moved || is_dir(&taken) || is_dir(&moved) {
            return;
        }
        let mode = self.dice.pick(&[RenameMode::Replace, RenameMode::Exchange]).expect("two of them");
        let places = (Place { dir: from, name: &old }, Place { dir: to, name: &new });
        self.zfs.rename(places.0, places.1, mode).await.unwrap();
        self.tree.drop_entry(from, &old);
        self.tree.drop_entry(to, &new);
        self.tree.add_entry(to, new, moved);
        match mode {
            RenameMode::Exchange => self.tree.add_entry(from, old, taken),
            _ => drop(self.tree.drop_link(taken)),
        }
    }

    async fn link(&mut self) {
        let others = self.tree.those(|node| node.kind != FileKind::Directory);
        let Some(object) = self.dice.pick(&others) else { return };
        let dir = self.dir();
        let name = self.tree.new_name(self.dice);
        self.zfs.link(object, dir, &name).await.unwrap();
        self.tree.node(object).links += 1;
        self.tree.add_entry(dir, name, object);
    }

    /// Unlink or rmdir; files are sometimes open meanwhile and live on.
    async fn remove(&mut self) {
        let Some((dir, name, object)) = self.entry() else { return };
        let node = &self.tree.nodes[&object];
        if !node.entries.is_empty() {
            return;
        }
        let kind = node.kind;
        let keeps = kind == FileKind::File && self.dice.below(3) == 0;
        if keeps {
            self.zfs.open_object(object).await.unwrap();
        }
        match kind {
            FileKind::Directory => self.zfs.rmdir(dir, &name).await.unwrap(),
            _ => self.zfs.unlink(dir, &name).await.unwrap(),
        }
        self.tree.drop_entry(dir, &name);
        let gone = self.tree.drop_link(object);
        match gone {
            Some(gone) if keeps => drop(self.tree.orphans.insert(object, gone.data)),
            None if keeps => self.zfs.close(object).await.unwrap(),
            _ => {}
        }
    }

    /// Writes to a file that has no name, then closes it.
    async fn close(&mut self) {
        let open: Vec<ObjectId> = self.tree.orphans.keys().copied().collect();
        let Some(object) = self.dice.pick(&open) else { return };
        let bytes = self.dice.bytes(2_000);
        self.zfs.write(object, 0, &bytes, WriteFlags::default()).await.unwrap();
        self.zfs.close(object).await.unwrap();
        self.tree.orphans.remove(&object);
    }

    async fn set_attributes(&mut self) {
        let all = self.tree.those(|node| node.kind != FileKind::Symlink);
        let object = self.dice.pick(&all).expect("the root is there");
        let mtime =
            Timestamp { secs: self.dice.below(1 << 33) as i64, nanos: self.dice.below(1_000_000_000) as u32 };
        let node = self.tree.node(object);
        let mut set = SetAttributes::default();
        match self.dice.below(3) {
            0 => {
                node.permissions = self.dice.below(0o1000) as u32;
                set.permissions = Some(node.permissions);
            }
            1 => {
                (node.uid, node.gid) = (self.dice.below(1 << 32) as u32, self.dice.below(1 << 20) as u32);
                (set.uid, set.gid) = (Some(node.uid), Some(node.gid));
            }
            _ => {
                node.mtime = Some(mtime);
                set.mtime = Some(SetTime::To(mtime));
                set.atime = Some(SetTime::Now);
            }
        }
        self.zfs.set_attributes(object, set).await.unwrap();
    }

    /// Few names, small values and such as only a spill block holds.
    async fn xattr(&mut self) {
        let all = self.tree.those(|_| true);
        let object = self.dice.pick(&all).expect("the root is there");
        let name = format!("user.{}", self.dice.below(4)).into_bytes();
        if self.dice.below(4) == 0 {
            if self.tree.node(object).xattrs.remove(&name).is_some() {
                self.zfs.remove_xattr(object, &name).await.unwrap();
            }
            return;
        }
        let len = 1 + self.dice.mostly(60, 12_000) as usize;
        let value = self.dice.bytes(len);
        self.zfs.set_xattr(object, &name, &value, XattrMode::Set).await.unwrap();
        self.tree.node(object).xattrs.insert(name, value);
    }

    async fn fsync(&mut self) {
        if let Some(object) = self.file() {
            self.zfs.fsync(object, false).await.unwrap();
        }
    }
}

impl Node {
    fn new(of: &Attributes) -> Self {
        Self {
            kind: of.kind,
            permissions: of.permissions,
            uid: of.uid,
            gid: of.gid,
            links: of.links,
            mtime: None,
            data: Vec::new(),
            target: Vec::new(),
            entries: BTreeMap::new(),
            xattrs: BTreeMap::new(),
        }
    }
}

/// The object itself, or the one whose extended attribute it holds.
async fn owner(zfs: &Zfs, mut object: ObjectId) -> ObjectId {
    for _ in 0..2 {
        let of = zfs.attributes(object).await.unwrap();
        if of.flags & zpl::flags::XATTR != 0 {
            object = of.parent;
        }
    }
    object
}
