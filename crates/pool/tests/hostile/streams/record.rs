//! A stream as records that can be changed, and the checksums that seal the changed records.

use codec::Fletcher4;
use futures::executor::block_on;
use ondisk::ByteOrder;
use ondisk::send::{CHECKSUM_AT, DrrBody, DrrRecord, DrrType, HeaderType, RECORD_BYTES};
use stream::Reader;

/// The offset of the fields of a type in its record.
pub const BODY_AT: usize = 8;
/// The offset of the payload length in a BEGIN.
const PAYLOAD_LEN_AT: usize = 4;
const SUM_BYTES: usize = 32;

/// A record as it is sent, without regard to what it means.
#[derive(Clone, PartialEq)]
pub struct SentRecord {
    pub head: [u8; RECORD_BYTES],
    pub payload: Vec<u8>,
    /// The payload keeps its length, whatever length the record announces.
    pub is_loose: bool,
}

impl SentRecord {
    /// A record of zeros.
    pub fn empty(drr_type: DrrType) -> Self {
        let mut record = Self { head: [0; RECORD_BYTES], payload: Vec::new(), is_loose: false };
        record.set(0, 4, drr_type.raw().into());
        record
    }

    pub fn drr_type(&self) -> Option<DrrType> {
        DrrType::from_raw(self.get(0, 4) as u32).ok()
    }

    pub fn get(&self, at: usize, width: usize) -> u64 {
        let mut word = [0; 8];
        word[..width].copy_from_slice(&self.head[at..at + width]);
        u64::from_le_bytes(word)
    }

    pub fn set(&mut self, at: usize, width: usize, value: u64) {
        self.head[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
    }

    pub fn decoded(&self) -> Option<DrrRecord> {
        DrrRecord::decode(&self.head, ByteOrder::Little).ok()
    }

    fn is_compound(&self) -> bool {
        match self.decoded().map(|record| record.body) {
            Some(DrrBody::Begin(begin)) => begin.header_type() == Ok(HeaderType::Compound),
            _ => false,
        }
    }

    /// Replaces the payload of a BEGIN.
    pub fn set_list(&mut self, bytes: Vec<u8>) {
        self.set(PAYLOAD_LEN_AT, 4, bytes.len() as u64);
        self.payload = bytes;
    }

    /// Gives the payload the length that the record announces. New bytes repeat the old ones.
    pub fn fit(&mut self) {
        let announced = self.decoded().and_then(|record| record.payload_bytes().ok());
        let Some(len) = announced.filter(|_| !self.is_loose) else { return };
        let old = std::mem::take(&mut self.payload);
        let old: &[u8] = if old.is_empty() { &[7] } else { &old };
        self.payload = old.iter().copied().cycle().take(len as usize).collect();
    }
}

impl std::fmt::Debug for SentRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {} bytes of payload", self.decoded().map(|record| record.body), self.payload.len())
    }
}

/// The records of a sound stream.
pub fn records(stream: &[u8]) -> Vec<SentRecord> {
    let mut reader = Reader::new(stream);
    let mut records = Vec::new();
    while let Some(read) = block_on(reader.next_record()).expect("a sound stream") {
        let (head, payload) = (read.record.encode(), read.payload.to_vec());
        records.push(SentRecord { head, payload, is_loose: false });
    }
    records
}

/// The bytes of a stream whose checksums are right.
pub fn sealed(records: &[SentRecord]) -> Vec<u8> {
    let mut seal = Seal { sum: Fletcher4::new(), part: Part::Between };
    let mut stream = Vec::new();
    for record in records {
        stream.extend_from_slice(&seal.head(record));
        stream.extend_from_slice(&record.payload);
        seal.sum.update(&record.payload[..record.payload.len() & !3]);
    }
    stream
}

/// The part of a stream that a record ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The list of a compound stream.
    List,
    Substream,
    /// Nothing but the compound stream itself.
    Between,
}

/// The running checksum.
struct Seal {
    sum: Fletcher4,
    part: Part,
}

impl Seal {
    /// The header of a record with its checksum. The header counts in the checksum of the next record.
    fn head(&mut self, record: &SentRecord) -> [u8; RECORD_BYTES] {
        let mut head = record.head;
        match record.drr_type() {
            Some(DrrType::Begin) => {
                self.part = if record.is_compound() { Part::List } else { Part::Substream };
                self.sum = Fletcher4::new();
                self.sum.update(&head);
                return head;
            }
            Some(DrrType::End) => {
                let sum = if self.part == Part::Between { [0; 4] } else { self.sum.finish() };
                put(&mut head, BODY_AT, sum);
                if std::mem::replace(&mut self.part, Part::Between) != Part::Substream {
                    put(&mut head, CHECKSUM_AT, [0; 4]);
                    return head;
                }
            }
            _ => {}
        }
        self.sum.update(&head[..CHECKSUM_AT]);
        put(&mut head, CHECKSUM_AT, self.sum.finish());
        self.sum.update(&head[CHECKSUM_AT..]);
        head
    }
}

fn put(head: &mut [u8; RECORD_BYTES], at: usize, sum: [u64; 4]) {
    let words = head[at..at + SUM_BYTES].as_chunks_mut::<8>().0;
    words.iter_mut().zip(sum).for_each(|(to, word)| *to = word.to_le_bytes());
}
