//! File types and permission bits, with Unix's numbers.

/// What kind of thing a directory entry or an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Named pipe.
    Fifo,
    /// Character device.
    CharDevice,
    /// Directory.
    Directory,
    /// Block device.
    BlockDevice,
    /// Plain file.
    File,
    /// Symbolic link.
    Symlink,
    /// Unix socket.
    Socket,
}

/// The bits of a mode that hold the type.
pub const MODE_TYPE: u32 = 0o170_000;
/// The permission bits with set-id and sticky.
pub const MODE_PERMISSIONS: u32 = 0o7777;
/// Read, write and execute, for everybody.
pub const MODE_RWX: u32 = 0o777;
/// Set-user-id.
pub const MODE_SETUID: u32 = 0o4000;
/// Set-group-id.
pub const MODE_SETGID: u32 = 0o2000;
/// Sticky: only owners take names away.
pub const MODE_STICKY: u32 = 0o1000;
/// Read, write and execute, for the group.
pub const MODE_GROUP: u32 = 0o070;
/// Execute, for anybody.
pub const MODE_EXECUTE: u32 = 0o111;
/// Execute, for the group.
pub const MODE_GROUP_EXECUTE: u32 = 0o010;

impl FileKind {
    /// The type in a mode, if it is one.
    #[must_use]
    pub fn of_mode(mode: u32) -> Option<Self> {
        Self::of_dirent((mode & MODE_TYPE) >> 12)
    }

    /// The type of a directory entry's high four bits (`DT_*`).
    #[must_use]
    pub fn of_dirent(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Fifo,
            2 => Self::CharDevice,
            4 => Self::Directory,
            6 => Self::BlockDevice,
            8 => Self::File,
            10 => Self::Symlink,
            12 => Self::Socket,
            _ => return None,
        })
    }

    /// `DT_*`.
    #[must_use]
    pub fn dirent_code(self) -> u32 {
        match self {
            Self::Fifo => 1,
            Self::CharDevice => 2,
            Self::Directory => 4,
            Self::BlockDevice => 6,
            Self::File => 8,
            Self::Symlink => 10,
            Self::Socket => 12,
        }
    }

    /// The type bits of a mode (`S_IF*`).
    #[must_use]
    pub fn mode_bits(self) -> u32 {
        self.dirent_code() << 12
    }

    /// A block or character device: it has a device number.
    #[must_use]
    pub fn is_device(self) -> bool {
        matches!(self, Self::CharDevice | Self::BlockDevice)
    }
}

/// A device number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices: 20 bits.
    pub minor: u32,
}

impl DeviceNumber {
    /// As OpenZFS on Linux stores it: the kernel's own `major << 20 | minor`.
    #[must_use]
    pub fn encode(self) -> u64 {
        u64::from(self.major) << 20 | u64::from(self.minor & 0xf_ffff)
    }

    /// From the stored number.
    #[must_use]
    pub fn decode(raw: u64) -> Self {
        Self { major: (raw >> 20) as u32, minor: (raw & 0xf_ffff) as u32 }
    }
}
