//! Who is at the other end of a socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Groups that are asked for at first, and at most.
const GROUPS: usize = 64;
const GROUPS_MAX: usize = 1 << 16;

/// Groups of which the process at the other end of a Unix socket was a member when it connected, beside its first.
///
/// # Errors
/// The system's.
// JUSTIFICATION: rustix does not know this option, and what /proc tells of a process may be of another by then.
#[expect(unsafe_code, reason = "a socket option")]
pub fn peer_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let socket = socket.as_fd().as_raw_fd();
    let mut groups = vec![0_u32; GROUPS];
    loop {
        let mut len = size_of_val(groups.as_slice()) as libc::socklen_t;
        let place = groups.as_mut_ptr().cast();
        // SAFETY: SO_PEERGROUPS writes at most `len` bytes of gid_t, which are u32, to where they are told to, all of
        // which is initialized and ours during the call, and the length that it wrote or wants to `len`.
        let done =
            unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERGROUPS, place, &raw mut len) };
        let count = len as usize / size_of::<u32>();
        if done == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        let is_more = error.raw_os_error() == Some(libc::ERANGE) && count > groups.len();
        if !is_more || count > GROUPS_MAX {
            return Err(error);
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_who_connects_are_known() {
        let (here, _there) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let own = rustix::process::getgroups().expect("groups");
        let own: Vec<u32> = own.into_iter().map(rustix::process::Gid::as_raw).collect();
        assert_eq!(peer_groups(&here).expect("told"), own);
    }
}
