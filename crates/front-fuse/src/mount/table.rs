//! The kernel's table of what is mounted.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A line of it.
pub(super) struct MountLine {
    pub at: PathBuf,
    /// Number of its device, which is that of its connection.
    pub minor: String,
}

/// What a path leads to, if something is mounted there.
pub(super) fn find(path: &Path) -> Option<MountLine> {
    all_at(path).into_iter().next()
}

/// All that is mounted at a path, the last first: it covers the others.
pub(super) fn all_at(path: &Path) -> Vec<MountLine> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().rev().filter_map(parse).filter(|line| line.at == path).collect()
}

/// True if something is mounted below a path.
pub(super) fn has_below(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(parse).any(|line| line.at.starts_with(path) && line.at != path)
}

fn parse(line: &str) -> Option<MountLine> {
    let mut words = line.split(' ').skip(2);
    let (_, minor) = words.next()?.split_once(':')?;
    Some(MountLine { minor: minor.to_owned(), at: unescaped(words.nth(1)?) })
}

/// Blanks, newlines and backslashes in a path are written as three octal digits.
fn unescaped(word: &str) -> PathBuf {
    let mut parts = word.split('\\');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(b'\\'));
        bytes.extend_from_slice(&part.as_bytes()[if code.is_some() { 3 } else { 0 }..]);
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_blanks_is_found() {
        let line = r"36 35 0:57 / /mnt/a\040b\134c rw,relatime shared:1 - fuse.sawmill tank rw";
        let found = parse(line).expect("a line");
        assert_eq!((found.at, found.minor.as_str()), (PathBuf::from("/mnt/a b\\c"), "57"));
    }
}
