//! Mounting, unmounting, and changing how something is mounted.
//!
//! ```text
//!  mount(2), type fuse.sawmill ─ EPERM ─► fusermount3, which hands back the device it mounted
//!        └───────────┬────────────────────────────┘
//!                    ▼
//!            handshake ─► Session ──► unmounted by us, by umount(8), or hung up
//!                                        ▼ after its last request, a sync
//!                                     `has_ended`
//! ```

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use device::{RealEnv, call_elsewhere};
use engine::{
    Front, LetGo, MountError, MountFlags, MountOptions, Mounted, Shown, Snapdir, Suspended, SyncingThread,
};
use env::BoxFuture;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use units::{ObjectId, ObjsetId};
use zpl::{Asker, Zfs};

use crate::floor::Floor;
use crate::handshake::{Agreed, Wishes, shake_hands};
use crate::headroom;
use crate::live::{Pause, Paused};
use crate::notifier::Notifier;
use crate::server::Server;
use crate::session::{Ended, Session};
use crate::syncs::Syncs;
use crate::tree::{Tree, TreeParts};
use crate::views::Common;

mod flags;
mod helper;
mod kernel;
mod table;

/// How long an unmount by force waits for requests that may be stuck.
const FORCED_WAIT: Duration = Duration::from_secs(10);
/// How long a mount that was only hidden may go on before it counts as in the way.
const LAZY_WAIT: Duration = Duration::from_secs(30);
/// How often an unmount looks again whether the session has ended.
const WAIT: Duration = Duration::from_secs(60);

/// Who mounted it, and so who can unmount it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `mount(2)`.
    Kernel,
    /// `fusermount3`, for users.
    Helper,
}

/// Where a mount is at its path, to which another file system may have come since. Whoever goes by the path meets the one
/// on top. (test: `what_is_mounted_over_another_is_in_its_way`)
enum Standing {
    Top,
    /// Something was mounted over it.
    Covered,
    /// It was taken away, and goes with the last file that is open there.
    Gone,
}

/// A file system that the kernel shows; unmounted when dropped.
pub struct FuseMount {
    path: PathBuf,
    way: Way,
    /// As the kernel numbers it; none where it does not say what is mounted.
    minor: Option<String>,
    ended: Arc<Ended>,
    common: Common,
    /// As long as it is mounted.
    parts: TreeParts,
}

impl FuseMount {
    fn try_unmount(&self) -> io::Result<()> {
        match self.way {
            Way::Kernel => Ok(unmount(&self.path, UnmountFlags::empty())?),
            Way::Helper => helper::unmount(&self.path, false),
        }
    }

    fn standing(&self) -> Standing {
        let Some(own) = &self.minor else { return Standing::Top };
        match table::all_at(&self.path).iter().position(|line| line.minor == *own) {
            Some(0) => Standing::Top,
            Some(_) => Standing::Covered,
            None => Standing::Gone,
        }
    }

    /// Unmounts what its path leads to, by force if need be.
    fn unmount_top(&self, force: bool) -> Result<(), MountError> {
        let unmounted = self.try_unmount();
        let unmounted = if force { unmounted.or_else(|_| hang_up(&self.path)) } else { unmounted };
        match unmounted {
            Err(_) if table::find(&self.path).is_some() => Err(MountError::Busy { path: self.path.clone() }),
            _ => Ok(()),
        }
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
        self.has_ended()
            || (self.is_ending() || matches!(self.standing(), Standing::Gone)) && self.ended.wait(LAZY_WAIT)
    }

    /// By force, whoever has files open loses them: a mount that only hides, and goes on until the last
    /// file is closed, would keep its pool from ever being closed.
    /// (test: `a_daemon_stops_though_a_file_is_open`)
    ///
    /// When it returns, what was written is stable. (test:
    /// `what_was_written_before_an_unmount_survives_a_kill_after_it`)
    fn unmount(&self, force: bool) -> Result<(), MountError> {
        if self.has_ended() {
            return Ok(());
        }
        match (self.standing(), &self.minor) {
            (Standing::Covered, _) if !force => return Err(MountError::Busy { path: self.path.clone() }),
            (Standing::Covered | Standing::Gone, Some(own)) if force => abort_connection(own),
            (Standing::Gone, _) => {}
            _ => self.unmount_top(force)?,
        }
        // The kernel has hung up; the session ends by itself.
        if force {
            self.ended.wait(FORCED_WAIT);
        } else {
            while !self.ended.wait(WAIT) {}
        }
        Ok(())
    }

    fn write_back(&self) -> BoxFuture<'_, io::Result<()>> {
        let (path, common) = (self.path.clone(), self.common.clone());
        // What it waits for, the loops do. Where the path leads elsewhere, the kernel is asked for one file after another.
        let is_on_top = matches!(self.standing(), Standing::Top);
        Box::pin(call_elsewhere(move || {
            let mount = is_on_top.then(|| File::open(path)).transpose()?;
            common.writers.wait_for_all(mount.as_ref(), &common.notifier)
        }))
    }

    fn suspend(&self) -> BoxFuture<'_, Result<Option<Box<dyn Suspended>>, MountError>> {
        Box::pin(async move {
            let is_ours =
                self.way == Way::Kernel && !self.is_ending() && matches!(self.standing(), Standing::Top);
            let Some(live) = self.parts.live.upgrade().filter(|_| is_ours) else { return Ok(None) };
            // The changes that programs have made so far belong to the present file system.
            if let Err(error) = self.write_back().await {
                tracing::warn!(place = %self.path.display(), %error, "what the kernel keeps may not be written");
            }
            let path = self.path.clone();
            if let Err(error) = call_elsewhere(move || kernel::drop_dentries(&path)).await {
                tracing::warn!(place = %self.path.display(), %error, "the kernel keeps its dentries");
                return Ok(None);
            }
            match Pause::begin(live, table::has_below(&self.path)).await {
                Paused::Waiting(pause) => {
                    let (pause, path) = (Some(pause), self.path.clone());
                    Ok(Some(Box::new(SuspendedMount { pause, path }) as Box<dyn Suspended>))
                }
                Paused::NotInTime => Err(MountError::Unfinished { path: self.path.clone() }),
                Paused::NotInPlace => Ok(None),
            }
        })
    }

    fn remount(&self, flags: MountFlags) -> Result<(), MountError> {
        let refused = |source| MountError::Refused { path: self.path.clone(), source };
        match self.way {
            Way::Kernel => kernel::remount(&self.path, flags).map_err(refused),
            Way::Helper => {
                let source = io::Error::new(io::ErrorKind::PermissionDenied, "fusermount3 cannot remount");
                Err(refused(source))
            }
        }
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
}

impl Suspended for SuspendedMount {
    fn open_objects(&self) -> Vec<ObjectId> {
        self.pause.as_ref().map(Pause::open_objects).unwrap_or_default()
    }

    fn resume(mut self: Box<Self>, zfs: Arc<Zfs>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(pause) = self.pause.take() else { return };
            let path = std::mem::take(&mut self.path);
            let drop_dentries = move || {
                if let Err(error) = kernel::drop_dentries(&path) {
                    tracing::warn!(place = %path.display(), %error, "the kernel keeps its dentries");
                }
            };
            pause.end(&zfs, drop_dentries).await;
        })
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        let _gone_already = self.unmount(true);
    }
}

/// Mounts by the FUSE protocol: each request is a task of the loop that took it from the kernel.
pub struct Fuse {
    env: Arc<RealEnv>,
    rings: bool,
}

impl Fuse {
    /// On this environment.
    #[must_use]
    pub fn new(env: Arc<RealEnv>) -> Self {
        Self { env, rings: false }
    }

    /// Whether requests are to come over io_uring, where the kernel has it.
    #[must_use]
    pub fn over_rings(self, rings: bool) -> Self {
        Self { rings, ..self }
    }

    /// Mounts what only costs what every mount costs: a server that does nothing.
    ///
    /// # Errors
    /// As [`Front::mount`]; where requests are to come over io_uring and cannot, for what is measured is told of.
    pub fn mount_floor(&self, path: &Path) -> Result<Box<dyn Mounted>, MountError> {
        let options = MountOptions {
            source: "floor".to_owned(),
            flags: MountFlags::default(),
            ..MountOptions::default()
        };
        let (mounted, agreed) =
            self.begin(path, &options, false, |_| (Floor::new(), TreeParts::default()))?;
        if self.rings && !agreed.rings {
            let source = io::Error::new(io::ErrorKind::Unsupported, "the kernel has no FUSE over io_uring");
            return Err(MountError::Refused { path: path.to_owned(), source });
        }
        Ok(mounted)
    }

    /// Mounts at `path` what `make` makes, with its control directory, if it has one.
    fn begin<S: Server>(
        &self,
        path: &Path,
        options: &MountOptions,
        posix_acls: bool,
        make: impl FnOnce(Common) -> (S, TreeParts),
    ) -> Result<(Box<dyn Mounted>, Agreed), MountError> {
        detach_stale(path);
        headroom::check()?;
        make_place(path, options.overlay)?;
        let refused = |source| MountError::Refused { path: path.to_owned(), source };
        let (device, way) = match kernel::mount(path, options) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                (helper::mount(path, options).map_err(refused)?, Way::Helper)
            }
            mounted => (mounted.map_err(refused)?, Way::Kernel),
        };
        let device = Arc::new(device);
        let wishes = Wishes { posix_acls, rings: self.rings, writeback: options.writeback };
        let served = shake_hands(&device, wishes).and_then(|agreed| {
            let notifier = Notifier::new(&device);
            let syncs = Arc::new(Syncs::new(Arc::clone(&self.env)));
            let common = Common { notifier, agreed, syncs, writers: Arc::default() };
            let (server, parts) = make(common.clone());
            let ended = Session::start(Arc::clone(&self.env), device, server, agreed.rings)?;
            let minor = table::find(path).map(|line| line.minor);
            Ok(FuseMount { path: path.to_owned(), way, minor, ended, common, parts })
        });
        match served {
            Ok(mount) => {
                let agreed = mount.common.agreed;
                Ok((Box::new(mount), agreed))
            }
            Err(error) => {
                let _not_mounted = hang_up(path);
                Err(refused(error))
            }
        }
    }
}

impl Front for Fuse {
    /// Refuses also where the process is near a limit of its descriptors, threads or memory mappings.
    fn mount(
        &self,
        shown: Shown,
        path: &Path,
        options: &MountOptions,
    ) -> Result<Box<dyn Mounted>, MountError> {
        let Shown { zfs, snapshots } = shown;
        let posix_acls = zfs.options().posix_acls;
        let begun = self.begin(path, options, posix_acls, |common| {
            // Mounted with `default_permissions`, whichever way.
            let asker = if common.agreed.writeback {
                tracing::info!(place = %path.display(), "the kernel keeps what programs write");
                Asker::Cache
            } else {
                Asker::Kernel
            };
            let zfs = Arc::new(zfs.asked_by(asker));
            Tree::new(Arc::clone(&self.env), zfs, snapshots, common, options.snapdir)
        });
        begun.map(|(mounted, _agreed)| mounted)
    }

    fn is_free(&self, path: &Path) -> bool {
        std::fs::read_dir(path).map_or(true, |mut entries| entries.next().is_none())
    }

    fn forget(&self, path: &Path) {
        if let Err(error) = std::fs::remove_dir(path) {
            tracing::debug!(place = %path.display(), %error, "mount point left");
        }
    }
}

fn make_place(path: &Path, overlay: bool) -> Result<(), MountError> {
    let failed = |source| MountError::MountPoint { path: path.to_owned(), source };
    std::fs::create_dir_all(path).map_err(failed)?;
    let mut entries = std::fs::read_dir(path).map_err(failed)?;
    if !overlay && entries.next().is_some() {
        return Err(MountError::NotEmpty { path: path.to_owned() });
    }
    Ok(())
}

/// Takes away a mount whose server was killed: what asks the server fails with `ENOTCONN`, the first time
/// with `ECONNABORTED`. What the kernel remembers, names and attributes, can still be read.
fn detach_stale(path: &Path) {
    let asked = rustix::fs::statvfs(path);
    let dead = matches!(asked, Err(Errno::NOTCONN | Errno::CONNABORTED));
    if dead && unmount(path, UnmountFlags::DETACH).is_err() {
        let _still_dead = helper::unmount(path, true);
    }
}

/// Breaks the kernel's connection with us, then takes the mount away: whoever has files open on it
/// is told that they are gone.
fn hang_up(path: &Path) -> io::Result<()> {
    // Root's way; with files open it still says "busy", but has hung up.
    let forced = unmount(path, UnmountFlags::FORCE);
    if forced.is_err()
        && let Some(line) = table::find(path)
    {
        abort_connection(&line.minor);
    }
    forced.or_else(|_| unmount(path, UnmountFlags::DETACH)).or_else(|_| helper::unmount(path, true))
}

/// A user's way to hang up, where the kernel shows its connections.
fn abort_connection(minor: &str) {
    let connection = format!("/sys/fs/fuse/connections/{minor}/abort");
    let _not_shown_or_gone = std::fs::write(connection, "1");
}
