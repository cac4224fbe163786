//! The kernel's table of mounts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{Dev, makedev};

use super::identity::MountIdentity;

/// The table at one moment. A path in it may have any bytes, because users name directories.
/// (test: `a_name_that_is_no_text_hides_no_mount`)
pub(super) struct KernelMounts(Vec<MountLine>);

/// A line of the table.
#[derive(Clone)]
pub(super) struct MountLine {
    identity: MountIdentity,
    /// The number of the mount that has the mount point.
    parent: u64,
    /// The mount point: a path without symbolic links.
    pub at: PathBuf,
    /// The peer group: mounts in these directories appear in those of all peers.
    peers: Option<u64>,
    /// The peer group from which this mount receives mounts.
    master: Option<u64>,
    /// The user who mounted a FUSE file system.
    pub user: Option<u32>,
}

impl KernelMounts {
    /// # Errors
    /// The system's.
    pub fn read() -> io::Result<Self> {
        let table = std::fs::read("/proc/self/mountinfo")?;
        Ok(Self(table.split(|byte| *byte == b'\n').filter_map(parse).collect()))
    }

    /// Returns the line of a mount by its number.
    pub fn line(&self, id: u64) -> Option<&MountLine> {
        self.0.iter().find(|line| line.identity.id == id)
    }

    /// Returns the line of a mount.
    pub fn find(&self, identity: MountIdentity) -> Option<&MountLine> {
        self.line(identity.id).filter(|line| line.identity == identity)
    }

    /// True if something is mounted in a directory of this file system.
    pub fn has_below(&self, device: Dev) -> bool {
        let ours = self.0.iter().map(|line| line.identity).filter(|identity| identity.device == device);
        let ours: BTreeSet<u64> = ours.map(|identity| identity.id).collect();
        self.0.iter().any(|line| ours.contains(&line.parent))
    }

    /// True if the file system is mounted elsewhere too, and stays there when this mount is gone.
    /// The kernel unmounts the copies that it made itself, in peers of the parent.
    pub fn has_lasting_copy(&self, identity: MountIdentity) -> bool {
        let ours = self.find(identity).and_then(|line| self.line(line.parent));
        let goes_along = |copy: &&MountLine| match (ours, self.line(copy.parent)) {
            (Some(ours), Some(parent)) => {
                let receives = [parent.peers, parent.master].contains(&ours.peers);
                ours.peers.is_some() && receives && parent.identity != ours.identity
            }
            _ => false,
        };
        let is_copy =
            |line: &&MountLine| line.identity.device == identity.device && line.identity.id != identity.id;
        !self.0.iter().filter(is_copy).all(|copy| goes_along(&copy))
    }
}

/// Reads the numbers of the mount and of its parent, the device, the root, the mount point, the
/// options, any tags, a dash, the type, the source and the options of the file system.
fn parse(line: &[u8]) -> Option<MountLine> {
    let mut words = line.split(|byte| *byte == b' ');
    let id = number(words.next()?)?;
    let parent = number(words.next()?)?;
    let (major, minor) = std::str::from_utf8(words.next()?).ok()?.split_once(':')?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    let at = unescaped(words.nth(1)?);
    let tags: Vec<&[u8]> = words.by_ref().skip(1).take_while(|word| *word != b"-").collect();
    let tag = |name: &[u8]| tags.iter().find_map(|tag| number(tag.strip_prefix(name)?));
    let is_fuse = words.next()?.starts_with(b"fuse");
    let mut options = words.nth(1)?.split(|byte| *byte == b',');
    let user = options.find_map(|option| number(option.strip_prefix(b"user_id=")?));
    Some(MountLine {
        identity: MountIdentity { id, device },
        parent,
        at,
        peers: tag(b"shared:"),
        master: tag(b"master:"),
        user: user.filter(|_| is_fuse),
    })
}

fn number<T: std::str::FromStr>(word: &[u8]) -> Option<T> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Blanks, newlines and backslashes in a path are written as three octal digits.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut parts = word.split(|byte| *byte == b'\\');
    let mut bytes = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let digits = part.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(b'\\'));
        bytes.extend_from_slice(&part[if code.is_some() { 3 } else { 0 }..]);
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use super::*;

    fn table(lines: &[&str]) -> KernelMounts {
        KernelMounts(lines.iter().map(|line| parse(line.as_bytes()).expect("a line")).collect())
    }

    #[test]
    fn a_path_with_blanks_is_found() {
        let line =
            br"36 35 0:57 / /mnt/a\040b\134c rw,relatime shared:1 master:2 - fuse.sawmill tank rw,user_id=7";
        let found = parse(line).expect("a line");
        assert_eq!(found.identity, MountIdentity { id: 36, device: makedev(0, 57) });
        assert_eq!((found.at, found.parent), (PathBuf::from("/mnt/a b\\c"), 35));
        assert_eq!((found.peers, found.master, found.user), (Some(1), Some(2), Some(7)));
    }

    #[test]
    fn a_name_that_is_no_text_hides_no_mount() {
        let found = parse(b"36 35 0:57 / /mnt/\xff rw - fuse.sawmill tank rw,user_id=0").expect("a line");
        assert_eq!(found.at.as_os_str().as_bytes(), b"/mnt/\xff");
        let found = parse(b"36 35 0:57 / /mnt rw - fuse.sawmill \xff rw,user_id=0").expect("a line");
        assert_eq!(found.at, Path::new("/mnt"));
    }

    #[test]
    fn a_copy_goes_along_if_the_kernel_made_it_in_a_peer_of_the_parent() {
        let ours = MountIdentity { id: 3, device: makedev(0, 57) };
        let copies = |parents: [&str; 2], copy: &str| {
            let lines = [parents[0], parents[1], "3 1 0:57 / /tank rw shared:9 - fuse.sawmill tank rw", copy];
            table(&lines).has_lasting_copy(ours)
        };
        let shared = ["1 0 8:1 / / rw shared:5 - ext4 a rw", "2 1 8:1 / /mnt rw shared:5 - ext4 a rw"];
        assert!(!copies(shared, "4 2 0:57 / /mnt/tank rw shared:9 - fuse.sawmill tank rw"));
        assert!(!copies(shared, "4 2 0:58 / /other rw shared:9 - fuse.sawmill other rw"));
        let receiving = [shared[0], "2 1 8:1 / /mnt rw master:5 - ext4 a rw"];
        assert!(!copies(receiving, "4 2 0:57 / /mnt/tank rw master:9 - fuse.sawmill tank rw"));
        let private = ["1 0 8:1 / / rw - ext4 a rw", "2 1 8:1 / /mnt rw - ext4 a rw"];
        assert!(copies(private, "4 2 0:57 / /mnt/tank rw - fuse.sawmill tank rw"));
        assert!(copies(shared, "4 1 0:57 / /copy rw shared:9 - fuse.sawmill tank rw"));
        assert!(copies(shared, "4 7 0:57 / /copy rw shared:9 - fuse.sawmill tank rw"));
    }

    #[test]
    fn mounts_in_directories_of_any_copy_are_below() {
        let below = |lines: &[&str]| table(lines).has_below(makedev(0, 57));
        let ours = "3 1 0:57 / /tank rw - fuse.sawmill tank rw";
        assert!(!below(&[ours, "4 1 0:58 / /tank2 rw - fuse.sawmill tank2 rw"]));
        assert!(below(&[ours, "4 3 0:58 / /tank/a rw - tmpfs x rw"]));
        let copy = "4 1 0:57 / /copy rw - fuse.sawmill tank rw";
        assert!(below(&[ours, copy, "5 4 0:58 / /copy/a rw - tmpfs x rw"]));
    }
}
