//! The simulated [`Env`].

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::{BoxFuture, Device, DeviceError, Env, OpenMode, Shelf};
use parking_lot::Mutex;

use crate::disk::{DiskSpec, SimDisk};
use crate::history::{Event, Mark};
use crate::log::Log;
use crate::pages::Pages;
use crate::recording::{CrashImage, Recording};
use crate::rng::Rng;
use crate::sleep::Sleep;
use crate::world::World;

/// Where the wall clock of every world starts: 2026-01-01 00:00 UTC.
const EPOCH: Duration = Duration::from_secs(1_767_225_600);

/// One simulated world: a clock, tasks, disks, all decided by one seed.
///
/// One thread runs it, in [`SimEnv::run_until`]. Tasks mostly hold their environment, and
/// the environment holds its tasks: call [`SimEnv::kill`] when done with a world of which
/// there are many, or own it as a [`Sim`], which does.
pub struct SimEnv {
    world: Arc<World>,
    log: Log,
    rng: Mutex<Rng>,
    disks: Arc<Mutex<BTreeMap<PathBuf, (SimDisk, Shelf)>>>,
}

impl SimEnv {
    /// An empty world, recording.
    #[must_use]
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            world: World::new(seed),
            log: Log::new(),
            rng: Mutex::new(Rng::new(seed, 2)),
            disks: Arc::default(),
        })
    }

    /// The seed that decides everything here.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.world.seed()
    }

    /// Adds an empty disk.
    ///
    /// # Panics
    /// When there is a disk of that path already.
    pub fn add_disk(&self, path: impl Into<PathBuf>, spec: DiskSpec) -> SimDisk {
        self.add_disk_with(path.into(), spec, Pages::default())
    }

    pub(crate) fn add_disk_with(&self, path: PathBuf, spec: DiskSpec, content: Pages) -> SimDisk {
        let mut disks = self.disks.lock();
        assert!(!disks.contains_key(&path), "{}: there is such a disk already", path.display());
        let disk = SimDisk::new(&self.world, &self.log, &path, spec, content);
        disks.insert(path, (disk.clone(), Shelf::new(Arc::new(disk.clone()))));
        disk
    }

    /// The disk of that path.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn disk(&self, path: impl AsRef<Path>) -> SimDisk {
        let path = path.as_ref();
        match self.disks.lock().get(path) {
            Some((disk, _)) => disk.clone(),
            None => panic!("{}: no such disk", path.display()),
        }
    }

    pub(crate) fn find_disk(&self, path: &Path) -> Option<SimDisk> {
        self.disks.lock().get(path).map(|(disk, _)| disk.clone())
    }

    pub(crate) fn disk_paths(&self) -> Vec<PathBuf> {
        self.disks.lock().keys().cloned().collect()
    }

    /// Runs the world until `future` is ready. Tasks that have not ended stay, and go on
    /// at the next call.
    ///
    /// # Panics
    /// When nothing can run and nothing is due while `future` is not ready: a deadlock.
    pub fn run_until<F: Future>(&self, future: F) -> F::Output {
        self.world.run_until(future)
    }

    /// The same as [`SimEnv::run_until`], under the name the real environment has for it.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.run_until(future)
    }

    /// Drops all tasks, as if the process had been killed. What the disks were told, they do.
    pub fn kill(&self) {
        self.world.kill();
    }

    /// Cuts the power now: drops all tasks, and gives the disks as one of the states they
    /// could be in, drawn by `draw`.
    #[must_use]
    pub fn power_cut(&self, draw: u64) -> CrashImage {
        self.kill();
        self.world.forget_agenda();
        self.log.present(self.seed()).any_image(draw)
    }

    /// Puts a mark into the history.
    pub fn mark(&self, label: impl Into<String>) {
        self.mark_with(label, Vec::new());
    }

    /// Puts a mark that carries something into the history.
    pub fn mark_with(&self, label: impl Into<String>, payload: impl Into<Vec<u8>>) {
        let mark = Mark { label: label.into(), payload: payload.into(), at: self.world.now() };
        self.log.add(Event::Marked(mark));
    }

    /// All marks so far, those of the images this world came from not included.
    #[must_use]
    pub fn marks(&self) -> Vec<Mark> {
        self.log.marks()
    }

    /// What has happened since the world began, or the recording was last started.
    #[must_use]
    pub fn recording(&self) -> Recording {
        self.log.recording(self.seed())
    }

    /// Forgets what was recorded, and begins anew with the disks as they are.
    pub fn start_recording(&self) {
        self.log.restart(true);
    }

    /// Forgets what was recorded and records no more: for long runs.
    pub fn stop_recording(&self) {
        self.log.restart(false);
    }
}

impl Env for SimEnv {
    fn now(&self) -> Duration {
        self.world.now()
    }

    fn wall_clock(&self) -> Duration {
        EPOCH + self.world.now()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        Box::pin(Sleep::new(Arc::clone(&self.world), span))
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        self.world.spawn(name, task);
    }

    fn has_ready(&self) -> bool {
        self.world.has_ready()
    }

    fn random_u64(&self) -> u64 {
        self.rng.lock().next()
    }

    fn open(&self, path: &Path, mode: OpenMode) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>> {
        let (disks, path) = (Arc::clone(&self.disks), path.to_owned());
        Box::pin(async move {
            let disks = disks.lock();
            let Some((disk, shelf)) = disks.get(&path) else { return Err(DeviceError::Missing { path }) };
            // A lock lasts until the last request has been answered.
            match mode == OpenMode::ReadWrite && disk.hung() > 0 {
                true => Err(DeviceError::InUse { path }),
                false => shelf.open(&path, mode),
            }
        })
    }
}

/// A world that ends when this is dropped: its tasks are dropped, so that nothing of it
/// stays in memory.
pub struct Sim(Arc<SimEnv>);

impl Sim {
    /// A new, empty world.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        Self(SimEnv::new(seed))
    }

    /// The environment to give to whatever runs in this world.
    #[must_use]
    pub fn env(&self) -> Arc<dyn Env> {
        Arc::clone(&self.0) as Arc<dyn Env>
    }
}

impl Deref for Sim {
    type Target = Arc<SimEnv>;

    fn deref(&self) -> &Arc<SimEnv> {
        &self.0
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.0.kill();
        self.0.world.forget_agenda();
    }
}
