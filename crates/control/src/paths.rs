//! Where the daemon keeps its socket, its lock and what it remembers.

use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Files of one daemon. All are below one directory that nobody else may write to, but for the cache
/// of open pools, which must outlive a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPaths {
    run: PathBuf,
    state: PathBuf,
    /// Where root's daemon has its directory, if this user was not told of another one.
    system: Option<PathBuf>,
}

/// Why a run-time directory is not to be trusted: who may write to it could answer in the daemon's place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UntrustedDir {
    /// It is a link, or no directory.
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// It is another user's.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// Others may write to it.
    #[error("{} can be written to by other users", .0.display())]
    Writable(PathBuf),
}

impl RunPaths {
    /// From the environment: `$SAWMILL_RUN`, else of root `/run/sawmill`, else
    /// `$XDG_RUNTIME_DIR/sawmill`, else `/tmp/sawmill-UID`; what must outlive a reboot goes to
    /// `$SAWMILL_RUN`, else `$XDG_STATE_HOME/sawmill`, else `~/.local/state/sawmill`, of root
    /// `/var/lib/sawmill`.
    pub fn from_env() -> Self {
        Self::choose(|name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from), uid())
    }

    /// Everything in one directory.
    pub fn under(directory: impl Into<PathBuf>) -> Self {
        let run = directory.into();
        Self { state: run.clone(), run, system: None }
    }

    /// The files of root's daemon, where this is another user that has directories of its own.
    pub fn system(&self) -> Option<Self> {
        self.system.clone().map(Self::under)
    }

    /// Whether the run-time directory is root's, and this is another user, who may only look.
    pub fn is_roots(&self) -> bool {
        uid() != ROOT && fs::symlink_metadata(&self.run).is_ok_and(|dir| dir.uid() == ROOT)
    }

    /// Makes the run-time directory if there is none. Others may reach the public socket in root's.
    ///
    /// # Errors
    /// When it cannot be made. Whether one that is there can be trusted, [`RunPaths::check`] tells.
    pub fn make_run_dir(&self) -> io::Result<()> {
        let mode = if uid() == ROOT { 0o711 } else { 0o700 };
        if let Some(above) = self.run.parent() {
            fs::create_dir_all(above)?;
        }
        match fs::DirBuilder::new().mode(mode).create(&self.run) {
            // Whatever the umask takes away.
            Ok(()) => fs::set_permissions(&self.run, fs::Permissions::from_mode(mode)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that nobody else could have put a socket into the run-time directory, if there is
    /// one: it may lie where every user makes directories.
    ///
    /// # Errors
    /// Why it is not to be trusted.
    pub fn check(&self) -> Result<(), UntrustedDir> {
        let Ok(found) = fs::symlink_metadata(&self.run) else { return Ok(()) };
        if !found.is_dir() {
            return Err(UntrustedDir::NoDirectory(self.run.clone()));
        }
        // Root asks whomever it is told to ask.
        if uid() != ROOT && ![uid(), ROOT].contains(&found.uid()) {
            return Err(UntrustedDir::Foreign(self.run.clone()));
        }
        match found.mode() & OTHERS_WRITE {
            0 => Ok(()),
            _ => Err(UntrustedDir::Writable(self.run.clone())),
        }
    }

    fn choose(var: impl Fn(&str) -> Option<PathBuf>, uid: u32) -> Self {
        if let Some(run) = var("SAWMILL_RUN") {
            return Self::under(run);
        }
        let is_root = uid == ROOT;
        let run = match (is_root, var("XDG_RUNTIME_DIR")) {
            (true, _) => PathBuf::from(SYSTEM_RUN),
            (false, Some(dir)) => dir.join("sawmill"),
            (false, None) => PathBuf::from(format!("/tmp/sawmill-{uid}")),
        };
        let state = device::state_dir(&|name| var(name).map(PathBuf::into_os_string), is_root);
        let system = (!is_root).then(|| PathBuf::from(SYSTEM_RUN));
        Self { state: state.unwrap_or_else(|| run.clone()), run, system }
    }

    /// The directory of sockets, lock and log file.
    pub fn run_dir(&self) -> &Path {
        &self.run
    }

    /// The directory of the pool cache.
    pub fn state_dir(&self) -> &Path {
        &self.state
    }

    /// Where the daemon listens.
    pub fn socket(&self) -> PathBuf {
        self.run.join("socket")
    }

    /// Where root's daemon listens to everybody who only looks.
    pub fn public_socket(&self) -> PathBuf {
        self.run.join("look")
    }

    /// What whoever looks at the daemon's page has to know.
    pub fn web_token(&self) -> PathBuf {
        self.run.join("web.token")
    }

    /// Where that page is, while it is shown.
    pub fn web_address(&self) -> PathBuf {
        self.run.join("web.address")
    }

    /// Held by whoever starts a daemon, until it answers.
    pub fn start_lock(&self) -> PathBuf {
        self.run.join("start.lock")
    }

    /// Held by the daemon as long as it lives; its process id is inside.
    pub fn daemon_lock(&self) -> PathBuf {
        self.run.join("daemon.lock")
    }

    /// What the daemon has to tell.
    pub fn log(&self) -> PathBuf {
        self.run.join("daemon.log")
    }

    /// The pools to bring back at start.
    pub fn pool_cache(&self) -> PathBuf {
        self.state.join("pools.cache")
    }

    /// The default cache file in the format of OpenZFS: `/etc/zfs/zpool.cache` of the daemon of root.
    pub fn zpool_cache(&self) -> PathBuf {
        match self.run == Path::new(SYSTEM_RUN) {
            true => PathBuf::from(ZPOOL_CACHE),
            false => self.state.join("zpool.cache"),
        }
    }

    /// Why the last process ended, if a panic ended it.
    pub fn last_words(&self) -> PathBuf {
        self.pool_cache().with_extension("panic")
    }

    /// The directory of the processes that hold one pool each.
    pub fn pools_dir(&self) -> PathBuf {
        self.state.join(POOLS)
    }

    /// The directory of the sockets of these processes.
    pub fn pools_run_dir(&self) -> PathBuf {
        self.run.join(POOLS)
    }

    /// The files of one of these processes.
    #[must_use]
    pub fn of_pool(&self, number: u64) -> Self {
        let below = |directory: &Path| directory.join(POOLS).join(number.to_string());
        Self { run: below(&self.run), state: below(&self.state), system: None }
    }
}

const ROOT: u32 = 0;
const POOLS: &str = "pools";
const SYSTEM_RUN: &str = "/run/sawmill";
/// Where `zdb` and boot scripts look (zpoolprops(7), `cachefile`).
const ZPOOL_CACHE: &str = "/etc/zfs/zpool.cache";
/// The permission bit by which strangers write. A group is its owner's choice, often of one.
const OTHERS_WRITE: u32 = 0o002;

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<PathBuf> {
        move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v))
    }

    #[test]
    fn sawmill_run_puts_everything_in_one_directory() {
        let paths = RunPaths::choose(env(&[("SAWMILL_RUN", "/x"), ("XDG_RUNTIME_DIR", "/y")]), 0);
        assert_eq!(paths, RunPaths::under("/x"));
        assert_eq!(paths.pool_cache(), PathBuf::from("/x/pools.cache"));
        assert_eq!(paths.zpool_cache(), PathBuf::from("/x/zpool.cache"));
    }

    #[test]
    fn a_user_without_root_finds_a_directory_of_their_own() {
        let paths = RunPaths::choose(env(&[("XDG_RUNTIME_DIR", "/run/user/7"), ("HOME", "/home/u")]), 7);
        assert_eq!(paths.socket(), PathBuf::from("/run/user/7/sawmill/socket"));
        assert_eq!(paths.pool_cache(), PathBuf::from("/home/u/.local/state/sawmill/pools.cache"));
    }

    #[test]
    fn a_user_without_a_session_gets_a_directory_by_number() {
        let paths = RunPaths::choose(env(&[("HOME", "/home/u")]), 7);
        assert_eq!(paths.run_dir(), Path::new("/tmp/sawmill-7"));
        assert_eq!(paths.system(), Some(RunPaths::under("/run/sawmill")));
    }

    #[test]
    fn a_directory_that_others_could_fill_is_not_trusted() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().expect("a directory");
        let run = dir.path().join("run");
        let paths = RunPaths::under(&run);
        assert_eq!(paths.check(), Ok(()), "there is none yet");
        fs::create_dir(&run).expect("made");
        let mode = |mode| fs::set_permissions(&run, fs::Permissions::from_mode(mode)).expect("set");
        mode(0o711);
        assert_eq!(paths.check(), Ok(()));
        mode(0o707);
        assert_eq!(paths.check(), Err(UntrustedDir::Writable(run.clone())));
        symlink(dir.path(), dir.path().join("link")).expect("a link");
        let link = dir.path().join("link");
        assert_eq!(RunPaths::under(&link).check(), Err(UntrustedDir::NoDirectory(link)));
    }

    #[test]
    fn roots_pools_outlive_a_reboot() {
        let paths = RunPaths::choose(env(&[("XDG_RUNTIME_DIR", "/run/user/0")]), 0);
        assert_eq!(paths.run_dir(), Path::new("/run/sawmill"));
        assert_eq!(paths.pool_cache(), PathBuf::from("/var/lib/sawmill/pools.cache"));
        assert_eq!(paths.zpool_cache(), PathBuf::from("/etc/zfs/zpool.cache"));
    }
}
