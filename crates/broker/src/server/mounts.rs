//! Mounts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{MountOptions, PlaceChoice, UserIds};
use front_fuse::{Attachment, Mounter, OwnMounter};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::{Desk, Done};
use crate::errand::{MountErrand, WireFlags};
use crate::fault::{Fault, MountFault};

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
    attached: Arc<dyn Attachment>,
    /// As long as the daemon has the device, no other file system gets the number of this one. The kernel hangs up
    /// only when the daemon has closed the device, too.
    _device: Arc<OwnedFd>,
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

    pub fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let all = std::mem::take(&mut state.all);
        drop(state);
        drop(all);
    }

    /// Returns a mount of the process. The device is not held while the errand is done, because the errand may wait for
    /// the process.
    fn of(&self, number: u64) -> io::Result<Arc<dyn Attachment>> {
        let attached = self.state.lock().all.get(&number).map(|mount| Arc::clone(&mount.attached));
        attached.ok_or_else(|| Errno::NOENT.into())
    }

    pub fn do_errand(&self, number: u64, errand: MountErrand, beside: Vec<OwnedFd>) -> io::Result<Done> {
        if matches!(errand, MountErrand::Forget) {
            let forgotten = self.state.lock().all.remove(&number);
            drop(forgotten);
            return Done::of(());
        }
        let attached = self.of(number)?;
        match errand {
            MountErrand::IsChangeable => Done::of(attached.is_changeable()),
            MountErrand::IsReached => Done::of(attached.is_reached()),
            MountErrand::IsGone => Done::of(attached.is_gone()),
            MountErrand::HasMountsBelow => Done::of(attached.has_mounts_below()),
            MountErrand::Root => Done::with((), attached.root().into_iter().collect()),
            MountErrand::Directory => match attached.directory() {
                Ok(directory) => {
                    Done::with(Ok::<(), Fault>(()), directory.map(OwnedFd::from).into_iter().collect())
                }
                Err(error) => Done::of(Err::<(), _>(Fault::from(error))),
            },
            MountErrand::WaitForPages { inode, generation } => {
                let directory = File::from(one(beside)?);
                Done::of(attached.wait_for_pages(&directory, inode, generation).map_err(Fault::from))
            }
            MountErrand::DropDentries => {
                let root = one(beside)?;
                Done::of(attached.drop_dentries(&root).map_err(Fault::from))
            }
            MountErrand::Remount { flags } => Done::of(attached.remount(flags.into()).map_err(Fault::from)),
            MountErrand::Unmount => Done::of(attached.unmount().is_err()),
            MountErrand::HangUp => {
                attached.hang_up();
                Done::of(())
            }
            MountErrand::Forget => Done::of(()),
        }
    }
}

/// The descriptor that an errand came with.
fn one(beside: Vec<OwnedFd>) -> io::Result<OwnedFd> {
    beside.into_iter().next().ok_or_else(|| Errno::BADF.into())
}

impl Desk {
    pub(super) fn attach(
        &self,
        path: &Path,
        altroot: Option<PathBuf>,
        overlay: bool,
        source: String,
        flags: WireFlags,
    ) -> io::Result<Done> {
        if !self.grants.may_mount(path, altroot.as_deref()) {
            let denied = io::Error::from(Errno::PERM);
            return Done::of(Err::<u64, _>(MountFault::Refused(denied.into())));
        }
        let flags = flags.into();
        let options = MountOptions { source, flags, overlay, altroot, ..MountOptions::default() };
        match OwnMounter.attach(path, &options) {
            Ok((device, attached)) => {
                let handed = device.try_clone()?;
                let number = self.mounts.add(OwnMount { attached, _device: device });
                Done::with(Ok::<_, MountFault>(number), vec![handed])
            }
            Err(error) => Done::of(Err::<u64, _>(MountFault::from(error))),
        }
    }

    pub(super) fn remove_point(&self, path: &Path) -> Result<(), Fault> {
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
) -> Result<bool, Fault> {
    let how = if is_chosen { PlaceChoice::Chosen } else { PlaceChoice::Inherited };
    Ok(OwnMounter.may_claim(&UserIds { uid, gids }, place, altroot, how)?)
}

pub(super) fn may_administer(thread: u32) -> bool {
    OwnMounter.may_administer(thread)
}
