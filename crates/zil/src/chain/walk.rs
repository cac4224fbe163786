//! Reading a chain as it lies on disk: what claim, replay and inspection share.
//!
//! A chain ends where the next block is not there: never written, or torn. Nothing marks that
//! end, so for a log that nobody has claimed the first block that does not verify is simply the
//! end. Claim notes how far the log reached; from then on a block before that end which does not
//! verify is damage.
//!
//! Invariants
//! - A walk ends on any bytes: each step needs a block that verifies under the next number
//!   (test: `a_walk_over_any_bytes_ends`).

use ondisk::zil::record::CASE_INSENSITIVE;
use ondisk::zil::{ChainSeed, LogRecord, RecordHead, TxType, ZilHeader, flags};
use ondisk::{Blkptr, CompressionKind, Dva, OndiskError};
use units::{ObjsetId, Txg, ZilSeq};

use crate::ZilError;
use crate::chain::block::{self, LogBlock, NotABlock, RawRecord};
use crate::commit::plan::BLOCK_BYTES_MAX;
use crate::store::LogStore;

/// The end that claim noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClaimedEnd {
    blk_seq: ZilSeq,
    /// `None` in logs claimed by very old versions, which did not note it.
    lr_seq: Option<ZilSeq>,
}

/// Walks the chain of a header, block by block.
pub struct LogWalk<'a> {
    store: &'a dyn LogStore,
    objset: ObjsetId,
    next: Blkptr,
    /// The block asked for last.
    place: Blkptr,
    claimed: Option<ClaimedEnd>,
    newest_record: ZilSeq,
    /// A block that no device answers for ends the log, wherever it should have ended.
    gives_up: bool,
    /// And so does one that is damaged.
    gives_up_damaged: bool,
    _under_way: UnderWay<'a>,
}

/// Told to the store from beginning to end.
struct UnderWay<'a>(&'a dyn LogStore);

impl<'a> UnderWay<'a> {
    fn begin(store: &'a dyn LogStore) -> Self {
        store.walk_begins();
        Self(store)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.walk_ends();
    }
}

/// One step of a walk.
#[derive(Debug)]
pub struct WalkedBlock {
    /// Where it lies.
    pub bp: Blkptr,
    /// Its place in the chain.
    pub seq: ZilSeq,
    /// Its contents; `None` for the place of the block that was never written, which is
    /// allocated all the same.
    contents: Option<LogBlock>,
    last_record: Option<ZilSeq>,
}

/// A record as inspection shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkedRecord<'a>(RawRecord<'a>);

impl<'a> LogWalk<'a> {
    /// A walk from the block that `header` names.
    #[must_use]
    pub fn new(objset: ObjsetId, header: &ZilHeader, store: &'a dyn LogStore) -> Self {
        let is_claimed = header.claim_txg.get() != 0;
        let has_lr_seq = header.flags.get() & flags::CLAIM_LR_SEQ_VALID != 0;
        let claimed = is_claimed.then(|| ClaimedEnd {
            blk_seq: ZilSeq::new(header.claim_blk_seq.get()),
            lr_seq: has_lr_seq.then(|| ZilSeq::new(header.claim_lr_seq.get())),
        });
        Self {
            store,
            objset,
            next: header.log,
            place: Blkptr::HOLE,
            claimed,
            newest_record: ZilSeq::new(0),
            gives_up: false,
            gives_up_damaged: false,
            _under_way: UnderWay::begin(store),
        }
    }

    /// A walk that ends at the first block that no device answers for, as if it had never been
    /// written.
    #[must_use]
    pub fn giving_up(objset: ObjsetId, header: &ZilHeader, store: &'a dyn LogStore) -> Self {
        Self { gives_up: true, ..Self::new(objset, header, store) }
    }

    /// The same, which also ends at the first block that is damaged.
    #[must_use]
    pub(crate) fn giving_up_damaged(objset: ObjsetId, header: &ZilHeader, store: &'a dyn LogStore) -> Self {
        Self { gives_up_damaged: true, ..Self::giving_up(objset, header, store) }
    }

    /// Where the block lies, or would, that was asked for last.
    #[must_use]
    pub const fn place(&self) -> Blkptr {
        self.place
    }

    /// The number of the newest record so far.
    #[must_use]
    pub const fn newest_record(&self) -> ZilSeq {
        self.newest_record
    }

    /// The next block, or the place where it would be; `None` at the end.
    ///
    /// # Errors
    /// A device that does not answer; in a claimed log, a block before its end that is not there.
    pub async fn next(&mut self) -> Result<Option<WalkedBlock>, ZilError> {
        let bp = std::mem::take(&mut self.next);
        let seq = ChainSeed::of(&bp).seq;
        if bp.is_hole() || self.claimed.is_some_and(|claimed| seq > claimed.blk_seq) {
            return Ok(None);
        }
        self.place = bp;
        let last_record = self.claimed.and_then(|claimed| claimed.lr_seq);
        let at_end = self.claimed.is_some_and(|claimed| {
            seq == claimed.blk_seq && claimed.lr_seq.is_none_or(|last| self.newest_record >= last)
        });
        if at_end && last_record.is_some() {
            return Ok(Some(WalkedBlock { bp, seq, contents: None, last_record }));
        }
        let contents = match self.read(&bp, seq).await {
            Ok(contents) => contents,
            Err(error @ ZilError::Unsupported { .. }) => return Err(error),
            Err(_) if at_end => None,
            Err(_) if self.gives_up => return Ok(Some(WalkedBlock { bp, seq, contents: None, last_record })),
            Err(error) if self.claimed.is_some() => return Err(self.lost(seq, Some(error))),
            Err(error) => return Err(error),
        };
        if contents.is_none() && self.claimed.is_some() && !at_end && !self.gives_up_damaged {
            return Err(self.lost(seq, None));
        }
        let block = WalkedBlock { bp, seq, contents, last_record };
        if let Some(contents) = &block.contents {
            self.next = contents.next;
            let records = block.records().map_while(Result::ok);
            self.newest_record = records.map(|record| record.seq()).max().unwrap_or(self.newest_record);
        }
        Ok(Some(block))
    }

    /// Where the next block would be.
    pub(crate) const fn ahead(&self) -> Blkptr {
        self.next
    }

    async fn read(&self, bp: &Blkptr, seq: ZilSeq) -> Result<Option<LogBlock>, ZilError> {
        let is_plain = bp.compression() == Ok(CompressionKind::Off) && bp.lsize().get() == bp.psize().get();
        if bp.is_embedded() || !is_plain || bp.lsize().get() > u64::from(BLOCK_BYTES_MAX) {
            return Ok(None);
        }
        if bp.uses_crypt() {
            return Err(self.unsupported(seq, "encryption"));
        }
        if let Some(bytes) = self.store.read_ahead(bp).await
            && let Ok(block) = block::open(bp, bytes)
        {
            return Ok(Some(block));
        }
        let bytes = self.store.read(bp).await?;
        match block::open(bp, bytes) {
            Ok(block) => Ok(Some(block)),
            Err(NotABlock::Absent | NotABlock::Malformed(_)) => Ok(None),
        }
    }

    const fn unsupported(&self, seq: ZilSeq, what: &'static str) -> ZilError {
        ZilError::Unsupported { objset: self.objset, seq, what }
    }

    fn lost(&self, seq: ZilSeq, source: Option<ZilError>) -> ZilError {
        ZilError::LostBlock { objset: self.objset, seq, source: source.map(std::sync::Arc::new) }
    }
}

impl WalkedBlock {
    /// Whether the block was written.
    #[must_use]
    pub const fn is_written(&self) -> bool {
        self.contents.is_some()
    }

    /// Bytes of its records.
    #[must_use]
    pub fn used(&self) -> usize {
        self.contents.as_ref().map_or(0, LogBlock::used)
    }

    /// Its records, up to the last that was claimed. Ends after the first that is damaged.
    pub fn records(&self) -> impl Iterator<Item = Result<WalkedRecord<'_>, OndiskError>> {
        let last = self.last_record;
        let is_within = move |record: &Result<RawRecord<'_>, _>| match (record, last) {
            (Ok(record), Some(last)) => record.seq <= last,
            _ => true,
        };
        let records = self.contents.iter().flat_map(LogBlock::records);
        records.take_while(is_within).map(|record| record.map(WalkedRecord))
    }
}

impl<'a> WalkedRecord<'a> {
    pub(crate) const fn of(record: RawRecord<'a>) -> Self {
        Self(record)
    }

    /// Its number.
    #[must_use]
    pub const fn seq(&self) -> ZilSeq {
        self.0.seq
    }

    /// The txg its operation belongs to.
    #[must_use]
    pub const fn txg(&self) -> Txg {
        self.0.txg
    }

    /// Its type, as on disk, without the case bit.
    #[must_use]
    pub const fn txtype(&self) -> u64 {
        self.0.txtype & !CASE_INSENSITIVE
    }

    /// All of its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.0.bytes
    }

    /// Decodes it.
    ///
    /// # Errors
    /// When its contents make no sense.
    pub fn decode(&self) -> Result<(RecordHead, LogRecord), OndiskError> {
        LogRecord::decode(self.0.bytes).map(|(head, record, _)| (head, record))
    }

    /// The blocks it names.
    pub(crate) fn referenced_blocks(&self) -> Result<Referenced, OndiskError> {
        if ![TxType::Write.raw(), TxType::CloneRange.raw()].contains(&self.txtype()) {
            return Ok(Referenced::Nothing);
        }
        Ok(match self.decode()?.1 {
            LogRecord::Write(write) => Referenced::Data(write.blkptr),
            LogRecord::CloneRange(range) => Referenced::Clones(range.blkptrs),
            _ => Referenced::Nothing,
        })
    }
}

/// What a record leads to outside the log.
pub(crate) enum Referenced {
    Nothing,
    /// A block of data that came into being with the record; a hole for writes with data.
    Data(Blkptr),
    /// Blocks that were there before.
    Clones(Vec<Blkptr>),
}

impl Referenced {
    /// Where these blocks lie.
    pub(crate) fn places(&self) -> impl Iterator<Item = Dva> + '_ {
        let blocks = match self {
            Self::Nothing => &[],
            Self::Data(bp) => std::slice::from_ref(bp),
            Self::Clones(bps) => bps.as_slice(),
        };
        blocks.iter().filter(|bp| !bp.is_hole() && !bp.is_embedded()).flat_map(Blkptr::dvas)
    }
}
