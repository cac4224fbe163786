//! Goes through the intent logs of dirty pools.

use std::collections::BTreeMap;

use ondisk::zil::record::records;
use ondisk::{Blkptr, ChainForm, ChecksumKind, DslDatasetPhys, ObjectType, ObjsetPhys, ZilChain, ZioEck};
use ondisk::{DnodeImage, zil::ZIL_CHAIN_BYTES};
use zerocopy::IntoBytes;

use oracle::image::Image;

/// Records by type, over all datasets.
pub fn walk(image: &Image) -> BTreeMap<String, usize> {
    let mut seen = BTreeMap::new();
    for (_, slots) in image.objects(&image.uberblock.rootbp) {
        let dnode = DnodeImage::decode(&slots).expect("OpenZFS wrote it");
        if dnode.bonus_type != ObjectType::DSL_DATASET {
            continue;
        }
        let dataset = DslDatasetPhys::decode(&dnode.bonus).expect("OpenZFS wrote it");
        if dataset.is_snapshot() || dataset.bp.is_hole() {
            continue;
        }
        let block = image.read(&dataset.bp).expect("objsets are lz4");
        let objset = ObjsetPhys::decode(&block).expect("OpenZFS wrote it");
        walk_chain(image, objset.zil_header.log, &mut seen);
    }
    seen
}

fn walk_chain(image: &Image, first: Blkptr, seen: &mut BTreeMap<String, usize>) {
    let mut bp = first;
    while !bp.is_hole() {
        let form = ChainForm::of(bp.checksum_kind().expect("known")).expect("a log block");
        let block = image.raw(&bp);
        // A chain ends where a block does not verify.
        if !verifies(form, &block, &bp) {
            return;
        }
        let (chain, bytes) = ZilChain::decode(form, &block).expect("it verifies");
        assert_eq!(chain.next_seed(), ondisk::ChainSeed::of(&bp).next());
        let mut again = Vec::new();
        for record in records(bytes) {
            let (head, record) = record.expect("OpenZFS wrote it");
            let encoded = record.encode(&head);
            assert_eq!(encoded, bytes[again.len()..again.len() + encoded.len()], "{record:?}");
            again.extend(encoded);
            *seen.entry(record.tx_type().name().to_owned()).or_default() += 1;
        }
        assert_eq!(again, bytes);
        bp = chain.next;
    }
}

fn verifies(form: ChainForm, block: &[u8], bp: &Blkptr) -> bool {
    let Ok(mut chain) = ZilChain::read(form, block) else { return false };
    let Some(hashed) = chain.hashed_bytes(form, block.len() as u64) else { return false };
    let stored = chain.eck.words();
    chain.eck = ZioEck::seeded(bp.checksum());
    let mut bytes = block[..usize::try_from(hashed).expect("small")].to_vec();
    let at = if form == ChainForm::Slim { 0 } else { bytes.len() - ZIL_CHAIN_BYTES };
    bytes[at..at + ZIL_CHAIN_BYTES].copy_from_slice(chain.as_bytes());
    let kind = if form == ChainForm::Slim { ChecksumKind::Fletcher4 } else { ChecksumKind::Fletcher2 };
    codec::checksum(kind, &bytes, None) == Ok(stored)
}

/// The same from the summaries in a dump by `zdb -iv`: a line for each type with nothing but a
/// count. (Lines of records are cut short in the golden dumps, and some are lost to that.)
pub fn said_by_zdb(dump: &str) -> BTreeMap<String, usize> {
    let mut said = BTreeMap::new();
    for line in dump.lines().filter(|line| line.starts_with("\t\tTX_")) {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(Ok(count @ 1..)), None) =
            (words.next(), words.next().map(str::parse), words.next())
        {
            *said.entry(name.to_owned()).or_default() += count;
        }
    }
    said
}
