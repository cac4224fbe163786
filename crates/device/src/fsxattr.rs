//! Attributes of files that a system call of their own is for: the project that a file is part of.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// `struct fsxattr` of linux/fs.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Fsxattr {
    /// Flags (`FS_XFLAG_*`).
    pub xflags: u32,
    extsize: u32,
    nextents: u32,
    /// Project; 0 is what is part of none.
    pub projid: u32,
    cowextsize: u32,
    pad: [u8; 8],
}

const _: () = assert!(size_of::<Fsxattr>() == 28);

/// What is made in the directory is part of its project (`FS_XFLAG_PROJINHERIT`).
pub const XFLAG_PROJINHERIT: u32 = 0x200;

/// `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR`.
const GET: Opcode = opcode::read::<Fsxattr>(b'X', 31);
const SET: Opcode = opcode::write::<Fsxattr>(b'X', 32);

// JUSTIFICATION: rustix has no functions for these ioctls, and the kernel (6.17) only begins to have a system call for
// what they do.
impl Fsxattr {
    /// Those of an open file or directory.
    ///
    /// # Errors
    /// The system's; `ENOTTY` where a file system has no such attributes.
    #[expect(unsafe_code, reason = "an ioctl")]
    pub fn of(file: impl AsFd) -> Result<Self, Errno> {
        // SAFETY: FS_IOC_FSGETXATTR writes a whole struct fsxattr through its pointer, all of whose bytes are plain
        // numbers; Getter passes one that lives during the call.
        unsafe { ioctl(file, Getter::<GET, Self>::new()) }
    }

    /// The same with other flags and another project.
    #[must_use]
    pub fn with(self, xflags: u32, projid: u32) -> Self {
        Self { xflags, projid, ..self }
    }

    /// Gives them to an open file or directory.
    ///
    /// # Errors
    /// The system's.
    #[expect(unsafe_code, reason = "an ioctl")]
    pub fn set_on(self, file: impl AsFd) -> Result<(), Errno> {
        // SAFETY: FS_IOC_FSSETXATTR reads a struct fsxattr through its pointer and writes nothing; Setter passes one that
        // lives during the call.
        unsafe { ioctl(file, Setter::<SET, Self>::new(self)) }
    }
}
