//! Requests that the daemon hands on to the process of a pool.
//!
//! ```text
//!  command ─► Server ─► Service of the daemon ─► Relay ──HTTP over a Unix socket──► Server of the pool's process
//! ```
//! A [`Relay`] is what [`crate::Client`] is, for callers that must not block their thread.
//!
//! Invariants
//! - A request that nobody waits for any more hangs up, so that the process at the other end learns of it as
//!   if the command had asked there. (test: `who_stops_waiting_hangs_up`)
//! - A stream that breaks off on one side of the relay breaks off on the other side too.
//!   (test: `a_source_that_breaks_off_never_ends_well`)

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net;
use std::path::{Path, PathBuf};

use futures::future::{Either, select};
use futures::io::{AsyncReadExt as _, AsyncWriteExt as _};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::client::{HEADER_MAX_BYTES, message, parse, read_head, read_response};
use crate::transfer::{ANSWER_MAX_BYTES, LENGTH_BYTES, PIECE_MAX_BYTES};
use crate::{ByteSink, ByteSource, Call, ClientError, Failure, handover};

/// Bytes of an answer of a process at most.
const PROCESS_ANSWER_MAX_BYTES: u64 = 512 << 20;
/// A pipe that carries a stream to the process of a pool holds so much.
const PIPE_BYTES: usize = 1 << 20;
const COPY_BYTES: usize = 256 << 10;

/// Knows where the process of a pool listens.
#[derive(Clone, Debug)]
pub struct Relay {
    socket: PathBuf,
}

impl Relay {
    /// Does not connect yet.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Returns where the process listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// The refusal of the process, or why there is no answer.
    pub async fn call<C: Call>(&self, call: &C) -> Result<C::Answer, ClientError> {
        let mut stream = self.connect().await?;
        stream.write_all(&message(call, "HTTP/1.1")?).await.map_err(ClientError::Lost)?;
        answer(stream).await
    }

    /// Asks for bytes and hands them to `sink` as they come. Returns the answer that follows the bytes.
    ///
    /// # Errors
    /// As [`Self::call`], and [`ClientError::Sink`]. Some bytes may have been handed on by then.
    pub async fn call_for_bytes<C: Call>(
        &self,
        call: &C,
        mut sink: ByteSink,
    ) -> Result<C::Answer, ClientError> {
        let mut stream = self.connect().await?;
        // In HTTP/1.0 a body has no chunks.
        stream.write_all(&message(call, "HTTP/1.0")?).await.map_err(ClientError::Lost)?;
        let mut stream = BufReader::with_capacity(COPY_BYTES, stream);
        let head = head(&mut stream).await?;
        let (status, _) = read_head(&head[..])?;
        if status != 200 {
            return Err(parse::<Failure>(&rest(stream).await?)?.into());
        }
        while let Some(piece) = next_piece(&mut stream).await? {
            sink.write_all(&piece).await.map_err(ClientError::Sink)?;
        }
        let last = rest(stream).await?;
        if last.is_empty() {
            return Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into()));
        }
        parse::<Result<C::Answer, Failure>>(&last)?.map_err(ClientError::from)
    }

    /// Asks, and has the process read the bytes of `source`.
    ///
    /// # Errors
    /// As [`Self::call`], and an error of the source.
    pub async fn call_with_source<C: Call>(
        &self,
        call: &C,
        source: ByteSource,
    ) -> Result<C::Answer, ClientError> {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|error| ClientError::Lost(error.into()))?;
        // Fails where the user has too many pipes already.
        _ = rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES);
        let write = pipe::Sender::from_owned_fd(write).map_err(ClientError::Lost)?;
        let asked = self.hand_over(call, &read);
        drop(read);
        let copied = Box::pin(copy(source, write));
        match select(Box::pin(answer(asked?)), copied).await {
            Either::Left((answered, _)) => answered,
            // The connection ends before the pipe does, so that the process takes no cut stream for a whole one.
            Either::Right((Err((error, write)), waiting)) => {
                drop(waiting);
                drop(write);
                Err(ClientError::Lost(error))
            }
            Either::Right((Ok(()), waiting)) => waiting.await,
        }
    }

    /// A message of a few KiB and a descriptor go into a socket without a wait.
    fn hand_over<C: Call>(&self, call: &C, source: impl AsFd) -> Result<UnixStream, ClientError> {
        let mut stream = net::UnixStream::connect(&self.socket).map_err(|error| self.unreachable(error))?;
        let message = message(call, "HTTP/1.1")?;
        handover::write_with(&mut stream, &message, source.as_fd()).map_err(ClientError::Lost)?;
        stream.set_nonblocking(true).map_err(ClientError::Lost)?;
        UnixStream::from_std(stream).map_err(ClientError::Lost)
    }

    async fn connect(&self) -> Result<UnixStream, ClientError> {
        UnixStream::connect(&self.socket).await.map_err(|error| self.unreachable(error))
    }

    fn unreachable(&self, source: io::Error) -> ClientError {
        ClientError::Unreachable { path: self.socket.clone(), source }
    }
}

async fn answer<T: DeserializeOwned>(stream: UnixStream) -> Result<T, ClientError> {
    answer_within(stream, PROCESS_ANSWER_MAX_BYTES).await
}

/// The same, for an answer of at most so many bytes.
async fn answer_within<T: DeserializeOwned>(stream: UnixStream, most: u64) -> Result<T, ClientError> {
    let mut response = Vec::new();
    stream.take(most + 1).read_to_end(&mut response).await.map_err(ClientError::Lost)?;
    if response.len() as u64 > most {
        return Err(ClientError::Garbled(format!("an answer of more than {most} bytes")));
    }
    match read_response(&response[..])? {
        (200, answer) => parse(&answer),
        (_, failure) => Err(parse::<Failure>(&failure)?.into()),
    }
}

/// Reads up to the empty line behind the fields of a response.
async fn head(stream: &mut BufReader<UnixStream>) -> Result<Vec<u8>, ClientError> {
    let mut head = Vec::new();
    let mut stream = stream.take(HEADER_MAX_BYTES);
    while !head.ends_with(b"\r\n\r\n") {
        let read = stream.read_until(b'\n', &mut head).await.map_err(ClientError::Lost)?;
        if read == 0 {
            return Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(head)
}

/// Reads the next piece of a stream; none at its end.
async fn next_piece(stream: &mut BufReader<UnixStream>) -> Result<Option<Vec<u8>>, ClientError> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length).await.map_err(ClientError::Lost)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > PIECE_MAX_BYTES {
        return Err(ClientError::Garbled(format!("a piece of {length} bytes")));
    }
    let mut piece = vec![0; length];
    stream.read_exact(&mut piece).await.map_err(ClientError::Lost)?;
    Ok(Some(piece).filter(|piece| !piece.is_empty()))
}

async fn rest(stream: BufReader<UnixStream>) -> Result<Vec<u8>, ClientError> {
    let mut rest = Vec::new();
    stream.take(ANSWER_MAX_BYTES).read_to_end(&mut rest).await.map_err(ClientError::Lost)?;
    Ok(rest)
}

/// Copies a source into a pipe, which ends well with the source. Gives the pipe back, still open, if the
/// source fails. A process that wants no more bytes is no error: its answer says why.
async fn copy(mut source: ByteSource, mut pipe: pipe::Sender) -> Result<(), (io::Error, pipe::Sender)> {
    let mut piece = vec![0; COPY_BYTES];
    loop {
        let length = match source.read(&mut piece).await {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) => return Err((error, pipe)),
        };
        if pipe.write_all(&piece[..length]).await.is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::time::Duration;

    use futures::stream::TryStreamExt;

    use super::*;
    use crate::{DaemonStop, DatasetReceive, DatasetSend};

    /// Has `serve` answer one connection, while `ask` asks there.
    fn between<T>(serve: impl FnOnce(net::UnixStream) + Send, ask: impl AsyncFnOnce(Relay) -> T) -> T {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("socket");
        let listener = net::UnixListener::bind(&socket).expect("bound");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        std::thread::scope(|scope| {
            scope.spawn(|| serve(listener.accept().expect("a connection").0));
            runtime.block_on(ask(Relay::new(&socket)))
        })
    }

    /// Reads the head of a request, and its descriptor if one comes along with it.
    fn request(stream: &net::UnixStream) -> (String, Option<std::fs::File>) {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = rustix::net::RecvAncillaryBuffer::new(&mut space);
        let mut bytes = vec![0; 64 << 10];
        let into = &mut [std::io::IoSliceMut::new(&mut bytes)];
        let flags = rustix::net::RecvFlags::empty();
        let read = rustix::net::recvmsg(stream, into, &mut beside, flags).expect("a request").bytes;
        let descriptor = beside.drain().find_map(|part| match part {
            rustix::net::RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        (String::from_utf8_lossy(&bytes[..read]).into_owned(), descriptor.map(Into::into))
    }

    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull";

    #[test]
    fn an_answer_and_a_refusal_come_as_they_are() {
        let answered = between(
            |mut stream| {
                assert!(request(&stream).0.starts_with("POST /v1/daemon/stop HTTP/1.1"));
                stream.write_all(OK).expect("read");
            },
            async |relay| relay.call(&DaemonStop {}).await,
        );
        assert!(matches!(answered, Ok(())));
        let failure = Failure::no_such_pool("tank");
        let body = serde_json::to_string(&failure).expect("JSON");
        let refused = between(
            |mut stream| {
                request(&stream);
                write!(stream, "HTTP/1.1 422 X\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                    .expect("read");
            },
            async |relay| relay.call(&DaemonStop {}).await,
        );
        assert!(matches!(refused, Err(ClientError::Refused(of)) if of == failure));
        let lost = between(|stream| drop(request(&stream)), async |relay| relay.call(&DaemonStop {}).await);
        assert!(matches!(lost, Err(ClientError::Lost(_))));
    }

    /// A process that was taken over could otherwise take all memory of the daemon.
    #[test]
    fn an_answer_without_an_end_is_given_up() {
        let endless = |mut stream: net::UnixStream| {
            request(&stream);
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        };
        let given_up = between(endless, async |relay| {
            let mut stream = relay.connect().await.expect("connected");
            stream.write_all(b"anything").await.expect("read");
            answer_within::<()>(stream, 1 << 20).await
        });
        assert!(matches!(&given_up, Err(ClientError::Garbled(_))), "{given_up:?}");
        let given_up = between(endless, async |relay| {
            let mut stream = relay.connect().await.expect("connected");
            stream.write_all(b"anything").await.expect("read");
            head(&mut BufReader::new(stream)).await
        });
        assert!(matches!(given_up, Err(ClientError::Lost(_))));
    }

    #[test]
    fn who_stops_waiting_hangs_up() {
        between(
            |mut stream| {
                request(&stream);
                let mut byte = [0];
                assert_eq!(stream.read(&mut byte).expect("the end"), 0);
            },
            async |relay| {
                let call = DaemonStop {};
                let asked = tokio::time::timeout(Duration::from_millis(50), relay.call(&call)).await;
                assert!(asked.is_err(), "nobody has answered");
            },
        );
    }

    #[test]
    fn pieces_come_through_and_a_cut_stream_is_an_error() {
        let send = async |relay: Relay| {
            let (sink, mut source) = ByteSink::pipe();
            let call = DatasetSend::default();
            let asked = relay.call_for_bytes(&call, sink);
            let mut bytes = Vec::new();
            let (answered, read) = futures::join!(asked, source.read_to_end(&mut bytes));
            read.expect("a pipe in memory");
            (answered, bytes)
        };
        let whole = [b"HTTP/1.0 200 OK\r\n\r\n\x03\0\0\0abc\x01\0\0\0d\0\0\0\0".as_slice(), b"{\"Ok\":null}"]
            .concat();
        let all = whole.clone();
        let serve = move |mut stream: net::UnixStream| {
            request(&stream);
            stream.write_all(&all).expect("read");
        };
        let (answered, bytes) = between(serve, send);
        assert!(matches!(answered, Ok(())) && bytes == b"abcd");
        for cut in [whole.len() - 11, 25, 21, 5] {
            let part = whole[..cut].to_vec();
            let serve = move |mut stream: net::UnixStream| {
                request(&stream);
                stream.write_all(&part).expect("read");
            };
            assert!(matches!(between(serve, send).0, Err(ClientError::Lost(_))), "{cut}");
        }
    }

    #[test]
    fn a_source_reaches_the_other_process_by_a_descriptor() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
        let expected = bytes.clone();
        let serve = move |mut stream: net::UnixStream| {
            let mut source = request(&stream).1.expect("a descriptor");
            let mut read = Vec::new();
            source.read_to_end(&mut read).expect("a pipe");
            assert!(read == expected);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]").expect("read");
        };
        let source: ByteSource = Box::pin(futures::io::Cursor::new(bytes));
        let receive = async |relay: Relay| relay.call_with_source(&DatasetReceive::default(), source).await;
        assert!(matches!(between(serve, receive), Ok(received) if received.is_empty()));
    }

    #[test]
    fn a_source_that_breaks_off_never_ends_well() {
        let serve = |stream: net::UnixStream| {
            let mut source = request(&stream).1.expect("a descriptor");
            let mut read = Vec::new();
            source.read_to_end(&mut read).expect("a pipe");
            // The process asks the socket before it takes the end of a pipe for the end of the stream.
            let mut polled = [rustix::event::PollFd::new(&stream, rustix::event::PollFlags::RDHUP)];
            rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default())).expect("polled");
            assert!(read == b"some" && !polled[0].revents().is_empty());
        };
        let pieces = [Ok(b"some".to_vec()), Err(io::Error::from(io::ErrorKind::ConnectionAborted))];
        let source: ByteSource = Box::pin(futures::stream::iter(pieces).into_async_read());
        let receive = async |relay: Relay| relay.call_with_source(&DatasetReceive::default(), source).await;
        assert!(matches!(between(serve, receive), Err(ClientError::Lost(_))));
    }

    #[test]
    fn a_process_that_wants_no_more_bytes_is_heard() {
        let serve = |mut stream: net::UnixStream| {
            drop(request(&stream).1);
            let failure = serde_json::to_string(&Failure::no_such_pool("tank")).expect("JSON");
            write!(stream, "HTTP/1.1 422 X\r\nContent-Length: {}\r\n\r\n{failure}", failure.len())
                .expect("read");
        };
        let source: ByteSource = Box::pin(futures::io::repeat(7));
        let receive = async |relay: Relay| relay.call_with_source(&DatasetReceive::default(), source).await;
        assert!(matches!(between(serve, receive), Err(ClientError::Refused(_))));
    }
}
