//! A pool as a big-endian machine would have written it: no such machine is here, so an image that
//! OpenZFS made is rewritten, block by block, from the data up to the labels.
//!
//! Every block stays where it is, so space maps stay true. Where swapped bytes do not compress into
//! the room the block has, a stronger compression is used: a blkptr says which. `zdb` must then find
//! no fault with the pool, and shows what was there before.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ondisk::label::{self, BOOT_ENV_BYTES, BOOT_ENV_OFFSET, CONFIG_BYTES, CONFIG_OFFSET};
use ondisk::swap::turn_block;
use ondisk::{BLKPTR_BYTES, Blkptr, ByteOrder, ChecksumKind, CompressionKind, ObjectType, ZioEck, dnode};
use units::{Ashift, Level};
use zerocopy::IntoBytes;

use crate::image::{Image, eck_holds, read_at};

/// Turns the system attributes in a bonus or spill block of a dataset, whose tables tell how.
pub type TurnAttributes<'a> = &'a dyn Fn(u64, &mut [u8]);

/// Where a dataset's blkptr lies in its bonus.
const DATASET_BP: usize = 128;
const SECTOR: usize = 512;
/// Places of the other dnodes of an objset's block.
const ACCOUNTS: [usize; 3] = [1024, 1536, 2048];

/// Rewrites `copy`, a copy of the one image of a pool, `original`.
///
/// # Panics
/// When the pool has gangs, embedded blocks or a log to replay, or the image cannot be written.
pub fn rewrite(original: &Path, copy: &Path, attributes: TurnAttributes<'_>) {
    let image = Image::open(&[original]).expect("a single file");
    let file = File::options().read(true).write(true).open(copy).expect("the copy is ours");
    let mut uberblock = image.uberblock;
    let mut turner = Turner { image, file, attributes, done: BTreeMap::new() };
    let rootbp = turner.block(&uberblock.rootbp, Place { dataset: 0, index: 0, fanout: 0 });
    uberblock.rootbp = rootbp;
    turner.labels(uberblock.as_bytes());
}

/// What a block is part of.
#[derive(Clone, Copy)]
struct Place {
    /// The object of the dataset; 0 for the MOS.
    dataset: u64,
    /// Which of its object's blocks of this level.
    index: u64,
    /// Blkptrs in an indirect block.
    fanout: u64,
}

struct Turner<'a> {
    /// As it was.
    image: Image,
    /// As it becomes.
    file: File,
    attributes: TurnAttributes<'a>,
    done: BTreeMap<u64, Blkptr>,
}

impl Turner<'_> {
    /// Turns the block and all below it; what the blkptr becomes.
    fn block(&mut self, bp: &Blkptr, place: Place) -> Blkptr {
        if bp.is_hole() {
            return *bp;
        }
        assert!(!bp.is_embedded() && !bp.is_gang(), "a pool of plain blocks: {bp:?}");
        let key = bp.dva(0).offset.get();
        if let Some(done) = self.done.get(&key) {
            return *done;
        }
        let mut data = self.image.read(bp).expect("OpenZFS wrote it");
        let (level, kind) = (bp.level(), bp.object_type());
        if level > Level::new(0) {
            for (slot, child) in (0..).zip(data.as_chunks_mut::<BLKPTR_BYTES>().0) {
                let index = place.index * place.fanout + slot;
                self.pointer(child, Place { index, ..place });
            }
        } else if kind == ObjectType::DNODE {
            let first = place.index * (data.len() / SECTOR) as u64;
            self.dnodes(&mut data, place.dataset, first);
        } else if kind == ObjectType::OBJSET {
            self.dnode(&mut data[..SECTOR], place.dataset, 0);
            for at in ACCOUNTS.into_iter().filter(|at| at + SECTOR <= bp.lsize().get() as usize) {
                self.dnode(&mut data[at..at + SECTOR], place.dataset, 0);
            }
        } else if kind == ObjectType::SA {
            (self.attributes)(place.dataset, &mut data);
        }
        turn_block(kind, level, &mut data, ByteOrder::Little).expect("a sound block");
        let turned = self.put(bp, &data);
        self.done.insert(key, turned);
        turned
    }

    fn pointer(&mut self, bytes: &mut [u8; BLKPTR_BYTES], place: Place) {
        let bp = Blkptr::decode(bytes).expect("as long as one");
        *bytes = self.block(&bp, place).as_bytes().try_into().expect("as long as one");
    }

    fn dnodes(&mut self, block: &mut [u8], dataset: u64, first: u64) {
        let mut at = 0;
        while at < block.len() {
            let slots = if block[at] == 0 { 1 } else { usize::from(block[at + 12]) + 1 };
            let object = first + (at / SECTOR) as u64;
            if block[at] != 0 {
                self.dnode(&mut block[at..at + slots * SECTOR], dataset, object);
            }
            at += slots * SECTOR;
        }
    }

    fn dnode(&mut self, bytes: &mut [u8], dataset: u64, object: u64) {
        if bytes[0] == 0 {
            return;
        }
        let (pointers, bonus_type) = (usize::from(bytes[3]), ObjectType::new(bytes[4]));
        let fanout = 1_u64 << (u32::from(bytes[1]) - ondisk::BLKPTR_SHIFT);
        let bonus_bytes = usize::from(u16::from_le_bytes([bytes[10], bytes[11]]));
        let bonus = dnode::DNODE_HEADER_BYTES + pointers * BLKPTR_BYTES;
        let place = Place { dataset, index: 0, fanout };
        for index in 0..pointers {
            let at = dnode::DNODE_HEADER_BYTES + index * BLKPTR_BYTES;
            let bp = bytes[at..].first_chunk_mut().expect("the dnode holds it");
            self.pointer(bp, Place { index: index as u64, ..place });
        }
        if bytes[7] & dnode::flags::SPILL_BLKPTR != 0 {
            let spill = bytes.last_chunk_mut().expect("the dnode holds it");
            self.pointer(spill, place);
        }
        if bonus_type == ObjectType::SA {
            (self.attributes)(dataset, &mut bytes[bonus..bonus + bonus_bytes]);
        } else if bonus_type == ObjectType::DSL_DATASET {
            let bp = bytes[bonus + DATASET_BP..].first_chunk_mut().expect("the bonus holds it");
            self.pointer(bp, Place { dataset: object, index: 0, fanout: 0 });
        }
    }

    /// Writes a block over its old self; what its blkptr becomes.
    fn put(&self, bp: &Blkptr, data: &[u8]) -> Blkptr {
        let room = usize::try_from(bp.dva(0).asize.get()).expect("small");
        let (kind, mut packed) = packed(bp.compression().expect("checked"), data, room);
        packed.resize(packed.len().next_multiple_of(SECTOR), 0);
        let checksum = bp.checksum_kind().expect("checked");
        let sum = codec::checksum_of(ByteOrder::Big, checksum, &packed, None).expect("needs no salt");
        for dva in bp.dvas() {
            let at = dva.offset.on_leaf().expect("within the device").get();
            self.file.write_all_at(&packed, at).expect("the copy is ours");
        }
        let mut bytes: [u8; BLKPTR_BYTES] = bp.as_bytes().try_into().expect("as long as one");
        let sectors = u16::try_from(packed.len() / SECTOR - 1).expect("small");
        bytes[50..52].copy_from_slice(&sectors.to_le_bytes());
        bytes[52] = bytes[52] & 0x80 | kind.raw();
        // The writer's byte order is the highest bit.
        bytes[55] &= 0x7f;
        Blkptr::decode(&bytes).expect("as long as one").with_checksum(sum)
    }

    /// Labels as they were but for the byte order, with one uberblock.
    fn labels(&self, uberblock: &[u8]) {
        let leaf = self.file.metadata().expect("an image").len();
        let ashift = Ashift::new(9);
        let slot_bytes = usize::try_from(label::uberblock_slot_bytes(ashift)).expect("small");
        for index in 0..label::LABELS {
            let start = label::label_offset(leaf, index).expect("the image holds labels").get();
            for (offset, bytes) in [(BOOT_ENV_OFFSET, BOOT_ENV_BYTES), (CONFIG_OFFSET, CONFIG_BYTES)] {
                let part = read_at(&self.file, start + offset, bytes);
                if eck_holds(&part, [start + offset, 0, 0, 0]) {
                    self.seal(start + offset, part);
                }
            }
            for slot in 0..label::uberblock_slots(ashift) {
                let at = start + label::uberblock_slot_offset(ashift, slot);
                let mut part = vec![0; slot_bytes];
                self.file.write_all_at(&part, at).expect("the copy is ours");
                if slot == 0 {
                    part[..uberblock.len()].copy_from_slice(uberblock);
                    part.as_chunks_mut::<8>().0.iter_mut().for_each(|word| word.reverse());
                    self.seal(at, part);
                }
            }
        }
    }

    fn seal(&self, at: u64, mut part: Vec<u8>) {
        ZioEck::seeded([at, 0, 0, 0]).put_in(ByteOrder::Big, &mut part);
        let sum = codec::checksum(ChecksumKind::Label, &part, None).expect("always there");
        ZioEck::seeded(sum).put_in(ByteOrder::Big, &mut part);
        self.file.write_all_at(&part, at).expect("the copy is ours");
    }
}

/// The bytes to store, in `room`.
fn packed(kind: CompressionKind, data: &[u8], room: usize) -> (CompressionKind, Vec<u8>) {
    if kind == CompressionKind::Off || data.len() <= SECTOR {
        return (CompressionKind::Off, data.to_vec());
    }
    let tries = [kind, CompressionKind::Gzip9];
    let packed = tries.into_iter().find_map(|kind| Some((kind, codec::compress(kind, data, room)?)));
    packed
        .or_else(|| (data.len() <= room).then(|| (CompressionKind::Off, data.to_vec())))
        .expect("it fits somehow")
}
