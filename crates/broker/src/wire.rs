//! Messages with descriptors. An errand and its answer have a stream of their own; each of the two ends when its
//! sender has written the last byte.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Descriptors of one message at most.
const DESCRIPTORS_MAX: usize = 3;
const SPACE_BYTES: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));
/// Bytes of an errand at most: the list of a pool with thousands of devices has a tenth of that.
pub(crate) const ERRAND_MAX_BYTES: usize = 4 << 20;
/// Bytes of an answer at most: the longest are the tables of mounts.
pub(crate) const ANSWER_MAX_BYTES: usize = 64 << 20;
const PIECE_BYTES: usize = 64 << 10;

/// Sends the stream of an errand over the socket of a process.
///
/// # Errors
/// The system's.
pub(crate) fn send_stream(socket: impl AsFd, stream: BorrowedFd<'_>) -> io::Result<()> {
    send_beside(socket, &[0], &[stream]).map(drop)
}

/// Receives the stream of the next errand; `None` when the other end is closed.
///
/// # Errors
/// The system's.
pub(crate) fn receive_stream(socket: impl AsFd) -> io::Result<Option<UnixStream>> {
    loop {
        let mut descriptors = Vec::new();
        match receive_some(&socket, &mut [0], &mut descriptors) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) => return Ok(None),
            // A message without a stream is no errand.
            Ok(_) => {
                if let Some(stream) = descriptors.pop() {
                    return Ok(Some(stream.into()));
                }
            }
        }
    }
}

/// Sends a whole message, with descriptors. The receiver has the whole message after [`finish`].
///
/// # Errors
/// The system's.
pub(crate) fn send<T: Serialize>(
    stream: &UnixStream,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let sent = send_beside(stream, &bytes, descriptors)?;
    let mut rest = stream;
    rest.write_all(&bytes[sent..])
}

/// Ends a message.
///
/// # Errors
/// The system's.
pub(crate) fn finish(stream: &UnixStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)
}

/// Waits until something comes over the socket of a process, or the other end is closed. False if `limit` was over
/// before.
///
/// # Errors
/// The system's.
pub(crate) fn wait(socket: impl AsFd, limit: Option<Duration>) -> io::Result<bool> {
    let limit = limit.map(|limit| Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    match poll(&mut [PollFd::new(&socket, PollFlags::IN)], limit.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Receives a whole message, and its descriptors.
///
/// # Errors
/// The system's; a message that makes no sense, or that has more than `most` bytes.
pub(crate) fn receive<T: DeserializeOwned>(
    stream: &UnixStream,
    most: usize,
) -> io::Result<(T, Vec<OwnedFd>)> {
    let (mut bytes, mut descriptors) = (Vec::new(), Vec::new());
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match receive_some(stream, &mut piece, &mut descriptors) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(0) => break,
            Ok(len) => bytes.extend_from_slice(&piece[..len]),
        }
        if bytes.len() > most || descriptors.len() > DESCRIPTORS_MAX {
            return Err(io::Error::other("a message of another process is too long"));
        }
    }
    Ok((serde_json::from_slice(&bytes)?, descriptors))
}

fn send_beside(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); SPACE_BYTES];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent?),
        }
    }
}

fn receive_some(socket: impl AsFd, into: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); SPACE_BYTES];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(into)], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    for part in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    Ok(received.bytes)
}
