//! The walk to a mount point, directory by directory, which no link of a user leads elsewhere.
//!
//! ```text
//!  "/" ──► open the next name, no link ──► the same below that directory ──► ... the mount point
//!             │ nothing has that name: mkdirat(2), and again
//!             │ a link ─┬─ only root can have made it ──► its target comes before the other names
//!             │         └─ a user may change it, or it is in a pool ──► refused
//!             └ a file system that another user mounted ──► refused
//! ```
//! Whoever owns a directory can exchange its entries at any moment. Therefore each directory is opened
//! below the descriptor of the last one, and what was checked is what was opened. Directories of users
//! are walked through: a user can exchange them only for other directories of that user's reach.
//!
//! A link is followed if root owns it and the directory with it, and nobody else may write to that
//! directory. A sticky bit does not help: where hard links to files of others are allowed, a user can
//! put any link of root's into `/tmp`. A daemon that is not root also trusts its own user. No link in a
//! FUSE file system is followed, because the owners in a pool may come from a stranger's image or stream.
//!
//! Invariants
//! - A walk follows no link that a user may change.
//!   (test: `links_are_followed_where_only_root_may_change_them`)
//! - Below an altroot, no walk leads out of it. (test: `no_link_leads_out_of_an_altroot`)
//! - No walk waits for a FUSE server of another user, who can also claim that root owns a link.
//!   (test: `what_another_user_mounted_is_not_entered`)

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::identity::mount_id;
use super::point::{MountPoint, PointEntry, is_empty, open_directory, open_root};
use super::table::KernelMounts;

/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;
/// As many directories are held open of a way.
const TRAIL_MAX: usize = 128;
const WRITABLE_FOR_OTHERS: u32 = 0o022;
const DIRECTORY_MODE: Mode = Mode::from_bits_truncate(0o755);

/// See the module.
pub(super) struct PathWalk {
    /// The names from the root to `directory`.
    names: Vec<OsString>,
    /// So many of them are never left.
    kept: usize,
    /// The parent of `directory`; none at the root.
    parent: Option<OwnedFd>,
    directory: OwnedFd,
    /// The number of the mount that `directory` is in.
    mount: u64,
    /// Names that are to come, the next one last.
    pending: Vec<OsString>,
    links_left: usize,
    makes_directories: bool,
    mounts: Option<KernelMounts>,
    /// The directories in which names were looked up, if they are kept.
    trail: Option<Vec<OwnedFd>>,
}

/// Where a walk ends that makes nothing.
pub(super) struct PathEnd {
    /// The directories in which the walk looked up names.
    pub trail: Vec<OwnedFd>,
    /// The last directory of the path that is there.
    pub directory: OwnedFd,
    /// The names behind it.
    missing: Vec<OsString>,
    /// Something is mounted on the directory.
    is_mounted: bool,
}

impl PathEnd {
    /// True if the path does not lead to a directory.
    pub fn is_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// True if a mount at the path would hide neither files nor another mount.
    ///
    /// # Errors
    /// The system's.
    pub fn is_vacant(&self) -> io::Result<bool> {
        Ok(self.is_missing() || !self.is_mounted && is_empty(&self.directory)?)
    }
}

impl PathWalk {
    /// Begins at the root. Follows links that only root may change.
    ///
    /// # Errors
    /// The system's.
    pub fn from_root() -> io::Result<Self> {
        let directory = open_root()?;
        Ok(Self {
            names: Vec::new(),
            kept: 0,
            parent: None,
            mount: mount_id(&directory)?,
            directory,
            pending: Vec::new(),
            links_left: LINKS_MAX,
            makes_directories: false,
            mounts: None,
            trail: None,
        })
    }

    /// Walks the way of a mount at a path as far as there are directories. As for a mount, the path
    /// begins with `altroot`, and leads to no place outside of it.
    ///
    /// # Errors
    /// The system's; in words, which component is refused.
    pub fn end_of(path: &Path, altroot: Option<&Path>) -> io::Result<PathEnd> {
        let mut walk = Self { trail: Some(Vec::new()), ..Self::from_root()? };
        let rest = walk.enter_altroot(path, altroot)?;
        walk.add(rest);
        let mut missing = Vec::new();
        while let Some(name) = walk.pending.pop() {
            let walked = if name == ".." { walk.leave() } else { walk.step(name.clone()) };
            if walked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                missing.push(name);
                missing.extend(walk.pending.drain(..).rev());
                break;
            }
            walked?;
        }
        if missing.iter().any(|name| name == "..") {
            return Err(io::Error::other("'..' follows a directory that is missing"));
        }
        let outside = walk.parent.as_ref().map(mount_id).transpose()?;
        Ok(PathEnd {
            trail: walk.trail.unwrap_or_default(),
            directory: walk.directory,
            missing,
            is_mounted: outside != Some(walk.mount),
        })
    }

    /// Walks to `altroot`, if there is one, and stays there. Returns the rest of a path below it.
    ///
    /// # Errors
    /// As [`Self::walk`].
    pub fn enter_altroot<'a>(&mut self, path: &'a Path, altroot: Option<&Path>) -> io::Result<&'a Path> {
        let Some(altroot) = altroot else { return Ok(path) };
        let rest = path.strip_prefix(altroot);
        let rest = rest.map_err(|_| io::Error::other("the mount point is not below the altroot"))?;
        self.walk(altroot)?;
        self.stay_here();
        Ok(rest)
    }

    /// Makes directories that are missing.
    pub fn making_directories(self) -> Self {
        Self { makes_directories: true, ..self }
    }

    /// Follows no link.
    pub fn refusing_links(self) -> Self {
        Self { links_left: 0, ..self }
    }

    /// Has read the kernel's table already.
    pub fn knowing(self, mounts: KernelMounts) -> Self {
        Self { mounts: Some(mounts), ..self }
    }

    /// The present directory is the root for the rest of the walk.
    fn stay_here(&mut self) {
        self.kept = self.names.len();
    }

    /// Ends the walk.
    ///
    /// # Errors
    /// The system's.
    pub fn into_point(self) -> io::Result<MountPoint> {
        let entry = match (self.parent, self.names.last()) {
            (Some(parent), Some(name)) => PointEntry { parent, name: name.clone() },
            // In the root, ".." is what is mounted on the root.
            _ => PointEntry { parent: open_root()?, name: "..".into() },
        };
        Ok(MountPoint { entry, directory: self.directory })
    }

    /// Walks on from the present directory, whether or not the path begins with a slash.
    ///
    /// # Errors
    /// The system's; in words, which component is refused.
    pub fn walk(&mut self, path: &Path) -> io::Result<()> {
        self.add(path);
        while let Some(name) = self.pending.pop() {
            if name == ".." { self.leave()? } else { self.step(name)? }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path) {
        let name = |component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::Prefix(_) | Component::RootDir | Component::CurDir => None,
        };
        self.pending.extend(path.components().rev().filter_map(name));
    }

    fn step(&mut self, name: OsString) -> io::Result<()> {
        if let Some(trail) = &mut self.trail {
            if trail.len() >= TRAIL_MAX {
                return Err(io::Error::other("the way leads through too many directories"));
            }
            trail.push(self.directory.try_clone()?);
        }
        let mut opened = open_directory(&self.directory, &name);
        if opened.as_ref().is_err_and(|error| *error == Errno::NOENT) && self.makes_directories {
            match mkdirat(&self.directory, &name, DIRECTORY_MODE) {
                Ok(()) | Err(Errno::EXIST) => opened = open_directory(&self.directory, &name),
                Err(error) => return Err(error.into()),
            }
        }
        match opened {
            Ok(directory) => self.enter(directory, name),
            Err(Errno::NOTDIR | Errno::LOOP) => self.follow(&name),
            Err(error) => Err(error.into()),
        }
    }

    fn enter(&mut self, directory: OwnedFd, name: OsString) -> io::Result<()> {
        let mount = mount_id(&directory)?;
        if mount != self.mount {
            self.check_server(mount, &name)?;
            self.mount = mount;
        }
        self.parent = Some(std::mem::replace(&mut self.directory, directory));
        self.names.push(name);
        Ok(())
    }

    /// Puts the target of a link before the other names.
    fn follow(&mut self, name: &OsStr) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let link = openat(&self.directory, name, flags, Mode::empty())?;
        let target = match readlinkat(&link, "", Vec::new()) {
            // Something else than a link has the name.
            Err(Errno::INVAL | Errno::NOENT) => return Err(Errno::NOTDIR.into()),
            target => target?,
        };
        self.links_left = self.links_left.checked_sub(1).ok_or(Errno::LOOP)?;
        self.check_link(&link, name)?;
        let target = Path::new(OsStr::from_bytes(target.to_bytes()));
        if target.is_absolute() {
            self.names.truncate(self.kept);
            self.walk_again()?;
        }
        self.add(target);
        Ok(())
    }

    /// Goes to the directory above, as the walk came: a user may have moved the present one.
    fn leave(&mut self) -> io::Result<()> {
        if self.names.len() > self.kept {
            self.names.pop();
            self.walk_again()?;
        }
        Ok(())
    }

    /// Walks the names again that the walk has come by. No link was among them.
    fn walk_again(&mut self) -> io::Result<()> {
        let names = std::mem::take(&mut self.names);
        (self.parent, self.directory) = (None, open_root()?);
        self.mount = mount_id(&self.directory)?;
        names.into_iter().try_for_each(|name| {
            let directory = open_directory(&self.directory, &name)?;
            self.enter(directory, name)
        })
    }

    fn check_link(&self, link: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let path = self.path_of(name);
        let line = self.mounts.as_ref().and_then(|mounts| mounts.line(self.mount));
        if line.is_some_and(|line| line.user.is_some()) {
            let words = format!("'{}' is a symbolic link in a FUSE file system", path.display());
            return Err(io::Error::other(words));
        }
        let (link, directory) = (fstat(link)?, fstat(&self.directory)?);
        let owner = [link.st_uid, directory.st_uid].into_iter().find(|owner| !is_trusted(*owner));
        let who = match owner {
            Some(owner) => format!("uid {owner}"),
            None if directory.st_mode & WRITABLE_FOR_OTHERS != 0 => "other users".to_owned(),
            None => return Ok(()),
        };
        Err(io::Error::other(format!("'{}' is a symbolic link that {who} may change", path.display())))
    }

    fn check_server(&mut self, mount: u64, name: &OsStr) -> io::Result<()> {
        let mounts = match self.mounts.take().filter(|mounts| mounts.line(mount).is_some()) {
            Some(mounts) => mounts,
            None => KernelMounts::read()?,
        };
        let user = mounts.line(mount).and_then(|line| line.user).filter(|user| !is_trusted(*user));
        self.mounts = Some(mounts);
        let Some(user) = user else { return Ok(()) };
        let path = self.path_of(name);
        Err(io::Error::other(format!("uid {user} has mounted a file system at '{}'", path.display())))
    }

    fn path_of(&self, name: &OsStr) -> PathBuf {
        Path::new("/").join(self.names.iter().collect::<PathBuf>()).join(name)
    }
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}
