//! Small histories: a few operations on a file system of two files, each followed by `fsync` or not.
//!
//! Each operation is about what those before it left: the newest file, the newest directory. So
//! histories that begin alike are the same until they differ.

use std::sync::Arc;

use sim::{Sim, SimEnv};
use units::ObjectId;
use zpl::{Cred, NewNode, Place, RenameMode, SetAttributes, WriteFlags, XattrMode, Zfs};

use crate::dice::Dice;
use crate::model::{FileState, Model, Named, Names, READ_BACK_OVER, Versions};
use crate::promise::{Promise, Subject};

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Create,
    /// So many bytes, from there.
    Write(usize, usize),
    Append,
    Truncate,
    Rename,
    Link,
    Unlink,
    Mkdir,
    SetAttributes,
    SetXattr,
}

/// All there are. Writes are within a record, of a record, over the size from which data go to the
/// pool directly, and over several of the file's blocks and of the log's.
pub const OPS: [Op; 13] = [
    Op::Create,
    Op::Write(50, 100),
    Op::Write(4096, 8 << 10),
    Op::Write(0, 40 << 10),
    Op::Write(10_000, 200 << 10),
    Op::Append,
    Op::Truncate,
    Op::Rename,
    Op::Link,
    Op::Unlink,
    Op::Mkdir,
    Op::SetAttributes,
    Op::SetXattr,
];

/// One operation, made stable or not.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub op: Op,
    pub fsync: bool,
}

/// Kinds of steps.
pub const STEPS: u64 = 2 * OPS.len() as u64;

/// The history of `steps` steps with this number, of `STEPS` to the power of `steps`.
pub fn history(steps: u32, number: u64) -> Vec<Step> {
    let digit = |place| number / STEPS.pow(place) % STEPS;
    let step = |digit: u64| Step { op: OPS[digit as usize / 2], fsync: digit % 2 == 1 };
    (0..steps).rev().map(|place| step(digit(place))).collect()
}

/// The client whose names they are.
const CLIENT: u64 = 0;
const DIR: &[u8] = b"client0";
const TRUNCATED_BYTES: usize = 5000;
const APPENDED_BYTES: usize = 3000;
const APPEND: WriteFlags = WriteFlags { append: true, sync: false, drop_setid: false };

fn named(number: u64) -> String {
    format!("file{number}")
}

/// What there is before any history.
pub async fn prepare(zfs: &Zfs) -> Model {
    let dir = zfs.create(zfs.root(), DIR, NewNode::Directory, 0o755, Cred::default()).await;
    let dir = dir.expect("mkdir").object;
    let mut model = Model::default();
    let mut names = Names::new();
    for (number, len) in [(0, 20_000), (1, 3000)] {
        let name = named(number);
        let file = zfs.create(dir, name.as_bytes(), NewNode::File, 0o640, Cred::default()).await;
        let file = file.expect("create");
        let bytes = Dice::new(number, 8).bytes(len);
        zfs.write(file.object, 0, &bytes, WriteFlags::default()).await.expect("write");
        names.insert(name, Named::File(number));
        let state = FileState { data: Arc::new(bytes), permissions: 0o640, ..FileState::default() };
        model.files.insert(number, Versions::new(state));
        model.objects.insert(number, (file.object, file.generation));
    }
    model.names.insert(CLIENT, Versions::new(names));
    model
}

/// Somebody who does such steps.
pub struct Hand<'a> {
    env: Arc<SimEnv>,
    zfs: &'a Zfs,
    pub model: Model,
    /// The client's directory, and the newest one in it.
    top: ObjectId,
    dir: (ObjectId, String),
    /// The path of the newest file.
    current: String,
    done: u64,
}

impl<'a> Hand<'a> {
    pub async fn new(sim: &Sim, zfs: &'a Zfs, model: Model) -> Self {
        let top = zfs.lookup(zfs.root(), DIR).await.expect("prepared").object;
        let (env, dir) = (Arc::clone(sim), (top, String::new()));
        Self { env, zfs, model, top, dir, current: named(0), done: 0 }
    }

    pub async fn step(&mut self, step: Step) {
        self.done += 1;
        let changed = match step.op {
            Op::Create => self.create().await,
            Op::Write(offset, len) => self.write(Some(offset), len).await,
            Op::Append => self.write(None, APPENDED_BYTES).await,
            Op::Truncate => self.truncate().await,
            Op::Rename => self.rename().await,
            Op::Link => self.link().await,
            Op::Unlink => self.unlink().await,
            Op::Mkdir => self.mkdir().await,
            Op::SetAttributes => self.set_attributes().await,
            Op::SetXattr => self.set_xattr().await,
        };
        if step.fsync {
            let promise = self.promise_of(changed);
            self.zfs.fsync(changed, false).await.expect("fsync");
            promise.mark(&self.env);
        }
    }

    /// What an `fsync` of an object promises: all names, and what is in the object.
    fn promise_of(&self, object: ObjectId) -> Promise {
        // Numbers are used again: it is the newest file of that one.
        let file = self.model.objects.iter().rfind(|&(_, &(known, _))| known == object);
        let names = (Subject::Names(CLIENT), self.model.names[&CLIENT].done);
        let content = file.map(|(&file, _)| (Subject::File(file), self.model.files[&file].done));
        Promise::new([names].into_iter().chain(content))
    }

    fn names(&mut self) -> &mut Versions<Names> {
        self.model.names.get_mut(&CLIENT).expect("prepared")
    }

    fn begin_names(&mut self, change: impl FnOnce(&mut Names)) {
        let mut names = self.names().last().clone();
        change(&mut names);
        self.names().begin(names);
    }

    fn file_at(&self, path: &str) -> u64 {
        match self.model.names[&CLIENT].last().get(path) {
            Some(Named::File(file)) => *file,
            other => panic!("{path} is {other:?}"),
        }
    }

    fn object_of(&self, file: u64) -> ObjectId {
        self.model.objects[&file].0
    }

    fn current(&self) -> (u64, ObjectId) {
        let file = self.file_at(&self.current);
        (file, self.object_of(file))
    }

    fn new_path(&self, kind: &str) -> String {
        format!("{}{kind}{}", self.dir.1, self.done)
    }

    /// The directory and the last part of a path.
    async fn place(&self, path: &str) -> (ObjectId, Vec<u8>) {
        let mut dir = self.top;
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return (dir, part.as_bytes().to_vec());
            }
            dir = self.zfs.lookup(dir, part.as_bytes()).await.expect("a directory of ours").object;
        }
        unreachable!("a path has a last part")
    }

    async fn create(&mut self) -> ObjectId {
        let (file, path) = (self.model.files.len() as u64, self.new_path("made"));
        let first = FileState { permissions: 0o600, ..FileState::default() };
        self.model.files.insert(file, Versions::new(first));
        self.begin_names(|names| drop(names.insert(path.clone(), Named::File(file))));
        let (dir, name) = self.place(&path).await;
        let made = self.zfs.create(dir, &name, NewNode::File, 0o600, Cred::default()).await.expect("create");
        self.model.objects.insert(file, (made.object, made.generation));
        self.names().end();
        self.current = path;
        made.object
    }

    async fn write(&mut self, offset: Option<usize>, len: usize) -> ObjectId {
        let (file, object) = self.current();
        let bytes = Dice::new(self.done, 9).bytes(len);
        let versions = self.model.files.get_mut(&file).expect("a file has versions");
        let at = offset.unwrap_or(versions.last().data.len());
        let read_back = bytes.len() > READ_BACK_OVER;
        versions.begin(versions.last().with_write(at, &bytes, read_back));
        let how = if offset.is_none() { APPEND } else { WriteFlags::default() };
        self.zfs.write(object, at as u64, &bytes, how).await.expect("write");
        self.model.files.get_mut(&file).expect("as before").end();
        object
    }

    /// A change of the newest file that is no write.
    fn begin_file(&mut self, change: impl FnOnce(&mut FileState)) -> (u64, ObjectId) {
        let (file, object) = self.current();
        let versions = self.model.files.get_mut(&file).expect("a file has versions");
        versions.begin(versions.last().with(change));
        (file, object)
    }

    fn end_file(&mut self, file: u64) {
        self.model.files.get_mut(&file).expect("a file has versions").end();
    }

    async fn truncate(&mut self) -> ObjectId {
        let (file, object) =
            self.begin_file(|state| Arc::make_mut(&mut state.data).resize(TRUNCATED_BYTES, 0));
        let set = SetAttributes { size: Some(TRUNCATED_BYTES as u64), ..SetAttributes::default() };
        self.zfs.set_attributes(object, set).await.expect("truncate");
        self.end_file(file);
        object
    }

    async fn set_attributes(&mut self) -> ObjectId {
        let (permissions, uid) = (0o700 + self.done as u32, 1000 + self.done as u32);
        let (file, object) = self.begin_file(|state| (state.permissions, state.uid) = (permissions, uid));
        let set =
            SetAttributes { permissions: Some(permissions), uid: Some(uid), ..SetAttributes::default() };
        self.zfs.set_attributes(object, set).await.expect("set attributes");
        self.end_file(file);
        object
    }

    async fn set_xattr(&mut self) -> ObjectId {
        let name = format!("user.of{}", self.done % 2).into_bytes();
        let value = Dice::new(self.done, 10).bytes(100);
        let (file, object) = self.begin_file(|state| drop(state.xattrs.insert(name.clone(), value.clone())));
        self.zfs.set_xattr(object, &name, &value, XattrMode::Set).await.expect("set xattr");
        self.end_file(file);
        object
    }

    /// In place of the second file, while that is there.
    async fn rename(&mut self) -> ObjectId {
        let (from, second) = (self.current.clone(), named(1));
        let replaces = from != second && self.model.names[&CLIENT].last().contains_key(&second);
        let to = if replaces { second } else { self.new_path("moved") };
        let (_, object) = self.current();
        self.begin_names(|names| {
            let node = names.remove(&from).expect("the newest file has a name");
            names.insert(to.clone(), node);
        });
        let ((from_dir, from_name), (to_dir, to_name)) = (self.place(&from).await, self.place(&to).await);
        let (from, onto) = (Place { dir: from_dir, name: &from_name }, Place { dir: to_dir, name: &to_name });
        self.zfs.rename(from, onto, RenameMode::Replace).await.expect("rename");
        self.names().end();
        self.current = to;
        object
    }

    async fn link(&mut self) -> ObjectId {
        let (file, object) = self.current();
        let path = self.new_path("linked");
        self.begin_names(|names| drop(names.insert(path.clone(), Named::File(file))));
        let (dir, name) = self.place(&path).await;
        self.zfs.link(object, dir, &name).await.expect("link");
        self.names().end();
        object
    }

    /// The newest file's name goes. The next in line is the newest then, or a new one.
    async fn unlink(&mut self) -> ObjectId {
        let path = self.current.clone();
        self.begin_names(|names| drop(names.remove(&path)));
        let (dir, name) = self.place(&path).await;
        self.zfs.unlink(dir, &name).await.expect("unlink");
        self.names().end();
        let names = self.names().last();
        let next =
            names.iter().find(|(_, node)| matches!(node, Named::File(_))).map(|(path, _)| path.clone());
        if let Some(next) = next {
            self.current = next;
        } else {
            self.create().await;
        }
        dir
    }

    async fn mkdir(&mut self) -> ObjectId {
        let path = self.new_path("dir");
        self.begin_names(|names| drop(names.insert(path.clone(), Named::Directory)));
        let (dir, name) = self.place(&path).await;
        let made = self.zfs.create(dir, &name, NewNode::Directory, 0o755, Cred::default()).await;
        let made = made.expect("mkdir").object;
        self.names().end();
        self.dir = (made, format!("{path}/"));
        made
    }
}
