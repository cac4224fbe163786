//! Which host this is: the name and the number by which a pool's labels tell other hosts who has it.
//!
//! ```text
//!  $SAWMILL_HOSTID ─► /etc/hostid ─► STATE/hostid ─► made now, and kept in STATE/hostid ─► 0
//!     if set            if there        if there          if it can be kept
//! ```
//! Containers have no `/etc/hostid`. Without a number of its own a host could not tell, after a
//! crash, whether a pool was imported elsewhere meanwhile; so it gets one, which must then be the
//! same after every restart.
//!
//! Invariants
//! - Two processes that need a number at the same time get the same
//!   (test: `two_who_make_the_number_agree`).

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::rand::{GetRandomFlags, getrandom};

/// Where a system keeps its number, as every ZFS reads it.
const SYSTEM_FILE: &str = "/etc/hostid";
/// The number that counts before all others: eight hexadecimal digits.
const VARIABLE: &str = "SAWMILL_HOSTID";
/// The file in the state directory.
const OWN_FILE: &str = "hostid";

/// Looks up one variable of the process's environment.
pub type Variable<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// This host's number; 0 when it has none and none could be kept.
#[must_use]
pub fn host_id() -> u32 {
    let variable = |name: &str| std::env::var_os(name);
    let given = variable(VARIABLE).and_then(|text| parse(text.to_str()?));
    given
        .or_else(|| read(Path::new(SYSTEM_FILE)))
        .or_else(|| own_id(&state_dir(&variable, is_root())?))
        .unwrap_or(0)
}

/// The directory for what must outlive a reboot: `$SAWMILL_RUN`, else of root `/var/lib/sawmill`,
/// else `$XDG_STATE_HOME/sawmill`, else `~/.local/state/sawmill`.
#[must_use]
pub fn state_dir(variable: Variable<'_>, is_root: bool) -> Option<PathBuf> {
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    path("SAWMILL_RUN")
        .or_else(|| is_root.then(|| PathBuf::from("/var/lib/sawmill")))
        .or_else(|| Some(path("XDG_STATE_HOME")?.join("sawmill")))
        .or_else(|| Some(path("HOME")?.join(".local/state/sawmill")))
}

/// This host's name.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The user and the group as whom this process makes files.
#[must_use]
pub fn user_and_group() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn parse(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim_start_matches("0x"), 16).ok().filter(|&id| id != 0)
}

/// The file holds 32 bits in the host's byte order; little-endian is all we run on.
fn read(file: &Path) -> Option<u32> {
    let bytes = fs::read(file).ok()?;
    bytes.first_chunk().map(|id| u32::from_le_bytes(*id)).filter(|&id| id != 0)
}

/// The number kept in `state`, made now if there is none.
fn own_id(state: &Path) -> Option<u32> {
    let file = state.join(OWN_FILE);
    read(&file).or_else(|| {
        keep(state, random()?).ok()?;
        // Of two who made one, both take the one that was kept.
        read(&file)
    })
}

fn random() -> Option<u32> {
    let mut bytes = [0; 4];
    getrandom(&mut bytes[..], GetRandomFlags::empty()).ok()?;
    // Not 0, which stands for no number.
    Some(u32::from_le_bytes(bytes).max(1))
}

/// Writes a whole file aside and gives it its name, unless another has that name already.
fn keep(state: &Path, id: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(state)?;
    let aside = state.join(format!("{OWN_FILE}.{}.{id:x}", std::process::id()));
    let mut file = File::create(&aside)?;
    file.write_all(&id.to_le_bytes())?;
    file.sync_all()?;
    let kept = fs::hard_link(&aside, state.join(OWN_FILE));
    fs::remove_file(&aside)?;
    kept.or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })?;
    File::open(state)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into())
    }

    #[test]
    fn a_number_once_made_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("below/state");
        let made = own_id(&state).expect("a number");
        assert_ne!(made, 0);
        assert_eq!(own_id(&state), Some(made));
        assert_eq!(fs::read_dir(&state).expect("lists").count(), 1, "nothing else is left there");
    }

    #[test]
    fn two_who_make_the_number_agree() {
        let dir = tempfile::tempdir().expect("a directory");
        let found: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| own_id(dir.path()))).collect();
            all.into_iter().map(|one| one.join().expect("ends")).collect()
        });
        assert!(found[0].is_some() && found.iter().all(|id| *id == found[0]), "{found:?}");
    }

    #[test]
    fn a_number_that_cannot_be_kept_is_none() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("file"), b"").expect("writes");
        assert_eq!(own_id(&dir.path().join("file/state")), None);
    }

    #[test]
    fn a_short_hostid_file_is_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("hostid");
        fs::write(&file, [1, 2]).expect("writes");
        assert_eq!(read(&file), None);
        fs::write(&file, [0x21, 0x43, 0x65, 0x87]).expect("writes");
        assert_eq!(read(&file), Some(0x8765_4321));
        assert_eq!(
            (parse("0x8765"), parse("8765"), parse("0"), parse("me")),
            (Some(0x8765), Some(0x8765), None, None)
        );
    }

    #[test]
    fn state_of_root_and_of_users_outlives_a_reboot() {
        let dir = |pairs, root| state_dir(&variables(pairs), root).map(|dir| dir.display().to_string());
        assert_eq!(dir(&[("HOME", "/root")], true).as_deref(), Some("/var/lib/sawmill"));
        assert_eq!(dir(&[("HOME", "/home/u")], false).as_deref(), Some("/home/u/.local/state/sawmill"));
        assert_eq!(dir(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")], false).as_deref(), Some("/s/sawmill"));
        assert_eq!(dir(&[("SAWMILL_RUN", "/x"), ("HOME", "/h")], true).as_deref(), Some("/x"));
        assert_eq!(dir(&[], false), None);
    }
}
