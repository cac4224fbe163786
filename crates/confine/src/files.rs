//! Files: nothing is opened but what the paths of [`crate::Confinement::readable`] contain, for
//! reading.
//!
//! The kernel checks the rules of Landlock wherever a file is opened, also by an operation of
//! io_uring. What was open before stays usable as it was, and so does what comes through a socket.
//! A rule that the kernel is too old for is left out, and [`FileWall`] reports this.
//!
//! Landlock has no rule for metadata: `stat`, `readlink` and `access` of what other users may
//! search still work.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope,
};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::ConfineError;

/// All that the crate knows. The kernel 6.18 knows the seventh.
const NEWEST: ABI = ABI::V10;

/// How much of Landlock the kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileWall {
    /// All rules. Unix sockets with a path are unreachable, too.
    All,
    /// The rules that this kernel knows.
    Some,
    /// The kernel has no Landlock. The process opens what modes and owners allow everybody.
    Absent,
}

/// Ends what this process may do with files, signals and sockets by their names.
///
/// # Errors
/// When a path cannot be opened, or a kernel with Landlock refuses.
pub(crate) fn close_files(readable: &[PathBuf]) -> Result<FileWall, ConfineError> {
    let roots: Vec<Root> = readable.iter().map(|path| Root::open(path)).collect::<Result<_, _>>()?;
    let status = restrict(roots).map_err(ConfineError::Files)?;
    Ok(match status {
        RulesetStatus::FullyEnforced => FileWall::All,
        RulesetStatus::PartiallyEnforced => FileWall::Some,
        RulesetStatus::NotEnforced => FileWall::Absent,
    })
}

fn restrict(roots: Vec<Root>) -> Result<RulesetStatus, RulesetError> {
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let rules =
        roots.into_iter().map(|root| Ok::<_, RulesetError>(PathBeneath::new(root.place, root.access)));
    Ok(ruleset.add_rules(rules)?.restrict_self()?.ruleset)
}

/// A file or a directory, and what may be done with it and below.
struct Root {
    place: OwnedFd,
    access: BitFlags<AccessFs>,
}

impl Root {
    fn open(path: &Path) -> Result<Self, ConfineError> {
        let failed = |error| ConfineError::Readable { path: path.to_owned(), source: io::Error::from(error) };
        let place = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let kind = FileType::from_raw_mode(fstat(&place).map_err(failed)?.st_mode);
        let access = match kind {
            FileType::Directory => AccessFs::ReadFile | AccessFs::ReadDir,
            _ => AccessFs::ReadFile.into(),
        };
        Ok(Self { place, access })
    }
}
