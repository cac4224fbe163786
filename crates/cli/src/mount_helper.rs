//! What mount(8) calls for the type `fuse.sawmill`, to change how something is mounted, and for the type `zfs`
//! ([`mount_zfs`]).
//!
//! ```text
//!  mount -o remount,ro /p ─► /sbin/mount.fuse.sawmill SOURCE DIR -o OPTIONS      a link to this program
//!                         └► /sbin/mount.fuse ─► sawmill SOURCE DIR -o OPTIONS   where there is none
//! ```
//! The kernel remounts by itself, so that mount(8) need only be told to do without a helper.

use crate::mount_zfs;
use std::process::Command;

const NAME: &str = "mount.fuse.sawmill";
const EXIT_USAGE: u8 = 1;
const EXIT_FAILED: u8 = 32;

/// Its exit code, if the program was called as a helper.
pub fn run(called: Option<&str>, words: &[String]) -> Option<u8> {
    if called == Some(mount_zfs::NAME) {
        return Some(mount_zfs::run(words));
    }
    let is_by_fuse = words.len() > 3 && words[1].starts_with('/') && words[2] == "-o";
    if called != Some(NAME) && !is_by_fuse {
        return None;
    }
    let (Some(dir), Some(options)) = (words.get(1), options(words)) else { return Some(EXIT_USAGE) };
    if !options.split(',').any(|word| word == "remount") {
        eprintln!("use 'zfs mount' to mount ZFS file systems");
        return Some(EXIT_USAGE);
    }
    Some(remount(options, dir))
}

/// Has the kernel change how the mount at a directory is mounted. Returns the exit code of mount(8), which says what is
/// wrong.
pub fn remount(options: &str, dir: &str) -> u8 {
    let mounted = Command::new("mount").args(["-i", "-o", options, "--", dir]).status();
    match mounted.map(|status| status.code()) {
        Ok(Some(code)) => u8::try_from(code).unwrap_or(EXIT_FAILED),
        _ => EXIT_FAILED,
    }
}

fn options(words: &[String]) -> Option<&str> {
    let at = words.iter().position(|word| word == "-o")?;
    words.get(at + 1).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_what_mount_calls_is_taken_for_it() {
        assert_eq!(run(Some("sawmill"), &words("bench zil -o x")), None);
        assert_eq!(run(Some("zfs"), &words("mount -o ro tank")), None);
        assert_eq!(run(Some("sawmill"), &words("tank /p -o rw")), Some(EXIT_USAGE));
        assert_eq!(run(Some(NAME), &words("tank /p")), Some(EXIT_USAGE));
    }
}
