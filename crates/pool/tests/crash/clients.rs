//! Clients that do random things to a file system, several at once, and note what they may rely on.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use futures::channel::oneshot;
use futures::future::join_all;
use parking_lot::Mutex;
use pool::Pool;
use sim::{Sim, SimEnv};
use units::ObjectId;
use zpl::{Cred, NewNode, Place, RenameMode, SetAttributes, WriteFlags, XattrMode, Zfs};

use crate::dice::Dice;
use crate::model::{FileState, Model, Named, Names, READ_BACK_OVER, SLOT_BYTES, Versions};
use crate::promise::{Promise, Subject};

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub clients: u64,
    pub operations: u64,
    /// Between operations, at most.
    pub pause: Duration,
    /// Some writes are large.
    pub large: bool,
}

const SLOTS_PER_CLIENT: u64 = 2;
const FILE_BYTES_MAX: u64 = 150_000;
/// The same where writes are large: some of them replace all that is there.
const LARGE_FILE_BYTES_MAX: u64 = 1_300_000;
const LARGE_BYTES: [u64; 3] = [40 << 10, 200 << 10, 1 << 20];
const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const APPEND: WriteFlags = WriteFlags { append: true, sync: false, drop_setid: false };

/// The clients' directories and the file they share; stable when this returns.
pub async fn prepare(pool: &Pool, zfs: &Zfs, load: Load) -> Arc<Mutex<Model>> {
    let mut model = Model::default();
    for client in 0..load.clients {
        let name = format!("client{client}");
        zfs.create(zfs.root(), name.as_bytes(), NewNode::Directory, 0o755, Cred::default())
            .await
            .expect("mkdir");
        model.names.insert(client, Versions::new(Names::new()));
        for slot in client * SLOTS_PER_CLIENT..(client + 1) * SLOTS_PER_CLIENT {
            model.slots.insert(slot, Versions::new(vec![0; SLOT_BYTES]));
        }
    }
    let shared =
        zfs.create(zfs.root(), b"shared", NewNode::File, 0o644, Cred::default()).await.expect("create");
    let zeros = vec![0; model.slots.len() * SLOT_BYTES];
    zfs.write(shared.object, 0, &zeros, WriteFlags::default()).await.expect("write");
    pool.sync_now().await.expect("sync");
    Arc::new(Mutex::new(model))
}

/// Lets all clients do their work, each in a task of its own; returns when they are done.
pub async fn run(sim: &Sim, pool: &Arc<Pool>, zfs: &Arc<Zfs>, model: &Arc<Mutex<Model>>, load: Load) {
    let mut ends = Vec::new();
    for number in 0..load.clients {
        let mut client = Client::new(sim, pool, zfs, model, (number, load)).await;
        let (sender, receiver) = oneshot::channel();
        let work = async move {
            for _ in 0..load.operations {
                client.step().await;
                client.rest(load.pause).await;
            }
            // Nobody listens when the power is cut first.
            let _ = sender.send(());
        };
        sim.spawn("client", Box::pin(work));
        ends.push(receiver);
    }
    for end in join_all(ends).await {
        end.expect("a client ends by itself");
    }
}

struct Client {
    number: u64,
    load: Load,
    env: Arc<SimEnv>,
    pool: Arc<Pool>,
    zfs: Arc<Zfs>,
    model: Arc<Mutex<Model>>,
    dice: Dice,
    dir: ObjectId,
    shared: ObjectId,
    files: u64,
}

impl Client {
    async fn new(
        sim: &Sim,
        pool: &Arc<Pool>,
        zfs: &Arc<Zfs>,
        model: &Arc<Mutex<Model>>,
        (number, load): (u64, Load),
    ) -> Self {
        let dir =
            zfs.lookup(zfs.root(), format!("client{number}").as_bytes()).await.expect("prepared").object;
        let shared = zfs.lookup(zfs.root(), b"shared").await.expect("prepared").object;
        let own = number * 1000..(number + 1) * 1000;
        let files = own.start + model.lock().files.range(own).count() as u64;
        Self {
            number,
            load,
            env: Arc::clone(sim),
            pool: Arc::clone(pool),
            zfs: Arc::clone(zfs),
            model: Arc::clone(model),
            dice: Dice::new(sim.seed(), 100 + number),
            dir,
            shared,
            files,
        }
    }

    async fn rest(&mut self, at_most: Duration) {
        let nanos = self.dice.below(at_most.as_nanos() as u64 + 1);
        self.env.sleep(Duration::from_nanos(nanos)).await;
    }

    async fn step(&mut self) {
        match self.dice.below(100) {
            0..15 => self.create().await,
            15..20 => self.mkdir().await,
            20..24 => self.symlink().await,
            24..30 => self.rename().await,
            30..36 => self.unlink().await,
            36..50 => self.write_slot().await,
            50..64 => self.write(true).await,
            64..76 => self.write(false).await,
            76..82 => self.truncate().await,
            82..87 => self.set_attributes().await,
            87..92 => self.set_xattr().await,
            92..97 => self.fsync().await,
            97..99 => self.sync_all().await,
            _ => self.sync_group().await,
        }
        if self.dice.one_in(4) {
            self.fsync().await;
        }
    }

    fn names(&self) -> Names {
        self.model.lock().names[&self.number].last().clone()
    }

    fn begin_names(&self, change: impl FnOnce(&mut Names)) {
        let mut model = self.model.lock();
        let versions = model.names.get_mut(&self.number).expect("every client has names");
        let mut names = versions.last().clone();
        change(&mut names);
        versions.begin(names);
    }

    fn end_names(&self) {
        self.model.lock().names.get_mut(&self.number).expect("every client has names").end();
    }

    fn begin_file(&self, file: u64, change: impl FnOnce(&FileState) -> FileState) {
        let mut model = self.model.lock();
        let versions = model.files.get_mut(&file).expect("a file has versions");
        let state = change(versions.last());
        versions.begin(state);
    }

    fn end_file(&self, file: u64) {
        self.model.lock().files.get_mut(&file).expect("a file has versions").end();
    }

    fn state(&self, file: u64) -> FileState {
        self.model.lock().files[&file].last().clone()
    }

    /// All that is done by this client, names and one file: what its fsync promises.
    fn mine(&self, file: u64) -> Promise {
        let model = self.model.lock();
        Promise::new([
            (Subject::Names(self.number), model.names[&self.number].done),
            (Subject::File(file), model.files[&file].done),
        ])
    }

    /// A free path, or one in use, in the client's directory or one below it.
    fn any_path(&mut self) -> String {
        let names = self.names();
        let directories: Vec<&String> =
            names.iter().filter(|(_, n)| **n == Named::Directory).map(|(p, _)| p).collect();
        let name = format!("n{}", self.dice.below(10));
        match self.dice.pick(&directories) {
            Some(dir) if self.dice.one_in(2) => format!("{dir}/{name}"),
            _ => name,
        }
    }

    fn any_of(&mut self, wanted: impl Fn(&Named) -> bool) -> Option<(String, Named)> {
        let names = self.names();
        let fitting: Vec<(&String, &Named)> = names.iter().filter(|(_, named)| wanted(named)).collect();
        self.dice.pick(&fitting).map(|(path, named)| ((*path).clone(), (*named).clone()))
    }

    fn any_file(&mut self) -> Option<(u64, ObjectId)> {
        let (_, named) = self.any_of(|named| matches!(named, Named::File(_)))?;
        let Named::File(file) = named else { return None };
        Some((file, self.model.lock().objects[&file].0))
    }

    /// The directory that holds `path`, and the last part of it.
    async fn place(&self, path: &str) -> (ObjectId, Vec<u8>) {
        match path.split_once('/') {
            Some((dir, name)) => {
                let dir =
                    self.zfs.lookup(self.dir, dir.as_bytes()).await.expect("a directory of ours").object;
                (dir, name.as_bytes().to_vec())
            }
            None => (self.dir, path.as_bytes().to_vec()),
        }
    }

    async fn create(&mut self) {
        let path = self.any_path();
        if self.names().contains_key(&path) {
            return;
        }
        let (dir, name) = self.place(&path).await;
        let file = self.files;
        self.files += 1;
        let first = FileState { permissions: 0o640, uid: self.number as u32, ..FileState::default() };
        self.model.lock().files.insert(file, Versions::new(first));
        self.begin_names(|names| {
            names.insert(path, Named::File(file));
        });
        let cred = Cred { uid: self.number as u32, ..Cred::default() };
        let made = self.zfs.create(dir, &name, NewNode::File, 0o640, cred).await.expect("create");
        self.model.lock().objects.insert(file, (made.object, made.generation));
        self.end_names();
    }

    async fn mkdir(&mut self) {
        let path = format!("d{}", self.dice.below(3));
        if self.names().contains_key(&path) {
            return;
        }
        self.begin_names(|names| {
            names.insert(path.clone(), Named::Directory);
        });
        let made =
            self.zfs.create(self.dir, path.as_bytes(), NewNode::Directory, 0o755, Cred::default()).await;
        made.expect("mkdir");
        self.end_names();
    }

    async fn symlink(&mut self) {
        let path = self.any_path();
        if self.names().contains_key(&path) {
            return;
        }
        let (dir, name) = self.place(&path).await;
        let target = format!("to {}", self.dice.next()).into_bytes();
        self.begin_names(|names| {
            names.insert(path, Named::Symlink(target.clone()));
        });
        self.zfs
            .create(dir, &name, NewNode::Symlink(&target), 0o777, Cred::default())
            .await
            .expect("symlink");
        self.end_names();
    }

    async fn rename(&mut self) {
        let Some((from, named)) = self.any_of(|named| *named != Named::Directory) else { return };
        let to = self.any_path();
        if from == to {
            return;
        }
        let ((from_dir, from_name), (to_dir, to_name)) = (self.place(&from).await, self.place(&to).await);
        self.begin_names(|names| {
            names.remove(&from);
            names.insert(to, named.clone());
        });
        let (source, target) =
            (Place { dir: from_dir, name: &from_name }, Place { dir: to_dir, name: &to_name });
        self.zfs.rename(source, target, RenameMode::Replace).await.expect("rename");
        self.end_names();
        if let Named::File(file) = named {
            self.fsync_file(file).await;
        }
    }

    async fn unlink(&mut self) {
        let Some((path, named)) = self.any_of(|_| true) else { return };
        let is_used = self.names().keys().any(|other| other.starts_with(&format!("{path}/")));
        if is_used {
            return;
        }
        let (dir, name) = self.place(&path).await;
        self.begin_names(|names| {
            names.remove(&path);
        });
        match named {
            Named::Directory => self.zfs.rmdir(dir, &name).await.expect("rmdir"),
            _ => self.zfs.unlink(dir, &name).await.expect("unlink"),
        }
        self.end_names();
    }

    async fn write_slot(&mut self) {
        let slot = self.number * SLOTS_PER_CLIENT + self.dice.below(SLOTS_PER_CLIENT);
        let bytes = self.dice.bytes(SLOT_BYTES);
        self.model.lock().slots.get_mut(&slot).expect("prepared").begin(bytes.clone());
        self.zfs.write(self.shared, slot * SLOT_BYTES as u64, &bytes, SYNC).await.expect("write");
        let done = {
            let mut model = self.model.lock();
            let versions = model.slots.get_mut(&slot).expect("prepared");
            versions.end();
            versions.done
        };
        Promise::new([(Subject::Slot(slot), done)]).mark(&self.env);
    }

    async fn write(&mut self, sync: bool) {
        let Some((file, object)) = self.any_file() else { return };
        let size = self.state(file).data.len() as u64;
        let append = self.dice.one_in(2);
        let offset = if append { size } else { self.dice.below(size + 5000) };
        let len = if self.dice.one_in(8) { 1 + self.dice.below(60_000) } else { 1 + self.dice.below(6_000) };
        let (offset, len) = if self.load.large { self.large_range(offset, len) } else { (offset, len) };
        let append = append && offset == size;
        let most = if self.load.large { LARGE_FILE_BYTES_MAX } else { FILE_BYTES_MAX };
        if offset + len > most {
            return;
        }
        let bytes = self.dice.bytes(len as usize);
        let read_back = !sync && (self.load.large || bytes.len() > READ_BACK_OVER);
        self.begin_file(file, |state| state.with_write(offset as usize, &bytes, read_back));
        let how =
            if append { WriteFlags { sync, ..APPEND } } else { WriteFlags { sync, ..WriteFlags::default() } };
        self.zfs.write(object, offset, &bytes, how).await.expect("write");
        self.end_file(file);
        if sync {
            self.mine(file).mark(&self.env);
        }
    }

    /// The range of a write, or of a large one instead: at the start of a record, or anywhere.
    fn large_range(&mut self, offset: u64, len: u64) -> (u64, u64) {
        if !self.dice.one_in(2) {
            return (offset, len);
        }
        let len = LARGE_BYTES[self.dice.below(3) as usize];
        let offset = if self.dice.one_in(2) { offset & !0x1_ffff } else { offset };
        (offset.min(LARGE_FILE_BYTES_MAX - len), len - self.dice.below(2) * 1000)
    }

    async fn truncate(&mut self) {
        let Some((file, object)) = self.any_file() else { return };
        let size = self.dice.below(self.state(file).data.len() as u64 + 3000);
        self.begin_file(file, |state| {
            state.with(|state| {
                let mut data = (*state.data).clone();
                data.resize(size as usize, 0);
                state.data = Arc::new(data);
            })
        });
        let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
        self.zfs.set_attributes(object, set).await.expect("truncate");
        self.end_file(file);
    }

    async fn set_attributes(&mut self) {
        let Some((file, object)) = self.any_file() else { return };
        let (permissions, uid) = (self.dice.below(0o1000) as u32, self.dice.below(1000) as u32);
        self.begin_file(file, |state| {
            state.with(|state| (state.permissions, state.uid) = (permissions, uid))
        });
        let set =
            SetAttributes { permissions: Some(permissions), uid: Some(uid), ..SetAttributes::default() };
        self.zfs.set_attributes(object, set).await.expect("set attributes");
        self.end_file(file);
    }

    async fn set_xattr(&mut self) {
        let Some((file, object)) = self.any_file() else { return };
        let name = format!("user.{}", self.dice.below(3)).into_bytes();
        let len = 1 + self.dice.below(200) as usize;
        let value = self.dice.bytes(len);
        let remove = self.state(file).xattrs.contains_key(&name) && self.dice.one_in(3);
        self.begin_file(file, |state| {
            state.with(|state| {
                if remove {
                    state.xattrs.remove(&name);
                } else {
                    state.xattrs.insert(name.clone(), value.clone());
                }
            })
        });
        if remove {
            self.zfs.remove_xattr(object, &name).await.expect("remove xattr");
        } else {
            self.zfs.set_xattr(object, &name, &value, XattrMode::Set).await.expect("set xattr");
        }
        self.end_file(file);
    }

    async fn fsync(&mut self) {
        let Some((file, _)) = self.any_file() else { return };
        self.fsync_file(file).await;
    }

    async fn fsync_file(&self, file: u64) {
        let (object, _) = self.model.lock().objects[&file];
        let promise = self.mine(file);
        self.zfs.fsync(object, false).await.expect("fsync");
        promise.mark(&self.env);
    }

    async fn sync_all(&self) {
        let promise = self.model.lock().done();
        self.zfs.sync().await.expect("sync");
        promise.mark(&self.env);
    }

    async fn sync_group(&self) {
        let promise = self.model.lock().done();
        self.pool.sync_now().await.expect("sync");
        promise.mark(&self.env);
    }
}
