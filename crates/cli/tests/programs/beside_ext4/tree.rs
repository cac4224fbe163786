//! What is below a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// All below a directory, and the directory, by their paths.
pub fn all(place: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::from([(String::from("."), place.to_owned())]);
    let mut dirs = vec![place.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            let is_directory = fs::symlink_metadata(&path).expect("it is there").is_dir();
            dirs.extend(is_directory.then(|| path.clone()));
            let name = path.strip_prefix(place).expect("below").display().to_string();
            found.insert(name, path);
        }
    }
    found
}

/// The kind of a file, and what belongs to the kind. Directories have sizes of their own on each file system.
pub fn kind(path: &Path, found: &fs::Metadata) -> String {
    let kind = found.file_type();
    if kind.is_symlink() {
        format!("-> {}", fs::read_link(path).expect("a link").display())
    } else if kind.is_char_device() {
        format!("device {}", found.rdev())
    } else if kind.is_file() {
        format!("{} bytes", found.len())
    } else {
        String::new()
    }
}

/// Permissions, owners and links of a file.
pub fn rights(found: &fs::Metadata) -> String {
    format!("{:o} {}:{} {}", found.mode(), found.uid(), found.gid(), found.nlink())
}

/// The extended attributes of a file that is no symbolic link.
pub fn attributes(path: &Path) -> String {
    let mut names = vec![0_u8; 4096];
    let len = rustix::fs::listxattr(path, &mut names).expect("names");
    let names: BTreeSet<&[u8]> =
        names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    let mut text = String::new();
    for name in names {
        let mut value = [0_u8; 256];
        let len = rustix::fs::getxattr(path, name, &mut value).expect("a value");
        text += &format!(" {}={}", name.escape_ascii(), value[..len].escape_ascii());
    }
    text
}
