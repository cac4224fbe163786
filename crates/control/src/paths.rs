//! Where the daemon keeps its socket, its lock and what it remembers.

use std::path::{Path, PathBuf};

/// Files of one daemon. All are below one directory of mode 0700, but for the cache of
/// open pools, which must outlive a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPaths {
    run: PathBuf,
    state: PathBuf,
}

impl RunPaths {
    /// From the environment: `$SAWMILL_RUN`, else `$XDG_RUNTIME_DIR/sawmill`, else
    /// `/run/sawmill`; what must outlive a reboot goes to `$SAWMILL_RUN`, else
    /// `$XDG_STATE_HOME/sawmill`, else `~/.local/state/sawmill`, of root `/var/lib/sawmill`.
    pub fn from_env() -> Self {
        Self::choose(|name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from), is_root())
    }

    /// Everything in one directory.
    pub fn under(directory: impl Into<PathBuf>) -> Self {
        let run = directory.into();
        Self { state: run.clone(), run }
    }

    fn choose(var: impl Fn(&str) -> Option<PathBuf>, root: bool) -> Self {
        if let Some(run) = var("SAWMILL_RUN") {
            return Self::under(run);
        }
        let run = var("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/run/sawmill"), |d| d.join("sawmill"));
        let state = match (root, var("XDG_STATE_HOME"), var("HOME")) {
            (true, _, _) => PathBuf::from("/var/lib/sawmill"),
            (false, Some(state), _) => state.join("sawmill"),
            (false, None, Some(home)) => home.join(".local/state/sawmill"),
            (false, None, None) => run.clone(),
        };
        Self { run, state }
    }

    /// The directory of socket, lock and log file; mode 0700.
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
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<PathBuf> {
        move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| PathBuf::from(v))
    }

    #[test]
    fn sawmill_run_puts_everything_in_one_directory() {
        let paths = RunPaths::choose(env(&[("SAWMILL_RUN", "/x"), ("XDG_RUNTIME_DIR", "/y")]), true);
        assert_eq!(paths, RunPaths::under("/x"));
        assert_eq!(paths.pool_cache(), PathBuf::from("/x/pools.cache"));
    }

    #[test]
    fn a_user_without_root_finds_a_directory_of_their_own() {
        let paths = RunPaths::choose(env(&[("XDG_RUNTIME_DIR", "/run/user/7"), ("HOME", "/home/u")]), false);
        assert_eq!(paths.socket(), PathBuf::from("/run/user/7/sawmill/socket"));
        assert_eq!(paths.pool_cache(), PathBuf::from("/home/u/.local/state/sawmill/pools.cache"));
    }

    #[test]
    fn roots_pools_outlive_a_reboot() {
        let paths = RunPaths::choose(env(&[]), true);
        assert_eq!(paths.run_dir(), Path::new("/run/sawmill"));
        assert_eq!(paths.pool_cache(), PathBuf::from("/var/lib/sawmill/pools.cache"));
    }
}
