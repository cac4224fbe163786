//! Descriptors that commands hand to the daemon along with a request: whoever works on it reads what they name with
//! nobody in between.
//!
//! ```text
//!  command ── sendmsg(2): the request, SCM_RIGHTS ──► Connection ── recvmsg(2) ──► Handed ──► who works on the request
//! ```
//! One a connection is kept, the last that came; a connection that hands over none is like any other.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

/// Room for what comes with a message: one descriptor. The system closes others.
const SPACE_BYTES: usize = rustix::cmsg_space!(ScmRights(1));

/// What a socket holds of a stream that is sent: with less than some pieces of it the two ends wake each other for each.
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// Writes all of `bytes`, and hands over a descriptor with the first of them.
///
/// # Errors
/// Those of the socket.
pub(crate) fn write_with(
    stream: &mut net::UnixStream,
    bytes: &[u8],
    descriptor: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); SPACE_BYTES];
    let descriptors = [descriptor];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = rustix::net::sendmsg(&*stream, &[IoSlice::new(bytes)], &mut beside, SendFlags::NOSIGNAL)?;
    stream.write_all(&bytes[sent..])
}

/// A descriptor that was handed over.
#[derive(Debug)]
pub(crate) struct Given {
    pub descriptor: OwnedFd,
    /// The connection that it came by: once that is gone nobody waits for what is done with it.
    pub socket: OwnedFd,
}

/// Where what a connection hands over is picked up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handed(Arc<Mutex<Option<Given>>>);

impl Handed {
    /// What was handed over, to whoever asks first.
    pub fn take(&self) -> Option<Given> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, given: Given) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(given);
    }
}

/// A connection that takes descriptors.
pub(crate) struct Connection {
    stream: UnixStream,
    handed: Handed,
}

impl Connection {
    pub fn new(stream: UnixStream) -> Self {
        // Root has what it asks for, others as much as the system lets them have.
        if sockopt::set_socket_send_buffer_size_force(&stream, SEND_BUFFER_BYTES).is_err() {
            _ = sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER_BYTES);
        }
        Self { stream, handed: Handed::default() }
    }

    pub fn handed(&self) -> Handed {
        self.handed.clone()
    }

    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); SPACE_BYTES];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(into)];
        let message = rustix::net::recvmsg(&self.stream, into, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
        for part in beside.drain() {
            let RecvAncillaryMessage::ScmRights(descriptors) = part else { continue };
            for descriptor in descriptors {
                let socket = self.stream.as_fd().try_clone_to_owned()?;
                self.handed.put(Given { descriptor, socket });
            }
        }
        Ok(message.bytes)
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            let room = into.initialize_unfilled();
            match self.stream.try_io(Interest::READABLE, || self.receive(room)) {
                Ok(len) => {
                    into.advance(len);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};
    use tokio::io::AsyncReadExt;

    #[test]
    fn what_is_handed_over_comes_with_the_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        let _entered = runtime.enter();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"what is in it").expect("room");
        file.rewind().expect("to its start");
        let (mut here, there) = net::UnixStream::pair().expect("a pair");
        there.set_nonblocking(true).expect("set");
        let mut connection = Connection::new(UnixStream::from_std(there).expect("of the runtime"));
        let handed = connection.handed();
        write_with(&mut here, b"a request", file.as_fd()).expect("written");
        drop((here, file));
        let mut request = String::new();
        runtime.block_on(connection.read_to_string(&mut request)).expect("text");
        let given = handed.take().expect("it came");
        let mut contents = String::new();
        std::fs::File::from(given.descriptor).read_to_string(&mut contents).expect("text");
        assert_eq!((request.as_str(), contents.as_str()), ("a request", "what is in it"));
        assert!(handed.take().is_none());
    }
}
