//! What the kernel allows on a mount, in its own words.

use engine::{AccessTimes, MountFlags};
use rustix::fs::StatVfsMountFlags;
use rustix::mount::{MountAttrFlags, MountFlags as KernelFlags};

/// For mount(2).
pub(super) fn kernel(flags: MountFlags) -> KernelFlags {
    let pick = |is_set: bool, flag: KernelFlags| if is_set { flag } else { KernelFlags::empty() };
    pick(flags.read_only, KernelFlags::RDONLY)
        | pick(!flags.exec, KernelFlags::NOEXEC)
        | pick(!flags.setuid, KernelFlags::NOSUID)
        | pick(!flags.devices, KernelFlags::NODEV)
        | match flags.access {
            AccessTimes::Never => KernelFlags::NOATIME,
            AccessTimes::Relative => KernelFlags::RELATIME,
            AccessTimes::Always => KernelFlags::STRICTATIME,
        }
}

/// The same for fsmount(2). The file system itself is told that it is read only.
pub(super) fn attributes(flags: MountFlags) -> MountAttrFlags {
    let pick = |is_set: bool, flag: MountAttrFlags| if is_set { flag } else { MountAttrFlags::empty() };
    pick(flags.read_only, MountAttrFlags::MOUNT_ATTR_RDONLY)
        | pick(!flags.exec, MountAttrFlags::MOUNT_ATTR_NOEXEC)
        | pick(!flags.setuid, MountAttrFlags::MOUNT_ATTR_NOSUID)
        | pick(!flags.devices, MountAttrFlags::MOUNT_ATTR_NODEV)
        | match flags.access {
            AccessTimes::Never => MountAttrFlags::MOUNT_ATTR_NOATIME,
            AccessTimes::Relative => MountAttrFlags::MOUNT_ATTR_RELATIME,
            AccessTimes::Always => MountAttrFlags::MOUNT_ATTR_STRICTATIME,
        }
}

/// Returns the flags for mount(2) that leave a mount as `statvfs` reports it.
pub(super) fn as_now(now: StatVfsMountFlags) -> KernelFlags {
    let pairs = [
        (StatVfsMountFlags::RDONLY, KernelFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, KernelFlags::NOSUID),
        (StatVfsMountFlags::NODEV, KernelFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, KernelFlags::NOEXEC),
        (StatVfsMountFlags::SYNCHRONOUS, KernelFlags::SYNCHRONOUS),
        (StatVfsMountFlags::MANDLOCK, KernelFlags::PERMIT_MANDATORY_FILE_LOCKING),
        (StatVfsMountFlags::NOATIME, KernelFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, KernelFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, KernelFlags::RELATIME),
    ];
    let set = pairs.into_iter().filter(|(seen, _)| now.contains(*seen)).map(|(_, flag)| flag).collect();
    let has_times = now.intersects(StatVfsMountFlags::NOATIME | StatVfsMountFlags::RELATIME);
    // Without a flag for access times, the kernel would choose relatime.
    if has_times { set } else { set | KernelFlags::STRICTATIME }
}

/// Reads the options of a mount in the kernel's table, as `rw,nosuid,noatime`.
pub(super) fn of_words(words: &[u8]) -> MountFlags {
    let has = |word: &str| words.split(|byte| *byte == b',').any(|found| found == word.as_bytes());
    MountFlags {
        read_only: has("ro"),
        exec: !has("noexec"),
        setuid: !has("nosuid"),
        devices: !has("nodev"),
        access: match (has("noatime"), has("relatime")) {
            (true, _) => AccessTimes::Never,
            (false, true) => AccessTimes::Relative,
            (false, false) => AccessTimes::Always,
        },
    }
}

/// For `fusermount3 -o`. It never allows users devices and set-id bits.
pub(super) fn words(flags: MountFlags) -> String {
    let rw = if flags.read_only { "ro" } else { "rw" };
    let exec = if flags.exec { "" } else { ",noexec" };
    let atime = if flags.access == AccessTimes::Never { ",noatime" } else { "" };
    format!("{rw},nosuid,nodev{exec}{atime}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_told_to_the_kernel_and_the_helper() {
        let none = MountFlags {
            read_only: true,
            exec: false,
            setuid: false,
            devices: false,
            access: AccessTimes::Never,
        };
        let all = KernelFlags::RDONLY
            | KernelFlags::NOEXEC
            | KernelFlags::NOSUID
            | KernelFlags::NODEV
            | KernelFlags::NOATIME;
        assert_eq!(kernel(none), all);
        let all = MountAttrFlags::MOUNT_ATTR_RDONLY
            | MountAttrFlags::MOUNT_ATTR_NOEXEC
            | MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOATIME;
        assert_eq!(attributes(none), all);
        assert_eq!(attributes(MountFlags::default()), MountAttrFlags::MOUNT_ATTR_RELATIME);
        assert_eq!(words(none), "ro,nosuid,nodev,noexec,noatime");
        assert_eq!(kernel(MountFlags::default()), KernelFlags::RELATIME);
        assert_eq!(as_now(StatVfsMountFlags::empty()), KernelFlags::STRICTATIME);
        let seen = StatVfsMountFlags::RDONLY | StatVfsMountFlags::NOATIME | StatVfsMountFlags::NODEV;
        assert_eq!(as_now(seen), KernelFlags::RDONLY | KernelFlags::NOATIME | KernelFlags::NODEV);
        assert_eq!(words(MountFlags::default()), "rw,nosuid,nodev");
    }
}
