//! What tests need of the machine that runs them: programs, devices, rights.
//!
//! A test that lacks what it needs fails. Whoever cannot have it names it in `SAWMILL_WITHOUT` (names
//! separated by commas, such as `fuse,zdb`), and `scripts/test` repeats at its start what is thereby
//! left out: a test runner hides what a passing test prints, so a message alone would be read by nobody.

use std::path::Path;

/// The variable that names what is to be done without.
const VARIABLE: &str = "SAWMILL_WITHOUT";

/// Something that some tests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Root, with `/dev/fuse`: tests of real mounts.
    Fuse,
    /// FUSE over io_uring: Linux 6.14, and `enable_uring` of the module `fuse` set.
    FuseRings,
    /// FUSE mounts that can be shown with other ids: Linux 6.12.
    FuseIds,
    /// Root, for what only root can do.
    Root,
    /// OpenZFS's `zdb` (Debian: `zfsutils-linux`).
    Zdb,
    /// `grub-fstest` (Debian: `grub-common`).
    Grub,
    /// A PostgreSQL server.
    Postgres,
    /// Loop devices that may be set up.
    Loop,
    /// A file system for temporary files that supports `O_DIRECT`.
    DirectIo,
    /// A tmpfs at `/dev/shm`.
    Tmpfs,
    /// OpenZFS's files of features (`/usr/share/zfs/compatibility.d`).
    Features,
    /// A control group below this process's own, with the memory controller.
    MemoryGroup,
    /// Any other program.
    Program(&'static str),
}

impl Need {
    /// Its name in `SAWMILL_WITHOUT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fuse => "fuse",
            Self::FuseRings => "fuse-uring",
            Self::FuseIds => "fuse-idmap",
            Self::Root => "root",
            Self::Zdb => "zdb",
            Self::Grub => "grub",
            Self::Postgres => "postgres",
            Self::Loop => "loop",
            Self::DirectIo => "direct-io",
            Self::Tmpfs => "tmpfs",
            Self::Features => "features",
            Self::MemoryGroup => "memory-group",
            Self::Program(name) => name,
        }
    }

    /// To be called when the machine lacks it: returns, for the test to end, only if it is to be done without.
    ///
    /// # Panics
    /// When nobody said that it may be missing. `lack` says what was tried.
    pub fn is_missing(self, lack: &str) {
        let without = std::env::var(VARIABLE).unwrap_or_default();
        assert!(
            is_left_out(&without, self.name()),
            "{lack}; to leave such tests out, set {VARIABLE}={}",
            self.name()
        );
    }
}

fn is_left_out(without: &str, name: &str) -> bool {
    without.split(',').any(|word| word.trim() == name)
}

/// Why nothing can be mounted here, if so.
#[must_use]
pub fn lack_of_fuse() -> Option<&'static str> {
    if !Path::new("/dev/fuse").exists() {
        return Some("there is no /dev/fuse");
    }
    let opened = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    opened.is_err().then_some("/dev/fuse cannot be opened")
}

/// Why no mount can get its requests over io_uring here, if so.
#[must_use]
pub fn lack_of_fuse_rings() -> Option<&'static str> {
    let set = std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    match set.as_deref().map(str::trim) {
        Ok("Y") => None,
        Ok(_) => Some("/sys/module/fuse/parameters/enable_uring does not say Y"),
        Err(_) => Some("the kernel has no FUSE over io_uring"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_may_be_missing() {
        assert!(is_left_out("fuse, zdb", "zdb") && is_left_out("fuse", "fuse"));
        assert!(!is_left_out("", "fuse") && !is_left_out("zdb2", "zdb"));
        let lost = std::panic::catch_unwind(|| Need::Program("no-such-program").is_missing("not found"));
        assert!(lost.is_err(), "nobody named it");
    }
}
