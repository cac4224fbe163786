//! The commands' side: one blocking HTTP/1.1 request a connection.
//!
//! Small on purpose: a command must start, ask and end within a few milliseconds, so it
//! brings no runtime of its own.

use crate::{Call, DaemonStatusCall, Failure, UnderWay, handover, pool_of, transfer};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Answers larger than this are taken for garbage.
const ANSWER_MAX_BYTES: u64 = 1 << 30;
pub(crate) const HEADER_MAX_BYTES: u64 = 64 << 10;
/// After so long without an answer a command tells what it waits for.
pub const TOLD_AFTER: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("cannot reach the sawmill daemon at {}", path.display())]
    Unreachable {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection broke: the daemon died while it worked on the request.
    #[error("lost the sawmill daemon while it worked on the request")]
    Lost(#[source] io::Error),
    /// What came back is not what was asked for: another version answers.
    #[error("the sawmill daemon's answer makes no sense: {0}")]
    Garbled(String),
    /// Somebody else could have put the socket there.
    #[error("cannot use the run-time directory: {0}; set SAWMILL_RUN to a directory of your own")]
    Untrusted(crate::UntrustedDir),
    /// What came cannot be passed on.
    #[error("cannot write what the sawmill daemon sent")]
    Sink(#[source] io::Error),
    /// It answered, with a refusal.
    #[error(transparent)]
    Refused(#[from] Failure),
}

/// Knows where the daemon listens.
#[derive(Clone, Debug)]
pub struct Client {
    socket: PathBuf,
    tell: Option<fn(&UnderWay)>,
}

impl Client {
    /// Speaks to the daemon at `socket`; does not connect yet.
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), tell: None }
    }

    /// With somebody to be told what a request waits for when it waits long for other changes; of each
    /// once.
    #[must_use]
    pub fn telling(self, tell: fn(&UnderWay)) -> Self {
        Self { tell: Some(tell), ..self }
    }

    /// Where the daemon listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether a daemon lives that answers: one that was just killed still accepts
    /// connections for a moment, and resets them.
    pub fn answers(&self) -> bool {
        self.call(&DaemonStatusCall {}).is_ok()
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// The daemon's refusal, or why there is no answer at all.
    pub fn call<C: Call>(&self, call: &C) -> Result<C::Answer, ClientError> {
        let asked = Instant::now();
        let mut stream = self.post(call, "HTTP/1.1")?;
        if let Some(tell) = self.tell {
            self.wait(&mut stream, tell, asked, call.subject()).map_err(ClientError::Lost)?;
        }
        match read_response(stream)? {
            (200, answer) => parse(&answer),
            (_, failure) => Err(parse::<Failure>(&failure)?.into()),
        }
    }

    /// Asks for bytes and hands them to `sink` as they come; gives the answer that follows them.
    ///
    /// # Errors
    /// As [`Self::call`], and [`ClientError::Sink`]. Some bytes may have been handed on by then.
    pub fn call_for_bytes<C: Call>(&self, call: &C, sink: &mut dyn Write) -> Result<C::Answer, ClientError> {
        // In HTTP/1.0 an answer of any length ends with its connection, and has no chunks to be put together.
        let mut stream = self.post(call, "HTTP/1.0")?;
        let (status, length) = read_head(&mut stream)?;
        if status != 200 {
            return Err(parse::<Failure>(&read_body(stream, length)?)?.into());
        }
        match transfer::read_pieces::<C::Answer>(&mut stream, sink)? {
            Ok(answer) => Ok(answer),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Asks, and has the daemon read from `source` what the request is about.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn call_with_source<C: Call>(
        &self,
        call: &C,
        source: BorrowedFd<'_>,
    ) -> Result<C::Answer, ClientError> {
        let message = message(call, "HTTP/1.1")?;
        let mut stream = self.connect()?;
        handover::write_with(&mut stream, &message, source).map_err(ClientError::Lost)?;
        match read_response(BufReader::new(stream))? {
            (200, answer) => parse(&answer),
            (_, failure) => Err(parse::<Failure>(&failure)?.into()),
        }
    }

    fn connect(&self) -> Result<UnixStream, ClientError> {
        let unreachable = |source| ClientError::Unreachable { path: self.socket.clone(), source };
        UnixStream::connect(&self.socket).map_err(unreachable)
    }

    /// Connects, and asks.
    fn post<C: Call>(&self, call: &C, version: &str) -> Result<BufReader<UnixStream>, ClientError> {
        let message = message(call, version)?;
        let mut stream = self.connect()?;
        match stream.write_all(&message) {
            // A server that turns a request away may have done so by now.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.map_err(ClientError::Lost)?,
        }
        Ok(BufReader::new(stream))
    }

    /// Waits for the answer's first byte, and tells what it is that takes so long.
    fn wait(
        &self,
        stream: &mut BufReader<UnixStream>,
        tell: fn(&UnderWay),
        asked: Instant,
        subject: Option<&str>,
    ) -> io::Result<()> {
        let mut told = BTreeSet::new();
        stream.get_ref().set_read_timeout(Some(TOLD_AFTER))?;
        while stream.fill_buf().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            for change in self.in_the_way(asked, subject) {
                if told.insert((change.pool.clone(), change.what.clone())) {
                    tell(&change);
                }
            }
        }
        stream.get_ref().set_read_timeout(None)
    }

    /// Changes that were under way before something was asked for, of its pool if it is known: what was
    /// asked for is younger itself.
    fn in_the_way(&self, asked: Instant, subject: Option<&str>) -> Vec<UnderWay> {
        let Ok(status) = Self::new(&self.socket).call(&DaemonStatusCall {}) else { return Vec::new() };
        let waited = asked.elapsed().as_millis();
        let pool = subject.map(pool_of);
        let mut found = status.under_way;
        found.retain(|change| {
            u128::from(change.millis) > waited && pool.is_none_or(|pool| change.pool == pool)
        });
        found
    }
}

/// A request.
pub(crate) fn message<C: Call>(call: &C, version: &str) -> Result<Vec<u8>, ClientError> {
    let body = serde_json::to_vec(call).map_err(|e| ClientError::Garbled(e.to_string()))?;
    let head = format!(
        "POST {} {version}\r\nHost: sawmill\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        C::PATH,
        body.len()
    );
    Ok([head.into_bytes(), body].concat())
}

/// What JSON says.
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(text).map_err(|e| ClientError::Garbled(e.to_string()))
}

/// Reads a response that says how long it is, or ends with the connection.
pub(crate) fn read_response(mut stream: impl BufRead) -> Result<(u16, Vec<u8>), ClientError> {
    let (status, length) = read_head(&mut stream)?;
    Ok((status, read_body(stream, length)?))
}

/// The status, and how long the rest is if it says so.
pub(crate) fn read_head(stream: impl BufRead) -> Result<(u16, Option<u64>), ClientError> {
    let mut head = stream.take(HEADER_MAX_BYTES);
    let status_line = read_line(&mut head)?;
    let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| ClientError::Garbled(format!("'{status_line}'")))?;
    let mut length = None;
    loop {
        let line = read_line(&mut head)?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse().map_err(|_| ClientError::Garbled(line.clone()))?);
        }
    }
    Ok((status, length))
}

fn read_body(stream: impl BufRead, length: Option<u64>) -> Result<Vec<u8>, ClientError> {
    let mut body = Vec::new();
    let most = length.map_or(ANSWER_MAX_BYTES, |length| length.min(ANSWER_MAX_BYTES));
    stream.take(most).read_to_end(&mut body).map_err(ClientError::Lost)?;
    if length.is_some_and(|length| (body.len() as u64) < length) {
        return Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(body)
}

fn read_line(stream: &mut impl BufRead) -> Result<String, ClientError> {
    let mut line = String::new();
    stream.read_line(&mut line).map_err(ClientError::Lost)?;
    if !line.ends_with('\n') {
        return Err(ClientError::Lost(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_response_is_read() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX: y\r\n\r\ntrue and more";
        let (status, body) = read_response(&text[..]).expect("whole");
        assert_eq!((status, body), (200, b"true".to_vec()));
    }

    #[test]
    fn a_response_cut_short_is_a_lost_daemon() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue";
        for end in 0..whole.len() {
            let cut = read_response(&whole[..end]);
            assert!(matches!(cut, Err(ClientError::Lost(_) | ClientError::Garbled(_))), "{end}: {cut:?}");
        }
    }

    #[test]
    fn a_response_that_is_none_is_garbled() {
        assert!(matches!(read_response(&b"hello\r\n\r\n"[..]), Err(ClientError::Garbled(_))));
    }
}
