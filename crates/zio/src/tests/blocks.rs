use std::sync::Arc;

use env::{BufSlice, Durability, FaultOp, IoBuf};
use futures::executor::block_on;
use metaslab::{Class, Hint};
use ondisk::blkptr::embedded::EmbeddedParts;
use ondisk::{Blkptr, BlkptrParts, ChecksumKind, Compression, CompressionKind, Dva, ObjectType};
use units::{Asize, BlockId, Level, Lsize, ObjectId, ObjsetId, Psize, Txg, VdevId};
use zerocopy::IntoBytes;

use super::world::World;
use vdev::Address;

use crate::embedded::{GANG_HEADER_BYTES, gang_verifier};
use crate::*;

const TXG: Txg = Txg::new(5);
pub(super) const NAME: Bookmark =
    Bookmark::new(ObjsetId::new(54), ObjectId::new(2), Level::new(0), BlockId::new(9));

/// Bytes that no codec makes smaller.
pub(super) fn noise(len: usize, seed: u64) -> Arc<IoBuf> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut buf = IoBuf::zeroed(len);
    for word in buf.chunks_exact_mut(8) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word.copy_from_slice(&(state ^ state >> 29).to_le_bytes());
    }
    Arc::new(buf)
}

fn text(len: usize) -> Arc<IoBuf> {
    let bytes: Vec<u8> = b"logs go in, timber comes out; ".iter().copied().cycle().take(len).collect();
    Arc::new(IoBuf::copy_of(&bytes))
}

fn plain() -> WritePolicy {
    WritePolicy { object_type: ObjectType::PLAIN_FILE_CONTENTS, ..WritePolicy::default() }
}

fn write(zio: &Zio, data: &Arc<IoBuf>, policy: &WritePolicy) -> Result<Blkptr, ZioError> {
    block_on(zio.write(TXG, &NAME, data.clone(), policy))
}

/// Reads from disk, not from memory.
pub(super) fn read(zio: &Zio, bp: &Blkptr) -> Result<Arc<IoBuf>, ZioError> {
    zio.forget_unstable();
    zio.set_cache_limit(0);
    let result = block_on(zio.read(bp, &NAME));
    zio.set_cache_limit(16 << 20);
    result
}

fn allocated(zio: &Zio) -> u64 {
    zio.with_allocator(|allocator| allocator.space(Class::Normal).allocated.get())
}

#[test]
fn a_block_comes_back_as_it_was_written() {
    let (_, zio) = World::pool(&["a b", "c"]);
    for (len, copies) in [(512, 1), (4096, 2), (131_072, 3), (1 << 20, 1)] {
        let data = noise(len, len as u64);
        let policy = WritePolicy { copies, fill: 7, compression: CompressionKind::On.into(), ..plain() };
        let bp = write(&zio, &data, &policy).expect("room");
        assert_eq!((bp.lsize().get(), bp.psize().get()), (len as u64, len as u64));
        assert_eq!(bp.compression(), Ok(CompressionKind::Off), "noise stays as it is");
        assert_eq!(bp.checksum_kind(), Ok(ChecksumKind::Fletcher4));
        assert_eq!((bp.birth(), bp.physical_birth(), bp.fill()), (TXG, TXG, 7));
        assert_eq!(bp.dvas().count(), usize::from(copies));
        assert_eq!(bp.object_type(), ObjectType::PLAIN_FILE_CONTENTS);
        assert_eq!(bp.check(), Ok(()));
        assert_eq!(read(&zio, &bp).expect("written")[..], data[..]);
    }
}

#[test]
fn text_is_stored_compressed_in_whole_sectors() {
    let (_, zio) = World::pool(&["a"]);
    let data = text(131_072);
    let policy = WritePolicy { compression: Compression::LZ4, checksum: ChecksumKind::Sha256, ..plain() };
    let bp = write(&zio, &data, &policy).expect("room");
    assert_eq!(bp.compression(), Ok(CompressionKind::Lz4));
    assert!(bp.psize().get() < 8192 && bp.psize().get().is_multiple_of(512));
    assert_eq!(bp.lsize().get(), 131_072);
    assert_eq!(read(&zio, &bp).expect("written")[..], data[..]);
    let sector = write(&zio, &text(512), &policy).expect("room");
    assert_eq!(sector.compression(), Ok(CompressionKind::Off), "a sector cannot become less");
}

#[test]
fn a_block_is_read_as_it_is_stored() {
    let (world, zio) = World::pool(&["a"]);
    let policy = WritePolicy { compression: Compression::LZ4, ..plain() };
    let bp = write(&zio, &text(131_072), &policy).expect("room");
    let unpacked = |zio: &Zio| {
        let stored = block_on(zio.read_stored(&bp, &NAME)).expect("written");
        assert_eq!(stored.len() as u64, bp.psize().get());
        codec::decompress(CompressionKind::Lz4, &stored, 131_072).expect("what was compressed")
    };
    assert_eq!(unpacked(&zio)[..], text(131_072)[..], "with the cache as the write left it");
    read(&zio, &bp).expect("written");
    assert_eq!(unpacked(&zio)[..], text(131_072)[..], "from disk");
    world.spoil("a", bp.dva(0));
    zio.set_cache_limit(0);
    assert!(matches!(block_on(zio.read_stored(&bp, &NAME)), Err(ZioError::Checksum { .. })));
    assert!(matches!(block_on(zio.read_stored(&Blkptr::HOLE, &NAME)), Err(ZioError::Hole { .. })));
}

#[test]
fn a_damaged_block_is_an_error_that_names_it() {
    let (world, zio) = World::pool(&["a"]);
    let bp = write(&zio, &noise(4096, 1), &plain()).expect("room");
    world.spoil("a", bp.dva(0));
    match read(&zio, &bp) {
        Err(ZioError::Checksum { bookmark }) => assert_eq!(bookmark.to_string(), "54/2/0/9"),
        other => panic!("{other:?}"),
    }
    world.faults("a").fail_all(FaultOp::Read);
    assert!(matches!(read(&zio, &bp), Err(ZioError::Read { .. })));
    assert_eq!(zio.stats().lost_reads, 2);
}

#[test]
fn a_block_written_over_in_its_own_txg_can_be_read_until_that_is_stable() {
    let (_, zio) = World::pool(&["a", "b"]);
    zio.set_cache_limit(0);
    for (data, newer) in [(noise(4096, 1), noise(4096, 2)), (text(131_072), noise(131_072, 3))] {
        for object_type in [ObjectType::PLAIN_FILE_CONTENTS, ObjectType::DNODE] {
            let policy = WritePolicy { object_type, compression: Compression::LZ4, ..plain() };
            let old = write(&zio, &data, &policy).expect("room");
            let rewritten = WritePolicy { rewrite: Some(old), ..policy };
            // As long when it is stored.
            let newer = Arc::new(IoBuf::copy_of(&newer[..old.psize().get() as usize]));
            let new = write(&zio, &newer, &rewritten).expect("room");
            assert_eq!(old.dva(0), new.dva(0), "the same place");
            assert_eq!(block_on(zio.read(&old, &NAME)).expect("in memory")[..], data[..]);
            assert_eq!(block_on(zio.read(&new, &NAME)).expect("in memory")[..], newer[..]);
            assert_eq!(block_on(zio.scrub(&old, &NAME)).expect("left alone"), Scrubbed::default());
            zio.forget_unstable();
            assert!(matches!(block_on(zio.read(&old, &NAME)), Err(ZioError::Checksum { .. })));
            assert_eq!(block_on(zio.read(&new, &NAME)).expect("on the disk")[..], newer[..]);
        }
    }
}

#[test]
fn a_bad_copy_is_repaired_from_another() {
    let (world, zio) = World::pool(&["a", "b"]);
    let data = noise(4096, 2);
    let bp = write(&zio, &data, &WritePolicy { copies: 2, ..plain() }).expect("room");
    let path = if bp.dva(0).vdev.get() == 0 { "a" } else { "b" };
    assert_ne!(bp.dva(0).vdev, bp.dva(1).vdev);
    world.spoil(path, bp.dva(0));
    zio.take_unflushed();
    assert_eq!(read(&zio, &bp).expect("the second copy")[..], data[..]);
    assert_eq!(read(&zio, &bp).expect("once more")[..], data[..]);
    assert_eq!(zio.take_damaged(), [Damaged { bp, bookmark: NAME }], "noted once");
    assert!(zio.take_damaged().is_empty() && zio.take_unflushed().is_empty());
    assert_eq!(block_on(zio.scrub(&bp, &NAME)).expect("one is good"), Scrubbed { bad_copies: 1 });
    assert!(!zio.has_damaged(), "a repair is no news");
    assert_eq!(block_on(zio.scrub(&bp, &NAME)).expect("both are good"), Scrubbed::default());
    assert_eq!(world.bytes(path, bp.dva(0), 4096)[..], data[..]);
    assert_eq!(zio.stats().repaired_copies, 1);
    assert_eq!(zio.take_unflushed(), [bp.dva(0).vdev].into());
}

#[test]
fn what_is_not_the_damaged_block_is_not_written_over_it() {
    let (world, zio) = World::pool(&["a b"]);
    let data = noise(8192, 2);
    let bp = write(&zio, &data, &plain()).expect("room");
    zio.forget_unstable();
    for path in ["a", "b"] {
        world.spoil(path, bp.dva(0));
    }
    let spoilt = world.bytes("a", bp.dva(0), 8192);
    for other in [noise(8192, 3)[..].to_vec(), data[..4096].to_vec(), [&data[..], &data[..]].concat()] {
        let mended = block_on(zio.mend(&bp, &NAME, IoBuf::copy_of(&other)));
        assert!(matches!(mended, Err(ZioError::Checksum { .. })), "{mended:?}");
        assert_eq!(world.bytes("a", bp.dva(0), 8192)[..], spoilt[..]);
    }
    block_on(zio.mend(&bp, &NAME, IoBuf::copy_of(&data))).expect("it is the block");
    for path in ["a", "b"] {
        assert_eq!(world.bytes(path, bp.dva(0), 8192)[..], data[..]);
    }
    assert_eq!(zio.take_unflushed(), [bp.dva(0).vdev].into());
}

#[test]
fn a_scrub_repairs_mirrors_and_names_what_is_lost() {
    let (world, zio) = World::pool(&["a b"]);
    let data = noise(8192, 2);
    let bp = write(&zio, &data, &plain()).expect("room");
    zio.forget_unstable();
    zio.take_unflushed();
    world.spoil("b", bp.dva(0));
    assert_eq!(block_on(zio.scrub(&bp, &NAME)).expect("a is good").bad_copies, 1);
    assert_eq!(world.bytes("b", bp.dva(0), 8192)[..], data[..]);
    assert_eq!(zio.take_unflushed(), [bp.dva(0).vdev].into(), "the repair is not stable yet");
    world.spoil("a", bp.dva(0));
    world.spoil("b", bp.dva(0));
    assert!(matches!(block_on(zio.scrub(&bp, &NAME)), Err(ZioError::Checksum { .. })));
    assert_eq!(block_on(zio.scrub(&Blkptr::HOLE, &NAME)).expect("nothing there"), Scrubbed::default());
}

#[test]
fn a_write_goes_elsewhere_when_a_vdev_fails() {
    let (world, zio) = World::pool(&["a", "b"]);
    world.faults("a").fail_all(FaultOp::Write);
    for seed in 0..8 {
        let data = noise(131_072, seed);
        let bp = write(&zio, &data, &plain()).expect("b takes it");
        assert_eq!(bp.dva(0).vdev.get(), 1);
        assert_eq!(read(&zio, &bp).expect("written")[..], data[..]);
    }
    assert!(zio.stats().moved_writes > 0);
    assert_eq!(allocated(&zio), 8 * 131_072);
}

#[test]
fn a_write_that_fails_leaves_nothing_allocated() {
    let (world, zio) = World::pool(&["a", "b"]);
    for path in ["a", "b"] {
        world.faults(path).fail_all(FaultOp::Write);
    }
    for copies in 1..=3 {
        let result = write(&zio, &noise(4096, 1), &WritePolicy { copies, ..plain() });
        assert!(matches!(result, Err(ZioError::Write { .. })), "{result:?}");
        assert_eq!(allocated(&zio), 0);
    }
}

#[test]
fn a_full_pool_is_an_error_that_takes_nothing() {
    let (_, zio) = World::pool(&["a"]);
    let data = noise(1 << 20, 3);
    let mut written = Vec::new();
    let error = loop {
        match write(&zio, &data, &plain()) {
            Ok(bp) => written.push(bp),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ZioError::NoSpace { .. }), "{error:?}");
    assert!(written.len() >= 47, "{} MiB in the 48 of whole metaslabs", written.len());
    assert_eq!(allocated(&zio), written.iter().map(|bp| bp.asize_total().get()).sum());
}

#[test]
fn a_rewrite_of_one_txg_keeps_its_place_when_sizes_match() {
    let (_, zio) = World::pool(&["a", "b"]);
    let policy = WritePolicy { copies: 2, ..plain() };
    let first = write(&zio, &noise(4096, 1), &policy).expect("room");
    let (before, data) = (allocated(&zio), noise(4096, 2));
    let second = write(&zio, &data, &WritePolicy { rewrite: Some(first), ..policy }).expect("in place");
    assert_eq!([second.dva(0), second.dva(1)], [first.dva(0), first.dva(1)]);
    assert_eq!(allocated(&zio), before);
    assert_eq!(read(&zio, &second).expect("the new bytes")[..], data[..]);
    assert!(read(&zio, &first).is_err(), "the old ones are gone");
    let larger =
        write(&zio, &noise(8192, 3), &WritePolicy { rewrite: Some(second), ..policy }).expect("room");
    assert_ne!(larger.dva(0), second.dva(0));
    block_on(zio.free(TXG, &second)).expect("the caller frees what was replaced");
    assert_eq!(allocated(&zio), 2 * 8192);
}

#[test]
fn a_rewrite_that_fails_moves_all_copies() {
    let (world, zio) = World::pool(&["a", "b"]);
    let policy = WritePolicy { copies: 2, ..plain() };
    let first = write(&zio, &noise(4096, 1), &policy).expect("room");
    world.faults("a").fail_all(FaultOp::Write);
    let data = noise(4096, 2);
    let second = write(&zio, &data, &WritePolicy { rewrite: Some(first), ..policy }).expect("on b");
    assert!(second.dvas().all(|dva| dva.vdev.get() == 1 && first.dvas().all(|old| old != dva)));
    block_on(zio.free(TXG, &first)).expect("nothing of it was used again");
    assert_eq!(allocated(&zio), 2 * 4096);
    assert_eq!(read(&zio, &second).expect("written")[..], data[..]);
}

#[test]
fn a_read_block_is_found_in_the_cache_until_it_is_freed() {
    let (world, zio) = World::pool(&["a"]);
    let data = noise(4096, 4);
    let bp = write(&zio, &data, &plain()).expect("room");
    zio.forget_unstable();
    world.faults("a").fail_all(FaultOp::Read);
    assert_eq!(block_on(zio.read(&bp, &NAME)).expect("cached by the write")[..], data[..]);
    assert_eq!(zio.cache_stats().hits, 1);
    block_on(zio.free(TXG, &bp)).expect("allocated");
    assert!(block_on(zio.read(&bp, &NAME)).is_err());
    assert!(matches!(block_on(zio.free(TXG, &bp)), Err(ZioError::Space { .. })), "not twice");
}

#[test]
fn vdevs_with_cached_writes_are_known_until_taken() {
    let (world, zio) = World::pool(&["a", "b"]);
    assert!(zio.take_unflushed().is_empty());
    let bp = write(&zio, &noise(512, 1), &plain()).expect("room");
    let vdevs = zio.take_unflushed();
    assert_eq!(vdevs, [bp.dva(0).vdev].into());
    assert!(zio.take_unflushed().is_empty());
    let vdevs: Vec<_> = vdevs.into_iter().collect();
    block_on(zio.flush(&vdevs)).expect("healthy");
    let path = if vdevs[0].get() == 0 { "a" } else { "b" };
    world.faults(path).fail_nth(FaultOp::Flush, 1);
    assert!(matches!(block_on(zio.flush(&vdevs)), Err(ZioError::Flush(_))));
}

#[test]
fn holes_have_no_contents_and_embedded_blocks_need_no_disk() {
    let (_, zio) = World::pool(&["a"]);
    assert!(matches!(read(&zio, &Blkptr::HOLE), Err(ZioError::Hole { .. })));
    let parts = EmbeddedParts {
        lsize_bytes: 512,
        compression: CompressionKind::Off,
        object_type: ObjectType::PLAIN_FILE_CONTENTS,
        level: 0,
        birth: TXG,
    };
    let bp = Blkptr::embed(&parts, b"short");
    let data = read(&zio, &bp).expect("in the blkptr");
    assert_eq!((data.len(), &data[..6]), (512, b"short\0".as_slice()));
    block_on(zio.free(TXG, &bp)).expect("nothing to free");
    block_on(zio.free(TXG, &Blkptr::HOLE)).expect("nothing to free");
}

#[test]
fn blkptrs_of_any_bytes_are_errors_and_no_panics() {
    let (_, zio) = World::pool(&["a"]);
    for seed in 0..2000 {
        let mut bytes: [u8; 128] = noise(128, seed)[..].try_into().expect("128 bytes");
        if seed % 2 == 0 {
            // Closer to something real: small vdev number, small asize, plausible properties.
            bytes[4..8].fill(0);
            bytes[9..16].fill(0);
            bytes[16..48].fill(0);
            bytes[52] %= 20;
            bytes[53] %= 16;
            bytes[54] %= 60;
            bytes[55] = 0x80;
        }
        let bp = Blkptr::decode(&bytes).expect("128 bytes");
        assert!(read(&zio, &bp).is_err() || bp.is_embedded() || bp.checksum_kind() == Ok(ChecksumKind::Off));
        let _ = block_on(zio.free(TXG, &bp));
    }
}

/// A gang as another writer may have left it: three members, of which the last is a gang itself.
#[test]
fn a_gang_block_is_read_in_one_piece() {
    let (world, zio) = World::pool(&["a"]);
    let data = noise(8192, 6);
    let member = |range: std::ops::Range<usize>| {
        let part = Arc::new(IoBuf::copy_of(&data[range]));
        write(&zio, &part, &plain()).expect("room")
    };
    let gang = |members: &[Blkptr], data: &[u8]| -> Blkptr {
        let dvas = zio
            .with_allocator(|allocator| {
                allocator.allocate(Class::Normal, Psize::new(512), 1, TXG, Hint::default())
            })
            .expect("room");
        let dva = Dva { gang: true, asize: Asize::new(data.len() as u64 + 512), ..dvas[0] };
        let parts = BlkptrParts {
            dvas: [dva, Dva::EMPTY, Dva::EMPTY],
            lsize: Lsize::new(data.len() as u64),
            psize: Psize::new(data.len() as u64),
            checksum: codec::checksum(ChecksumKind::Fletcher4, data, None).expect("fletcher"),
            object_type: ObjectType::PLAIN_FILE_CONTENTS,
            birth: TXG,
            physical_birth: TXG,
            ..BlkptrParts::default()
        };
        let bp = parts.to_blkptr();
        let mut header = IoBuf::zeroed(GANG_HEADER_BYTES);
        for (slot, member) in header.chunks_exact_mut(128).zip(members) {
            slot.copy_from_slice(member.as_bytes());
        }
        vdev::label::seal_part(&mut header, gang_verifier(&bp));
        let slices = vec![BufSlice::from(header)];
        block_on(zio.vdevs().write(Address::now(dva.vdev, dva.offset), slices, Durability::Cached))
            .expect("written");
        bp
    };
    let inner = gang(&[member(4096..6144), member(6144..8192)], &data[4096..]);
    let outer = gang(&[member(0..1024), member(1024..4096), inner], &data);
    assert_eq!(read(&zio, &outer).expect("a gang")[..], data[..]);
    world.spoil("a", inner.dva(0));
    assert!(matches!(read(&zio, &outer), Err(ZioError::Checksum { .. })));
    block_on(zio.free(TXG, &outer)).expect("the rest is freed");
    let leaked: u64 = zio.take_leaks().iter().map(|leak| leak.bytes).sum();
    assert_eq!(leaked, inner.lsize().get(), "what a lost header names cannot be known");
}

#[test]
fn a_gang_that_names_itself_ends_in_an_error() {
    let (_, zio) = World::pool(&["a"]);
    let dva = zio
        .with_allocator(|a| a.allocate(Class::Normal, Psize::new(512), 1, TXG, Hint::default()))
        .expect("room")[0];
    let parts = BlkptrParts {
        dvas: [Dva { gang: true, ..dva }, Dva::EMPTY, Dva::EMPTY],
        lsize: Lsize::new(1 << 20),
        psize: Psize::new(1 << 20),
        object_type: ObjectType::PLAIN_FILE_CONTENTS,
        birth: TXG,
        physical_birth: TXG,
        ..BlkptrParts::default()
    };
    let bp = parts.to_blkptr();
    let mut header = IoBuf::zeroed(GANG_HEADER_BYTES);
    header[..128].copy_from_slice(bp.as_bytes());
    vdev::label::seal_part(&mut header, gang_verifier(&bp));
    let slices = vec![BufSlice::from(header)];
    block_on(zio.vdevs().write(Address::now(dva.vdev, dva.offset), slices, Durability::Cached))
        .expect("written");
    assert!(matches!(read(&zio, &bp), Err(ZioError::Checksum { .. })));
}

/// Random writes, rewrites, frees, reads, faults and repairs; never more than one child of the
/// mirror is in trouble. Whatever was reported written reads back.
#[test]
fn no_history_of_single_faults_loses_a_written_block() {
    for seed in 0..16_u64 {
        let (world, zio) = World::pool(&["a b", "c d"]);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let victims = [["a", "b"][draw(2) as usize], ["c", "d"][draw(2) as usize]];
        let mut blocks: Vec<(Blkptr, Arc<IoBuf>)> = Vec::new();
        for step in 0..200 {
            match draw(10) {
                0..4 => {
                    let data = noise(512 << draw(8), seed << 32 | step);
                    let policy = WritePolicy { copies: 1 + draw(3) as u8, ..plain() };
                    blocks.push((write(&zio, &data, &policy).expect("a healthy half"), data));
                }
                4 if !blocks.is_empty() => {
                    let at = draw(blocks.len() as u64) as usize;
                    let (old, data) = &blocks[at];
                    let data = noise(data.len(), seed << 32 | step);
                    let copies = u8::try_from(old.dvas().count()).expect("at most three");
                    let policy = WritePolicy { copies, rewrite: Some(*old), ..plain() };
                    let new = write(&zio, &data, &policy).expect("a healthy half");
                    assert_eq!(new.dva(0), old.dva(0));
                    blocks[at] = (new, data);
                }
                5 if !blocks.is_empty() => {
                    let (bp, _) = blocks.swap_remove(draw(blocks.len() as u64) as usize);
                    block_on(zio.free(TXG, &bp)).expect("allocated");
                }
                6 if !blocks.is_empty() => {
                    let (bp, _) = &blocks[draw(blocks.len() as u64) as usize];
                    for dva in bp.dvas() {
                        world.spoil(victims[dva.vdev.get() as usize], dva);
                    }
                }
                7 => {
                    let op = [FaultOp::Read, FaultOp::Write, FaultOp::Flush][draw(3) as usize];
                    world.faults(victims[draw(2) as usize]).fail_range(op, 1 + draw(4), 1 + draw(3));
                }
                8 => block_on(zio.vdevs().flush(zio.take_unflushed())).expect("a healthy half"),
                _ => {
                    for (bp, data) in &blocks {
                        assert_eq!(read(&zio, bp).expect("written")[..], data[..], "seed {seed} step {step}");
                    }
                }
            }
        }
        for (bp, data) in &blocks {
            assert_eq!(read(&zio, bp).expect("written")[..], data[..], "seed {seed}");
        }
        let held: u64 = blocks.iter().map(|(bp, _)| bp.asize_total().get()).sum();
        assert_eq!(allocated(&zio), held);
    }
}

#[test]
fn a_small_block_lies_in_its_pointer_where_the_pool_allows() {
    let (_, zio) = World::pool(&["a"]);
    let policy = WritePolicy { compression: CompressionKind::On.into(), copies: 2, ..plain() };
    assert!(!write(&zio, &text(4096), &policy).expect("room").is_embedded(), "without the feature");
    zio.set_pointer_forms(PointerForms { embedded: true, ..PointerForms::default() });
    let before = allocated(&zio);
    for len in [512, 4096, 8192] {
        let bp = write(&zio, &text(len), &policy).expect("nothing to allocate");
        assert!(bp.is_embedded() && bp.check().is_ok(), "{bp:?}");
        assert_eq!((bp.lsize().get(), bp.birth(), bp.level().get()), (len as u64, TXG, 0));
        assert_eq!(bp.object_type(), ObjectType::PLAIN_FILE_CONTENTS);
        assert_eq!(read(&zio, &bp).expect("whole")[..], text(len)[..]);
        block_on(zio.free(TXG, &bp)).expect("nothing to free");
    }
    assert_eq!(allocated(&zio), before);
    let others = [
        WritePolicy { level: Level::new(1), ..policy },
        WritePolicy { object_type: ObjectType::DNODE, ..policy },
        WritePolicy { compression: CompressionKind::Off.into(), ..policy },
    ];
    for policy in others {
        assert!(!write(&zio, &text(4096), &policy).expect("room").is_embedded(), "{policy:?}");
    }
    assert!(!write(&zio, &noise(512, 1), &policy).expect("room").is_embedded());
}

/// A block as a big-endian machine would have written it, beside ours.
#[test]
fn a_block_of_the_other_byte_order_is_read_in_ours() {
    let (_, zio) = World::pool(&["a"]);
    zio.set_salt([9; 32]);
    let ours = noise(4096, 8);
    let mut theirs = (*ours).clone();
    theirs.chunks_exact_mut(8).for_each(<[u8]>::reverse);
    for kind in [ChecksumKind::Fletcher2, ChecksumKind::Fletcher4, ChecksumKind::Sha256, ChecksumKind::Blake3]
    {
        let policy = WritePolicy { object_type: ObjectType::BPOBJ, checksum: kind, ..plain() };
        let written = write(&zio, &Arc::new(theirs.clone()), &policy).expect("room");
        let salt = codec::Salt::new([9; 32]);
        let sum = codec::checksum_of(ondisk::ByteOrder::Big, kind, &theirs, Some(&salt)).expect("known");
        let mut bytes: [u8; 128] = written.with_checksum(sum).as_bytes().try_into().expect("128 bytes");
        bytes[55] &= 0x7f;
        let foreign = Blkptr::decode(&bytes).expect("128 bytes");
        assert_eq!(foreign.byte_order(), ondisk::ByteOrder::Big);
        assert_eq!(read(&zio, &foreign).expect("its checksum holds")[..], ours[..], "{}", kind.name());
        assert_eq!(read(&zio, &written).expect("as it was written")[..], theirs[..]);
    }
}

#[test]
fn a_block_placed_early_reads_back_once_its_copies_are_written() {
    let (_, zio) = World::pool(&["a b", "c"]);
    for (data, copies) in [(noise(131_072, 1), 1), (text(131_072), 2), (noise(1 << 20, 3), 1)] {
        let policy = WritePolicy { copies, compression: CompressionKind::On.into(), ..plain() };
        let PackedEarly::Packed(packed) = zio.pack_early(TXG, &NAME, &data, &policy).expect("known checksum")
        else {
            panic!("too large for a pointer")
        };
        let bytes = packed.stored_bytes();
        let before = allocated(&zio);
        let placed = zio.place_early(packed).expect("room");
        let bp = *placed.bp();
        assert_eq!(allocated(&zio) - before, bytes);
        assert_eq!((bp.birth(), bp.dvas().count(), bp.check()), (TXG, usize::from(copies), Ok(())));
        assert!(read(&zio, &bp).is_err(), "nothing is written yet");
        for dva in bp.dvas() {
            block_on(zio.write_placed(&placed, dva, Durability::Cached)).expect("no faults");
        }
        assert_eq!(read(&zio, &bp).expect("written")[..], data[..]);
        let plain = write(&zio, &data, &policy).expect("room");
        assert_eq!(plain.checksum(), bp.checksum());
        assert_eq!((plain.psize(), plain.compression()), (bp.psize(), bp.compression()));
    }
    assert_eq!(zio.take_unflushed().len(), 2, "what was written cached is known");
}

#[test]
fn a_block_placed_early_is_in_one_piece_and_on_a_sound_vdev_or_nowhere() {
    let (world, zio) = World::pool(&["a", "b"]);
    let data = noise(131_072, 1);
    let place = || match zio.pack_early(TXG, &NAME, &data, &plain()).expect("known checksum") {
        PackedEarly::Packed(packed) => zio.place_early(packed),
        PackedEarly::Embedded(_) => None,
    };
    world.faults("a").fail_all(FaultOp::Flush);
    assert!(block_on(zio.flush(&[VdevId::new(0)])).is_err());
    for _ in 0..8 {
        assert_eq!(place().expect("room on the other").bp().dva(0).vdev, VdevId::new(1));
    }
    zio.set_longest_run(65_536);
    let before = allocated(&zio);
    assert!(place().is_none(), "a gang is for those who can wait");
    assert_eq!(allocated(&zio), before);
}
