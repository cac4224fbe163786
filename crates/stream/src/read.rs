//! Reading a stream, record by record, with every checksum.
//!
//! ```text
//!  Start ─ BEGIN of a substream ─► InSubstream ─ END ─► Done
//!    │                              ▲    │ END, in a compound stream
//!    │ BEGIN of a compound          │    ▼
//!    └─► InNvlist ─ END ─► BetweenSubstreams ─ END, all zero ─► Done
//! ```
//! A record's own checksum covers all before it and its header, but not its payload: that is covered by the next
//! one's. So the reader is always one header ahead, and hands out a record when the next header has vouched
//! for its payload. What very old systems sent has no checksums but END's: of such streams nothing may be
//! believed before END was handed out.
//!
//! Invariants
//! - No damage is passed on: one byte changed anywhere, or the end missing, is an error that says where.
//!   (tests: `a_byte_changed_anywhere_is_an_error`, `a_stream_cut_off_anywhere_is_an_error`)
//! - Memory is not taken for what has not arrived: a payload grows as its bytes come.
//!   (test: `a_payload_that_does_not_come_takes_no_memory`)

use env::IoBuf;
use futures::io::{AsyncRead, AsyncReadExt};
use ondisk::send::{CHECKSUM_AT, DrrBegin, DrrBody, DrrEnd, DrrRecord, DrrType, HeaderType, RECORD_BYTES};
use ondisk::{ByteOrder, OndiskError};
use zerocopy::IntoBytes;

use crate::sum::RunningSum;

/// A payload is taken to be so long at first, and twice as long as what came of it each time that more comes.
const STEP_BYTES: u64 = 1 << 20;

/// Why a stream cannot be read on. Offsets are in bytes from its start.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The source failed.
    #[error("stream cannot be read at byte {offset}")]
    Io {
        /// Up to where it was read.
        offset: u64,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The source ends before the stream does: its sender was stopped, or what it sent was cut.
    #[error("stream ends at byte {offset}, before its END")]
    Truncated {
        /// Where it ends.
        offset: u64,
    },
    /// A record makes no sense.
    #[error("record at byte {offset} of the stream")]
    BadRecord {
        /// Where it begins.
        offset: u64,
        /// What is wrong with it.
        #[source]
        source: OndiskError,
    },
    /// The stream up to a record is not what was sent: it, or what comes before it, is damaged.
    #[error("record at byte {offset} of the stream: the checksum does not match")]
    Checksum {
        /// Where the record with the checksum begins.
        offset: u64,
    },
    /// A record that cannot stand here.
    #[error("record at byte {offset} of the stream: {found} is out of place")]
    OutOfPlace {
        /// Where it begins.
        offset: u64,
        /// Its type.
        found: DrrType,
    },
}

/// A record with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRecord {
    /// Where it begins, in bytes from the start of the stream.
    pub offset: u64,
    /// The record.
    pub record: DrrRecord,
    /// Its payload, in the byte order of the stream, where a disk can take it from.
    pub payload: IoBuf,
}

impl StreamRecord {
    /// Counts it.
    pub fn count_in(&self, summary: &mut crate::Summary) {
        summary.count(self.record.body.drr_type(), self.payload.len() as u64);
    }
}

/// Where in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was read.
    Start,
    /// Behind the nvlist of a compound stream.
    InNvlist,
    /// In a compound stream, before a substream or its end.
    BetweenSubstreams,
    InSubstream {
        /// Whether of a compound stream.
        of_compound: bool,
        toguid: u64,
    },
    /// Behind the last record.
    Done,
}

/// Reads a stream, see the module.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    offset: u64,
    order: ByteOrder,
    sum: RunningSum,
    state: State,
    /// A header that is read and believed; its payload is not read.
    ahead: Option<(u64, DrrRecord)>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Reads a stream from its start. It is read in small pieces: `source` should have a buffer.
    #[must_use]
    pub fn new(source: R) -> Self {
        let order = ByteOrder::Little;
        Self { source, offset: 0, order, sum: RunningSum::new(order), state: State::Start, ahead: None }
    }

    /// The byte order of payloads. Known from the first record on; records themselves are always swapped already.
    #[must_use]
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Bytes read so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The source, behind what was read: all of the stream, once [`Self::next_record`] gave `None`.
    pub fn into_source(self) -> R {
        self.source
    }

    /// The next record; `None` behind the last one. Nothing behind that is read.
    ///
    /// # Errors
    /// See [`ReadError`]. There is no way on after one.
    pub async fn next_record(&mut self) -> Result<Option<StreamRecord>, ReadError> {
        let (offset, record) = match self.ahead.take() {
            Some(header) => header,
            None if self.state == State::Done => return Ok(None),
            None => self.header().await?,
        };
        let payload = self.payload(offset, &record).await?;
        if record.body.drr_type() != DrrType::End {
            self.ahead = Some(self.header().await?);
        }
        Ok(Some(StreamRecord { offset, record, payload }))
    }

    /// Reads a header, has it vouch for what comes before it, and goes to where it leads.
    async fn header(&mut self) -> Result<(u64, DrrRecord), ReadError> {
        let offset = self.offset;
        let mut bytes = [0; RECORD_BYTES];
        self.fill(&mut bytes).await?;
        let bad = |source| ReadError::BadRecord { offset, source };
        if self.state == State::Start {
            self.order = DrrRecord::order_of(&bytes).map_err(bad)?;
        }
        let record = DrrRecord::decode(&bytes, self.order).map_err(bad)?;
        match &record.body {
            DrrBody::Begin(begin) => self.begin(offset, begin, &bytes)?,
            DrrBody::End(end) => self.end(offset, &record, end, &bytes)?,
            body if !matches!(self.state, State::InSubstream { .. }) => {
                return Err(ReadError::OutOfPlace { offset, found: body.drr_type() });
            }
            _ => self.vouch(offset, &record, &bytes)?,
        }
        Ok((offset, record))
    }

    fn begin(&mut self, offset: u64, begin: &DrrBegin, bytes: &[u8]) -> Result<(), ReadError> {
        let header = begin.header_type().map_err(|source| ReadError::BadRecord { offset, source })?;
        let toguid = begin.toguid.get();
        self.state = match (self.state, header) {
            (State::Start, HeaderType::Compound) => State::InNvlist,
            (State::Start, HeaderType::Substream) => State::InSubstream { of_compound: false, toguid },
            (State::BetweenSubstreams, HeaderType::Substream) => {
                State::InSubstream { of_compound: true, toguid }
            }
            _ => return Err(ReadError::OutOfPlace { offset, found: DrrType::Begin }),
        };
        self.sum = RunningSum::new(self.order);
        self.sum.update(bytes);
        Ok(())
    }

    fn end(&mut self, offset: u64, record: &DrrRecord, end: &DrrEnd, bytes: &[u8]) -> Result<(), ReadError> {
        let before = self.sum.words();
        let (next, toguid) = match self.state {
            State::InNvlist => (State::BetweenSubstreams, 0),
            State::BetweenSubstreams => (State::Done, 0),
            State::InSubstream { of_compound: true, toguid } => (State::BetweenSubstreams, toguid),
            State::InSubstream { of_compound: false, toguid } => (State::Done, toguid),
            State::Start | State::Done => {
                return Err(ReadError::OutOfPlace { offset, found: DrrType::End });
            }
        };
        let sums = if self.state == State::BetweenSubstreams { [0; 4] } else { before };
        if end.checksum.map(zerocopy::little_endian::U64::get) != sums || end.toguid.get() != toguid {
            return Err(ReadError::Checksum { offset });
        }
        if record.checksum == [0; 4] {
            // Nothing vouches for the rest of it, and it has nothing to say.
            let bare = DrrRecord::new(DrrBody::End(*end));
            if *record != bare || !is_encoding_of(&bare, bytes, self.order) {
                return Err(ReadError::Checksum { offset });
            }
        } else {
            if self.state == State::BetweenSubstreams {
                // At the end of a compound stream, `zstream redup` writes the sum of the record
                // alone.
                self.sum = RunningSum::new(self.order);
            }
            self.vouch(offset, record, bytes)?;
        }
        self.state = next;
        Ok(())
    }

    fn vouch(&mut self, offset: u64, record: &DrrRecord, bytes: &[u8]) -> Result<(), ReadError> {
        self.sum.update(&bytes[..CHECKSUM_AT]);
        if record.checksum != [0; 4] && record.checksum != self.sum.words() {
            return Err(ReadError::Checksum { offset });
        }
        self.sum.update(&bytes[CHECKSUM_AT..]);
        Ok(())
    }

    async fn payload(&mut self, offset: u64, record: &DrrRecord) -> Result<IoBuf, ReadError> {
        let len = record.payload_bytes().map_err(|source| ReadError::BadRecord { offset, source })?;
        let mut payload = IoBuf::default();
        while (payload.len() as u64) < len {
            let came = payload.len();
            let step = len.min((2 * came as u64).max(STEP_BYTES));
            payload = payload.grown(step as usize);
            self.fill(&mut payload[came..]).await?;
        }
        self.sum.update(&payload);
        Ok(payload)
    }

    async fn fill(&mut self, mut into: &mut [u8]) -> Result<(), ReadError> {
        while !into.is_empty() {
            match self.source.read(into).await {
                Ok(0) => return Err(ReadError::Truncated { offset: self.offset }),
                Ok(len) => {
                    self.offset += len as u64;
                    into = &mut into[len..];
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ReadError::Io { offset: self.offset, source }),
            }
        }
        Ok(())
    }
}

/// Whether a record in that order is these bytes, and nothing stands where it has no fields.
fn is_encoding_of(record: &DrrRecord, bytes: &[u8], order: ByteOrder) -> bool {
    let ours = record.encode();
    match order {
        ByteOrder::Little => ours.as_bytes() == bytes,
        ByteOrder::Big => {
            // An END has words of 64 bits alone behind the first two.
            let (head, tail) = ours.split_at(8);
            let head = head.as_chunks::<4>().0.iter().flat_map(|word| word.iter().rev());
            let tail = tail.as_chunks::<8>().0.iter().flat_map(|word| word.iter().rev());
            head.chain(tail).eq(bytes)
        }
    }
}

#[cfg(test)]
mod tests;
