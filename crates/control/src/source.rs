//! The bytes that a request is about, read from a descriptor that came with it, ahead of whoever wants them.
//!
//! ```text
//!  descriptor ─► a thread: poll(2), read(2) ─► pieces on their way (a few) ─► ByteSource ─► engine
//! ```
//! The thread may wait for the sender for days, so it is nobody else's; it ends with the bytes, with whoever reads them,
//! and with the command that asked.
//!
//! Invariants
//! - A command that dies in the middle of its bytes is told apart from their end: the source fails.
//!   (test: `who_asked_and_goes_away_ends_the_bytes_with_an_error`)

use crate::handover::Given;
use futures::io::AsyncRead;
use futures::stream::{self, TryStreamExt};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;
use std::pin::Pin;
use tokio::sync::mpsc;

/// The bytes that come with a request.
pub type ByteSource = Pin<Box<dyn AsyncRead + Send>>;

/// What is read at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that wait to be wanted.
const PIECES_AHEAD: usize = 8;
/// A pipe is made to hold so much, where that is allowed: by itself it holds 64 KiB, and whoever fills it waits as often.
const PIPE_BYTES: usize = 1 << 20;

/// What a descriptor has to give.
pub(crate) fn read_from(given: Given) -> ByteSource {
    let (pieces, mut read) = mpsc::channel(PIECES_AHEAD);
    // Fails for what is no pipe.
    _ = rustix::pipe::fcntl_setpipe_size(&given.descriptor, PIPE_BYTES);
    let failed = pieces.clone();
    let reader = move || read_all(&given, &pieces);
    if let Err(error) = std::thread::Builder::new().name("source".to_owned()).spawn(reader) {
        _ = failed.try_send(Err(error));
    }
    Box::pin(stream::poll_fn(move |cx| read.poll_recv(cx)).into_async_read())
}

fn read_all(given: &Given, pieces: &mpsc::Sender<io::Result<Vec<u8>>>) {
    loop {
        let piece = next_piece(given);
        let goes_on = piece.is_ok();
        if piece.as_ref().is_ok_and(Vec::is_empty) || pieces.blocking_send(piece).is_err() || !goes_on {
            return;
        }
    }
}

/// What there is to read by now, waiting for some; nothing at the end.
fn next_piece(given: &Given) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    loop {
        let mut polled =
            [PollFd::new(&given.socket, PollFlags::RDHUP), PollFd::new(&given.descriptor, PollFlags::IN)];
        match poll(&mut polled, None) {
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        if !polled[0].revents().is_empty() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        match rustix::io::read(&given.descriptor, rustix::buffer::spare_capacity(&mut piece)) {
            Ok(_) => return Ok(piece),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::executor::block_on;
    use futures::io::AsyncReadExt;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    fn given(descriptor: impl Into<OwnedFd>) -> (UnixStream, ByteSource) {
        let (command, daemon) = UnixStream::pair().expect("a pair");
        (command, read_from(Given { descriptor: descriptor.into(), socket: daemon.into() }))
    }

    #[test]
    fn all_that_a_pipe_gives_comes() {
        let bytes: Vec<u8> = (0..(PIECE_BYTES * 20) as u32).map(|i| (i * 7) as u8).collect();
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let (_command, mut source) = given(reader);
        let mut got = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writer.write_all(&bytes).expect("somebody reads");
                drop(writer);
            });
            block_on(source.read_to_end(&mut got)).expect("read");
        });
        assert!(got == bytes);
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let directory = std::fs::File::open("/").expect("there");
        let (_command, mut source) = given(directory);
        let read = block_on(source.read(&mut [0])).expect_err("it has no bytes");
        assert_eq!(read.kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn who_asked_and_goes_away_ends_the_bytes_with_an_error() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let (command, mut source) = given(reader);
        writer.write_all(b"some").expect("somebody reads");
        let mut some = [0; 4];
        block_on(source.read_exact(&mut some)).expect("they came");
        drop(command);
        // The pipe is still open.
        let ended = block_on(source.read(&mut some)).expect_err("nobody waits for it");
        assert_eq!(ended.kind(), io::ErrorKind::ConnectionAborted);
        drop(writer);
    }

    #[test]
    fn nothing_is_read_for_nobody() {
        let zeros = std::fs::File::open("/dev/zero").expect("there");
        let (command, source) = given(zeros.try_clone().expect("another"));
        drop(source);
        // The thread lets go of its end of the connection, though what it reads never ends.
        let mut command = command;
        assert_eq!(io::Read::read(&mut command, &mut [0]).expect("hung up"), 0);
    }
}
