//! Mounts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use engine::{MountError, MountOptions, PlaceChoice, UserIds};
use front_fuse::{Attachment, Mounter, OwnMounter};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Desk, ErrandAnswer};
use crate::errand::{Bytes, MountErrand, WantedMount, WireOrphan};
use crate::fault::{MountFault, RemoteError};

/// The mounts of the other processes, for a process that mounts a file system above one of them. Without this, the
/// new mount would hide the other one. (test of `cli`: `no_pool_is_mounted_over_a_pool_below`)
pub trait Neighbours: Send + Sync + 'static {
    /// Unmounts what other processes have mounted below `place`. Returns how to mount the file systems again.
    ///
    /// # Errors
    /// When one of them is in use. Then all of them are mounted as before.
    fn step_aside(&self, place: &Path) -> Result<Box<dyn FnOnce() + Send>, MountError>;
}

/// A place where a process has mounted a file system, and the name of the dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedAt {
    /// The mount point.
    pub path: PathBuf,
    /// The dataset.
    pub dataset: String,
}

/// The mounts of a process.
#[derive(Default)]
pub(super) struct Mounts {
    state: Mutex<MountsState>,
}

#[derive(Default)]
struct MountsState {
    all: BTreeMap<u64, OwnMount>,
    last: u64,
    /// The process has ended: a mount that was being made meanwhile is not kept.
    is_closed: bool,
}

#[derive(Clone)]
struct OwnMount {
    at: MountedAt,
    attached: Arc<dyn Attachment>,
    /// As long as the daemon has the device, no other file system gets the number of this one. The kernel hangs up
    /// only when the daemon has closed the device, too. There is none after the kernel has hung up.
    device: Option<Arc<OwnedFd>>,
    /// Mounts again what has stepped aside, once this mount is served.
    again: Arc<Again>,
}

/// Work that is done once.
struct Again(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Again {
    fn run(&self) {
        let again = self.0.lock().take();
        if let Some(again) = again {
            again();
        }
    }
}

impl OwnMount {
    fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.device.as_ref().is_some_and(|device| {
            let mut polled = [PollFd::new(device, PollFlags::empty())];
            poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
        })
    }
}

impl Mounts {
    /// Takes a mount in. Returns its number.
    fn add(&self, mount: OwnMount) -> u64 {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        if !state.is_closed {
            state.all.insert(number, mount);
        }
        number
    }

    /// Returns the mounts of the process below a place. A mount whose path leads elsewhere, or through a mount whose
    /// server has ended, is not among them.
    pub fn below(&self, place: &Path) -> Vec<MountedAt> {
        let is_below = |mount: &&OwnMount| mount.at.path.starts_with(place) && mount.at.path != place;
        let all: Vec<_> = {
            let state = self.state.lock();
            let below = state.all.values().filter(is_below);
            below.map(|mount| (mount.at.clone(), Arc::clone(&mount.attached))).collect()
        };
        all.into_iter().filter(|(_, attached)| attached.is_reached()).map(|(at, _)| at).collect()
    }

    /// True if a device is open here.
    pub fn has_devices(&self) -> bool {
        self.state.lock().all.values().any(|mount| mount.device.is_some())
    }

    /// Closes the devices of mounts that the kernel has hung up, as after `umount(8)`.
    pub fn let_go_of_ended(&self) {
        let mut state = self.state.lock();
        let ended = state.all.values_mut().filter(|mount| mount.has_ended());
        let devices: Vec<_> = ended.filter_map(|mount| mount.device.take()).collect();
        drop(state);
        drop(devices);
    }

    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let all = std::mem::take(&mut state.all);
        drop(state);
        let again: Vec<_> = all.values().map(|mount| Arc::clone(&mount.again)).collect();
        drop(all);
        // This runs on a thread of its own, because other processes are asked to mount.
        let run = move || again.iter().for_each(|again| again.run());
        if let Err(error) = thread::Builder::new().name("again".to_owned()).spawn(run) {
            tracing::error!(%error, "mounts that have stepped aside are not mounted again");
        }
    }

    /// Returns a mount of the process. The device is not held while the errand is done, because the errand may wait for
    /// the process.
    fn of(&self, number: u64) -> io::Result<Arc<dyn Attachment>> {
        let attached = self.state.lock().all.get(&number).map(|mount| Arc::clone(&mount.attached));
        attached.ok_or_else(|| Errno::NOENT.into())
    }

    pub fn do_errand(
        &self,
        number: u64,
        errand: MountErrand,
        beside: Vec<OwnedFd>,
    ) -> io::Result<ErrandAnswer> {
        match errand {
            MountErrand::Forget => {
                let forgotten = self.state.lock().all.remove(&number);
                let again = forgotten.as_ref().map(|mount| Arc::clone(&mount.again));
                drop(forgotten);
                again.iter().for_each(|again| again.run());
                return ErrandAnswer::of(());
            }
            MountErrand::BeginService => {
                let again = self.state.lock().all.get(&number).map(|mount| Arc::clone(&mount.again));
                again.iter().for_each(|again| again.run());
                return ErrandAnswer::of(());
            }
            _ => {}
        }
        let attached = self.of(number)?;
        match errand {
            MountErrand::IsChangeable => ErrandAnswer::of(attached.is_changeable()),
            MountErrand::IsReached => ErrandAnswer::of(attached.is_reached()),
            MountErrand::IsGone => ErrandAnswer::of(attached.is_gone()),
            MountErrand::HasMountsBelow => ErrandAnswer::of(attached.has_mounts_below()),
            MountErrand::SeenElsewhere => ErrandAnswer::of(attached.seen_elsewhere()),
            MountErrand::Root => ErrandAnswer::with((), attached.root().into_iter().collect()),
            MountErrand::Directory => match attached.directory() {
                Ok(directory) => ErrandAnswer::with(
                    Ok::<(), RemoteError>(()),
                    directory.map(OwnedFd::from).into_iter().collect(),
                ),
                Err(error) => ErrandAnswer::of(Err::<(), _>(RemoteError::from(error))),
            },
            MountErrand::WaitForPages { inode, generation } => {
                let directory = File::from(one(beside)?);
                ErrandAnswer::of(
                    attached.wait_for_pages(&directory, inode, generation).map_err(RemoteError::from),
                )
            }
            MountErrand::DropDentries => {
                let root = one(beside)?;
                ErrandAnswer::of(attached.drop_dentries(&root).map_err(RemoteError::from))
            }
            MountErrand::Remount { flags } => {
                ErrandAnswer::of(attached.remount(flags.into()).map_err(RemoteError::from))
            }
            MountErrand::Unmount => ErrandAnswer::of(attached.unmount().is_err()),
            MountErrand::HangUp => {
                attached.hang_up();
                ErrandAnswer::of(())
            }
            MountErrand::Forget | MountErrand::BeginService => ErrandAnswer::of(()),
        }
    }
}

/// Returns the descriptor that an errand came with.
fn one(beside: Vec<OwnedFd>) -> io::Result<OwnedFd> {
    beside.into_iter().next().ok_or_else(|| Errno::BADF.into())
}

impl Desk {
    pub(super) fn attach(&self, wanted: WantedMount) -> io::Result<ErrandAnswer> {
        let (path, altroot) = (wanted.path.path(), wanted.altroot.as_ref().map(Bytes::path));
        if !self.grants.may_mount(&path, altroot.as_deref()) {
            let denied = io::Error::from(Errno::PERM);
            return ErrandAnswer::of(Err::<u64, _>(MountFault::Refused(denied.into())));
        }
        let again = match self.neighbours.step_aside(&path) {
            Ok(again) => Arc::new(Again(Mutex::new(Some(again)))),
            Err(error) => return ErrandAnswer::of(Err::<u64, _>(MountFault::from(error))),
        };
        let WantedMount { overlay, source, flags, .. } = wanted;
        let at = MountedAt { path, dataset: source.clone() };
        let options =
            MountOptions { source, flags: flags.into(), overlay, altroot, ..MountOptions::default() };
        let attached = self.attach_alone(at, &options, &again);
        if !matches!(&attached, Ok(done) if done.has_descriptors()) {
            again.run();
        }
        attached
    }

    fn attach_alone(
        &self,
        at: MountedAt,
        options: &MountOptions,
        again: &Arc<Again>,
    ) -> io::Result<ErrandAnswer> {
        let (device, attached) = match OwnMounter.attach(&at.path, options) {
            Ok(attached) => attached,
            Err(error) => return ErrandAnswer::of(Err::<u64, _>(MountFault::from(error))),
        };
        let (handed, again) = (device.try_clone()?, Arc::clone(again));
        let number = self.mounts.add(OwnMount { at, attached, device: Some(device), again });
        ErrandAnswer::with(Ok::<_, MountFault>(number), vec![handed])
    }

    pub(super) fn remove_point(&self, path: &Path) -> Result<(), RemoteError> {
        match self.grants.may_remove_point(path) {
            true => Ok(OwnMounter.remove(path)?),
            false => Err(io::Error::from(Errno::ACCESS).into()),
        }
    }
}

pub(super) fn is_free(path: &Path) -> bool {
    OwnMounter.is_free(path)
}

pub(super) fn may_claim(
    uid: u32,
    gids: Vec<u32>,
    place: &Path,
    altroot: Option<&Path>,
    is_chosen: bool,
) -> Result<bool, RemoteError> {
    let how = if is_chosen { PlaceChoice::Chosen } else { PlaceChoice::Inherited };
    Ok(OwnMounter.may_claim(&UserIds { uid, gids }, place, altroot, how)?)
}

/// Returns the mounts of a pool whose servers were killed: their places, datasets and flags.
pub(super) fn orphans(pool: &str) -> Vec<WireOrphan> {
    OwnMounter.orphans(pool).into_iter().map(Into::into).collect()
}

pub(super) fn may_administer(thread: u32) -> bool {
    OwnMounter.may_administer(thread)
}

pub(super) fn user_of(thread: u32) -> Option<(u32, Vec<u32>)> {
    OwnMounter.user(thread).map(|user| (user.uid, user.gids))
}
