//! The control groups that limit this process's memory, and what they tell.
//!
//! ```text
//!  /proc/self/cgroup      4:memory:/a/b      0::/a/b          which group it is
//!  /proc/self/mountinfo   … cgroup … memory  … cgroup2        where its files are
//!         └─► /a/b, /a, /: the smallest limit on the way up counts
//!
//!              version 1                          version 2
//!  limit       memory.limit_in_bytes              memory.max, memory.high
//!  in use      memory.stat total_rss …            memory.stat anon …
//!  stalls      (the machine's: /proc/pressure)    memory.pressure
//! ```
//! A container often sees its own group as the root: then the mount is the group.

use std::fs;
use std::path::{Path, PathBuf};

/// What cannot be given back by dropping clean pages, as version 1 calls it.
const PINNED_1: &[&str] = &["total_rss", "total_shmem"];
/// And version 2.
const PINNED_2: &[&str] = &["anon", "shmem", "kernel_stack", "pagetables", "slab_unreclaimable", "sock"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A control group with the memory controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    version: Version,
    directory: PathBuf,
}

impl Group {
    /// The groups that this process is in, its own first, those above it after that.
    pub(crate) fn all() -> Vec<Self> {
        let read = |name: &str| fs::read(Path::new("/proc/self").join(name)).unwrap_or_default();
        Self::of(&read("cgroup"), &read("mountinfo"))
    }

    /// Any user can mount something at a place whose name is not UTF-8: such a line hides no other.
    fn of(cgroup: &[u8], mountinfo: &[u8]) -> Vec<Self> {
        let [cgroup, mountinfo] = [cgroup, mountinfo].map(String::from_utf8_lossy);
        let lines = cgroup.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let version = if controllers.is_empty() { Version::Two } else { Version::One };
            let has_memory = version == Version::Two || controllers.split(',').any(|one| one == "memory");
            has_memory.then_some((version, path))
        });
        let mounts: Vec<Mount<'_>> = mountinfo.lines().filter_map(Mount::parse).collect();
        lines.flat_map(|(version, path)| Self::upwards(version, path, &mounts)).collect()
    }

    /// The group of that path, and all above it that can be seen.
    fn upwards(version: Version, path: &str, mounts: &[Mount<'_>]) -> Vec<Self> {
        let Some(mount) = mounts.iter().find(|mount| mount.version == version) else { return Vec::new() };
        let top = Path::new(mount.at);
        // A path outside of what is mounted is another name for the mount itself.
        let below = Path::new(path).strip_prefix(mount.root).unwrap_or(Path::new(""));
        let own = top.join(below);
        let own = if own.is_dir() { own } else { top.to_owned() };
        let up = own.ancestors().take_while(|directory| directory.starts_with(top));
        up.map(|directory| Self { version, directory: directory.to_owned() }).collect()
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.directory.join(file)).ok()
    }

    /// The most memory that the group may take; none where nothing limits it.
    pub(crate) fn limit(&self) -> Option<u64> {
        let files: &[&str] = match self.version {
            Version::One => &["memory.limit_in_bytes"],
            Version::Two => &["memory.max", "memory.high"],
        };
        // Without a limit, version 2 says `max`, and version 1 a number beyond all memory.
        files.iter().filter_map(|file| self.read(file)?.trim().parse().ok()).min()
    }

    /// Memory of the group that is nobody's to take away.
    pub(crate) fn pinned(&self) -> Option<u64> {
        let names = match self.version {
            Version::One => PINNED_1,
            Version::Two => PINNED_2,
        };
        let stat = self.read("memory.stat")?;
        let lines = stat.lines().filter_map(|line| line.split_once(' '));
        Some(lines.filter(|(name, _)| names.contains(name)).filter_map(|(_, n)| n.parse::<u64>().ok()).sum())
    }

    /// Microseconds for which some task of the group has waited for memory so far.
    pub(crate) fn stalled_micros(&self) -> Option<u64> {
        stalled_micros(&self.read("memory.pressure")?)
    }
}

/// Of a file of pressure figures, the time for which some task was waiting.
pub(crate) fn stalled_micros(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.split(' ').find_map(|field| field.strip_prefix("total="))?.parse().ok()
}

/// A mounted hierarchy of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mount<'a> {
    version: Version,
    /// The group that is mounted.
    root: &'a str,
    /// Where.
    at: &'a str,
}

impl<'a> Mount<'a> {
    /// A line of `mountinfo`; none for other file systems, and hierarchies without memory.
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, at) = (mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let version = match (file_system.next()?, file_system.nth(1)?) {
            ("cgroup2", _) => Version::Two,
            ("cgroup", options) if options.split(',').any(|one| one == "memory") => Version::One,
            _ => return None,
        };
        Some(Self { version, root, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS_1: &str = "\
25 20 0:22 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
30 25 0:27 /outer TOP rw,relatime shared:9 - cgroup cgroup rw,memory
31 25 0:28 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct";

    /// A tree of groups with limits; the mount point.
    fn tree(groups: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let top = tempfile::tempdir().expect("a directory");
        for (group, file, contents) in groups {
            let directory = top.path().join(group);
            fs::create_dir_all(&directory).expect("a group");
            fs::write(directory.join(file), contents).expect("a file");
        }
        top
    }

    fn limits(cgroup: &str, mountinfo: &str, top: &Path) -> Vec<Option<u64>> {
        let mountinfo = mountinfo.replace("TOP", &top.to_string_lossy());
        Group::of(cgroup.as_bytes(), mountinfo.as_bytes()).iter().map(Group::limit).collect()
    }

    #[test]
    fn every_group_on_the_way_up_is_asked() {
        let file = "memory.limit_in_bytes";
        let top =
            tree(&[("", file, "9223372036854771712\n"), ("a", file, "5000\n"), ("a/b", file, "7000\n")]);
        let own = "9:cpu,cpuacct:/x\n4:memory:/outer/a/b\n0::/\n";
        assert_eq!(
            limits(own, MOUNTS_1, top.path()),
            [Some(7000), Some(5000), Some(9_223_372_036_854_771_712)]
        );
        // Another name for what is mounted: a container that sees its own group as the root.
        assert_eq!(
            limits("4:memory:/docker/1234\n", MOUNTS_1, top.path()),
            [Some(9_223_372_036_854_771_712)]
        );
        assert_eq!(limits("4:cpu:/outer/a/b\n", MOUNTS_1, top.path()), []);
    }

    #[test]
    fn version_two_says_max_where_nothing_limits() {
        let mounts = "31 25 0:28 / TOP rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate";
        let top = tree(&[
            ("a", "memory.max", "max\n"),
            ("a/b", "memory.max", "6000\n"),
            ("a/b", "memory.high", "4000\n"),
            ("a/b", "memory.stat", "anon 10\nfile 20\nshmem 3\nslab_reclaimable 7\nsock 1\n"),
            ("a/b", "memory.pressure", "some avg10=0.12 total=345\nfull avg10=0.00 total=5\n"),
        ]);
        assert_eq!(limits("0::/a/b\n", mounts, top.path()), [Some(4000), None, None]);
        let mounts = mounts.replace("TOP", &top.path().to_string_lossy());
        let group = &Group::of(b"0::/a/b\n", mounts.as_bytes())[0];
        assert_eq!((group.pinned(), group.stalled_micros()), (Some(14), Some(345)));
    }

    #[test]
    fn a_mount_at_a_name_that_is_not_text_hides_no_limit() {
        let top = tree(&[("a", "memory.max", "4000\n")]);
        let own = format!("31 25 0:28 / {} rw - cgroup2 cgroup2 rw", top.path().display());
        let mounts = [b"70 25 0:60 / /home/\xff rw - fuse.x x rw\n", own.as_bytes()].concat();
        assert_eq!(Group::of(b"0::/a\n", &mounts)[0].limit(), Some(4000));
    }

    #[test]
    fn memory_that_is_not_to_be_had_back_is_counted_in_version_one_too() {
        let top =
            tree(&[("", "memory.stat", "cache 500\nrss 1\ntotal_rss 30\ntotal_shmem 4\ntotal_cache 600\n")]);
        let mounts = MOUNTS_1.replace("TOP", &top.path().to_string_lossy());
        assert_eq!(Group::of(b"4:memory:/outer\n", mounts.as_bytes())[0].pinned(), Some(34));
    }
}
