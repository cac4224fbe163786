//! Writing records: their checksums, and the bytes in a row.

use futures::io::{AsyncWrite, AsyncWriteExt};
use ondisk::ByteOrder;
use ondisk::send::{CHECKSUM_AT, DrrBody, DrrEnd, DrrRecord, DrrType};
use zerocopy::little_endian::U64;

use crate::sum::RunningSum;
use crate::{SendError, Summary};

/// What is gathered before it is handed on.
const BUFFER_BYTES: usize = 256 << 10;

/// What follows a record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Payload<'a> {
    Bytes(&'a [u8]),
    /// Not read: only its length is asked for.
    Unread(usize),
}

impl<'a> Payload<'a> {
    pub const NONE: Self = Payload::Bytes(&[]);

    pub fn len(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Unread(len) => len,
        }
    }

    /// The first bytes, and the rest.
    pub fn split_at(self, len: usize) -> (Self, Self) {
        match self {
            Self::Bytes(bytes) => {
                let (head, tail) = bytes.split_at(len);
                (Self::Bytes(head), Self::Bytes(tail))
            }
            Self::Unread(whole) => (Self::Unread(len), Self::Unread(whole - len)),
        }
    }
}

/// Where records go.
pub(crate) trait Output: Send {
    /// Takes a record that has no checksum yet. END gets its sum, too.
    fn put(
        &mut self,
        record: DrrRecord,
        payload: Payload<'_>,
    ) -> impl Future<Output = Result<(), SendError>> + Send;

    /// Hands on all there is, and tells how much it was.
    fn finish(self) -> impl Future<Output = Result<Summary, SendError>> + Send;
}

/// Counts what a stream would be.
#[derive(Debug, Default)]
pub(crate) struct Tally(Summary);

impl Output for Tally {
    async fn put(&mut self, record: DrrRecord, payload: Payload<'_>) -> Result<(), SendError> {
        self.0.count(record.body.drr_type(), payload.len() as u64);
        Ok(())
    }

    async fn finish(self) -> Result<Summary, SendError> {
        Ok(self.0)
    }
}

/// Writes one substream.
pub(crate) struct Writer<W> {
    sink: W,
    buffer: Vec<u8>,
    written_bytes: u64,
    sum: RunningSum,
    summary: Summary,
}

impl<W: AsyncWrite + Unpin + Send> Writer<W> {
    pub fn new(sink: W) -> Self {
        Self {
            sink,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            written_bytes: 0,
            sum: RunningSum::new(ByteOrder::Little),
            summary: Summary::default(),
        }
    }

    /// The bytes of a record, with its checksum, which count in those of all that follow.
    fn sealed(&mut self, mut record: DrrRecord) -> [u8; ondisk::send::RECORD_BYTES] {
        if let DrrBody::End(end) = &mut record.body {
            *end = DrrEnd { checksum: self.sum.words().map(U64::new), ..*end };
        }
        let bytes = record.encode();
        self.sum.update(&bytes[..CHECKSUM_AT]);
        let bytes = match record.body.drr_type() {
            DrrType::Begin => bytes,
            _ => DrrRecord { checksum: self.sum.words(), ..record }.encode(),
        };
        self.sum.update(&bytes[CHECKSUM_AT..]);
        bytes
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush().await?;
        }
        if bytes.len() < BUFFER_BYTES {
            self.buffer.extend_from_slice(bytes);
            return Ok(());
        }
        let written = self.sink.write_all(bytes).await;
        self.note(written, bytes.len())
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        let written = self.sink.write_all(&self.buffer).await;
        let len = self.buffer.len();
        self.buffer.clear();
        self.note(written, len)
    }

    fn note(&mut self, written: std::io::Result<()>, len: usize) -> Result<(), SendError> {
        let written_bytes = self.written_bytes;
        written.map_err(|source| SendError::Sink { written_bytes, source })?;
        self.written_bytes += len as u64;
        Ok(())
    }
}

impl<W: AsyncWrite + Unpin + Send> Output for Writer<W> {
    async fn put(&mut self, record: DrrRecord, payload: Payload<'_>) -> Result<(), SendError> {
        let Payload::Bytes(payload) = payload else { panic!("a stream is written of blocks that were read") };
        let header = self.sealed(record);
        self.summary.count(record.body.drr_type(), payload.len() as u64);
        self.sum.update(payload);
        self.write(&header).await?;
        self.write(payload).await
    }

    async fn finish(mut self) -> Result<Summary, SendError> {
        self.flush().await?;
        let flushed = self.sink.flush().await;
        self.note(flushed, 0)?;
        Ok(self.summary)
    }
}
