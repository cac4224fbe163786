//! Mounting and unmounting.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use device::RealEnv;
use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use rustix::mount::{UnmountFlags, unmount};
use zpl::Zfs;

use crate::files::Files;

/// Threads that take requests. A request is worked on to its end by the thread that took it, so
/// this is also how many can wait for one log block together.
const THREADS: usize = 32;

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// What `mount` shows as the source: the dataset's name.
    pub source: String,
    /// No changes.
    pub read_only: bool,
    /// Also over a directory that is not empty.
    pub overlay: bool,
}

/// Why something was not mounted or unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point cannot be made.
    #[error("cannot make mount point {}: {source}", path.display())]
    MountPoint {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something is in the directory already.
    #[error("directory is not empty")]
    NotEmpty {
        /// Which.
        path: PathBuf,
    },
    /// The kernel refused to mount.
    #[error("cannot mount at {}: {source}", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Files on it are open.
    #[error("pool or dataset is busy")]
    Busy {
        /// Where.
        path: PathBuf,
    },
}

/// A mounted file system; unmounted when dropped.
pub struct Mounted {
    path: PathBuf,
    session: Option<BackgroundSession>,
}

impl Mounted {
    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts it, unless files on it are open and `force` is not given. By force, whoever has
    /// files open loses them: a mount that only hides, and goes on until the last file is closed,
    /// would keep its pool from ever being closed.
    /// (test: `a_daemon_stops_though_a_file_is_open`)
    ///
    /// # Errors
    /// [`MountError::Busy`]; the file system stays mounted then.
    pub fn unmount(&mut self, force: bool) -> Result<(), MountError> {
        let unmounted = unmount(&self.path, UnmountFlags::empty())
            .map_err(io::Error::from)
            .or_else(|_| unmount_as_user(&self.path, false));
        let unmounted = if force { unmounted.or_else(|_| hang_up(&self.path)) } else { unmounted };
        if unmounted.is_err() && is_mounted(&self.path) {
            return Err(MountError::Busy { path: self.path.clone() });
        }
        if let Some(session) = self.session.take() {
            // The kernel has hung up; the threads end by themselves.
            let _ended = session.join();
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.is_some() {
            let _gone_already = self.unmount(true);
        }
    }
}

/// Mounts `zfs` at `path`, which is made if it is not there.
///
/// # Errors
/// When the directory is not empty or cannot be made, or the kernel refuses.
pub fn mount(
    env: Arc<RealEnv>,
    zfs: Arc<Zfs>,
    path: &Path,
    options: &MountOptions,
) -> Result<Mounted, MountError> {
    detach_stale(path);
    std::fs::create_dir_all(path)
        .map_err(|source| MountError::MountPoint { path: path.to_owned(), source })?;
    let mut entries =
        std::fs::read_dir(path).map_err(|source| MountError::MountPoint { path: path.to_owned(), source })?;
    if !options.overlay && entries.next().is_some() {
        return Err(MountError::NotEmpty { path: path.to_owned() });
    }
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        MountOption::Subtype("sawmill".into()),
        MountOption::DefaultPermissions,
        MountOption::Dev,
        MountOption::Suid,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    config.acl = if rustix::process::geteuid().is_root() { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let session = fuser::spawn_mount(Files::new(env, zfs), path, &config)
        .map_err(|source| MountError::Refused { path: path.to_owned(), source })?;
    Ok(Mounted { path: path.to_owned(), session: Some(session) })
}

/// Takes away a mount whose server was killed: opening it fails with `ENOTCONN`, the first time
/// with `ECONNABORTED`. What the kernel remembers of its attributes can still be read.
pub fn detach_stale(path: &Path) {
    let errno = std::fs::read_dir(path).err().and_then(|e| e.raw_os_error());
    let dead = matches!(errno, Some(libc::ENOTCONN | libc::ECONNABORTED));
    if dead && unmount(path, UnmountFlags::DETACH).is_err() {
        let _still_dead = unmount_as_user(path, true);
    }
}

/// Breaks the kernel's connection with us, then takes the mount away: whoever has files open on it
/// is told that they are gone.
fn hang_up(path: &Path) -> io::Result<()> {
    // Root's way; with files open it still says "busy", but has hung up.
    let forced = unmount(path, UnmountFlags::FORCE);
    if forced.is_err() {
        abort_connection(path);
    }
    forced.or_else(|_| unmount(path, UnmountFlags::DETACH)).or_else(|_| unmount_as_user(path, true))
}

/// A user's way to hang up, where the kernel shows its connections.
fn abort_connection(path: &Path) {
    let minor = mounts().into_iter().find(|mount| mount.at == path).map(|mount| mount.minor);
    if let Some(minor) = minor {
        let _not_shown_or_gone = std::fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1");
    }
}

/// Users may unmount what they mounted only through the helper that mounted it.
fn unmount_as_user(path: &Path, force: bool) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    command.arg(if force { "-uz" } else { "-u" }).arg(path);
    let output = command.output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr)))
    }
}

/// A line of the kernel's table.
struct MountLine {
    at: PathBuf,
    /// Number of its device, which is that of its connection.
    minor: String,
}

fn mounts() -> Vec<MountLine> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.split(' ').skip(2);
        let (_, minor) = words.next()?.split_once(':')?;
        Some(MountLine { minor: minor.to_owned(), at: words.nth(1)?.into() })
    };
    table.lines().filter_map(line).collect()
}

fn is_mounted(path: &Path) -> bool {
    mounts().iter().any(|mount| mount.at == path)
}
