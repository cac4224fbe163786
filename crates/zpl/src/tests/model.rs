//! A file system that is only maps and vectors, and random operations done to both.

use std::collections::BTreeMap;

use units::ObjectId;

use super::basics::{CRED, contents};
use crate::*;

/// Random numbers from a seed (splitmix64).
pub(super) struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

impl Dice {
    /// Below `usual`, but one time in four below `rare`.
    fn mostly(&mut self, usual: u64, rare: u64) -> u64 {
        let limit = if self.below(4) == 0 { rare } else { usual };
        self.below(limit)
    }
}

#[derive(Clone, Debug)]
struct Node {
    kind: FileKind,
    permissions: u32,
    uid: u32,
    links: u32,
    data: Vec<u8>,
    target: Vec<u8>,
    entries: BTreeMap<Vec<u8>, ObjectId>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    generation: u64,
    crtime: Timestamp,
}

/// What the file system should hold.
pub(super) struct Model {
    root: ObjectId,
    nodes: BTreeMap<ObjectId, Node>,
}

impl Model {
    pub async fn of_empty(zfs: &Zfs) -> Self {
        let of = zfs.attributes(zfs.root()).await.unwrap();
        let mut nodes = BTreeMap::new();
        nodes.insert(zfs.root(), Node::new(&of));
        Self { root: zfs.root(), nodes }
    }

    fn pick(&self, dice: &mut Dice, wanted: impl Fn(&Node) -> bool) -> Option<ObjectId> {
        let fit: Vec<ObjectId> =
            self.nodes.iter().filter(|(_, node)| wanted(node)).map(|(&o, _)| o).collect();
        if fit.is_empty() { None } else { Some(fit[dice.below(fit.len() as u64) as usize]) }
    }

    fn dir(&self, dice: &mut Dice) -> ObjectId {
        self.pick(dice, |node| node.kind == FileKind::Directory).expect("the root is one")
    }

    fn is_within(&self, inner: ObjectId, outer: ObjectId) -> bool {
        inner == outer || self.nodes[&outer].entries.values().any(|&child| self.is_within(inner, child))
    }

    /// One random operation, done here and there; both must agree whether it can be done.
    pub async fn step(&mut self, zfs: &Zfs, dice: &mut Dice) {
        match dice.below(100) {
            0..20 => self.create(zfs, dice).await,
            20..45 => self.write(zfs, dice).await,
            45..55 => self.remove(zfs, dice).await,
            55..65 => self.rename(zfs, dice).await,
            65..72 => self.link(zfs, dice).await,
            72..82 => self.set_attributes(zfs, dice).await,
            82..88 => self.space(zfs, dice).await,
            _ => self.xattr(zfs, dice).await,
        }
    }

    async fn create(&mut self, zfs: &Zfs, dice: &mut Dice) {
        let (dir, name) = (self.dir(dice), any_name(dice));
        let target = vec![b't'; 1 + dice.below(600) as usize];
        let node = match dice.below(6) {
            0 | 1 => NewNode::Directory,
            2 => NewNode::Symlink(&target),
            3 => NewNode::CharDevice(DeviceNumber { major: 1, minor: 3 }),
            _ => NewNode::File,
        };
        let made = zfs.create(dir, &name, node, 0o777, CRED).await;
        if self.nodes[&dir].entries.contains_key(&name) {
            assert!(matches!(made, Err(ZplError::Exists)));
            return;
        }
        let made = made.unwrap();
        let mut new = Node::new(&made);
        if let NewNode::Symlink(target) = node {
            new.target = target.to_vec();
        }
        self.add_entry(dir, name, made.object, new.kind);
        assert!(self.nodes.insert(made.object, new).is_none(), "{} is in use", made.object);
    }

    fn add_entry(&mut self, dir: ObjectId, name: Vec<u8>, object: ObjectId, kind: FileKind) {
        let dir = self.nodes.get_mut(&dir).unwrap();
        dir.links += u32::from(kind == FileKind::Directory);
        assert!(dir.entries.insert(name, object).is_none());
    }

    fn drop_entry(&mut self, dir: ObjectId, name: &[u8]) -> ObjectId {
        let object = self.nodes.get_mut(&dir).unwrap().entries.remove(name).unwrap();
        if self.nodes[&object].kind == FileKind::Directory {
            self.nodes.get_mut(&dir).unwrap().links -= 1;
        }
        object
    }

    fn drop_link(&mut self, object: ObjectId) {
        let node = self.nodes.get_mut(&object).unwrap();
        node.links -= 1;
        if node.links == 0 || node.kind == FileKind::Directory {
            self.nodes.remove(&object);
        }
    }

    async fn write(&mut self, zfs: &Zfs, dice: &mut Dice) {
        let Some(object) = self.pick(dice, |node| node.kind == FileKind::File) else { return };
        let offset = dice.mostly(5_000, 400_000);
        let len = 1 + dice.mostly(3_000, 300_000) as usize;
        let bytes = vec![dice.below(256) as u8; len];
        let how = WriteFlags { append: dice.below(5) == 0, sync: dice.below(10) == 0, drop_setid: false };
        let at = zfs.write(object, offset, &bytes, how).await.unwrap();
        let data = &mut self.nodes.get_mut(&object).unwrap().data;
        assert_eq!(at, if how.append { data.len() as u64 } else { offset });
        data.resize(data.len().max(at as usize + len), 0);
        data[at as usize..at as usize + len].copy_from_slice(&bytes);
    }

    async fn remove(&mut self, zfs: &Zfs, dice: &mut Dice) {
        let (dir, name) = (self.dir(dice), any_name(dice));
        let as_dir = dice.below(2) == 0;
        let result = if as_dir { zfs.rmdir(dir, &name).await } else { zfs.unlink(dir, &name).await };
        let Some(&object) = self.nodes[&dir].entries.get(&name) else {
            assert!(matches!(result, Err(ZplError::NotFound)));
            return;
        };
        let node = &self.nodes[&object];
        match (as_dir, node.kind == FileKind::Directory) {
            (true, false) => assert!(matches!(result, Err(ZplError::NotDirectory))),
            (false, true) => assert!(matches!(result, Err(ZplError::IsDirectory))),
            (true, true) if !node.entries.is_empty() => assert!(matches!(result, Err(ZplError::NotEmpty))),
            _ => {
                result.unwrap();
                self.drop_entry(dir, &name);
                self.drop_link(object);
            }
        }
    }

    async fn rename(&mut self, zfs: &Zfs, dice: &mut Dice) {
        let (from, to) = (self.dir(dice), self.dir(dice));
        let (old, new) = (any_name(dice), any_name(dice));
        let mode = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange][dice.below(3) as usize];
        let result = zfs.rename(Place { dir: from, name: &old }, Place { dir: to, name: &new }, mode).await;
        match self.rename_model(from, &old, to, &new, mode) {
            true => result.unwrap(),
            false => assert!(result.is_err()),
        }
    }

    fn rename_model(
        &mut self,
        from: ObjectId,
        old: &[u8],
        to: ObjectId,
        new: &[u8],
        mode: RenameMode,
    ) -> bool {
        let Some(&moved) = self.nodes[&from].entries.get(old) else { return false };
        let taken = self.nodes[&to].entries.get(new).copied();
        let moved_kind = self.nodes[&moved].kind;
        if mode == RenameMode::Exchange && taken.is_none() || mode == RenameMode::NoReplace && taken.is_some()
        {
            return false;
        }
        if taken == Some(moved) {
            return true;
        }
        if self.is_within(to, moved) && moved_kind == FileKind::Directory {
            return false;
        }
        let Some(taken) = taken else {
            self.drop_entry(from, old);
            self.add_entry(to, new.to_vec(), moved, moved_kind);
            return true;
        };
        let taken_kind = self.nodes[&taken].kind;
        if taken_kind == FileKind::Directory && self.is_within(from, taken) {
            return false;
        }
        let dirs = (moved_kind == FileKind::Directory, taken_kind == FileKind::Directory);
        if mode != RenameMode::Exchange && (dirs.0 != dirs.1 || !self.nodes[&taken].entries.is_empty()) {
            return false;
        }
        self.drop_entry(from, old);
        self.drop_entry(to, new);
        self.add_entry(to, new.to_vec(), moved, moved_kind);
        match mode {
            RenameMode::Exchange => self.add_entry(from, old.to_vec(), taken, taken_kind),
            _ => self.drop_link(taken),
        }
        true
    }

    async fn link(&mut self, zfs: &Zfs, dice: &mut Dice) {
        let Some(object) = self.pick(dice, |node| node.kind != FileKind::Directory) else { return };
        let (dir, name) = (self.dir(dice), any_name(dice));
        let result = zfs.link(object, dir, &name).await;
        if self.nodes[&dir].entries.contains_key(&name) {
            assert!(matches!(result, Err(ZplError::Exists)));
            return;
        }
        result.unwrap();
        self.nodes.get_mut(&object).unwrap().links += 1;
        self.add_entry(dir, name, object, FileKind::File);
    }

    async fn set_attributes(&mut self, zfs: &Zfs, dice: &mut Dice) {
        let object = self.pick(dice, |_| true).expect("the root is there");
        let node = self.nodes.get_mut(&object).unwrap();
        let mut set = SetAttributes::default();
        if dice.below(2) == 0 {
            node.permissions = dice.below(0o1000) as u32;
            set.permissions = Some(node.permissions);
        }
        if dice.below(3) == 0 {
            node.uid = dice.below(1 << 32) as u32;
            set.uid = Some(node.uid);
        }
        if node.kind == FileKind::File && dice.below(2) == 0 {
            let size = dice.below(500_000);
            node.data.resize(size as usize, 0);
            set.size = Some(size);
        }
        zfs.set_attributes(object, set).await.unwrap();
    }

    async fn space(&mut self, zfs: &Zfs, dice: &mut Dice) {
        let Some(object) = self.pick(dice, |node| node.kind == FileKind::File) else { return };
        let (offset, length) = (dice.below(400_000), 1 + dice.below(200_000));
        let keep_size = dice.below(2) == 0;
        let how = [Allocate::PunchHole, Allocate::Zero { keep_size }, Allocate::Reserve { keep_size }]
            [dice.below(3) as usize];
        zfs.allocate_range(object, offset, length, how).await.unwrap();
        let data = &mut self.nodes.get_mut(&object).unwrap().data;
        let end = (offset + length) as usize;
        if !keep_size && how != Allocate::PunchHole {
            data.resize(data.len().max(end), 0);
        }
        if !matches!(how, Allocate::Reserve { .. }) {
            let end = end.min(data.len());
            data[(offset as usize).min(end)..end].fill(0);
        }
    }

    async fn xattr(&mut self, zfs: &Zfs, dice: &mut Dice) {
        let object = self.pick(dice, |_| true).expect("the root is there");
        let name = format!("user.{}", dice.below(4)).into_bytes();
        let xattrs = &mut self.nodes.get_mut(&object).unwrap().xattrs;
        if dice.below(3) == 0 {
            let result = zfs.remove_xattr(object, &name).await;
            assert_eq!(result.is_ok(), xattrs.remove(&name).is_some());
            return;
        }
        let value = vec![dice.below(256) as u8; dice.mostly(60, 9_000) as usize];
        zfs.set_xattr(object, &name, &value, XattrMode::Set).await.unwrap();
        xattrs.insert(name, value);
    }

    /// The file system holds what the model holds, and not an object more.
    pub async fn check(&self, zfs: &Zfs) {
        for (&object, node) in &self.nodes {
            self.check_node(zfs, object, node).await;
        }
        let mut at = ObjectId::new(0);
        while let Some(next) = zfs.objset().next_object(at).await.unwrap() {
            at = next;
            // Freed since the last sync: still in its block.
            let Ok(dnode) = zfs.objset().hold(at).await else { continue };
            let is_node = [ondisk::ObjectType::SA, ondisk::ObjectType::ZNODE].contains(&dnode.bonus_type());
            assert!(
                !is_node || self.nodes.contains_key(&self.owner(zfs, at).await),
                "object {at} is nobody's"
            );
        }
    }

    /// The object itself, or the one whose extended attribute it holds.
    async fn owner(&self, zfs: &Zfs, mut object: ObjectId) -> ObjectId {
        for _ in 0..2 {
            let of = zfs.attributes(object).await.unwrap();
            if of.flags & crate::flags::XATTR != 0 {
                object = of.parent;
            }
        }
        object
    }

    async fn check_node(&self, zfs: &Zfs, object: ObjectId, node: &Node) {
        let of = zfs.attributes(object).await.unwrap_or_else(|e| panic!("object {object}: {e}"));
        let have = (of.kind, of.permissions, of.uid, of.links, of.generation, of.crtime);
        let want = (node.kind, node.permissions, node.uid, node.links, node.generation, node.crtime);
        assert_eq!(have, want, "object {object}");
        match node.kind {
            FileKind::File => assert!(contents(zfs, object).await == node.data, "contents of {object}"),
            FileKind::Symlink => assert_eq!(zfs.readlink(object).await.unwrap(), node.target),
            FileKind::Directory => {
                let list = zfs.list(object, 0, 1 << 20).await.unwrap();
                let entries: BTreeMap<Vec<u8>, ObjectId> =
                    list.into_iter().skip(2).map(|entry| (entry.name, entry.object)).collect();
                assert_eq!(entries, node.entries, "directory {object}");
                assert_eq!(of.size, node.entries.len() as u64 + 2);
                if object != self.root {
                    let parent = zfs.lookup(object, b"..").await.unwrap().object;
                    assert!(self.nodes[&parent].entries.values().any(|&child| child == object));
                }
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

impl Node {
    fn new(of: &Attributes) -> Self {
        Self {
            kind: of.kind,
            permissions: of.permissions,
            uid: of.uid,
            links: of.links,
            data: Vec::new(),
            target: Vec::new(),
            entries: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            generation: of.generation,
            crtime: of.crtime,
        }
    }
}

/// Few names, so that operations meet; some too long for a micro ZAP.
fn any_name(dice: &mut Dice) -> Vec<u8> {
    let number = dice.below(12);
    if number == 0 { vec![b'L'; 200] } else { format!("n{number}").into_bytes() }
}
