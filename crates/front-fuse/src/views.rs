//! Snapshots that programs look into: which [`Fsid`] each has, which of them are open, and when they are let go of.
//!
//! ```text
//!            first looked up              a request                    unused for a while, or too many,
//!  (unknown) ───────────────► has an fsid ─────────► open ──────────► or about to be destroyed
//!      ▲                        │   ▲                                        │
//!      └─ others need its fsid ─┘   └────────────────────────────────────────┘
//! ```
//! A snapshot that is open cannot be destroyed, so it is open only while it is used: the kernel may remember files of
//! it longer, and whoever asks for one of them has it opened again. A snapshot keeps its fsid as long as the kernel
//! remembers a file of it, and longer while there are others; who comes with an inode of one that has been destroyed
//! is told so.
//!
//! Invariants
//! - Two snapshots never have the same fsid while the kernel remembers files of both.
//!   (test: `an_fsid_is_another_snapshots_only_when_nothing_remembers_it`)
//! - A snapshot in which a file is open is not let go of. (test: `a_snapshot_with_an_open_file_is_kept`)
//! - Of one that is about to be destroyed nothing is opened. (test: `who_looks_at_what_is_about_to_go_waits`)

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use device::RealEnv;
use engine::{SnapshotId, Snapshots};
use env::Env;
use event_listener::Event;
use parking_lot::Mutex;
use rustix::io::Errno;
use units::ObjsetId;
use zpl::{Asker, Zfs};

use crate::attr::{Fsid, Inodes};
use crate::ctldir::told;
use crate::files::Files;
use crate::handshake::Agreed;
use crate::mount::Mounter;
use crate::notifier::Notifier;
use crate::syncs::Syncs;
use crate::writers::Writers;

/// One that was not used for so long is let go of.
const IDLE: Duration = Duration::from_secs(60);
/// Open at the same time, but for those with open files: others are let go of, the one that was used least lately first.
const OPEN_MAX: usize = 64;
/// What was closed, or is being answered, is waited for so long before a snapshot counts as in use: the kernel tells of
/// a file that a program has closed a little later.
const LEAVING: Duration = Duration::from_millis(500);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(2);

/// What the files of a mount and of its snapshots have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub notifier: Notifier,
    pub agreed: Agreed,
    pub syncs: Arc<Syncs>,
    pub writers: Arc<Writers>,
    pub mounter: Arc<dyn Mounter>,
}

/// See the module.
pub(crate) struct Views {
    env: Arc<RealEnv>,
    snapshots: Arc<dyn Snapshots>,
    common: Common,
    state: Mutex<State>,
    /// Something may be opened that was kept out.
    let_in: Event,
}

#[derive(Default)]
struct State {
    views: BTreeMap<Fsid, View>,
    by_id: HashMap<SnapshotId, Fsid>,
    /// Those that are about to be destroyed, and by how many.
    going: BTreeMap<ObjsetId, usize>,
    /// Whether somebody looks for those that are not used.
    is_watched: bool,
}

/// One snapshot.
struct View {
    id: SnapshotId,
    /// As it was last looked up.
    name: String,
    files: Option<Arc<Files>>,
    /// Its files as they were last open: requests may still be at work on them.
    last: Weak<Files>,
    open_files: u64,
    /// When it was last asked for.
    used: Duration,
    /// How often the kernel was told of its inodes and has not forgotten them.
    remembered: Arc<AtomicU64>,
    /// Held by who opens it.
    opening: Arc<async_lock::Mutex<()>>,
}

impl View {
    fn new(id: SnapshotId) -> Self {
        Self {
            id,
            name: String::new(),
            files: None,
            last: Weak::new(),
            open_files: 0,
            used: Duration::ZERO,
            remembered: Arc::default(),
            opening: Arc::default(),
        }
    }

    /// Whether nobody can tell any more that it had its fsid.
    fn is_forgotten(&self) -> bool {
        let is_asked = self.opening.try_lock().is_none() || self.last.strong_count() > 0;
        self.open_files == 0 && !is_asked && self.remembered.load(Ordering::Acquire) == 0
    }

    /// Takes its files, unless one of them is open.
    fn let_go(&mut self) -> Option<Arc<Files>> {
        if self.open_files == 0 { self.files.take() } else { None }
    }
}

impl State {
    /// The fsid of a snapshot, which gets one if it has none: the same in each mount as long as no other has it there.
    ///
    /// # Errors
    /// `ENFILE` when the kernel remembers files of as many snapshots as there are fsids.
    fn fsid_of(&mut self, id: SnapshotId) -> Result<Fsid, Errno> {
        if let Some(&fsid) = self.by_id.get(&id) {
            return Ok(fsid);
        }
        let fsid = self.free_fsid(id).ok_or(Errno::NFILE)?;
        if let Some(before) = self.views.insert(fsid, View::new(id)) {
            self.by_id.remove(&before.id);
        }
        self.by_id.insert(id, fsid);
        Ok(fsid)
    }

    /// The same for one that was looked up by its name.
    fn named(&mut self, id: SnapshotId, name: &str) -> Result<Fsid, Errno> {
        let fsid = self.fsid_of(id)?;
        let view = self.views.get_mut(&fsid).expect("who has a fsid is there");
        name.clone_into(&mut view.name);
        Ok(fsid)
    }

    fn free_fsid(&self, id: SnapshotId) -> Option<Fsid> {
        let count = u64::from(u16::MAX);
        let all = || (0..count).map(|step| Fsid(((id.objset.get() + step) % count) as u16 + 1));
        let unused = all().find(|fsid| !self.views.contains_key(fsid));
        unused.or_else(|| all().find(|fsid| self.views.get(fsid).is_some_and(View::is_forgotten)))
    }

    /// Takes the files of those that were used least lately and have no open file, while there are too many.
    fn too_many(&mut self) -> Vec<Arc<Files>> {
        let open = |view: &&mut View| view.files.is_some();
        let count = self.views.values_mut().filter(open).count();
        let mut by_use: Vec<&mut View> = self.views.values_mut().filter(open).collect();
        by_use.sort_by_key(|view| view.used);
        by_use.into_iter().take(count.saturating_sub(OPEN_MAX)).filter_map(View::let_go).collect()
    }
}

/// What a request is going to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visit {
    /// Open a file, of which is told when it is closed ([`Views::closed`]).
    Opens,
    Else,
}

impl Views {
    pub fn new(env: Arc<RealEnv>, snapshots: Arc<dyn Snapshots>, common: Common) -> Arc<Self> {
        Arc::new(Self { env, snapshots, common, state: Mutex::default(), let_in: Event::new() })
    }

    /// The snapshots that there are.
    pub fn snapshots(&self) -> &dyn Snapshots {
        &*self.snapshots
    }

    /// The files of the snapshot that has this name.
    ///
    /// # Errors
    /// `ENOENT`; `ENFILE`; when it cannot be opened.
    pub async fn find(self: &Arc<Self>, name: &str) -> Result<Arc<Files>, Errno> {
        let id = told(self.snapshots.find(name).await)?;
        loop {
            let fsid = self.state.lock().named(id, name)?;
            let files = self.enter(fsid, Visit::Else).await?;
            // Until they are there another may get the fsid, where there are no more.
            if self.state.lock().by_id.get(&id) == Some(&fsid) {
                return Ok(files);
            }
        }
    }

    /// The files of the snapshot that has this fsid.
    ///
    /// # Errors
    /// `ESTALE` when it has been destroyed; when it cannot be opened.
    pub async fn enter(self: &Arc<Self>, fsid: Fsid, visit: Visit) -> Result<Arc<Files>, Errno> {
        loop {
            let (kept_out, opening) = {
                let mut state = self.state.lock();
                let State { views, going, .. } = &mut *state;
                let view = views.get_mut(&fsid).ok_or(Errno::STALE)?;
                let is_kept_out = going.contains_key(&view.id.objset);
                if view.files.is_none() && !is_kept_out {
                    // Those that it was let go of with, if a request is still at work on them.
                    view.files = view.last.upgrade();
                }
                if let Some(files) = &view.files {
                    view.used = self.env.now();
                    view.open_files += u64::from(visit == Visit::Opens);
                    return Ok(Arc::clone(files));
                }
                let kept_out = is_kept_out.then(|| self.let_in.listen());
                (kept_out, Arc::clone(&view.opening))
            };
            match kept_out {
                Some(let_in) => let_in.await,
                None => self.open(fsid, &opening).await?,
            }
        }
    }

    /// Opens a snapshot, if nobody else does meanwhile and it is not about to be destroyed.
    async fn open(self: &Arc<Self>, fsid: Fsid, opening: &async_lock::Mutex<()>) -> Result<(), Errno> {
        let _one = opening.lock().await;
        let (id, name) = {
            let state = self.state.lock();
            let view = state.views.get(&fsid).ok_or(Errno::STALE)?;
            let is_same = std::ptr::eq(Arc::as_ptr(&view.opening), opening);
            if !is_same || view.files.is_some() || state.going.contains_key(&view.id.objset) {
                return Ok(());
            }
            (view.id, view.name.clone())
        };
        let opened = told(self.snapshots.open(id, &name).await);
        let zfs = opened.map_err(|errno| if errno == Errno::NOENT { Errno::STALE } else { errno })?;
        self.put(fsid, &zfs);
        Ok(())
    }

    /// Takes in the files of one that was opened.
    fn put(self: &Arc<Self>, fsid: Fsid, zfs: &Zfs) {
        let mut state = self.state.lock();
        let State { views, going, .. } = &mut *state;
        let view = views.get_mut(&fsid).expect("it keeps its fsid while it is opened");
        if going.contains_key(&view.id.objset) {
            return;
        }
        let Common { notifier, agreed, syncs, writers, mounter } = &self.common;
        let files = Arc::new(Files {
            zfs: Arc::new(zfs.asked_by(Asker::Kernel)),
            inodes: Inodes { root: zfs.root(), fsid },
            notifier: notifier.clone(),
            agreed: *agreed,
            syncs: Arc::clone(syncs),
            writers: Arc::clone(writers),
            mounter: Arc::clone(mounter),
            setting: None,
            remembered: Some(Arc::clone(&view.remembered)),
            known: None,
            old_pages: Arc::default(),
        });
        (view.last, view.files, view.used) = (Arc::downgrade(&files), Some(files), self.env.now());
        let leaving = state.too_many();
        let is_watched = std::mem::replace(&mut state.is_watched, true);
        drop(state);
        // It takes its time.
        drop(leaving);
        if !is_watched {
            self.env.spawn("snapshots", Box::pin(watch(Arc::clone(&self.env), Arc::downgrade(self))));
        }
    }

    /// A file that [`Visit::Opens`] stands for is closed, or was not opened after all.
    pub fn closed(&self, fsid: Fsid) {
        if let Some(view) = self.state.lock().views.get_mut(&fsid) {
            view.open_files = view.open_files.saturating_sub(1);
        }
    }

    /// The kernel has forgotten an inode that it was told of so many times.
    pub fn forget(&self, inode: u64, times: u64) {
        if let Some(view) = self.state.lock().views.get(&Fsid::of(inode)) {
            let less = |known: u64| Some(known.saturating_sub(times));
            _ = view.remembered.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        }
    }

    /// Whether another may get an fsid when there are no more.
    #[cfg(test)]
    pub fn is_forgotten(&self, fsid: Fsid) -> bool {
        self.state.lock().views.get(&fsid).is_none_or(View::is_forgotten)
    }

    /// Lets go of those that nobody has used for a while, as of that time; whether others are open.
    pub fn let_idle_go(&self, now: Duration) -> bool {
        let mut state = self.state.lock();
        let idle = state.views.values_mut().filter(|view| view.used + IDLE <= now);
        let leaving: Vec<_> = idle.filter_map(View::let_go).collect();
        let are_open = state.views.values().any(|view| view.files.is_some());
        state.is_watched = are_open;
        drop(state);
        drop(leaving);
        are_open
    }

    /// Lets go of those of these in which no file is open, and opens none of them before what this gives is dropped.
    pub async fn let_go_of(self: &Arc<Self>, snapshots: &[ObjsetId]) -> KeptOut {
        let snapshots: BTreeSet<ObjsetId> = snapshots.iter().copied().collect();
        let kept_out = self.keep_out(&snapshots);
        let (mut leaving, until) = (Vec::new(), self.env.now() + LEAVING);
        loop {
            let (files, is_used) = self.take(&snapshots);
            // The pool sees that they are gone when the objsets are.
            leaving.extend(files.iter().map(|files| Arc::downgrade(files.zfs.objset())));
            drop(files);
            leaving.retain(|objset| objset.strong_count() > 0);
            if leaving.is_empty() && !is_used || self.env.now() >= until {
                return kept_out;
            }
            self.env.sleep(LOOK).await;
        }
    }

    fn keep_out(self: &Arc<Self>, snapshots: &BTreeSet<ObjsetId>) -> KeptOut {
        let mut state = self.state.lock();
        for objset in snapshots {
            *state.going.entry(*objset).or_default() += 1;
        }
        KeptOut { views: Arc::downgrade(self), snapshots: snapshots.clone() }
    }

    /// Takes the files of those of these in which none is open; whether others are used, or are being opened.
    fn take(&self, snapshots: &BTreeSet<ObjsetId>) -> (Vec<Arc<Files>>, bool) {
        let (mut files, mut is_used) = (Vec::new(), false);
        for view in self.state.lock().views.values_mut().filter(|view| snapshots.contains(&view.id.objset)) {
            match view.let_go() {
                Some(taken) => files.push(taken),
                None => is_used |= view.last.strong_count() > 0,
            }
            is_used |= view.opening.try_lock().is_none();
        }
        (files, is_used)
    }
}

/// Looks for those that nobody uses, as long as there are some.
async fn watch(env: Arc<RealEnv>, views: Weak<Views>) {
    loop {
        env.sleep(IDLE / 2).await;
        match views.upgrade() {
            Some(views) if views.let_idle_go(env.now()) => {}
            _ => return,
        }
    }
}

/// Snapshots that are not opened as long as this is there.
pub(crate) struct KeptOut {
    views: Weak<Views>,
    snapshots: BTreeSet<ObjsetId>,
}

impl Drop for KeptOut {
    fn drop(&mut self) {
        let Some(views) = self.views.upgrade() else { return };
        let mut state = views.state.lock();
        for objset in &self.snapshots {
            if let Some(count) = state.going.get_mut(objset) {
                *count -= 1;
            }
        }
        state.going.retain(|_, count| *count > 0);
        drop(state);
        views.let_in.notify(usize::MAX);
    }
}
