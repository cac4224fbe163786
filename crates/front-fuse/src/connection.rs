//! The kernel's side of a session: `/dev/fuse`, opened.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use rustix::io::{Errno, read, writev};
use zerocopy::IntoBytes;

use crate::abi::OutHeader;

/// A session of its own, not mounted anywhere yet.
pub(crate) fn open() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/fuse")?.into())
}

/// The next request; waits for one, where the device was not set to [`OFlags::NONBLOCK`](rustix::fs::OFlags).
///
/// # Errors
/// `ENODEV` when the session has ended.
pub(crate) fn receive(device: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    loop {
        if let Some(len) = try_receive(device, into)? {
            return Ok(len);
        }
    }
}

/// The next request, if there is one.
///
/// # Errors
/// `ENODEV` when the session has ended.
pub(crate) fn try_receive(device: &OwnedFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match read(device, &mut *into) {
            // Whoever asked has been killed, or we have been stopped for a moment.
            Err(Errno::NOENT | Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
            // No request is empty: there will be none any more.
            Ok(0) => return Err(Errno::NODEV.into()),
            Ok(len) => return Ok(Some(len)),
        }
    }
}

/// Answers the request `unique`: with a body, or with an errno.
///
/// # Errors
/// `ENOENT` when nobody waits for the answer any more.
pub(crate) fn send(device: &OwnedFd, unique: u64, errno: i32, body: &[u8]) -> io::Result<()> {
    let len = (size_of::<OutHeader>() + body.len()) as u32;
    let header = OutHeader { len, error: -errno, unique };
    writev(device, &[IoSlice::new(header.as_bytes()), IoSlice::new(body)])?;
    Ok(())
}
