//! Bytes before an answer: streams of snapshots, as long as they are. Those that come with a request come by a descriptor:
//! see `handover`.
//!
//! ```text
//!  engine ─► ByteSink ─► pieces on their way (a few) ─► HTTP ─► client ─► standard output
//!
//!  ( length (u32, little-endian)  bytes )*   length 0   JSON: the answer, or the failure
//! ```
//! Whoever does not read holds up whoever writes: what is on its way is bounded. An answer is there only if it was sent,
//! so that what breaks off is never taken for the end.
//!
//! Invariants
//! - A stream that was not written to its end is a failure, whatever it was that ended it.
//!   (tests: `pieces_cut_off_anywhere_are_a_lost_daemon`, `what_fails_in_the_middle_is_told_behind_what_came`)

use crate::client::parse;
use crate::{ByteSource, ClientError, Failure};
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::channel::mpsc;
use futures::io::AsyncWrite;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::io::{self, BufRead, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A piece is no longer than this.
pub(crate) const PIECE_MAX_BYTES: usize = 256 << 10;
/// Pieces that wait to be sent.
const PIECES_AHEAD: usize = 2;
/// Bytes of a piece's length.
pub(crate) const LENGTH_BYTES: usize = size_of::<u32>();
/// An answer behind a stream is no longer than this.
pub(crate) const ANSWER_MAX_BYTES: u64 = 4 << 20;

/// Where the bytes go that come before an answer.
#[derive(Debug)]
pub struct ByteSink {
    pieces: mpsc::Sender<Bytes>,
}

impl ByteSink {
    /// Returns a sink and a source of the data written to it, for callers in the same process.
    #[must_use]
    pub fn pipe() -> (Self, ByteSource) {
        let (pieces, written) = mpsc::channel::<Bytes>(PIECES_AHEAD);
        let bytes = written.map(|piece| Ok::<_, io::Error>(piece.slice(LENGTH_BYTES..)));
        (Self { pieces }, Box::pin(bytes.into_async_read()))
    }
}

fn gone(_: mpsc::SendError) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl AsyncWrite for ByteSink {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        ready!(self.pieces.poll_ready(cx)).map_err(gone)?;
        let len = bytes.len().min(PIECE_MAX_BYTES);
        let mut piece = Vec::with_capacity(LENGTH_BYTES + len);
        piece.extend_from_slice(&(len as u32).to_le_bytes());
        piece.extend_from_slice(&bytes[..len]);
        self.pieces.start_send(piece.into()).map_err(gone)?;
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The response that carries what `work` writes, and then what comes of it.
pub(crate) fn answer<T, F>(work: impl FnOnce(ByteSink) -> F) -> Response
where
    T: Serialize + Send + 'static,
    F: Future<Output = Result<T, Failure>> + Send + 'static,
{
    let (pieces, written) = mpsc::channel(PIECES_AHEAD);
    let outcome = tokio::spawn(work(ByteSink { pieces }));
    let last =
        async move { outcome.await.map_err(io::Error::other).and_then(|outcome| last_piece(&outcome)) };
    let body = written.map(Ok).chain(stream::once(last));
    ([(header::CONTENT_TYPE, "application/octet-stream")], Body::from_stream(body)).into_response()
}

fn last_piece<T: Serialize>(outcome: &Result<T, Failure>) -> io::Result<Bytes> {
    let mut piece = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut piece, outcome)?;
    Ok(piece.into())
}

/// Reads pieces and hands on what is in them; what comes behind.
pub(crate) fn read_pieces<T: DeserializeOwned>(
    mut source: impl BufRead,
    sink: &mut dyn Write,
) -> Result<Result<T, Failure>, ClientError> {
    let mut piece = Vec::new();
    loop {
        let mut length = [0; LENGTH_BYTES];
        source.read_exact(&mut length).map_err(ClientError::Lost)?;
        let length = u32::from_le_bytes(length) as usize;
        if length == 0 {
            break;
        }
        if length > PIECE_MAX_BYTES {
            return Err(ClientError::Garbled(format!("a piece of {length} bytes")));
        }
        piece.resize(length, 0);
        source.read_exact(&mut piece).map_err(ClientError::Lost)?;
        sink.write_all(&piece).map_err(ClientError::Sink)?;
    }
    sink.flush().map_err(ClientError::Sink)?;
    let mut answer = Vec::new();
    source.take(ANSWER_MAX_BYTES).read_to_end(&mut answer).map_err(ClientError::Lost)?;
    match answer.is_empty() {
        true => Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into())),
        false => parse(&answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureKind;
    use futures::StreamExt;
    use futures::executor::block_on;
    use futures::io::{AsyncReadExt, AsyncWriteExt};

    /// What a sink's pieces are, one after the other, and what is put behind them.
    fn sent(bytes: &[u8], outcome: &Result<u64, Failure>) -> Vec<u8> {
        let (pieces, mut written) = mpsc::channel(64);
        let mut sink = ByteSink { pieces };
        block_on(sink.write_all(bytes)).expect("somebody reads");
        drop(sink);
        let mut all = Vec::new();
        while let Some(piece) = block_on(written.next()) {
            all.extend_from_slice(&piece);
        }
        all.extend_from_slice(&last_piece(outcome).expect("JSON"));
        all
    }

    #[test]
    fn pieces_are_put_together_again() {
        let bytes: Vec<u8> = (0..PIECE_MAX_BYTES as u32 * 3 / 2).map(|i| (i * 7) as u8).collect();
        let mut got = Vec::new();
        let answer = read_pieces::<u64>(&sent(&bytes, &Ok(7))[..], &mut got).expect("whole");
        assert!(answer == Ok(7) && got == bytes);
    }

    #[test]
    fn what_fails_in_the_middle_is_told_behind_what_came() {
        let failure = Failure::new(FailureKind::Other, "a block cannot be read");
        let mut got = Vec::new();
        let answer = read_pieces::<u64>(&sent(b"some", &Err(failure.clone()))[..], &mut got).expect("whole");
        assert_eq!((answer, got.as_slice()), (Err(failure), &b"some"[..]));
    }

    #[test]
    fn pieces_cut_off_anywhere_are_a_lost_daemon() {
        let whole = sent(b"some bytes", &Ok(7));
        for end in 0..whole.len() {
            let cut = read_pieces::<u64>(&whole[..end], &mut Vec::new());
            assert!(matches!(cut, Err(ClientError::Lost(_) | ClientError::Garbled(_))), "{end}: {cut:?}");
        }
    }

    #[test]
    fn a_pipe_gives_what_was_written() {
        let (mut sink, mut source) = ByteSink::pipe();
        let written: Vec<u8> = (0..PIECE_MAX_BYTES + 1000).map(|at| at as u8).collect();
        let mut read = Vec::new();
        let write = async {
            sink.write_all(&written).await.expect("somebody reads");
            drop(sink);
        };
        block_on(async {
            futures::join!(write, async { source.read_to_end(&mut read).await.expect("read") })
        });
        assert!(read == written);
    }

    #[test]
    fn whoever_does_not_read_holds_up_whoever_writes() {
        let (pieces, mut written) = mpsc::channel(PIECES_AHEAD);
        let mut sink = ByteSink { pieces };
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut taken = 0;
        while Pin::new(&mut sink).poll_write(&mut cx, b"x").is_ready() {
            taken += 1;
        }
        assert_eq!(taken, PIECES_AHEAD + 1);
        assert!(block_on(written.next()).is_some());
        assert!(Pin::new(&mut sink).poll_write(&mut cx, b"x").is_ready());
        drop(written);
        let written = block_on(sink.write_all(b"x"));
        assert_eq!(written.expect_err("nobody reads").kind(), io::ErrorKind::BrokenPipe);
    }
}
