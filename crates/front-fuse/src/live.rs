//! The files of a mount, which may be exchanged while it is mounted: a rollback or a receive works
//! although files are open or mapped and programs have their working directories in the mount.
//!
//! ```text
//!  unused dentries dropped ─► gate shut ─► (the engine exchanges the dataset) ─► new files
//!    ─► gate open ─► the kernel's caches are dropped, inode by inode
//!    ─► names that lead elsewhere now are dropped
//! ```
//! docs/decisions/2026-11-28-in-place.md has the reasons, and describes the requests, pages and
//! handles at each step.
//!
//! Invariants
//! - After an exchange, each inode is checked at its next request, and is stale if its object is
//!   gone or is another object.
//!   (test: `open_files_go_on_with_what_a_rollback_brought_back`)
//! - Pages that were changed before an exchange are not written after it.
//!   (test: `pages_that_were_changed_before_a_rollback_are_not_written_after_it`)
//! - However an exchange ends, no request waits at the gate after it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use device::{RealEnv, call_elsewhere};
use env::Env;
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;
use units::ObjectId;
use zpl::Zfs;

use crate::abi::{ROOT_ID, opcode};
use crate::ctldir::{Ctlnode, Setting};
use crate::files::Files;
use crate::gate::{GatePass, RequestGate, Traffic, is_in_time};
use crate::known::{InodeCheck, KnownInodes};
use crate::request::Request;
use crate::views::Common;

/// How long the kernel may need to drop its caches, because it waits for pages that are being read.
const DROP_MAX: Duration = Duration::from_secs(30);
/// How long to wait for the FORGET requests after dentries were dropped. Inodes without one by then
/// count as remembered.
const FORGETTING_MAX: Duration = Duration::from_millis(500);
/// The interval between two checks during that wait.
const LOOK: Duration = Duration::from_millis(5);

/// Inodes with pages that the kernel may have changed before an exchange.
#[derive(Default)]
pub(crate) struct OldPages {
    are_there: AtomicBool,
    inodes: Mutex<BTreeSet<u64>>,
}

impl OldPages {
    /// True if the pages that the kernel writes back for an inode were changed before the exchange.
    pub fn are_of(&self, inode: u64) -> bool {
        self.are_there.load(Ordering::Acquire) && self.inodes.lock().contains(&inode)
    }

    fn begin(&self, inodes: BTreeSet<u64>) {
        *self.inodes.lock() = inodes;
        self.are_there.store(true, Ordering::Release);
    }

    fn dropped(&self, inode: u64) {
        self.inodes.lock().remove(&inode);
    }

    fn end(&self) {
        self.are_there.store(false, Ordering::Release);
        self.inodes.lock().clear();
    }
}

/// See the module.
pub(crate) struct LiveFiles {
    env: Arc<RealEnv>,
    gate: RequestGate,
    files: RwLock<Arc<Files>>,
    known: Arc<KnownInodes>,
    /// True if the file system could not be opened again after an exchange.
    is_lost: AtomicBool,
}

impl LiveFiles {
    pub fn new(env: Arc<RealEnv>, zfs: Arc<Zfs>, common: Common, setting: Arc<Setting>) -> Self {
        let known = Arc::<KnownInodes>::default();
        let files = RwLock::new(Arc::new(Files::live(zfs, common, setting, Arc::clone(&known))));
        Self { env, gate: RequestGate::default(), files, known, is_lost: AtomicBool::new(false) }
    }

    /// Returns the present files.
    pub fn files(&self) -> Arc<Files> {
        Arc::clone(&self.files.read())
    }

    /// Admits a request if it is for the live files.
    pub async fn enter(&self, request: &Request<'_>) -> Option<GatePass<'_>> {
        let is_copy = request.header.opcode == opcode::COPY_FILE_RANGE;
        // A request for the control directory may wait for the command that exchanges the files.
        if request.header.nodeid >= Ctlnode::FIRST && !is_copy {
            return None;
        }
        let traffic = match request.header.opcode {
            opcode::FORGET | opcode::BATCH_FORGET => return None,
            opcode::READ => Traffic::Pages,
            opcode::WRITE if request.is_written_back() => Traffic::Pages,
            _ => Traffic::Names,
        };
        Some(self.gate.enter(traffic).await)
    }

    /// Records that the kernel has forgotten `times` replies with an inode.
    pub fn forget(&self, inode: u64, times: u64) {
        self.known.forget(inode, times);
    }

    /// # Errors
    /// `ESTALE` for an inode whose object is gone; `EIO` if the file system is lost.
    pub async fn check(&self, files: &Files, request: &Request<'_>) -> Result<(), Errno> {
        // A closed handle must be counted, whether or not its file exists.
        if self.known.epoch() == 0 || request.header.opcode == opcode::RELEASE {
            return Ok(());
        }
        if self.is_lost.load(Ordering::Acquire) {
            return Err(Errno::IO);
        }
        files.check_inode(request.header.nodeid, request.handle_epoch()).await
    }

    /// Returns the number of handles of each inode. The new file system must have these objects
    /// open.
    fn handles(&self) -> BTreeMap<u64, u64> {
        let open = self.known.all().into_iter().filter(|(_, known)| known.handles > 0);
        open.map(|(inode, known)| (inode, known.handles)).collect()
    }

    /// Waits for the FORGET requests of the kernel.
    async fn wait_for_forgets(&self) {
        let until = self.env.now() + FORGETTING_MAX;
        let mut before = usize::MAX;
        while self.env.now() < until {
            let now = self.known.all().len();
            if now == before {
                return;
            }
            before = now;
            self.env.sleep(LOOK).await;
        }
    }
}

/// A name by which the kernel may know an inode: its directory, and its name there.
struct KnownName {
    dir: ObjectId,
    name: Vec<u8>,
    object: ObjectId,
    generation: u64,
}

/// The live files of a mount while all requests wait.
pub(crate) struct Pause {
    live: Arc<LiveFiles>,
    names: Vec<KnownName>,
    /// True if a file system is mounted below.
    has_mounts_below: bool,
    state: PauseState,
}

/// The progress of a pause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PauseState {
    /// The file system is unchanged.
    Begun,
    /// The file system may be exchanged by now.
    HandedOver,
    Over,
}

/// The result of the attempt to hold requests back.
pub(crate) enum Paused {
    /// All requests wait.
    Waiting(Pause),
    /// The pending requests did not end in time, so no request waits.
    NotInTime,
    /// The kernel would keep data that cannot be dropped.
    NotInPlace,
}

impl Pause {
    /// Holds all requests back. The caller has just made the kernel drop the unused dentries.
    pub async fn begin(live: Arc<LiveFiles>, has_mounts_below: bool) -> Paused {
        live.wait_for_forgets().await;
        if !live.gate.shut(&*live.env).await {
            return Paused::NotInTime;
        }
        // From here on, dropping the pause opens the gate.
        let mut pause = Self { live, names: Vec::new(), has_mounts_below, state: PauseState::Begun };
        let files = pause.live.files();
        // The kernel has its own sizes and times of these files, and ignores those of the file
        // system.
        if files.agreed.writeback && !pause.live.handles().is_empty() {
            pause.go_on();
            return Paused::NotInPlace;
        }
        pause.names = pause.names_in(&files).await;
        pause.state = PauseState::HandedOver;
        Paused::Waiting(pause)
    }

    /// Continues with the unchanged file system.
    fn go_on(&mut self) {
        self.state = PauseState::Over;
        self.live.gate.open();
    }

    /// Returns the names that the kernel cannot have dropped: open files, and directories that are
    /// in use or contain such entries.
    async fn names_in(&self, files: &Files) -> Vec<KnownName> {
        let (mut names, mut lists) = (Vec::new(), BTreeMap::<ObjectId, BTreeMap<ObjectId, Vec<u8>>>::new());
        for (inode, known) in self.live.known.all() {
            if known.handles == 0 && !known.is_directory {
                continue;
            }
            let object = files.inodes.object(inode);
            let Ok(found) = files.zfs.attributes(object).await else { continue };
            let dir = found.parent;
            let list = match lists.entry(dir) {
                Entry::Occupied(list) => list.into_mut(),
                Entry::Vacant(place) => {
                    let list = files.zfs.list(dir, 0, usize::MAX).await.unwrap_or_default();
                    place.insert(list.into_iter().map(|entry| (entry.object, entry.name)).collect())
                }
            };
            if let Some(name) = list.get(&object) {
                names.push(KnownName { dir, name: name.clone(), object, generation: known.generation });
            }
        }
        names
    }

    /// Returns the open objects.
    pub fn open_objects(&self) -> Vec<ObjectId> {
        let inodes = self.live.files().inodes;
        self.live.handles().into_keys().map(|inode| inodes.object(inode)).collect()
    }

    /// Continues with the files of `zfs`. `drop_dentries` makes the kernel drop unused dentries.
    pub async fn end(mut self, zfs: &Zfs, drop_dentries: impl FnOnce() + Send + 'static) {
        let old = self.live.files();
        if old.zfs.is_same(zfs) {
            return self.go_on();
        }
        let live = Arc::clone(&self.live);
        live.known.begin_epoch();
        let new = Arc::new(old.with(Arc::new(zfs.asked_by(old.zfs.asker().clone()))));
        for (inode, handles) in live.handles() {
            new.open_again(inode, handles).await;
        }
        old.old_pages.begin(old.writers.inodes());
        *live.files.write() = Arc::clone(&new);
        self.go_on();
        self.drop_what_is_kept(&new, drop_dentries).await;
    }

    /// Makes the kernel drop everything that it caches of the old files.
    async fn drop_what_is_kept(&self, new: &Arc<Files>, drop_dentries: impl FnOnce() + Send + 'static) {
        let (live, files) = (Arc::clone(&self.live), Arc::clone(new));
        let dropped = call_elsewhere(move || {
            drop_dentries();
            let writable = files.writers.inodes();
            let known = live.known.all().into_iter().map(|(inode, _)| inode);
            let others = known.filter(|inode| !writable.contains(inode));
            for inode in writable.iter().copied().chain(others).chain([ROOT_ID]) {
                files.notifier.forget_pages(inode);
                files.old_pages.dropped(inode);
            }
            files.old_pages.end();
        });
        if !is_in_time(dropped, &*self.live.env, DROP_MAX).await {
            tracing::warn!(
                "the kernel has not dropped all that it keeps of a file system that was exchanged"
            );
        }
        let mut gone = Vec::new();
        for known in &self.names {
            let found = new.zfs.lookup(known.dir, &known.name).await;
            let is_same = found.is_ok_and(|f| f.object == known.object && f.generation == known.generation);
            let is_directory = self.live.known.is_directory(new.inodes.inode(known.object));
            // If the dentry of a directory is dropped, the kernel also detaches the mounts below
            // it.
            let would_detach = is_directory && self.has_mounts_below;
            if !is_same && !would_detach {
                gone.push((new.inodes.inode(known.dir), known.name.clone()));
            }
        }
        let notifier = new.notifier.clone();
        let forgotten = call_elsewhere(move || {
            gone.iter().for_each(|(dir, name)| notifier.forget_name(*dir, name));
        });
        if !is_in_time(forgotten, &*self.live.env, DROP_MAX).await {
            tracing::warn!("the kernel has not dropped all names of a file system that was exchanged");
        }
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        if self.state == PauseState::HandedOver {
            tracing::error!("the mounted file system is lost: no other has replaced it");
            self.live.is_lost.store(true, Ordering::Release);
            self.live.known.begin_epoch();
        }
        if self.state != PauseState::Over {
            self.live.gate.open();
        }
    }
}

impl Files {
    /// # Errors
    /// `ESTALE` for an inode whose object is gone.
    pub async fn check_inode(&self, inode: u64, handle: Option<u32>) -> Result<(), Errno> {
        let Some(known) = &self.known else { return Ok(()) };
        match known.verdict(inode, handle) {
            InodeCheck::Same => Ok(()),
            InodeCheck::Stale => Err(Errno::STALE),
            InodeCheck::Unchecked(generation) => {
                let is_stale = match self.zfs.attributes(self.inodes.object(inode)).await {
                    Ok(found) => found.generation != generation,
                    Err(zpl::ZplError::Stale { .. }) => true,
                    Err(error) => return Err(crate::errno::errno(&error)),
                };
                known.settle(inode, generation, is_stale);
                if is_stale { Err(Errno::STALE) } else { Ok(()) }
            }
        }
    }

    /// Opens the objects again that were open before an exchange, if they exist.
    async fn open_again(&self, inode: u64, handles: u64) {
        if self.check_inode(inode, None).await.is_err() {
            return;
        }
        let object = self.inodes.object(inode);
        for _ in 0..handles {
            if let Err(error) = self.zfs.open_object(object).await {
                tracing::warn!(inode, %error, "an open file cannot be opened again");
            }
        }
    }
}
