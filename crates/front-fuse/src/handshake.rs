//! The first request of a session, in which both sides say what they can do.

use std::io;
use std::os::fd::OwnedFd;

use zerocopy::FromBytes;

use crate::abi::{
    InHeader, InitIn, InitInExt, InitOut, KERNEL_MINOR_OLDEST, KERNEL_MINOR_VERSION, KERNEL_VERSION, init,
    opcode,
};
use crate::connection::{receive, send};

/// Largest read or write that the kernel may ask for at once.
pub(crate) const REQUEST_BYTES: u32 = 1 << 20;
/// The same over io_uring, where each slot of a queue has so much memory.
pub(crate) const RING_REQUEST_BYTES: u32 = 128 << 10;
/// Requests that the kernel may have under way in the background.
const BACKGROUND: u16 = 64;
/// So many of them make it hold back what is not urgent.
const CONGESTED: u16 = BACKGROUND / 4 * 3;
/// Pages are never smaller.
const PAGE_BYTES: u32 = 4096;
/// What we want of the kernel, where it can. Not ATOMIC_O_TRUNC: with it the kernel hands over
/// `O_RDONLY|O_TRUNC` of a running program before it looks whether it runs.
const WISHES: u64 = init::ASYNC_READ
    | init::EXPORT_SUPPORT
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::HAS_IOCTL_DIR
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::MAX_PAGES
    | init::CACHE_SYMLINKS
    | init::NO_OPENDIR_SUPPORT
    | init::HANDLE_KILLPRIV_V2
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::DIRECT_IO_ALLOW_MMAP
    | init::ALLOW_IDMAP;

/// What is asked for beyond what is always asked for.
#[derive(Clone, Copy)]
pub(crate) struct Wishes {
    pub posix_acls: bool,
    pub rings: bool,
    pub writeback: bool,
}

/// What a session does in one way or another, as agreed upon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// Requests come over io_uring.
    pub rings: bool,
    /// The kernel keeps what is written, and tells sizes and times of files.
    pub writeback: bool,
    /// Directories are read without being opened, and the kernel keeps what it has read of them.
    pub directories_unopened: bool,
    /// Requests that set an extended attribute have flags of their own.
    pub xattr_flags: bool,
}

/// Answers the kernel's first request.
///
/// # Errors
/// When it does not come, or the kernel's protocol is too old.
pub(crate) fn shake_hands(device: &OwnedFd, wishes: Wishes) -> io::Result<Agreed> {
    let mut buffer = vec![0; REQUEST_BYTES as usize];
    let len = receive(device, &mut buffer)?;
    let short = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's first request is too short");
    let (header, body) = InHeader::read_from_prefix(&buffer[..len]).map_err(|_| short())?;
    let (asked, rest) = InitIn::read_from_prefix(body).map_err(|_| short())?;
    let is_known = asked.major == KERNEL_VERSION && asked.minor >= KERNEL_MINOR_OLDEST;
    if header.opcode != opcode::INIT || !is_known {
        let old = format!("FUSE protocol {}.{}: Linux 4.20 or newer is needed", asked.major, asked.minor);
        return Err(io::Error::new(io::ErrorKind::Unsupported, old));
    }
    let upper = InitInExt::read_from_prefix(rest).map_or(0, |(ext, _)| ext.flags2);
    let has_upper = u64::from(asked.flags) & init::INIT_EXT != 0;
    let offered = u64::from(asked.flags) | if has_upper { u64::from(upper) << 32 } else { 0 };
    if wishes.posix_acls && offered & init::POSIX_ACL == 0 {
        tracing::warn!("the kernel lacks POSIX ACLs: the mode alone counts");
    }
    if wishes.rings && offered & init::OVER_IO_URING == 0 {
        tracing::warn!(
            "the kernel offers no FUSE over io_uring: Linux 6.14 does, where enable_uring of fuse is set"
        );
    }
    let agreed = agreement(&asked, offered, wishes);
    let body = zerocopy::IntoBytes::as_bytes(&agreed);
    send(device, header.unique, 0, std::iter::once(body))?;
    Ok(Agreed::of(&agreed))
}

impl Agreed {
    fn of(answer: &InitOut) -> Self {
        let flags = u64::from(answer.flags) | u64::from(answer.flags2) << 32;
        Self {
            rings: flags & init::OVER_IO_URING != 0,
            writeback: flags & init::WRITEBACK_CACHE != 0,
            directories_unopened: flags & init::NO_OPENDIR_SUPPORT != 0,
            xattr_flags: flags & init::SETXATTR_EXT != 0,
        }
    }
}

fn agreement(asked: &InitIn, offered: u64, wishes: Wishes) -> InitOut {
    let pick = |is_wanted: bool, flag: u64| if is_wanted { flag } else { 0 };
    let wanted = WISHES
        | pick(wishes.posix_acls, init::POSIX_ACL)
        | pick(wishes.rings, init::OVER_IO_URING)
        | pick(wishes.writeback, init::WRITEBACK_CACHE);
    let agreed = offered & wanted;
    let has_rings = agreed & init::OVER_IO_URING != 0;
    let request_bytes = if has_rings { RING_REQUEST_BYTES } else { REQUEST_BYTES };
    InitOut {
        major: KERNEL_VERSION,
        minor: KERNEL_MINOR_VERSION.min(asked.minor),
        max_readahead: request_bytes.min(asked.max_readahead.max(PAGE_BYTES)),
        flags: agreed as u32,
        flags2: (agreed >> 32) as u32,
        max_background: BACKGROUND,
        congestion_threshold: CONGESTED,
        max_write: request_bytes,
        time_gran: 1,
        max_pages: (request_bytes / PAGE_BYTES) as u16,
        ..InitOut::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_sides_can_is_agreed_upon() {
        let asked = InitIn { major: 7, minor: 31, max_readahead: 131_072, flags: u32::MAX };
        let wishes = |posix_acls, rings| Wishes { posix_acls, rings, writeback: false };
        let all = agreement(&asked, u64::MAX, wishes(false, false));
        assert_eq!((all.minor, all.max_readahead), (31, 131_072));
        assert_eq!(u64::from(all.flags) & init::POSIX_ACL, 0);
        assert_eq!(u64::from(all.flags2) << 32, init::DIRECT_IO_ALLOW_MMAP | init::ALLOW_IDMAP);
        let agreed = Agreed { directories_unopened: true, xattr_flags: true, ..Agreed::default() };
        assert_eq!(Agreed::of(&all), agreed);
        let everything = Wishes { posix_acls: true, rings: true, writeback: true };
        let none = agreement(&asked, 0, everything);
        assert_eq!((none.flags, none.flags2, none.max_write), (0, 0, REQUEST_BYTES));
        assert_eq!(Agreed::of(&none), Agreed::default());
        let all = agreement(&asked, u64::MAX, everything);
        assert_eq!(Agreed::of(&all), Agreed { rings: true, writeback: true, ..agreed });
        let over_rings = agreement(&asked, u64::MAX, wishes(false, true));
        assert_eq!(over_rings.max_write, RING_REQUEST_BYTES);
        assert_ne!(u64::from(over_rings.flags2) << 32 & init::OVER_IO_URING, 0);
    }
}
