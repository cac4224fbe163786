//! Mounting, unmounting, and changing how something is mounted.
//!
//! ```text
//!  walk to the mount point ─► fsmount(2), move_mount(2) ─ EPERM ─► fusermount3, which hands back the
//!                                   │                                 │   device that it mounted
//!                                   └───────────────┬─────────────────┘
//!                                                   ▼
//!            handshake ─► Session ──► unmounted by us, by umount(8), or hung up
//!                                        ▼ after its last request, a sync
//!                                     `has_ended`
//! ```
//! The life of a mount:
//! ```text
//!               suspended (rollback, receive)
//!                  ▲ │ resumed
//!                  │ ▼
//!  mounting ──► mounted ──────────── zfs unmount ───────────────► ending ─ a sync ─► gone
//!     │            │ │  zfs unmount, and a bind mount or another     ▲
//!     ▼            │ └─ namespace shows it ──► seen elsewhere ───────┤ the last of these unmounts it
//!  refused         │                                │                │
//!                  └──────────── by force ──────────┴────────────────┘ the connection is broken
//! ```
//! A change of the dataset (an export, a destroy, a rename, another mount point) is refused while something else shows the
//! mount, unless the change is made by force.
//! No step waits without an end: [`NAMESPACE_WAIT`], [`CLEAN_WAIT`], [`FORCED_WAIT`], [`LAZY_WAIT`].
//!
//! Mount points may be in directories of users. No path is used twice: the way to a mount point ends in
//! a descriptor ([`walk`]), and a mount is found again by its numbers ([`attached`]).

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use device::call_elsewhere;
use engine::{LetGo, MountError, MountFlags, Mounted, Snapdir, Suspended, SyncingThread, UnmountReach};
use env::BoxFuture;
use units::{ObjectId, ObjsetId};
use zpl::Zfs;

use crate::live::{Pause, Paused};
use crate::session::Ended;
use crate::tree::TreeParts;
use crate::views::Common;

pub use self::attached::MountInUse;
pub use self::fuse::Fuse;
pub use self::mounter::{Attachment, Mounter, OwnMounter};

mod attached;
mod claim;
mod flags;
mod fuse;
mod helper;
mod identity;
mod kernel;
mod mounter;
mod namespaces;
mod point;
mod table;
mod walk;

#[cfg(test)]
mod tests;

/// How long an unmount by force waits for requests that may be stuck.
const FORCED_WAIT: Duration = Duration::from_secs(10);
/// How long the kernel may take to hang up, before an unmount by force breaks the connection, and before a mount that
/// others took away counts as in the way.
const CLEAN_WAIT: Duration = Duration::from_secs(1);
/// How long the data of a mount that others took away may take to become stable.
const LAZY_WAIT: Duration = Duration::from_secs(30);
/// How long the kernel may take to hang up after the last unmount. It hangs up before the call returns, so a mount that goes on
/// is shown by something else, also where no table of mounts says so.
const NAMESPACE_WAIT: Duration = Duration::from_millis(200);
/// How long an unmount that is to be everywhere waits for other mount namespaces to end: a container that starts has a copy
/// of every mount for a moment.
const OTHERS_WAIT: Duration = Duration::from_secs(5);
/// How often an unmount looks whether another mount namespace still shows the file system.
const OTHERS_LOOK: Duration = Duration::from_millis(100);
/// How often an unmount looks again whether the session has ended.
const WAIT: Duration = Duration::from_secs(60);
/// How often an unmount looks whether the kernel has hung up.
const LOOK: Duration = Duration::from_millis(10);

/// A file system that the kernel shows; unmounted when dropped.
pub struct FuseMount {
    /// Where it was mounted. It may be elsewhere by now.
    path: PathBuf,
    attached: Arc<dyn Attachment>,
    ended: Arc<Ended>,
    /// It was unmounted at its mount point, and the kernel has not hung up.
    is_left: AtomicBool,
    common: Common,
    /// As long as it is mounted.
    parts: TreeParts,
}

impl FuseMount {
    fn busy(&self) -> MountError {
        MountError::Busy { path: self.path.clone() }
    }

    /// True if the kernel hangs up within this time.
    fn hangs_up_within(&self, limit: Duration) -> bool {
        let looks = limit.as_millis() / LOOK.as_millis();
        (0..looks).any(|_| self.is_ending() || self.ended.wait(LOOK)) || self.is_ending()
    }

    fn shown_by(&self, by: Option<String>) -> MountError {
        let by = by.unwrap_or_else(|| "another mount namespace, or a file that is open there,".to_owned());
        MountError::SeenElsewhere { path: self.path.clone(), by }
    }

    /// Unmounts at the mount point. Returns true if the kernel has hung up.
    fn leave(&self) -> Result<bool, MountError> {
        self.attached.unmount().map_err(|_in_use| self.busy())?;
        let has_hung_up = self.hangs_up_within(NAMESPACE_WAIT);
        self.is_left.store(!has_hung_up, Ordering::Release);
        Ok(has_hung_up)
    }

    /// Waits until nothing else shows the file system, but no longer than [`OTHERS_WAIT`]. Returns what still does.
    fn wait_for_others(&self) -> Option<String> {
        let mut seen = self.attached.seen_elsewhere();
        let end = Instant::now() + OTHERS_WAIT;
        while seen.is_some() && Instant::now() < end {
            std::thread::sleep(OTHERS_LOOK);
            seen = self.attached.seen_elsewhere();
        }
        seen
    }

    /// True if the mount was taken away, by whomever, and the kernel has hung up.
    fn was_left(&self) -> bool {
        if !self.attached.is_gone() {
            return false;
        }
        let has_hung_up = self.hangs_up_within(CLEAN_WAIT);
        self.is_left.store(!has_hung_up, Ordering::Release);
        has_hung_up
    }

    fn unmount_by_force(&self) -> Result<(), MountError> {
        let is_left = self.attached.unmount().is_ok() && self.hangs_up_within(CLEAN_WAIT);
        if !is_left && !self.is_ending() {
            self.attached.hang_up();
        }
        if self.attached.is_reached() {
            return Err(self.busy());
        }
        self.ended.wait(FORCED_WAIT);
        Ok(())
    }
}

impl Mounted for FuseMount {
    fn has_ended(&self) -> bool {
        self.ended.is_over()
    }

    fn is_ending(&self) -> bool {
        self.ended.has_hung_up()
    }

    fn ends_soon(&self) -> bool {
        self.has_ended() || (self.is_ending() || self.was_left()) && self.ended.wait(LAZY_WAIT)
    }

    fn is_elsewhere(&self) -> bool {
        self.is_left.load(Ordering::Acquire) && !self.is_ending()
    }

    fn seen_elsewhere(&self) -> Option<String> {
        self.wait_for_others()
    }

    /// By force, whoever has files open loses them: a mount that only hides, and goes on until the last
    /// file is closed, would keep its pool from ever being closed.
    /// (test: `a_daemon_stops_though_a_file_is_open`)
    ///
    /// When it returns, what was written is stable. (test:
    /// `what_was_written_before_an_unmount_survives_a_kill_after_it`)
    ///
    /// Without force, it is busy where files are open on it. What else shows it goes on to do so, or, where every
    /// mount is to go, refuses the unmount.
    fn unmount(&self, reach: UnmountReach) -> Result<(), MountError> {
        if self.has_ended() {
            return Ok(());
        }
        let has_hung_up = match reach {
            UnmountReach::ByForce => return self.unmount_by_force(),
            UnmountReach::Here => self.leave()?,
            UnmountReach::Everywhere => match self.wait_for_others() {
                None => self.leave()?,
                by => return Err(self.shown_by(by)),
            },
        };
        match (has_hung_up, reach) {
            (true, _) => {}
            (false, UnmountReach::Everywhere) => return Err(self.shown_by(self.attached.seen_elsewhere())),
            (false, _) => return Ok(()),
        }
        // The kernel has hung up; the session ends by itself.
        while !self.ended.wait(WAIT) {}
        Ok(())
    }

    fn write_back(&self) -> BoxFuture<'_, io::Result<()>> {
        let (attached, common) = (Arc::clone(&self.attached), self.common.clone());
        // What it waits for, the loops do. Where the mount is not reached, the kernel is asked for one
        // file after another.
        Box::pin(call_elsewhere(move || {
            let directory = attached.directory()?;
            let wait = |inode, generation| match &directory {
                Some(directory) => attached.wait_for_pages(directory, inode, generation),
                None => Err(io::ErrorKind::PermissionDenied.into()),
            };
            common.writers.wait_for_all(directory.as_ref(), wait, &common.notifier)
        }))
    }

    fn suspend(&self) -> BoxFuture<'_, Result<Option<Box<dyn Suspended>>, MountError>> {
        Box::pin(async move {
            if !self.attached.is_changeable() || self.is_ending() {
                return Ok(None);
            }
            // The way to the mount may lead through files that the loops serve.
            let attached = Arc::clone(&self.attached);
            let Some(root) = call_elsewhere(move || attached.root()).await.map(Arc::new) else {
                return Ok(None);
            };
            let Some(live) = self.parts.live.upgrade() else { return Ok(None) };
            // The changes that programs have made so far belong to the present file system.
            if let Err(error) = self.write_back().await {
                tracing::warn!(place = %self.path.display(), %error, "what the kernel keeps may not be written");
            }
            let (attached, opened) = (Arc::clone(&self.attached), Arc::clone(&root));
            if let Err(error) = call_elsewhere(move || attached.drop_dentries(&opened)).await {
                tracing::warn!(place = %self.path.display(), %error, "the kernel keeps its dentries");
                return Ok(None);
            }
            match Pause::begin(live, self.attached.has_mounts_below()).await {
                Paused::Waiting(pause) => {
                    let (pause, path) = (Some(pause), self.path.clone());
                    let attached = Arc::clone(&self.attached);
                    Ok(Some(Box::new(SuspendedMount { pause, path, attached, root }) as Box<dyn Suspended>))
                }
                Paused::NotInTime => Err(MountError::Unfinished { path: self.path.clone() }),
                Paused::NotInPlace => Ok(None),
            }
        })
    }

    fn remount(&self, flags: MountFlags) -> Result<(), MountError> {
        let refused = |source| MountError::Refused { path: self.path.clone(), source };
        self.attached.remount(flags).map_err(refused)
    }

    fn set_snapdir(&self, snapdir: Snapdir) {
        if let Some(ctldir) = self.parts.ctldir.upgrade() {
            ctldir.show(snapdir);
        }
    }

    fn let_go_of<'a>(&'a self, snapshots: &'a [ObjsetId]) -> BoxFuture<'a, LetGo> {
        Box::pin(async move {
            let views = self.parts.ctldir.upgrade().map(|ctldir| Arc::clone(&ctldir.views));
            match views {
                Some(views) => Box::new(views.let_go_of(snapshots).await) as LetGo,
                None => Box::new(()),
            }
        })
    }

    fn syncing_threads(&self) -> Vec<SyncingThread> {
        self.common.syncs.threads()
    }
}

/// A mount whose requests wait.
struct SuspendedMount {
    pause: Option<Pause>,
    path: PathBuf,
    attached: Arc<dyn Attachment>,
    /// The root of the mount.
    root: Arc<OwnedFd>,
}

impl Suspended for SuspendedMount {
    fn open_objects(&self) -> Vec<ObjectId> {
        self.pause.as_ref().map(Pause::open_objects).unwrap_or_default()
    }

    fn resume(mut self: Box<Self>, zfs: Arc<Zfs>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(pause) = self.pause.take() else { return };
            let drop_dentries = move || {
                if let Err(error) = self.attached.drop_dentries(&self.root) {
                    tracing::warn!(place = %self.path.display(), %error, "the kernel keeps its dentries");
                }
            };
            pause.end(&zfs, drop_dentries).await;
        })
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        let _gone_already = self.unmount(UnmountReach::ByForce);
    }
}
