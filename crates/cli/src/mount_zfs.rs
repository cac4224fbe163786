//! What mount(8) calls for the type `zfs`: `mount -t zfs tank/a /mnt`, and lines of /etc/fstab.
//!
//! ```text
//!  mount(8) ─► /sbin/mount.zfs SOURCE DIR [-sfnv] [-o OPTIONS]      a link to this program
//!                      └─► the daemon mounts the file system at DIR
//! ```
//! A file system whose property `mountpoint` is not `legacy` is refused, because the daemon mounts it by itself; with the
//! option `zfsutil` it is the other way round.

use crate::mount_helper::remount;
use crate::session::{Session, Stop};
use control::{Mount, MountPlacer, RunPaths};
use std::io::ErrorKind;
use std::path::Path;

/// The name by which mount(8) calls this program.
pub const NAME: &str = "mount.zfs";

/// Exit codes of mount(8).
const EXIT_USAGE: u8 = 1;
const EXIT_FAILED: u8 = 32;

/// What is to be mounted.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    dataset: String,
    dir: String,
    /// What the daemon knows of the options.
    options: Vec<String>,
    is_zfsutil: bool,
    /// `-f`: nothing is mounted.
    is_fake: bool,
    /// `-s`: unknown options are left out.
    is_sloppy: bool,
}

/// Mounts the file system that mount(8) names. Returns the exit code of the helper.
pub fn run(words: &[String]) -> u8 {
    let wanted = match Wanted::read(words) {
        Ok(wanted) if wanted.is_fake => return 0,
        Ok(wanted) if wanted.options.iter().any(|option| option == "remount") => {
            return remount(&wanted.options.join(","), &wanted.dir);
        }
        Ok(wanted) => wanted,
        Err(reason) => {
            eprintln!("{reason}\nusage: {NAME} [-sfnv] [-o options] dataset mountpoint");
            return EXIT_USAGE;
        }
    };
    if let Some(reason) = why_no_directory(Path::new(&wanted.dir)) {
        eprintln!("filesystem '{}' cannot be mounted at '{}': {reason}", wanted.dataset, wanted.dir);
        return EXIT_FAILED;
    }
    let mut session = Session::new(RunPaths::from_env(), crate::terminal::stdout());
    match session.ask(&wanted.call()) {
        Ok(()) => 0,
        Err(Stop::Failed(failure)) => {
            session.complain(&failure);
            EXIT_FAILED
        }
        Err(_) => EXIT_FAILED,
    }
}

/// Returns why nothing can be mounted at a path. A mount whose server was killed answers nothing,
/// and gives way.
fn why_no_directory(path: &Path) -> Option<&'static str> {
    match path.metadata() {
        Ok(found) if !found.is_dir() => Some("Not a directory"),
        Err(error) if error.kind() == ErrorKind::NotFound => Some("No such file or directory"),
        _ => None,
    }
}

impl Wanted {
    fn read(words: &[String]) -> Result<Self, String> {
        let (mut wanted, mut places) = (Self::default(), Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                None => places.push(word.as_str()),
                Some(flags) => wanted.take_flags(flags, &mut words)?,
            }
        }
        let [dataset, dir] = places[..] else {
            return Err("a dataset and a directory are needed".to_owned());
        };
        let dir = std::path::absolute(dir).map_err(|error| format!("bad directory '{dir}': {error}"))?;
        if wanted.is_sloppy {
            wanted.options.retain(|option| is_known(option));
        }
        // Some callers write the name as a place.
        wanted.dataset = dataset.trim_matches('/').to_owned();
        wanted.dir = dir.display().to_string();
        Ok(wanted)
    }

    /// Flags that mount(8) hands on. `-v` changes nothing, and neither does `-n`, because the kernel has the table of
    /// mounts.
    fn take_flags<'a>(
        &mut self,
        flags: &str,
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        for (at, flag) in flags.char_indices() {
            match flag {
                'n' | 'v' => {}
                'f' => self.is_fake = true,
                's' => self.is_sloppy = true,
                'o' | 't' | 'N' => {
                    let rest = &flags[at + 1..];
                    let value = if rest.is_empty() { words.next().map(String::as_str) } else { Some(rest) };
                    let value = value.ok_or_else(|| format!("option requires an argument -- '{flag}'"))?;
                    if flag == 'o' {
                        self.take_options(value);
                    }
                    return Ok(());
                }
                _ => return Err(format!("invalid option -- '{flag}'")),
            }
        }
        Ok(())
    }

    /// Options of mount(8) that mean something to others, or that are the case anyway, are left out.
    fn take_options(&mut self, options: &str) {
        for option in options.split(',').filter(|option| !option.is_empty()) {
            match option {
                "zfsutil" => self.is_zfsutil = true,
                "auto" | "noauto" | "user" | "nouser" | "users" | "owner" | "group" | "nofail"
                | "_netdev" | "async" | "mand" | "nomand" | "xattr" | "noxattr" | "diratime"
                | "nodiratime" | "strictatime" | "lazytime" | "nolazytime" | "iversion" | "noiversion"
                | "acl" | "silent" | "loud" => {}
                _ if option.starts_with("x-")
                    || option.starts_with("X-")
                    || option.starts_with("comment=") => {}
                _ => self.options.push(option.to_owned()),
            }
        }
    }

    fn call(self) -> Mount {
        Mount {
            dataset: Some(self.dataset),
            options: self.options,
            at: Some(self.dir),
            placer: if self.is_zfsutil { MountPlacer::Zfsutil } else { MountPlacer::Legacy },
            ..Mount::default()
        }
    }
}

/// True for options that the daemon knows.
fn is_known(option: &str) -> bool {
    const SWITCHES: [&str; 7] = ["exec", "suid", "setuid", "dev", "devices", "atime", "relatime"];
    const WHOLE: [&str; 4] = ["defaults", "ro", "rw", "remount"];
    WHOLE.contains(&option) || SWITCHES.contains(&option.strip_prefix("no").unwrap_or(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Wanted, String> {
        Wanted::read(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_mount_says_is_understood() {
        let wanted = read("tank/a /mnt -o rw,noexec,nofail,x-systemd.automount").expect("understood");
        assert_eq!((wanted.dataset.as_str(), wanted.dir.as_str()), ("tank/a", "/mnt"));
        assert_eq!((wanted.options, wanted.is_zfsutil), (vec!["rw".to_owned(), "noexec".to_owned()], false));
        let wanted = read("-sv -ozfsutil,ro tank /mnt/").expect("understood");
        assert!(wanted.is_zfsutil && wanted.options == ["ro"] && !wanted.is_fake);
        let options = |line| read(line).expect("understood").options;
        assert_eq!(options("-o noatime,nonsense,ro tank /mnt"), ["noatime", "nonsense", "ro"]);
        assert_eq!(options("-s -o noatime,nonsense,ro tank /mnt"), ["noatime", "ro"]);
        assert!(read("tank /mnt -f").expect("understood").is_fake);
        for line in ["tank", "tank /mnt more", "tank /mnt -o", "tank /mnt -q"] {
            read(line).expect_err(line);
        }
    }
}
