//! Who holds a device: for people who want to know what keeps them from it.

use std::path::Path;

use rustix::fs::{major, minor, stat};

/// The kernel's list of locks on files (`proc_locks(5)`).
const LOCKS: &str = "/proc/locks";

/// The process that holds the regular file at `path` open for writing as a device, and its name. A
/// process of another PID namespace is not seen, and block devices are held in another way.
#[must_use]
pub fn held_by(path: &Path) -> Option<(u32, String)> {
    let file = stat(path).ok()?;
    let place = format!("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
    let process = holder(&std::fs::read_to_string(LOCKS).ok()?, &place)?;
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some((process, name.trim().to_owned()))
}

/// Lines are like `1: FLOCK  ADVISORY  WRITE 4761 fe:00:5734411 0 EOF`.
fn holder(locks: &str, place: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, "WRITE", process, at, ..] if *at == place => process.parse().ok(),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileDevice;
    use env::OpenMode;

    #[test]
    fn a_file_that_is_open_for_writing_is_held_by_its_process() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("d");
        std::fs::write(&path, [0; 4096]).expect("writes");
        assert_eq!(held_by(&path), None);
        let device = FileDevice::open(&path, OpenMode::ReadWrite, false).expect("opens");
        assert_eq!(held_by(&path).map(|(process, _)| process), Some(std::process::id()));
        drop(device);
        assert_eq!(held_by(&path), None);
    }

    #[test]
    fn a_line_that_is_not_understood_is_passed_over() {
        let locks = "x\n1: FLOCK  ADVISORY  READ 7 fe:00:1 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 8 fe:00:1 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 9 fe:00:1 0 EOF\n";
        assert_eq!(holder(locks, "fe:00:1"), Some(9));
        assert_eq!(holder(locks, "fe:00:2"), None);
    }
}
