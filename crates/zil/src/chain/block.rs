//! One log block as bytes: building one, and taking one apart.
//!
//! We write the slim form only: chain structure first, records after it, zeroes to the next
//! 4 KiB. What lies beyond in the allocated block is not written, not hashed, not looked at. Both
//! forms are read.
//!
//! Invariants
//! - What is built opens again, with the same records (test: `a_built_block_opens`).
//! - No bytes make `open` panic; a flipped bit in what counts is never taken for a block
//!   (test: `a_damaged_block_is_not_a_block`).

use std::ops::Range;

use env::IoBuf;
use ondisk::zil::record::{LrWrite, swap_record};
use ondisk::zil::{ChainForm, ChainSeed, LrCommon, RecordHead, ZIL_CHAIN_BYTES, ZilChain};
use ondisk::{Blkptr, ByteOrder, OndiskError};
use units::{Txg, ZilSeq};
use zerocopy::{FromBytes, IntoBytes};

use crate::commit::plan::{Piece, WRITE_HEAD_BYTES};
use crate::itx::{LoggedWrite, WriteData};

/// Bytes of the part that all records share.
const COMMON_BYTES: usize = size_of::<LrCommon>();

/// A block being filled.
#[derive(Debug)]
pub struct BlockBuilder {
    buf: IoBuf,
    used: usize,
}

impl BlockBuilder {
    /// An empty block in `buf`, all of which will be written. What lies in it does not matter.
    pub fn new(buf: IoBuf) -> Self {
        Self { buf, used: ZIL_CHAIN_BYTES }
    }

    fn take(&mut self, bytes: usize) -> &mut [u8] {
        let from = self.used;
        self.used += bytes;
        &mut self.buf[from..self.used]
    }

    /// Adds a record that is already encoded, giving it its number.
    pub fn put_whole(&mut self, seq: ZilSeq, encoded: &[u8]) {
        let out = self.take(encoded.len());
        out.copy_from_slice(encoded);
        let (common, _) = LrCommon::mut_from_prefix(out).expect("a record has a head");
        common.seq = seq.get().into();
    }

    /// Adds one piece of a write, with its data or the blkptr that leads to them.
    pub fn put_write(&mut self, txg: Txg, seq: ZilSeq, write: &LoggedWrite, piece: &Piece) {
        let mut fields = LrWrite { object: write.object, ..LrWrite::default() };
        fields.offset = write.offset + piece.from;
        fields.length = piece.data;
        let indirect = matches!(&write.data, WriteData::Indirect(_));
        if let WriteData::Indirect(bp) = &write.data {
            (fields.length, fields.blkptr) = (write.length, *bp);
        }
        let header = fields.encode_header(&RecordHead { txg, seq, case_insensitive: false }, !indirect);
        let out = self.take(index(piece.bytes));
        let (head, data) = out.split_at_mut(WRITE_HEAD_BYTES as usize);
        head.copy_from_slice(&header);
        let (data, padding) = data.split_at_mut(index(piece.data));
        copy_data(&write.data, piece, data);
        padding.fill(0);
    }

    /// Closes the block that lies at `bp`: links it to `next`, hashes it.
    pub fn seal(mut self, bp: &Blkptr, next: Blkptr) -> IoBuf {
        self.buf[self.used..].fill(0);
        let chain = ZilChain::new(next, self.used as u64, bp.checksum());
        let hashed = chain.hashed_bytes(ChainForm::Slim, self.buf.len() as u64);
        let hashed = hashed.and_then(|bytes| usize::try_from(bytes).ok()).expect("what was put in fits");
        self.buf[..ZIL_CHAIN_BYTES].copy_from_slice(chain.as_bytes());
        let sum = hash(ChainForm::Slim, ByteOrder::Little, &self.buf[..hashed]);
        write_words(&mut self.buf, ChainForm::Slim, ByteOrder::Little, sum);
        self.buf
    }
}

/// The blkptr of `place` as the successor of the block at `bp`: continues its seed. The place of
/// a hole ends the chain there, with the block at `bp` still good.
pub fn successor(bp: &Blkptr, place: &Blkptr) -> Blkptr {
    place.with_checksum(ChainSeed::of(bp).next().words())
}

fn copy_data(data: &WriteData, piece: &Piece, out: &mut [u8]) {
    let range = index(piece.from)..index(piece.from + piece.data);
    match data {
        WriteData::Bytes(bytes) => out.copy_from_slice(&bytes[range]),
        WriteData::Slices(slices) => {
            let (mut from, mut at) = (range.start, 0);
            for slice in slices {
                let bytes = slice.bytes();
                if from >= bytes.len() {
                    from -= bytes.len();
                    continue;
                }
                let len = (bytes.len() - from).min(range.len() - at);
                out[at..at + len].copy_from_slice(&bytes[from..from + len]);
                (from, at) = (0, at + len);
            }
            assert_eq!(at, range.len(), "a logged write is shorter than it says");
        }
        WriteData::Indirect(_) => assert_eq!(piece.data, 0, "an indirect write has no data here"),
        WriteData::Later(_) => unreachable!("data are fetched before they are laid out"),
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("an offset in memory")
}

fn hash(form: ChainForm, order: ByteOrder, bytes: &[u8]) -> [u64; 4] {
    codec::checksum_of(order, form.checksum_kind(), bytes, None).expect("fletcher needs no salt")
}

/// Where the four checksum words lie in a block of this form.
fn words_at(form: ChainForm, block_bytes: usize) -> Range<usize> {
    let end = match form {
        ChainForm::Slim => ZIL_CHAIN_BYTES,
        ChainForm::Trailer => block_bytes,
    };
    end - 32..end
}

fn write_words(block: &mut [u8], form: ChainForm, order: ByteOrder, words: [u64; 4]) {
    let at = words_at(form, block.len());
    for (out, word) in block[at].chunks_exact_mut(8).zip(words) {
        out.copy_from_slice(&if order == ByteOrder::Big { word.to_be_bytes() } else { word.to_le_bytes() });
    }
}

/// Why bytes are not the block that was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotABlock {
    /// Something else lies there, or only part of the block was written: how every log ends.
    Absent,
    /// A good checksum over fields that make no sense.
    Malformed(OndiskError),
}

/// A log block that verified.
#[derive(Debug)]
pub struct LogBlock {
    /// Where the chain goes on; a hole when it does not.
    pub next: Blkptr,
    /// Its bytes.
    pub bytes: IoBuf,
    records: Range<usize>,
}

impl LogBlock {
    /// Its records, as bytes.
    pub fn records(&self) -> RawRecords<'_> {
        RawRecords { rest: &self.bytes[self.records.clone()] }
    }

    /// Bytes of its records.
    pub fn used(&self) -> usize {
        self.records.len()
    }
}

/// Takes `bytes`, read from the place of `bp`, for the block that `bp` names.
///
/// # Errors
/// When they are something else.
pub fn open(bp: &Blkptr, mut bytes: IoBuf) -> Result<LogBlock, NotABlock> {
    let kind = bp.checksum_kind().map_err(NotABlock::Malformed)?;
    let form = ChainForm::of(kind).map_err(NotABlock::Malformed)?;
    let chain = ZilChain::read(form, &bytes).map_err(|_| NotABlock::Absent)?;
    let order = ZilChain::order(form, &bytes).map_err(|_| NotABlock::Absent)?;
    let hashed = chain.hashed_bytes(form, bytes.len() as u64).ok_or(NotABlock::Absent)?;
    let hashed = usize::try_from(hashed).ok().filter(|&n| n >= ZIL_CHAIN_BYTES).ok_or(NotABlock::Absent)?;
    write_words(&mut bytes, form, order, bp.checksum());
    let sum = hash(form, order, &bytes[..hashed]);
    if sum != chain.eck.words() {
        return Err(NotABlock::Absent);
    }
    if chain.next_seed() != ChainSeed::of(bp).next() {
        return Err(NotABlock::Absent);
    }
    let (_, records) = ZilChain::decode(form, &bytes).map_err(NotABlock::Malformed)?;
    let len = records.len();
    let from = match form {
        ChainForm::Slim => ZIL_CHAIN_BYTES,
        ChainForm::Trailer => 0,
    };
    if order == ByteOrder::Big {
        turn_records(&mut bytes[from..from + len]);
    }
    Ok(LogBlock { next: chain.next, bytes, records: from..from + len })
}

/// Turns the records of a big-endian block around. Behind one that makes no sense nothing can be
/// found; who walks the records comes to it and says so.
fn turn_records(records: &mut [u8]) {
    let mut rest = records;
    while let Some(&reclen) = rest.get(8..).and_then(|bytes| bytes.first_chunk()) {
        let reclen = usize::try_from(u64::from_be_bytes(reclen)).unwrap_or(usize::MAX);
        let Some((record, behind)) = rest.split_at_mut_checked(reclen) else { return };
        if record.len() < COMMON_BYTES || swap_record(record, ByteOrder::Big).is_err() {
            return;
        }
        rest = behind;
    }
}

/// A record in a block: its head decoded, the rest as it lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// The type with its case bit, as on disk.
    pub txtype: u64,
    /// The txg its operation belongs to.
    pub txg: Txg,
    /// Its number.
    pub seq: ZilSeq,
    /// The whole record.
    pub bytes: &'a [u8],
}

/// Walks the records of a block. Ends after the first error.
#[derive(Clone, Debug)]
pub struct RawRecords<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = Result<RawRecord<'a>, OndiskError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = split_record(self.rest);
        self.rest = record.as_ref().map_or(&[], |record| &self.rest[record.bytes.len()..]);
        Some(record)
    }
}

fn split_record(rest: &[u8]) -> Result<RawRecord<'_>, OndiskError> {
    let short = || OndiskError::Short { what: "log record", need: COMMON_BYTES, have: rest.len() };
    let (common, _) = LrCommon::read_from_prefix(rest).map_err(|_| short())?;
    let reclen = common.reclen.get();
    let bad = || OndiskError::BadValue { what: "log record", field: "reclen", value: reclen };
    let len = usize::try_from(reclen).ok().filter(|&len| len >= COMMON_BYTES).ok_or_else(bad)?;
    let bytes = rest.get(..len).ok_or_else(bad)?;
    Ok(RawRecord {
        txtype: common.txtype.get(),
        txg: Txg::new(common.txg.get()),
        seq: ZilSeq::new(common.seq.get()),
        bytes,
    })
}

/// How many bytes of the block at `bp`, filled with `len` bytes, are written: only those, unless
/// the vdev keeps parity, or the block is scattered: then it is written as a whole.
pub fn write_bytes(bp: &Blkptr, len: u32) -> u32 {
    let whole = bp.psize().get();
    let as_a_whole = bp.dva(0).asize.get() > whole || bp.is_gang();
    if as_a_whole { u32::try_from(whole).expect("a log block is at most 128 KiB") } else { len }
}

#[cfg(test)]
mod tests;
