use std::sync::Arc;

use env::BufSlice;
use ondisk::zil::LogRecord;
use units::{ObjectId, VdevId};

use super::*;
use crate::tests::world::log_bp;

fn first() -> Blkptr {
    let seed = ChainSeed { guid: [7, 8], objset: units::ObjsetId::new(54), seq: ZilSeq::new(1) };
    log_bp(VdevId::new(0), 0, 8192, Txg::new(5)).with_checksum(seed.words())
}

/// What the last block left in a buffer.
fn dirty() -> IoBuf {
    let mut buf = IoBuf::zeroed(4096);
    buf.fill(0xee);
    buf
}

fn sample() -> (Blkptr, Blkptr, IoBuf) {
    let bp = first();
    let next = successor(&bp, &log_bp(VdevId::new(0), 8192, 4096, Txg::new(5)));
    let data = IoBuf::copy_of(&[1, 2, 3, 4, 5]);
    let data = Arc::new(data);
    let slices = vec![BufSlice::new(Arc::clone(&data), 0..2), BufSlice::new(data, 2..5)];
    let write =
        LoggedWrite { object: ObjectId::new(9), offset: 1000, length: 5, data: WriteData::Slices(slices) };
    let mut builder = BlockBuilder::new(dirty());
    let pieces = [(0, 3, false), (3, 2, true)];
    for (seq, (from, data, is_last)) in (1..).zip(pieces) {
        let piece = Piece { record: 0, from, data, bytes: 200, is_last };
        builder.put_write(Txg::new(6), ZilSeq::new(seq), &write, &piece);
    }
    (bp, next, builder.seal(&bp, next))
}

#[test]
fn a_built_block_opens() {
    let (bp, next, bytes) = sample();
    let block = open(&bp, bytes.resized(8192)).expect("the block just built");
    assert_eq!(block.next, next);
    let records: Vec<_> = block.records().map(|record| record.expect("a sound record")).collect();
    let seqs: Vec<u64> = records.iter().map(|record| record.seq.get()).collect();
    assert_eq!(seqs, [1, 2]);
    let decoded: Vec<_> = records
        .iter()
        .map(|record| match LogRecord::decode(record.bytes).expect("a sound record").1 {
            LogRecord::Write(write) => (write.object.get(), write.offset, write.data),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(decoded, [(9, 1000, Some(vec![1, 2, 3])), (9, 1003, Some(vec![4, 5]))]);
}

#[test]
fn nothing_of_what_was_in_the_buffer_is_written() {
    let (_, _, bytes) = sample();
    assert!(!bytes.contains(&0xee));
}

#[test]
fn garbage_past_the_used_part_does_not_matter() {
    let (bp, _, bytes) = sample();
    let mut whole = bytes.resized(8192);
    whole[4096..].fill(0xa5);
    assert!(open(&bp, whole).is_ok());
}

#[test]
fn a_damaged_block_is_not_a_block() {
    let (bp, _, bytes) = sample();
    for at in 0..4096 {
        let mut damaged = bytes.resized(8192);
        damaged[at] ^= 0x10;
        assert_eq!(open(&bp, damaged).err(), Some(NotABlock::Absent), "byte {at}");
    }
}

#[test]
fn a_block_of_another_place_in_the_chain_is_not_this_one() {
    let (bp, _, bytes) = sample();
    let later = bp.with_checksum(ChainSeed::of(&bp).next().words());
    assert_eq!(open(&later, bytes).err(), Some(NotABlock::Absent));
}

#[test]
fn the_place_of_a_hole_ends_the_chain_after_a_good_block() {
    let bp = first();
    let bytes = BlockBuilder::new(dirty()).seal(&bp, successor(&bp, &Blkptr::HOLE));
    let block = open(&bp, bytes).expect("a good block");
    assert!(block.next.is_hole());
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
        assert!(open(&first(), IoBuf::copy_of(&bytes)).is_err());
        RawRecords { rest: &bytes }.for_each(drop);
    }
}
