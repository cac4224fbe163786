//! Asking a mounted file system to write blocks of a file anew: the `ioctl` of `zfs rewrite`.

use std::io;
use std::os::fd::AsFd;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `struct zfs_rewrite_args` of sys/fs/zfs.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Rewrite {
    /// The first byte.
    offset: u64,
    /// How many bytes; 0 is all to the end.
    len: u64,
    flags: u64,
    /// What belongs to the flags: nothing.
    arg: u64,
}

const _: () = assert!(size_of::<Rewrite>() == 32);

/// `ZFS_IOC_REWRITE`.
const REWRITE: Opcode = opcode::write::<Rewrite>(0x83, 3);

impl Rewrite {
    /// Blocks keep their times of birth (`ZFS_REWRITE_PHYSICAL`).
    pub const PHYSICAL: u64 = 1;

    /// `len` bytes from `offset` on (0: all to the end), with [`Self::PHYSICAL`] or no flags.
    #[must_use]
    pub fn new(offset: u64, len: u64, flags: u64) -> Self {
        Self { offset, len, flags, arg: 0 }
    }

    /// Asks for blocks of a file that is open for writing.
    ///
    /// # Errors
    /// The system's; `ENOTTY` where a file system does not know how.
    // JUSTIFICATION: rustix has no function for this ioctl.
    #[expect(unsafe_code, reason = "an ioctl")]
    pub fn ask(self, file: impl AsFd) -> io::Result<()> {
        // SAFETY: ZFS_IOC_REWRITE reads a struct zfs_rewrite_args through its pointer and writes nothing; Setter passes one
        // that lives during the call. A file system that gives this number another meaning goes by the size and direction
        // in it, too.
        unsafe { ioctl(file, Setter::<REWRITE, Self>::new(self)) }?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_request_has_openzfss_number() {
        assert_eq!(super::REWRITE, 0x4020_8303);
    }
}
