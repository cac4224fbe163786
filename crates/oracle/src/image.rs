//! Reads blocks of golden pools: just enough to get at structures, with every checksum verified.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ondisk::blkptr::embedded::TYPE_DATA;
use ondisk::label::{self, CONFIG_BYTES, CONFIG_OFFSET};
use ondisk::{
    Blkptr, ChecksumKind, CompressionKind, DnodeImage, NvList, ObjectType, UberblockPhys, VdevPhys, ZioEck,
    config,
};
use units::{Ashift, LeafOffset, VdevId};

/// Bytes of `file` from `offset` on.
pub fn read_at(file: &File, offset: u64, bytes: usize) -> Vec<u8> {
    let mut buffer = vec![0; bytes];
    file.read_exact_at(&mut buffer, offset).expect("the image is that long");
    buffer
}

/// Whether a label part, gang header or the like holds the checksum it should.
pub fn eck_holds(part: &[u8], verifier: [u64; 4]) -> bool {
    let (Ok(eck), Ok(order)) = (ZioEck::of(part), ZioEck::order(part)) else { return false };
    let mut seeded = part.to_vec();
    ZioEck::seeded(verifier).put_in(order, &mut seeded);
    codec::checksum(ChecksumKind::Label, &seeded, None) == Ok(eck.words())
}

/// The configuration part of label `index`, verified, and what it says.
pub fn label_config(file: &File, index: usize) -> (Vec<u8>, NvList) {
    let leaf = file.metadata().expect("an image").len();
    let start = label::label_offset(leaf, index).expect("the image holds labels").get();
    let part = read_at(file, start + CONFIG_OFFSET, CONFIG_BYTES);
    let verifier = label::label_verifier(LeafOffset::new(start + CONFIG_OFFSET));
    assert!(eck_holds(&part, verifier), "label {index} verifies");
    let config = VdevPhys::decode(&part).expect("OpenZFS wrote it");
    (part, config)
}

/// All uberblocks of label `index` that verify.
pub fn uberblocks(file: &File, index: usize, ashift: Ashift) -> Vec<UberblockPhys> {
    let leaf = file.metadata().expect("an image").len();
    let start = label::label_offset(leaf, index).expect("the image holds labels").get();
    let bytes = usize::try_from(label::uberblock_slot_bytes(ashift)).expect("small");
    let slots = (0..label::uberblock_slots(ashift)).map(|slot| {
        let offset = start + label::uberblock_slot_offset(ashift, slot);
        (offset, read_at(file, offset, bytes))
    });
    let verified = slots.filter(|(offset, slot)| eck_holds(slot, [*offset, 0, 0, 0]));
    verified.map(|(_, slot)| UberblockPhys::decode(&slot).expect("it verifies")).collect()
}

/// A pool whose top-level vdevs are files or mirrors of files.
pub struct Image {
    tops: BTreeMap<VdevId, File>,
    /// The newest.
    pub uberblock: UberblockPhys,
}

/// Why a block was not read: it is something these tests leave out.
#[derive(Debug)]
pub struct LeftOut;

impl Image {
    /// Opens the images of a pool; `None` if it has top-level vdevs of other kinds.
    pub fn open(images: &[impl AsRef<Path>]) -> Option<Self> {
        let mut tops = BTreeMap::new();
        let mut best: Option<UberblockPhys> = None;
        for path in images {
            let file = File::open(path).expect("the image is there");
            let (_, config) = label_config(&file, 0);
            let top = config.lookup_nvlist(config::VDEV_TREE).expect("every label has it");
            let kind = top.lookup_str(config::TYPE).expect("every vdev has it");
            if !["file", "disk", "mirror"].contains(&kind) {
                return None;
            }
            let ashift =
                Ashift::new(u8::try_from(top.lookup_u64(config::ASHIFT).expect("has it")).expect("small"));
            let newest = uberblocks(&file, 0, ashift).into_iter().max_by_key(UberblockPhys::rank);
            best = best.into_iter().chain(newest).max_by_key(UberblockPhys::rank);
            let id = u32::try_from(top.lookup_u64(config::ID).expect("has it")).expect("small");
            tops.insert(VdevId::new(id), file);
        }
        Some(Self { tops, uberblock: best.expect("a pool has uberblocks") })
    }

    /// The bytes of a block as they lie on disk.
    pub fn raw(&self, bp: &Blkptr) -> Vec<u8> {
        let dva = bp.dva(0);
        let place = dva.offset.on_leaf().expect("within the device").get();
        let psize = usize::try_from(bp.psize().get()).expect("small");
        read_at(&self.tops[&dva.vdev], place, psize)
    }

    /// The contents of a block, zeroes for a hole; verified and unpacked.
    pub fn read(&self, bp: &Blkptr) -> Result<Vec<u8>, LeftOut> {
        bp.check().expect("OpenZFS wrote it");
        let lsize = usize::try_from(bp.lsize().get()).expect("small");
        if bp.is_hole() {
            return Ok(vec![0; lsize]);
        }
        if bp.uses_crypt() && bp.is_encrypted() {
            return Err(LeftOut);
        }
        let stored = if bp.is_embedded() {
            assert_eq!(bp.embedded_type(), TYPE_DATA);
            bp.embedded_payload().expect("OpenZFS wrote it")
        } else {
            assert!(!bp.is_gang(), "no golden pool has gangs");
            let raw = self.raw(bp);
            match bp.checksum_kind().expect("checked") {
                kind @ (ChecksumKind::Fletcher4 | ChecksumKind::Sha256) if !bp.uses_crypt() => {
                    assert_eq!(codec::checksum(kind, &raw, None), Ok(bp.checksum()), "{bp:?}");
                }
                _ => {}
            }
            raw
        };
        match bp.compression().expect("checked") {
            CompressionKind::Off => Ok(stored),
            kind => codec::decompress(kind, &stored, lsize).map_err(|_| {
                assert_ne!(kind, CompressionKind::Lz4, "lz4 is always there: {bp:?}");
                LeftOut
            }),
        }
    }

    /// Calls `each` for every block of level 0 that is not a hole, with its number.
    pub fn blocks(&self, dnode: &DnodeImage, each: &mut dyn FnMut(u64, &Blkptr)) {
        let level = dnode.levels - 1;
        for (index, bp) in (0..).zip(&dnode.blkptrs) {
            self.descend(dnode, bp, level, index, each);
        }
    }

    fn descend(
        &self,
        dnode: &DnodeImage,
        bp: &Blkptr,
        level: u8,
        index: u64,
        each: &mut dyn FnMut(u64, &Blkptr),
    ) {
        if bp.is_hole() {
            return;
        }
        assert_eq!((bp.level().get(), bp.object_type()), (level, dnode.object_type), "{bp:?}");
        if level == 0 {
            return each(index, bp);
        }
        let fanout = 1_u64 << (u32::from(dnode.indirect_shift) - ondisk::BLKPTR_SHIFT);
        let block = self.read(bp).expect("indirect blocks are lz4");
        for (slot, child) in (0..).zip(ondisk::bpobj::entries(&block)) {
            self.descend(dnode, &child, level - 1, index * fanout + slot, each);
        }
    }

    /// The object's contents up to `bytes`; blocks that are left out read as zeroes.
    pub fn contents(&self, dnode: &DnodeImage, bytes: u64) -> Vec<u8> {
        let block_bytes = dnode.data_block_bytes();
        let mut all = vec![0; usize::try_from(bytes.next_multiple_of(block_bytes)).expect("small")];
        self.blocks(dnode, &mut |index, bp| {
            let start = usize::try_from(index * block_bytes).expect("small");
            if let (Ok(block), Some(room)) = (self.read(bp), all.get_mut(start..)) {
                let len = block.len().min(room.len());
                room[..len].copy_from_slice(&block[..len]);
            }
        });
        all
    }

    /// Every object of the objset at `bp` with its number and the bytes of its slots.
    pub fn objects(&self, bp: &Blkptr) -> Vec<(u64, Vec<u8>)> {
        let Ok(block) = self.read(bp) else { return Vec::new() };
        let objset = ondisk::ObjsetPhys::decode(&block).expect("OpenZFS wrote it");
        let meta =
            ondisk::ObjsetPhys::dnode(&objset.meta_dnode).expect("OpenZFS wrote it").expect("allocated");
        assert_eq!(meta.object_type, ObjectType::DNODE);
        let mut objects = Vec::new();
        self.blocks(&meta, &mut |index, bp| {
            let Ok(block) = self.read(bp) else { return };
            for (slot, bytes) in ondisk::dnode::dnodes_of_block(&block) {
                objects.push((index * 32 + slot as u64, bytes.to_vec()));
            }
        });
        objects
    }
}
