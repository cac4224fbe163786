//! Mounts.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use engine::{MountError, MountFlags, MountOptions, OrphanMount, PlaceChoice, UserIds};
use front_fuse::{Attachment, MountInUse, Mounter};
use serde::de::DeserializeOwned;

use super::{Broker, no_sense};
use crate::errand::{Errand, MountErrand, WantedMount, WireOrphan, may_claim};
use crate::fault::{MountFault, RemoteError};

impl Mounter for Broker {
    fn attach(
        &self,
        path: &Path,
        options: &MountOptions,
    ) -> Result<(Arc<OwnedFd>, Arc<dyn Attachment>), MountError> {
        let refused = |source| MountError::Refused { path: path.to_owned(), source };
        let absolute = std::path::absolute(path).map_err(refused)?;
        let wanted = WantedMount {
            path: absolute.as_path().into(),
            altroot: options.altroot.as_deref().map(Into::into),
            overlay: options.overlay,
            source: options.source.clone(),
            flags: options.flags.into(),
        };
        let (answer, descriptors) = self.call(&Errand::Attach(wanted), &[]).map_err(refused)?;
        let answer: Result<u64, MountFault> = answer;
        let mount = answer.map_err(|fault| fault.of(path.to_owned()))?;
        let attached = BrokeredMount { broker: self.clone(), mount };
        let device = descriptors.into_iter().next().ok_or_else(|| refused(no_sense()))?;
        Ok((Arc::new(device), Arc::new(attached)))
    }

    fn is_free(&self, path: &Path) -> bool {
        self.ask(&Errand::IsFree { path: path.into() }).unwrap_or(true)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let answer: Result<(), RemoteError> = self.ask(&Errand::RemovePoint { path: path.into() })?;
        Ok(answer?)
    }

    fn may_claim(
        &self,
        user: &UserIds,
        place: &Path,
        altroot: Option<&Path>,
        how: PlaceChoice,
    ) -> io::Result<bool> {
        let answer: Result<bool, RemoteError> = self.ask(&may_claim(user, place, altroot, how))?;
        Ok(answer?)
    }

    fn orphans(&self, pool: &str) -> Vec<OrphanMount> {
        let answer: io::Result<Vec<WireOrphan>> = self.ask(&Errand::Orphans { pool: pool.to_owned() });
        answer.unwrap_or_default().into_iter().map(Into::into).collect()
    }

    fn may_administer(&self, thread: u32) -> bool {
        self.ask(&Errand::MayAdminister { thread }).unwrap_or(false)
    }

    fn user(&self, thread: u32) -> Option<UserIds> {
        let user: Option<(u32, Vec<u32>)> = self.ask(&Errand::UserOf { thread }).unwrap_or(None);
        user.map(|(uid, gids)| UserIds { uid, gids })
    }
}

/// A mount that the daemon has made.
struct BrokeredMount {
    broker: Broker,
    mount: u64,
}

impl BrokeredMount {
    fn call<T: DeserializeOwned>(
        &self,
        errand: MountErrand,
        beside: Option<&dyn AsFd>,
    ) -> io::Result<(T, Vec<OwnedFd>)> {
        let beside: Vec<_> = beside.iter().map(|beside| beside.as_fd()).collect();
        self.broker.call(&Errand::Mounted { mount: self.mount, errand }, &beside)
    }

    fn done(&self, errand: MountErrand, beside: Option<&dyn AsFd>) -> io::Result<()> {
        let (answer, _): (Result<(), RemoteError>, _) = self.call(errand, beside)?;
        Ok(answer?)
    }

    fn is(&self, errand: MountErrand, otherwise: bool) -> bool {
        self.call(errand, None).map_or(otherwise, |(answer, _)| answer)
    }
}

impl Attachment for BrokeredMount {
    fn begin_service(&self) {
        let ((), _) = self.call(MountErrand::BeginService, None).unwrap_or_default();
    }

    fn is_changeable(&self) -> bool {
        self.is(MountErrand::IsChangeable, false)
    }

    fn is_reached(&self) -> bool {
        self.is(MountErrand::IsReached, false)
    }

    fn is_gone(&self) -> bool {
        self.is(MountErrand::IsGone, false)
    }

    fn has_mounts_below(&self) -> bool {
        self.is(MountErrand::HasMountsBelow, true)
    }

    fn seen_elsewhere(&self) -> Option<String> {
        self.call(MountErrand::SeenElsewhere, None).map_or(None, |(answer, _)| answer)
    }

    fn root(&self) -> Option<OwnedFd> {
        let ((), descriptors) = self.call(MountErrand::Root, None).ok()?;
        descriptors.into_iter().next()
    }

    fn directory(&self) -> io::Result<Option<File>> {
        let (answer, descriptors): (Result<(), RemoteError>, _) = self.call(MountErrand::Directory, None)?;
        answer?;
        Ok(descriptors.into_iter().next().map(File::from))
    }

    fn wait_for_pages(&self, directory: &File, inode: u64, generation: u32) -> io::Result<()> {
        self.done(MountErrand::WaitForPages { inode, generation }, Some(directory))
    }

    fn drop_dentries(&self, root: &OwnedFd) -> io::Result<()> {
        self.done(MountErrand::DropDentries, Some(root))
    }

    fn remount(&self, flags: MountFlags) -> io::Result<()> {
        self.done(MountErrand::Remount { flags: flags.into() }, None)
    }

    fn unmount(&self) -> Result<(), MountInUse> {
        // A daemon that does not answer has ended, and this process ends with it.
        if self.is(MountErrand::Unmount, true) { Err(MountInUse) } else { Ok(()) }
    }

    fn hang_up(&self) {
        let ((), _) = self.call(MountErrand::HangUp, None).unwrap_or_default();
    }
}

impl Drop for BrokeredMount {
    fn drop(&mut self) {
        let ((), _) = self.call(MountErrand::Forget, None).unwrap_or_default();
    }
}
