//! A log that OpenZFS left, read here.

use std::collections::BTreeMap;
use std::sync::Arc;

use ondisk::zil::record::swap_record;
use ondisk::zil::{ChainForm, LogRecord, TxType, ZIL_CHAIN_BYTES, ZilChain, ZilHeader};
use ondisk::{Blkptr, ByteOrder, ChecksumKind, ZioEck};
use units::{Txg, VdevId};
use zerocopy::IntoBytes;

use super::world::{MemStore, OBJSET, World, env, log_bp, now, place_of};
use crate::{IntentLog, LogStore, LogWalk, WalkedBlock};

/// See `tests/golden/README.md`.
const THR: &[u8] = include_bytes!("../../tests/golden/g15-thr.log");
/// The uberblock's txg: what was born later is not in the space maps.
const SYNCED: Txg = Txg::new(23);

/// What `zdb -ivvvv` counted.
const RECORDS: [(TxType, usize); 24] = [
    (TxType::Create, 123),
    (TxType::Mkdir, 3),
    (TxType::Mkxattr, 0),
    (TxType::Symlink, 2),
    (TxType::Remove, 40),
    (TxType::Rmdir, 1),
    (TxType::Link, 2),
    (TxType::Rename, 5),
    (TxType::Write, 152),
    (TxType::Truncate, 1),
    (TxType::Setattr, 9),
    (TxType::AclV0, 0),
    (TxType::Acl, 0),
    (TxType::CreateAcl, 0),
    (TxType::CreateAttr, 0),
    (TxType::CreateAclAttr, 0),
    (TxType::MkdirAcl, 0),
    (TxType::MkdirAttr, 0),
    (TxType::MkdirAclAttr, 0),
    (TxType::Write2, 0),
    (TxType::SetSaXattr, 10),
    (TxType::RenameExchange, 1),
    (TxType::RenameWhiteout, 1),
    (TxType::CloneRange, 1),
];

fn unpack() -> (MemStore, ZilHeader) {
    let store = World::new(&[1 << 20, 16]).crash(false);
    let (first, mut rest) = THR.split_at(128);
    let first = Blkptr::decode(first).expect("a blkptr");
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(12);
        let offset = u64::from_le_bytes(head[..8].try_into().expect("8 bytes"));
        let used = u32::from_le_bytes(head[8..].try_into().expect("4 bytes")) as usize;
        store.write_raw(&log_bp(VdevId::new(0), offset, 4096, Txg::ZERO), &tail[..used]);
        rest = &tail[used..];
    }
    {
        let mut inner = store.0.lock();
        (inner.synced, inner.open) = (SYNCED, SYNCED.next());
    }
    (store, ZilHeader { log: first, ..ZilHeader::default() })
}

fn walk(store: &MemStore, header: &ZilHeader) -> Vec<WalkedBlock> {
    let mut walk = LogWalk::new(OBJSET, header, store);
    std::iter::from_fn(|| now(walk.next()).expect("memory answers")).collect()
}

#[test]
fn a_log_that_openzfs_left_reads_as_zdb_reads_it() {
    let (store, header) = unpack();
    let blocks = walk(&store, &header);
    assert_eq!(blocks.first().map(|block| block.seq.get()), Some(3));
    assert_eq!(blocks.len(), 84);
    assert!(blocks[..83].iter().all(WalkedBlock::is_written) && !blocks[83].is_written());
    let mut counts: BTreeMap<TxType, usize> = BTreeMap::new();
    let records = blocks.iter().flat_map(WalkedBlock::records);
    for (seq, record) in (3..).zip(records) {
        let record = record.expect("a sound record");
        assert_eq!((record.seq().get(), record.txg()), (seq, SYNCED.next()));
        *counts.entry(TxType::from_raw(record.txtype()).expect("a known type")).or_default() += 1;
    }
    let expected: BTreeMap<_, _> = RECORDS.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counts, expected);
}

#[test]
fn records_of_openzfs_encode_to_the_bytes_they_came_from() {
    let (store, header) = unpack();
    for block in walk(&store, &header) {
        for record in block.records() {
            let record = record.expect("a sound record");
            let (head, decoded) = record.decode().expect("a sound record");
            assert_eq!(decoded.encode(&head), record.bytes(), "{decoded:?}");
        }
    }
}

#[test]
fn a_log_that_openzfs_left_is_claimed_to_its_end() {
    let (store, header) = unpack();
    let indirect: Vec<Blkptr> = walk(&store, &header)
        .iter()
        .flat_map(|block| block.records().map(|record| record.expect("sound").decode().expect("sound").1))
        .filter_map(|record| match record {
            LogRecord::Write(write) => Some(write.blkptr),
            _ => None,
        })
        .filter(|bp| !bp.is_hole() && !bp.is_embedded())
        .collect();
    assert!(indirect.len() > 20);
    for bp in &indirect {
        store.0.lock().data.insert(place_of(bp), Vec::new());
    }
    let store: Arc<dyn LogStore> = Arc::new(store);
    let found = IntentLog::found(OBJSET, header, store, env());
    let claimed = now(found.claim(SYNCED.next())).expect("a log that can be claimed").header();
    assert_eq!((claimed.claim_blk_seq.get(), claimed.claim_lr_seq.get()), (86, 353));
}

/// A block of the golden log as a big-endian machine would have left it.
fn as_big_endian(bp: &Blkptr, block: &[u8]) -> Vec<u8> {
    let mut bytes = block.to_vec();
    let used = ZilChain::read(ChainForm::Slim, &bytes).expect("a log block").used.get() as usize;
    let mut at = ZIL_CHAIN_BYTES;
    while at < used {
        let reclen = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().expect("8 bytes")) as usize;
        swap_record(&mut bytes[at..at + reclen], ByteOrder::Little).expect("a sound record");
        at += reclen;
    }
    // The next block's pointer says who will write it.
    bytes[8 + 48 + 7] &= 0x7f;
    bytes[..ZIL_CHAIN_BYTES].as_chunks_mut::<8>().0.iter_mut().for_each(|word| word.reverse());
    let hashed = used.next_multiple_of(4096);
    ZioEck::seeded(bp.checksum()).put_in(ByteOrder::Big, &mut bytes[..ZIL_CHAIN_BYTES]);
    let sum =
        codec::checksum_of(ByteOrder::Big, ChecksumKind::Zilog2, &bytes[..hashed], None).expect("known");
    ZioEck::seeded(sum).put_in(ByteOrder::Big, &mut bytes[..ZIL_CHAIN_BYTES]);
    bytes
}

#[test]
fn a_log_of_a_big_endian_machine_reads_as_its_twin() {
    let (store, header) = unpack();
    let blocks = walk(&store, &header);
    let records = |blocks: &[WalkedBlock]| -> Vec<_> {
        let all = blocks.iter().flat_map(WalkedBlock::records);
        all.map(|record| record.expect("sound").decode().expect("sound")).collect()
    };
    let ours = records(&blocks);
    let mut swapped = 0;
    for block in blocks.iter().filter(|block| block.is_written()) {
        let bytes = now(store.read(&block.bp)).expect("memory answers");
        store.write_raw(&block.bp, &as_big_endian(&block.bp, &bytes));
        swapped += 1;
    }
    let theirs = walk(&store, &header);
    assert_eq!((swapped, theirs.len()), (83, 84));
    // What the records name lies elsewhere and is as it was; all else came back.
    assert_eq!(records(&theirs), ours);
    for bp in theirs.iter().flat_map(|block| block.records()).filter_map(|record| {
        match record.expect("sound").decode().expect("sound").1 {
            LogRecord::Write(write) => Some(write.blkptr),
            _ => None,
        }
    }) {
        store.0.lock().data.insert(place_of(&bp), Vec::new());
    }
    let store: Arc<dyn LogStore> = Arc::new(store);
    let claimed = now(IntentLog::found(OBJSET, header, store, env()).claim(SYNCED.next())).expect("claims");
    let claimed = claimed.header();
    assert_eq!((claimed.claim_blk_seq.get(), claimed.claim_lr_seq.get()), (86, 353));
}

#[test]
fn a_big_endian_block_with_a_flipped_bit_ends_the_log() {
    let (store, header) = unpack();
    let first = walk(&store, &header).into_iter().next().expect("a block").bp;
    let bytes = now(store.read(&first)).expect("memory answers");
    for at in [0, 20, 140, 150, 190, 300] {
        let mut bytes = as_big_endian(&first, &bytes);
        bytes[at] ^= 0x10;
        store.write_raw(&first, &bytes);
        let blocks = walk(&store, &header);
        assert!(blocks.len() == 1 && !blocks[0].is_written(), "byte {at}");
    }
}

/// A log block's place, its chain structure at the block's end.
fn with_trailer(bp: &Blkptr) -> Blkptr {
    let mut bp = *bp;
    bp.as_mut_bytes()[48 + 5] = ChecksumKind::Zilog.raw();
    bp
}

/// A block of the golden log as versions before the slim form wrote it.
fn as_old(bp: &Blkptr, block: &[u8]) -> Vec<u8> {
    let (chain, records) = ZilChain::decode(ChainForm::Slim, block).expect("a log block");
    let mut bytes = records.to_vec();
    bytes.resize(block.len(), 0);
    let chain = ZilChain::new(with_trailer(&chain.next), records.len() as u64, bp.checksum());
    let at = bytes.len() - ZIL_CHAIN_BYTES;
    bytes[at..].copy_from_slice(chain.as_bytes());
    let sum =
        codec::checksum_of(ByteOrder::Little, ChecksumKind::Zilog, &bytes, None).expect("needs no salt");
    ZioEck::seeded(sum).put_in(ByteOrder::Little, &mut bytes);
    bytes
}

#[test]
fn a_log_with_its_chain_in_trailers_reads_as_its_slim_twin() {
    let (store, header) = unpack();
    let slim = walk(&store, &header);
    let records = |blocks: &[WalkedBlock]| -> Vec<_> {
        let all = blocks.iter().flat_map(WalkedBlock::records);
        all.map(|record| record.expect("sound").decode().expect("sound")).collect()
    };
    for block in slim.iter().filter(|block| block.is_written()) {
        let bytes = now(store.read(&block.bp)).expect("memory answers");
        store.write_raw(&block.bp, &as_old(&block.bp, &bytes));
    }
    assert_eq!(walk(&store, &header).len(), 1, "to who looks for the slim form there is nothing");
    let header = ZilHeader { log: with_trailer(&header.log), ..header };
    let old = walk(&store, &header);
    assert_eq!((old.len(), records(&old)), (84, records(&slim)));
    // All of a block counts, whatever of it is used.
    let last = &old[82].bp;
    let mut bytes = now(store.read(last)).expect("memory answers").to_vec();
    let unused = bytes.len() - ZIL_CHAIN_BYTES - 1;
    assert_eq!(bytes[unused], 0, "the last block is not full");
    bytes[unused] = 1;
    store.write_raw(last, &bytes);
    assert_eq!(walk(&store, &header).len(), 83);
}
