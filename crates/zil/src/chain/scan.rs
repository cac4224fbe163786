//! Log blocks found where they lie, without the chain that leads to them.
//!
//! A log device whose pool is not there has no header: where its chains begin, only the pool knows. But a block of
//! the slim form says enough by itself. It begins with its chain structure, which has a magic number; what is
//! hashed follows from the bytes used; and the seed that the hash needs is that of the next block, which it names,
//! with the number before. So bytes that verify are a block, and their seed says of which chain and dataset, and
//! which one. Blocks of chains that have ended long ago are found as well: nothing marks them as old.
//! Blocks of the old form, with the structure at their end, do not say where they begin, and are not found.
//! (tests: `a_block_is_found_by_itself`, `damaged_blocks_are_not_found`)

use env::{BoxFuture, IoBuf};
use ondisk::zil::{ChainForm, ChainSeed, ZIL_MIN_BLOCK_BYTES, ZilChain};
use ondisk::{BlkptrParts, ChecksumKind, OndiskError};
use units::{ObjsetId, SECTOR_BYTES, ZilSeq};

use crate::chain::block::{self, LogBlock};
use crate::chain::walk::WalkedRecord;
use crate::commit::plan::BLOCK_BYTES_MAX;

/// Bytes searched at a time.
const WINDOW_BYTES: u64 = 4 << 20;

/// A block that was found.
#[derive(Debug)]
pub struct FoundBlock {
    /// Where it begins.
    pub offset: u64,
    /// The dataset.
    pub objset: ObjsetId,
    /// The chain: a random number.
    pub chain: [u64; 2],
    /// Its place in the chain.
    pub seq: ZilSeq,
    /// Bytes from its beginning that were written, at least.
    pub written: u64,
    contents: LogBlock,
}

impl FoundBlock {
    /// Bytes of its records.
    #[must_use]
    pub fn used(&self) -> usize {
        self.contents.used()
    }

    /// Its records. Ends after the first that is damaged.
    pub fn records(&self) -> impl Iterator<Item = Result<WalkedRecord<'_>, OndiskError>> {
        self.contents.records().map(|record| record.map(WalkedRecord::of))
    }
}

/// Reads so many bytes from a place on; none where nothing answers.
pub type ReadRange<'a> = &'a (dyn Fn(u64, usize) -> BoxFuture<'a, Option<IoBuf>> + Sync);

/// Finds the blocks that begin in `range`, in the order in which they lie there. Stretches that cannot be read
/// are passed over.
pub async fn scan(read: ReadRange<'_>, range: std::ops::Range<u64>, mut each: impl FnMut(FoundBlock)) {
    let mut at = range.start;
    let mut skip_to = at;
    while at < range.end {
        let window = WINDOW_BYTES.min(range.end - at);
        // A block that begins in the window may end behind it.
        let len = (window + u64::from(BLOCK_BYTES_MAX)).min(range.end - at);
        let Some(bytes) = read(at, usize::try_from(len).expect("a window in memory")).await else {
            at += window;
            continue;
        };
        for offset in (0..window).step_by(SECTOR_BYTES as usize) {
            if at + offset < skip_to {
                continue;
            }
            if let Some(block) = block_at(at + offset, &bytes[offset as usize..]) {
                skip_to = at + offset + block.written;
                each(block);
            }
        }
        at += window;
    }
}

/// The block that begins where `bytes` do.
fn block_at(offset: u64, bytes: &[u8]) -> Option<FoundBlock> {
    let chain = ZilChain::read(ChainForm::Slim, bytes).ok()?;
    let room = (bytes.len() as u64).min(BLOCK_BYTES_MAX.into());
    let written = chain.hashed_bytes(ChainForm::Slim, room).filter(|&n| n >= ZIL_MIN_BLOCK_BYTES)?;
    let next = chain.next_seed();
    let seq = ZilSeq::new(next.seq.get().checked_sub(1)?);
    let seed = ChainSeed { seq, ..next };
    let parts = BlkptrParts { checksum_kind: ChecksumKind::Zilog2, ..BlkptrParts::default() };
    let bp = parts.to_blkptr().with_checksum(seed.words());
    let contents = block::open(&bp, IoBuf::copy_of(&bytes[..written as usize])).ok()?;
    Some(FoundBlock { offset, objset: seed.objset, chain: seed.guid, seq, written, contents })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::block::BlockBuilder;
    use futures::FutureExt;
    use ondisk::Blkptr;
    use ondisk::zil::record::LrRemove;
    use ondisk::zil::{LogRecord, RecordHead};
    use units::{ObjectId, Txg};

    fn built(objset: u64, seq: u64, names: u64) -> Vec<u8> {
        let seed = ChainSeed { guid: [7, 8], objset: ObjsetId::new(objset), seq: ZilSeq::new(seq) };
        let bp = Blkptr::HOLE.with_checksum(seed.words());
        let mut builder = BlockBuilder::new(IoBuf::zeroed(8192));
        for name in 0..names {
            let record = LrRemove { dir: ObjectId::new(34), name: name.to_string().into_bytes() };
            let head = RecordHead { txg: Txg::new(9), seq: ZilSeq::new(0), case_insensitive: false };
            builder.put_whole(ZilSeq::new(name + 1), &LogRecord::Remove(record).encode(&head));
        }
        builder.seal(&bp, block::successor(&bp, &Blkptr::HOLE)).to_vec()
    }

    fn found(disk: &[u8]) -> Vec<(u64, u64, u64, usize)> {
        let mut all = Vec::new();
        let read = |from: u64, len: usize| {
            let bytes = IoBuf::copy_of(&disk[from as usize..from as usize + len]);
            Box::pin(std::future::ready(Some(bytes))) as BoxFuture<'_, _>
        };
        let each = |block: FoundBlock| {
            all.push((block.offset, block.objset.get(), block.seq.get(), block.records().flatten().count()));
        };
        scan(&read, 0..disk.len() as u64, each).now_or_never().expect("memory does not wait");
        all
    }

    #[test]
    fn a_block_is_found_by_itself() {
        let mut disk = vec![0; 9 << 20];
        // The third goes over the border of a window.
        let places =
            [(1024_u64, 5, 1, 3), (64 << 10, 6, 400, 50), ((4 << 20) - 512, 5, 2, 80), (8 << 20, 5, 3, 0)];
        for &(at, objset, seq, names) in &places {
            let block = built(objset, seq, names);
            disk[at as usize..at as usize + block.len()].copy_from_slice(&block);
        }
        assert_eq!(found(&disk), places.map(|(at, objset, seq, names)| (at, objset, seq, names as usize)));
    }

    #[test]
    fn damaged_blocks_are_not_found() {
        for at in [8, 136, 144, 160, 300, 5000] {
            let mut disk = built(5, 1, 150);
            assert_eq!(found(&disk).len(), 1);
            disk[at] ^= 4;
            assert_eq!(found(&disk), [], "byte {at}");
        }
    }
}
