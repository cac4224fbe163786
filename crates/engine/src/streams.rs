//! Streams that are under way, and the end of the daemon.
//!
//! A stream goes on for as long as there is somebody at its other end, which may be for days; so who is asked to stop does
//! not wait for it. What is sent breaks off, and what is received is given up, or kept where that was asked for.

use control::{ByteSink, ByteSource};
use futures::channel::oneshot;
use futures::future::{FutureExt, Shared};
use futures::io::{AsyncRead, AsyncWrite};
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What ends them all.
pub(crate) struct Streams {
    going_on: Mutex<Option<oneshot::Sender<()>>>,
    end: Shared<oneshot::Receiver<()>>,
}

impl Default for Streams {
    fn default() -> Self {
        let (going_on, end) = oneshot::channel();
        Self { going_on: Mutex::new(Some(going_on)), end: end.shared() }
    }
}

impl Streams {
    /// Ends those that are under way, and those that come yet.
    pub fn end(&self) {
        drop(self.going_on.lock().take());
    }

    /// What comes in, until the end.
    pub fn source(&self, inner: ByteSource) -> ByteSource {
        Box::pin(Until { inner, end: self.end.clone() })
    }

    /// Where a stream goes out, until the end.
    pub fn sink(&self, inner: ByteSink) -> Until<ByteSink> {
        Until { inner, end: self.end.clone() }
    }
}

/// One of them.
pub(crate) struct Until<S> {
    inner: S,
    end: Shared<oneshot::Receiver<()>>,
}

impl<S> Until<S> {
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.end.poll_unpin(cx) {
            Poll::Pending => Ok(()),
            Poll::Ready(_) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Until<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.inner).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Until<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use futures::io::AsyncReadExt;

    #[test]
    fn a_stream_that_waits_for_more_ends_with_the_daemon() {
        let streams = Streams::default();
        let mut source = streams.source(Box::pin(&b"some bytes"[..]));
        let mut some = [0; 4];
        block_on(source.read_exact(&mut some)).expect("they came");
        let mut waiting = streams.source(Box::pin(Never));
        let mut read = waiting.read(&mut some);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(read.poll_unpin(&mut cx).is_pending());
        streams.end();
        let ended = |error: io::Error| error.kind() == io::ErrorKind::ConnectionAborted;
        assert!(block_on(read).is_err_and(ended));
        assert!(block_on(source.read(&mut some)).is_err_and(ended), "what comes later ends, too");
    }

    struct Never;

    impl AsyncRead for Never {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
            Poll::Pending
        }
    }
}
