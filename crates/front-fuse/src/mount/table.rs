//! The kernel's table of mounts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, makedev};

use engine::{MountFlags, OrphanMount};

use super::flags;
use super::identity::MountIdentity;

/// The type of the mounts of this program in the table.
const KIND_SHOWN: &[u8] = b"fuse.sawmill";

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
    /// The dataset, if the file system is one of this program.
    shown: Option<ShownDataset>,
}

/// A mount of this program in the table.
#[derive(Clone)]
struct ShownDataset {
    name: String,
    /// The mount shows the root of the file system, and not a directory of the file system.
    is_whole: bool,
    flags: MountFlags,
}

impl KernelMounts {
    /// # Errors
    /// The system's.
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read("/proc/self/mountinfo")?))
    }

    /// Reads the table of the mount namespace of a process, which is given by its directory in `/proc`, but no more than
    /// so many bytes. Returns the FUSE mounts and their parents, and how many bytes were read.
    ///
    /// # Errors
    /// The system's.
    pub fn of_fuse(process: &Path, most_bytes: u64) -> io::Result<(Self, u64)> {
        let mut table = Vec::new();
        File::open(process.join("mountinfo"))?.take(most_bytes).read_to_end(&mut table)?;
        Ok((Self::parse(&table).only_fuse(), table.len() as u64))
    }

    fn parse(table: &[u8]) -> Self {
        Self(table.split(|byte| *byte == b'\n').filter_map(parse).collect())
    }

    /// Keeps the FUSE mounts and their parents.
    fn only_fuse(self) -> Self {
        let fuse = self.0.iter().filter(|line| line.user.is_some());
        let kept: BTreeSet<u64> = fuse.flat_map(|line| [line.identity.id, line.parent]).collect();
        Self(self.0.into_iter().filter(|line| kept.contains(&line.identity.id)).collect())
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

    /// Returns the mounts that this user has made of a dataset of the pool, or of its root dataset,
    /// and the datasets. Of each file system, the first mount.
    pub fn of_pool(&self, pool: &str, user: u32) -> Vec<OrphanMount> {
        let is_of_pool = |name: &str| {
            let rest = name.strip_prefix(pool);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut devices = BTreeSet::new();
        let own = self.0.iter().filter(|line| line.user == Some(user));
        own.filter_map(|line| {
            let shown = line.shown.as_ref().filter(|shown| shown.is_whole && is_of_pool(&shown.name))?;
            let is_first = devices.insert(line.identity.device);
            let (dataset, place) = (shown.name.clone(), line.at.clone());
            is_first.then_some(OrphanMount { dataset, place, flags: shown.flags })
        })
        .collect()
    }

    /// Returns a second mount of the file system in `among`, the table of this or of another mount namespace, that
    /// stays there when this mount is gone. The kernel unmounts the copies that it made itself, in peers of the parent.
    pub fn lasting_copy<'a>(&self, identity: MountIdentity, among: &'a Self) -> Option<&'a MountLine> {
        let ours = self.find(identity).and_then(|line| self.line(line.parent));
        let goes_along = |copy: &MountLine| match (ours, among.line(copy.parent)) {
            (Some(ours), Some(parent)) => {
                let receives = [parent.peers, parent.master].contains(&ours.peers);
                ours.peers.is_some() && receives && parent.identity != ours.identity
            }
            _ => false,
        };
        let is_copy =
            |line: &MountLine| line.identity.device == identity.device && line.identity.id != identity.id;
        among.0.iter().find(|line| is_copy(line) && !goes_along(line))
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
    let is_whole = words.next()? == b"/";
    let at = unescaped(words.next()?);
    let allowed = words.next()?;
    let tags: Vec<&[u8]> = words.by_ref().take_while(|word| *word != b"-").collect();
    let tag = |name: &[u8]| tags.iter().find_map(|tag| number(tag.strip_prefix(name)?));
    let kind = words.next()?;
    let source = words.next()?;
    let mut options = words.next()?.split(|byte| *byte == b',');
    let user = options.find_map(|option| number(option.strip_prefix(b"user_id=")?));
    let name = || unescaped(source).into_os_string().into_string().ok();
    let shown = if kind == KIND_SHOWN { name() } else { None };
    Some(MountLine {
        identity: MountIdentity { id, device },
        parent,
        at,
        peers: tag(b"shared:"),
        master: tag(b"master:"),
        user: user.filter(|_| kind.starts_with(b"fuse")),
        shown: shown.map(|name| ShownDataset { name, is_whole, flags: flags::of_words(allowed) }),
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
    fn mounts_of_a_pool_are_those_that_this_user_has_made_of_whole_datasets() {
        let lines = [
            "1 0 8:1 / / rw - ext4 a rw",
            "3 1 0:57 / /tank ro,nosuid,relatime - fuse.sawmill tank ro,user_id=0",
            "4 1 0:57 / /copy rw - fuse.sawmill tank rw,user_id=0",
            "5 1 0:58 /d /directory rw - fuse.sawmill tank/d rw,user_id=0",
            r"6 1 0:59 / /mnt/a\040b rw,noatime - fuse.sawmill tank/a\040b rw,user_id=0",
            "7 1 0:60 / /planted rw - fuse.sawmill tank/planted rw,user_id=1000",
            "8 1 0:61 / /other rw - fuse.sawmill tanker rw,user_id=0",
            "9 1 0:62 / /else rw - fuse.sshfs tank/else rw,user_id=0",
        ];
        let found = table(&lines).of_pool("tank", 0);
        let places: Vec<_> =
            found.iter().map(|mount| (mount.dataset.as_str(), mount.place.as_path())).collect();
        assert_eq!(places, [("tank", Path::new("/tank")), ("tank/a b", Path::new("/mnt/a b"))]);
        let all = MountFlags::default();
        assert_eq!(found[0].flags, MountFlags { read_only: true, setuid: false, ..all });
        assert_eq!(found[1].flags, MountFlags { access: engine::AccessTimes::Never, ..all });
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
            let mounts = table(&lines);
            mounts.lasting_copy(ours, &mounts).is_some()
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
    fn a_copy_in_another_namespace_goes_along_if_it_receives_from_the_parent() {
        let ours = MountIdentity { id: 3, device: makedev(0, 57) };
        let own =
            table(&["1 0 8:1 / / rw shared:5 - ext4 a rw", "3 1 0:57 / /tank rw - fuse.sawmill tank rw"]);
        let copy = |root: &str| {
            let other = table(&[root, "14 11 0:57 / /tank rw - fuse.sawmill tank rw"]);
            own.lasting_copy(ours, &other).map(|line| line.at.clone())
        };
        assert_eq!(copy("11 0 8:1 / / rw master:5 - ext4 a rw"), None);
        assert_eq!(copy("11 0 8:1 / / rw shared:5 - ext4 a rw"), None);
        assert_eq!(copy("11 0 8:1 / / rw - ext4 a rw"), Some(PathBuf::from("/tank")));
        assert_eq!(copy("11 0 8:1 / / rw master:6 - ext4 a rw"), Some(PathBuf::from("/tank")));
    }

    #[test]
    fn of_a_large_table_only_fuse_mounts_and_their_parents_are_kept() {
        let kept = table(&[
            "1 0 8:1 / / rw - ext4 a rw",
            "2 1 8:2 / /other rw - ext4 b rw",
            "3 1 0:57 / /tank rw - fuse.sawmill tank rw,user_id=0",
        ])
        .only_fuse();
        assert_eq!(kept.0.iter().map(|line| line.identity.id).collect::<Vec<_>>(), [1, 3]);
        let (cut, bytes) = KernelMounts::of_fuse(Path::new("/proc/self"), 10).expect("a table");
        assert_eq!((cut.0.len(), bytes), (0, 10));
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
