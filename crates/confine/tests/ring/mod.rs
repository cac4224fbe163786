//! One operation of io_uring: what seccomp does not see.

use std::io;
use std::os::fd::RawFd;

use io_uring::{IoUring, squeue::Entry, types};

/// Has the kernel do an operation. What the operation points to must live until this returns.
pub fn operation(entry: &Entry) -> io::Result<i32> {
    let mut ring = IoUring::new(2)?;
    // SAFETY: the kernel uses the memory of the operation until the operation is done, which is
    // awaited here, and the callers keep that memory until then.
    unsafe { ring.submission().push(entry) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    let result = ring.completion().next().map(|done| done.result()).ok_or(io::ErrorKind::NotFound)?;
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

pub fn fd(number: RawFd) -> types::Fd {
    types::Fd(number)
}

/// Relative to the working directory.
pub const HERE: types::Fd = types::Fd(libc::AT_FDCWD);
