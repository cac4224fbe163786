//! The decoders, and what is done with what they give.

use std::hint::black_box;

use codec::decompress;
use futures::executor::block_on;
use ondisk::sa::SaAttr;
use ondisk::send::{DrrRecord, RECORD_BYTES};
use ondisk::zap::{self, LeafChunk, LeafHeaderPhys, LeafLayout, ZapHeaderPhys, ZapKind};
use ondisk::zil::record::{records, swap_record};
use ondisk::{
    BLKPTR_BYTES, Blkptr, BpobjPhys, ByteOrder, ChainForm, CompressionKind, DnodeImage, DslDatasetPhys,
    DslDeadlistPhys, DslDirPhys, GangHeaderPhys, HistoryPhys, NvList, ObjectType, ObjsetPhys, SaHeader,
    SpaceMapPhys, UberblockPhys, VdevPhys, ZilChain, ZnodePhys, acl, bptree, dnode, history, space_map,
};
use vdev::PoolConfig;
use zpl::{SaImage, SaTables, ZplAttr};

use crate::Kind;

/// A decoder and everything that its result is good for.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What it is fed with.
    pub eats: Kind,
    /// Does it all.
    pub run: fn(&[u8]),
}

/// Every decoder.
pub static TARGETS: &[Target] = &[
    Target { name: "label", eats: Kind::Label, run: label },
    Target { name: "nvlist", eats: Kind::NvList, run: nvlist },
    Target { name: "uberblock", eats: Kind::Uberblock, run: uberblock },
    Target { name: "objset", eats: Kind::Objset, run: objset },
    Target { name: "dnodes", eats: Kind::Dnodes, run: dnodes },
    Target { name: "blkptrs", eats: Kind::Blkptrs, run: blkptrs },
    Target { name: "bonus", eats: Kind::Bonus, run: bonus },
    Target { name: "attributes", eats: Kind::Attributes, run: attributes },
    Target { name: "acl", eats: Kind::Attributes, run: acls },
    Target { name: "zap", eats: Kind::Zap, run: zap_block },
    Target { name: "space_map", eats: Kind::SpaceMap, run: space_map_entries },
    Target { name: "history", eats: Kind::History, run: history_records },
    Target { name: "log_block", eats: Kind::Log, run: log_block },
    Target { name: "log_records", eats: Kind::Log, run: log_records },
    Target { name: "send_records", eats: Kind::Stream, run: send_records },
    Target { name: "send_stream", eats: Kind::Stream, run: send_stream },
    Target { name: "packed", eats: Kind::Packed, run: packed },
];

/// A block of this many sectors at most is unpacked: larger ones only take longer.
const PACKED_SECTORS_MAX: u16 = 256;

fn label(bytes: &[u8]) {
    let Ok(list) = VdevPhys::decode(bytes) else { return };
    let _ = black_box(PoolConfig::from_nvlist(&list));
    black_box(format!("{list:?}"));
}

/// What was read from any bytes can be stored and comes back.
fn nvlist(bytes: &[u8]) {
    let Ok(list) = NvList::decode(bytes) else { return };
    assert_eq!(NvList::decode(&list.encode()).as_ref(), Ok(&list));
    assert_eq!(NvList::decode(&list.encode_native()).as_ref(), Ok(&list));
    let _ = black_box(PoolConfig::from_nvlist(&list));
}

fn uberblock(bytes: &[u8]) {
    let Ok(found) = UberblockPhys::decode(bytes) else { return };
    black_box((found.rank(), found.mmp(), found.rootbp.check().is_ok()));
    black_box(format!("{found:?}"));
}

fn objset(bytes: &[u8]) {
    let Ok(found) = ObjsetPhys::decode(bytes) else { return };
    let _ = black_box((found.kind(), found.zil_header));
    for slot in [&found.meta_dnode, &found.userused_dnode, &found.groupused_dnode, &found.projectused_dnode] {
        let _ = black_box(ObjsetPhys::dnode(slot));
    }
}

/// A dnode that was stored by us once stays as it is.
fn dnodes(bytes: &[u8]) {
    for (_, slots) in dnode::dnodes_of_block(bytes) {
        let Ok(first) = DnodeImage::decode(slots) else { continue };
        let mut stored = vec![0; slots.len()];
        first.encode(&mut stored);
        let Ok(second) = DnodeImage::decode(&stored) else { panic!("{first:?} is lost when stored") };
        let mut again = vec![0; slots.len()];
        second.encode(&mut again);
        assert_eq!(stored, again, "{second:?}");
    }
}

fn blkptrs(bytes: &[u8]) {
    for bp in ondisk::bpobj::entries(bytes).chain(bptree::entries(bytes).map(|entry| entry.bp)) {
        black_box((bp.check().is_ok(), bp.embedded_payload().ok(), bp.checksum_kind().ok()));
        black_box(bp.compression().ok());
        black_box((bp.dvas().count(), bp.lsize(), bp.psize(), bp.birth(), bp.physical_birth(), bp.fill()));
        black_box(format!("{bp:?}"));
    }
    if let Some(bytes) = bytes.get(..BLKPTR_BYTES) {
        let _ = black_box(Blkptr::decode(bytes));
    }
    if let Ok(gang) = GangHeaderPhys::decode(bytes) {
        black_box(gang.members().count());
    }
}

fn bonus(bytes: &[u8]) {
    let _ = black_box(DslDirPhys::decode(bytes));
    let _ = black_box(DslDatasetPhys::decode(bytes).map(|dataset| dataset.is_snapshot()));
    let _ = black_box(DslDeadlistPhys::decode(bytes));
    let _ = black_box(BpobjPhys::decode(bytes));
    let _ = black_box(SpaceMapPhys::decode(bytes));
    let _ = black_box(HistoryPhys::decode(bytes).map(|ring| (ring.ring_bytes(), ring.to_phys(u64::MAX))));
    let _ = black_box(ondisk::bptree::BptreePhys::decode(bytes));
    let words: Vec<u64> =
        bytes.chunks_exact(8).filter_map(|w| w.try_into().ok().map(u64::from_le_bytes)).collect();
    let _ = black_box(ondisk::dsl::BookmarkPhys::from_words(&words));
    let _ = black_box(ondisk::dsl::ScanPhys::from_words(&words));
}

fn attributes(bytes: &[u8]) {
    let _ = black_box((SaHeader::decode(bytes), ZnodePhys::decode(bytes)));
    for word in bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes)) {
        let _ = black_box(SaAttr::from_word(word));
    }
    let every: Vec<u16> = (0..ZplAttr::COUNT as u16).collect();
    let tables =
        SaTables::new(&[], &[(2, every), (3, vec![5, 6, 4, 12, 13, 7, 11, 0, 1, 2, 3, 8, 21, 16, 19])]);
    for kind in [ObjectType::SA, ObjectType::ZNODE] {
        let (head, tail) = bytes.split_at(bytes.len() / 2);
        let images = [(bytes, None), (head, Some(tail.to_vec()))];
        for (bonus, spill) in images {
            let Ok(image) = SaImage::parse(&tables, kind, bonus.to_vec(), spill) else { continue };
            for attr in ZplAttr::ALL {
                black_box((image.get(attr), image.word(attr), image.time(attr)));
            }
            if let Some(list) = image.get(ZplAttr::Dxattr) {
                nvlist(list);
            }
        }
    }
}

fn acls(bytes: &[u8]) {
    if let Ok(aces) = acl::decode(bytes) {
        assert_eq!(acl::decode(&acl::encode(&aces)), Ok(aces));
    }
    let _ = black_box(acl::decode_old(bytes));
}

fn zap_block(bytes: &[u8]) {
    black_box(
        zap::entries(bytes).filter(|entry| entry.is_used()).map(|entry| entry.name().len()).sum::<usize>(),
    );
    let _ = black_box((ZapKind::of(bytes), ZapHeaderPhys::decode(bytes)));
    let Ok(layout) = LeafLayout::new(bytes.len().checked_ilog2().unwrap_or(0)) else { return };
    let Ok(header) = LeafHeaderPhys::decode(bytes, layout) else { return };
    black_box(header);
    for index in 0..=u16::MAX {
        let Some(chunk) = layout.chunk(bytes, index) else { break };
        let _ = black_box(LeafChunk::decode(chunk));
    }
}

fn space_map_entries(bytes: &[u8]) {
    black_box(space_map::decode(bytes).filter(Result::is_ok).count());
}

fn history_records(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok((record, len)) = history::decode_record(rest) {
        assert_eq!(
            history::decode_record(&history::encode_record(&record)).map(|(again, _)| again),
            Ok(record)
        );
        assert!(len > 0, "a record takes room");
        rest = rest.get(len..).unwrap_or_default();
    }
}

fn log_block(bytes: &[u8]) {
    for form in [ChainForm::Trailer, ChainForm::Slim] {
        let Ok((chain, inside)) = ZilChain::decode(form, bytes) else { continue };
        black_box((
            chain.hashed_bytes(form, bytes.len() as u64),
            chain.next_seed(),
            chain.next.check().is_ok(),
        ));
        log_records(inside);
        let _ = black_box(zio::embedded::verify_log_block(bytes, &chain.next));
    }
}

/// Records, at the places where they begin in either form of a block.
fn log_records(bytes: &[u8]) {
    for start in [0, ondisk::zil::ZIL_CHAIN_BYTES] {
        let inside = bytes.get(start..).unwrap_or_default();
        for record in records(inside) {
            let Ok((head, record)) = record else { break };
            black_box((head, format!("{record:?}")));
        }
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let _ = black_box(swap_record(&mut inside.to_vec(), order));
        }
    }
}

/// Records where they would stand if the lengths before them were right, in either byte order.
fn send_records(bytes: &[u8]) {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut rest = bytes;
        while let Some(head) = rest.first_chunk::<RECORD_BYTES>() {
            let Ok(record) = DrrRecord::decode(head, order) else { break };
            assert_eq!(DrrRecord::decode(&record.encode(), ByteOrder::Little).as_ref(), Ok(&record));
            black_box(format!("{record:?}"));
            let Ok(payload) = record.payload_bytes() else { break };
            rest = rest.get(RECORD_BYTES + payload as usize..).unwrap_or_default();
        }
    }
}

/// A cut stream, mutated: an error at the latest where it ends.
fn send_stream(bytes: &[u8]) {
    let mut reader = stream::Reader::new(bytes);
    while let Ok(Some(record)) = block_on(reader.next_record()) {
        black_box(record);
    }
}

fn packed(bytes: &[u8]) {
    let [kind, low, high, stored @ ..] = bytes else { return };
    let Ok(kind) = CompressionKind::from_raw(*kind) else { return };
    let sectors = u16::from_le_bytes([*low, *high]).min(PACKED_SECTORS_MAX);
    let lsize = usize::from(sectors) * units::SECTOR_BYTES as usize;
    let unpacked = decompress(kind, stored, lsize);
    assert!(unpacked.is_err() || unpacked.is_ok_and(|block| block.len() == lsize));
}
