//! Several hosts in one world: they reach the same disks, and each has tasks, locks and small files of its own.
//!
//! ```text
//!  host a ── tasks, locks, files ──┐
//!                                  ├─► the disks of the world
//!  host b ── tasks, locks, files ──┘
//!
//!  running ◄──► paused        what is due waits; the world's clock goes on
//!     └──────────┴──► dead    tasks are dropped; what the disks were told, they do
//! ```
//! Locks on devices do not reach from host to host, as `flock(2)` and `O_EXCL` do not. Files outlive their host
//! ([`SimHost::reboot`]); each was replaced as a whole, so that a crash leaves the old one or the new one.
//!
//! Invariants
//! - A host that is paused or dead does nothing. (test: `a_host_that_is_paused_or_dead_does_nothing`)

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use env::{
    BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, Env, IoBuf, Machine, MemoryNow,
    OpenMode, Readers, Shelf,
};
use futures::channel::oneshot;
use futures::future::{Either, select};
use parking_lot::Mutex;
use units::LeafOffset;

use crate::SimEnv;

/// A host of a world. Clones are the same host.
#[derive(Clone)]
pub struct SimHost {
    world: Arc<SimEnv>,
    files: Files,
    life: Arc<Life>,
    shelves: Arc<Mutex<BTreeMap<PathBuf, Shelf>>>,
}

/// Small files, by path.
type Files = Arc<Mutex<BTreeMap<PathBuf, Vec<u8>>>>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Pulse {
    #[default]
    Running,
    Paused,
    Dead,
}

#[derive(Default)]
struct Life {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pulse: Pulse,
    /// Tasks that were to run while it was paused.
    parked: Vec<Waker>,
    writes: u64,
}

impl SimHost {
    /// A host of this world, with no files.
    #[must_use]
    pub fn new(world: &Arc<SimEnv>) -> Self {
        Self::with(world, Files::default())
    }

    fn with(world: &Arc<SimEnv>, files: Files) -> Self {
        Self { world: Arc::clone(world), files, life: Arc::default(), shelves: Arc::default() }
    }

    /// The same host after it went down: only its files are left. Of a world after a power cut, or of the
    /// world that it was in.
    #[must_use]
    pub fn reboot(&self, world: &Arc<SimEnv>) -> Self {
        self.die();
        Self::with(world, Arc::clone(&self.files))
    }

    /// The environment to give to what runs on it.
    #[must_use]
    pub fn env(&self) -> Arc<dyn Env> {
        Arc::new(self.clone())
    }

    /// Its small files.
    #[must_use]
    pub fn machine(&self) -> Arc<dyn Machine> {
        Arc::new(self.clone())
    }

    /// Nothing of it runs until [`SimHost::resume`].
    pub fn pause(&self) {
        self.life.set(Pulse::Paused);
    }

    /// What it was doing goes on.
    pub fn resume(&self) {
        self.life.set(Pulse::Running);
    }

    /// Nothing of it ever runs again.
    pub fn die(&self) {
        self.life.set(Pulse::Dead);
    }

    /// Writes and discards that its disks were told so far.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.life.state.lock().writes
    }

    /// Does `work` on it; none when it dies before that is done. The work is dropped with what waits for it.
    pub async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (mut tell, told) = oneshot::channel();
        let work = async move {
            let work = std::pin::pin!(work);
            if let Either::Left((done, _)) = select(work, tell.cancellation()).await {
                _ = tell.send(done);
            }
        };
        self.spawn("work of a host", Box::pin(work));
        told.await.ok()
    }
}

impl Life {
    fn set(&self, pulse: Pulse) {
        let parked = {
            let mut state = self.state.lock();
            // The dead stay dead.
            if state.pulse != Pulse::Dead {
                state.pulse = pulse;
            }
            std::mem::take(&mut state.parked)
        };
        parked.into_iter().for_each(Waker::wake);
    }
}

/// A task of a host.
struct Task {
    life: Arc<Life>,
    /// Until it has ended, or its host.
    work: Option<BoxFuture<'static, ()>>,
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let pulse = {
            let mut state = self.life.state.lock();
            // Whoever is paused is woken by what comes next; whoever runs has to hear of a death.
            state.parked.retain(|waker| !waker.will_wake(cx.waker()));
            state.parked.push(cx.waker().clone());
            state.pulse
        };
        match (pulse, &mut self.work) {
            (Pulse::Paused, Some(_)) => Poll::Pending,
            (Pulse::Running, Some(work)) => work.as_mut().poll(cx),
            (Pulse::Dead, _) | (_, None) => {
                self.work = None;
                Poll::Ready(())
            }
        }
    }
}

impl Env for SimHost {
    fn now(&self) -> Duration {
        self.world.now()
    }

    fn wall_clock(&self) -> Duration {
        self.world.wall_clock()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.world.sleep(span)
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        let task = Task { life: Arc::clone(&self.life), work: Some(task) };
        self.world.spawn(name, Box::pin(task));
    }

    fn has_ready(&self) -> bool {
        self.world.has_ready()
    }

    fn random_u64(&self) -> u64 {
        self.world.random_u64()
    }

    fn open(&self, path: &Path, mode: OpenMode) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>> {
        let (host, path) = (self.clone(), path.to_owned());
        Box::pin(async move {
            let Some(disk) = host.world.find_disk(&path) else { return Err(DeviceError::Missing { path }) };
            let reached =
                || Shelf::new(Arc::new(Reached { life: Arc::clone(&host.life), disk: Arc::new(disk) }));
            let shelf = host.shelves.lock().entry(path.clone()).or_insert_with(reached).clone();
            shelf.open(&path, mode)
        })
    }
}

/// A disk as a host reaches it.
struct Reached {
    life: Arc<Life>,
    disk: Arc<dyn Device>,
}

impl Reached {
    fn count(&self) {
        self.life.state.lock().writes += 1;
    }
}

impl Device for Reached {
    fn info(&self) -> DeviceInfo {
        self.disk.info()
    }

    fn look_again(&self) {
        self.disk.look_again();
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        self.disk.read(offset, len)
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.count();
        self.disk.write(offset, slices, durability)
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.disk.flush()
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.count();
        self.disk.discard(offset, len)
    }
}

impl Machine for SimHost {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.files.lock().get(path).cloned().ok_or(io::ErrorKind::NotFound.into())
    }

    fn replace(&self, path: &Path, bytes: &[u8], _: Readers) -> io::Result<()> {
        self.files.lock().insert(path.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock();
        let bytes = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.files.lock().remove(path).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn names_in(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        let (files, disks) = (self.files.lock(), self.world.disk_paths());
        let below = files.keys().chain(&disks).filter(|path| path.parent() == Some(directory));
        Ok(below.filter_map(|path| path.file_name().map(OsString::from)).collect())
    }

    fn is_directory(&self, path: &Path) -> bool {
        let (files, disks) = (self.files.lock(), self.world.disk_paths());
        files.keys().chain(&disks).any(|file| file != path && file.starts_with(path))
    }

    fn identity(&self, path: &Path) -> Option<(u64, u64)> {
        let disks = self.world.disk_paths();
        disks.iter().position(|disk| disk == path).map(|index| (u64::MAX, index as u64))
    }

    fn held_by(&self, _: &Path) -> Option<(u32, String)> {
        None
    }

    fn memory(&self) -> Option<MemoryNow> {
        None
    }
}
