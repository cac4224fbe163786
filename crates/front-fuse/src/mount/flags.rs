//! What the kernel allows on a mount.

use rustix::mount::MountFlags as KernelFlags;

/// When reading a file changes its access time, as far as the kernel shows it: who changes it is the
/// file layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// `noatime`.
    Never,
    /// `relatime`.
    #[default]
    Relative,
    /// `strictatime`.
    Always,
}

/// What the kernel allows on a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountFlags {
    /// No changes.
    pub read_only: bool,
    /// Programs run.
    pub exec: bool,
    /// Set-user-id and set-group-id bits count.
    pub setuid: bool,
    /// Device nodes are devices.
    pub devices: bool,
    /// Access times.
    pub access: Access,
}

impl Default for MountFlags {
    /// Everything is allowed.
    fn default() -> Self {
        Self { read_only: false, exec: true, setuid: true, devices: true, access: Access::default() }
    }
}

impl MountFlags {
    pub(super) fn kernel(self) -> KernelFlags {
        let pick = |is_set: bool, flag: KernelFlags| if is_set { flag } else { KernelFlags::empty() };
        pick(self.read_only, KernelFlags::RDONLY)
            | pick(!self.exec, KernelFlags::NOEXEC)
            | pick(!self.setuid, KernelFlags::NOSUID)
            | pick(!self.devices, KernelFlags::NODEV)
            | match self.access {
                Access::Never => KernelFlags::NOATIME,
                Access::Relative => KernelFlags::RELATIME,
                Access::Always => KernelFlags::STRICTATIME,
            }
    }

    /// For `fusermount3 -o`. It never allows users devices and set-id bits.
    pub(super) fn words(self) -> String {
        let rw = if self.read_only { "ro" } else { "rw" };
        let exec = if self.exec { "" } else { ",noexec" };
        let atime = if self.access == Access::Never { ",noatime" } else { "" };
        format!("{rw},nosuid,nodev{exec}{atime}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_told_to_the_kernel_and_the_helper() {
        let none =
            MountFlags { read_only: true, exec: false, setuid: false, devices: false, access: Access::Never };
        let all = KernelFlags::RDONLY
            | KernelFlags::NOEXEC
            | KernelFlags::NOSUID
            | KernelFlags::NODEV
            | KernelFlags::NOATIME;
        assert_eq!(none.kernel(), all);
        assert_eq!(none.words(), "ro,nosuid,nodev,noexec,noatime");
        assert_eq!(MountFlags::default().kernel(), KernelFlags::RELATIME);
        assert_eq!(MountFlags::default().words(), "rw,nosuid,nodev");
    }
}
