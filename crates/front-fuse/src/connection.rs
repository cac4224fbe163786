//! The kernel's side of a session: `/dev/fuse`, opened.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use rustix::io::{Errno, read, write, writev};
use zerocopy::IntoBytes;

use crate::abi::OutHeader;

/// The device of FUSE.
const DEVICE: &str = "/dev/fuse";

/// A session of its own, not mounted anywhere yet.
///
/// # Errors
/// The system's; in words where there is no device.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let opened = File::options().read(true).write(true).open(DEVICE);
    opened.map(OwnedFd::from).map_err(|error| match error.kind() {
        kind @ io::ErrorKind::NotFound => {
            io::Error::new(kind, format!("there is no {DEVICE}; 'sawmill doctor' says how to get it"))
        }
        _ => error,
    })
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

/// The most parts that one gathering write takes (`IOV_MAX`).
const PARTS_MAX: usize = 1024;

/// Answers the request `unique`: with a body in parts, or with an errno.
///
/// # Errors
/// `ENOENT` when nobody waits for the answer any more.
pub(crate) fn send<'a>(
    device: &OwnedFd,
    unique: u64,
    errno: i32,
    body: impl Iterator<Item = &'a [u8]>,
) -> io::Result<()> {
    // The first is the header, which has to say how long all of it is.
    let mut parts: Vec<IoSlice<'_>> = std::iter::once(&[][..]).chain(body).map(IoSlice::new).collect();
    let len = size_of::<OutHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
    let header = OutHeader { len: len as u32, error: -errno, unique };
    parts[0] = IoSlice::new(header.as_bytes());
    if parts.len() <= PARTS_MAX {
        writev(device, &parts)?;
    } else {
        write(device, &parts.iter().map(|part| &**part).collect::<Vec<_>>().concat())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_more_parts_than_one_write_takes_is_whole() {
        for count in [0, 1, PARTS_MAX - 1, PARTS_MAX, 2 * PARTS_MAX] {
            let (ours, theirs) = rustix::pipe::pipe().expect("a pipe");
            let parts: Vec<[u8; 4]> = (0..count as u32).map(u32::to_le_bytes).collect();
            send(&theirs, 7, 0, parts.iter().map(<[u8; 4]>::as_slice)).expect("it is taken");
            let mut answer = vec![0; 16 * PARTS_MAX];
            let len = read(&ours, &mut answer).expect("it is there");
            assert_eq!(len, size_of::<OutHeader>() + 4 * count);
            assert_eq!(answer[..4], (len as u32).to_le_bytes(), "its length comes first");
            assert_eq!(answer[size_of::<OutHeader>()..len], parts.concat());
        }
    }
}
