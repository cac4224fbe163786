//! Connections that end when the other end is too slow.
//!
//! A connection costs a descriptor and the bytes that are on the way. Without a limit of time, a client
//! that sends half a request, or does not read an answer, keeps both for ever.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What a connection is used for, as far as its limits of time depend on the use.
pub trait Pace: Unpin {
    /// True if the next bytes of the other end must come soon.
    fn expects_bytes(&self) -> bool;

    /// True if the other end must take the bytes of an answer soon.
    fn expects_room(&self) -> bool;
}

/// A connection that fails with [`io::ErrorKind::TimedOut`] if no byte moves for a time.
#[derive(Debug)]
pub struct Patient<Io, P> {
    io: Io,
    pace: P,
    patience: Duration,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl<Io, P: Pace> Patient<Io, P> {
    /// Limits the time between two bytes of `io` to `patience`, as far as `pace` expects bytes.
    pub fn new(io: Io, pace: P, patience: Duration) -> Self {
        Self { io, pace, patience, reading: None, writing: None }
    }
}

/// Passes on what has happened. While nothing happens, waits for the end of the patience.
fn or_too_late<T>(
    timer: &mut Option<Pin<Box<Sleep>>>,
    patience: Option<Duration>,
    happened: Poll<io::Result<T>>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<T>> {
    let (Poll::Pending, Some(patience)) = (&happened, patience) else {
        *timer = None;
        return happened;
    };
    let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
    timer.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
}

impl<Io: AsyncRead + Unpin, P: Pace> AsyncRead for Patient<Io, P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let read = Pin::new(&mut this.io).poll_read(cx, into);
        let patience = this.pace.expects_bytes().then_some(this.patience);
        or_too_late(&mut this.reading, patience, read, cx)
    }
}

impl<Io: AsyncWrite + Unpin, P: Pace> AsyncWrite for Patient<Io, P> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let written = Pin::new(&mut this.io).poll_write(cx, bytes);
        let patience = this.pace.expects_room().then_some(this.patience);
        or_too_late(&mut this.writing, patience, written, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let written = Pin::new(&mut this.io).poll_write_vectored(cx, slices);
        let patience = this.pace.expects_room().then_some(this.patience);
        or_too_late(&mut this.writing, patience, written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().expect("a runtime").block_on(work)
    }

    /// Expects all bytes soon.
    struct Brisk;

    impl Pace for Brisk {
        fn expects_bytes(&self) -> bool {
            true
        }

        fn expects_room(&self) -> bool {
            true
        }
    }

    /// Expects nothing.
    struct Slow;

    impl Pace for Slow {
        fn expects_bytes(&self) -> bool {
            false
        }

        fn expects_room(&self) -> bool {
            false
        }
    }

    /// For tests that wait for the end of the patience.
    const SHORT: Duration = Duration::from_millis(50);

    #[test]
    fn half_a_request_ends_its_connection() {
        run(async {
            let (mut there, here) = tokio::io::duplex(64);
            let mut here = Patient::new(here, Brisk, SHORT);
            there.write_all(b"half").await.expect("room");
            let mut bytes = [0; 4];
            here.read_exact(&mut bytes).await.expect("it came");
            let begun = std::time::Instant::now();
            let late = here.read(&mut bytes).await.expect_err("nothing comes");
            assert_eq!(late.kind(), io::ErrorKind::TimedOut);
            assert!(begun.elapsed() >= SHORT);
        });
    }

    #[test]
    fn an_answer_that_nobody_reads_ends_its_connection() {
        run(async {
            let (_there, here) = tokio::io::duplex(64);
            let mut here = Patient::new(here, Brisk, SHORT);
            let late = here.write_all(&[0; 65]).await.expect_err("nobody reads");
            assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn bytes_that_come_in_time_begin_the_time_again() {
        run(async {
            let (mut there, here) = tokio::io::duplex(64);
            let mut here = Patient::new(here, Brisk, Duration::from_secs(2));
            let slow = async {
                for _ in 0..3 {
                    tokio::time::sleep(Duration::from_millis(800)).await;
                    there.write_all(b"x").await.expect("room");
                }
            };
            let mut bytes = [0; 3];
            let (read, ()) = tokio::join!(here.read_exact(&mut bytes), slow);
            read.expect("each came in time");
        });
    }

    #[test]
    fn where_nothing_is_expected_nothing_is_late() {
        run(async {
            let (mut there, here) = tokio::io::duplex(64);
            let mut here = Patient::new(here, Slow, SHORT);
            let slow = async {
                tokio::time::sleep(SHORT * 4).await;
                there.write_all(b"x").await.expect("room");
            };
            let mut bytes = [0; 1];
            let (read, ()) = tokio::join!(here.read_exact(&mut bytes), slow);
            read.expect("it came");
        });
    }
}
