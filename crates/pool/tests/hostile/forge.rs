//! The blocks of a pool on one disk, and how one of them is replaced so that nobody can tell.

use ondisk::dnode::dnodes_of_block;
use ondisk::label::{
    LABELS, UBERBLOCK_RING_BYTES, UBERBLOCK_RING_OFFSET, ZioEck, label_offset, label_verifier,
};
use ondisk::{Blkptr, ByteOrder, ChecksumKind, CompressionKind, ObjectType, UberblockPhys};
use sim::CrashImage;
use units::LeafOffset;

const BLKPTR_BYTES: usize = 128;
/// Of the checksum in a blkptr.
const CHECKSUM_AT: usize = 96;
/// Of the root's blkptr in an uberblock.
const ROOT_AT: usize = 40;
const DNODE_BYTES: usize = 512;
const DNODE_CORE_BYTES: usize = 64;
/// Of the objset's blkptr in the bonus of a dataset.
const DATASET_BP_AT: usize = 128;
/// The dnodes that an objset holds itself, as far as its block goes.
const OBJSET_DNODES_AT: [usize; 4] = [0, 1024, 1536, 2048];
const SPILL_FLAG: u8 = 4;
/// Blocks of data that are taken along, of each file.
const DATA_BLOCKS_MAX: usize = 2;

/// A block, unpacked.
pub struct Block {
    /// The block that points here, and where in it; the uberblock has none.
    parent: Option<(usize, usize)>,
    bp: Blkptr,
    pub data: Vec<u8>,
}

impl Block {
    pub fn kind(&self) -> (ObjectType, u8) {
        (self.bp.object_type(), self.bp.level().get())
    }
}

/// Bytes to be put on the disk.
pub type Patches = Vec<(u64, Vec<u8>)>;

/// All blocks that can be reached; the first is the uberblock.
pub struct Forge {
    pub blocks: Vec<Block>,
    /// Where the newest uberblock is, in each label.
    slots: Vec<(u64, usize)>,
}

impl Forge {
    pub fn new(image: &CrashImage, path: &str, disk_bytes: u64) -> Self {
        let peek = |at, len| image.peek(path, at, len);
        let (slots, slot) = newest(&peek, disk_bytes);
        let root = Block { parent: None, bp: Blkptr::HOLE, data: slot };
        let mut forge = Self { blocks: vec![root], slots };
        forge.dig(&peek, (0, ROOT_AT));
        forge
    }

    /// Takes along the block whose blkptr is there, and all below it.
    fn dig(&mut self, peek: &impl Fn(u64, usize) -> Vec<u8>, place: (usize, usize)) {
        let mut todo = vec![place];
        while let Some(place) = todo.pop() {
            if let Some(block) = self.read(peek, place) {
                let children = children(&block);
                let number = self.blocks.len();
                self.blocks.push(block);
                todo.extend(children.into_iter().map(|at| (number, at)));
            }
        }
    }

    fn read(&self, peek: &impl Fn(u64, usize) -> Vec<u8>, place: (usize, usize)) -> Option<Block> {
        let (parent, at) = place;
        let bp = Blkptr::decode(self.blocks[parent].data.get(at..at + BLKPTR_BYTES)?).ok()?;
        if bp.is_hole() || bp.is_embedded() || bp.is_gang() || bp.is_encrypted() || bp.dva(0).vdev.get() != 0
        {
            return None;
        }
        let stored = peek(bp.dva(0).offset.on_leaf()?.get(), bp.psize().get() as usize);
        let kind = bp.checksum_kind().ok()?;
        let sum = codec::checksum_of(ByteOrder::Little, kind, &stored, None).ok()?;
        let data = codec::decompress(bp.compression().ok()?, &stored, bp.lsize().get() as usize).ok()?;
        (sum == bp.checksum()).then_some(Block { parent: Some(place), bp, data })
    }

    /// What is to be written so that the block holds `data`; nothing when that does not fit its place.
    pub fn seal(&self, block: usize, data: Vec<u8>) -> Option<Patches> {
        let mut patches = Patches::new();
        let (mut at, mut data) = (block, data);
        while let Some((parent, place)) = self.blocks[at].parent {
            let bp = &self.blocks[at].bp;
            let stored = pack(bp, &data)?;
            let sum = codec::checksum_of(ByteOrder::Little, bp.checksum_kind().ok()?, &stored, None).ok()?;
            for dva in bp.dvas() {
                patches.push((dva.offset.on_leaf()?.get(), stored.clone()));
            }
            let mut above = self.blocks[parent].data.clone();
            for (n, word) in sum.iter().enumerate() {
                let from = place + CHECKSUM_AT + 8 * n;
                above[from..from + 8].copy_from_slice(&word.to_le_bytes());
            }
            (at, data) = (parent, above);
        }
        patches.extend(self.slots.iter().map(|&(at, _)| (at, sealed_slot(data.clone(), at))));
        Some(patches)
    }
}

fn pack(bp: &Blkptr, data: &[u8]) -> Option<Vec<u8>> {
    let psize = bp.psize().get() as usize;
    let mut stored = match bp.compression().ok()? {
        CompressionKind::Off => data.to_vec(),
        kind => codec::compress(kind, data, psize)?,
    };
    stored.resize(psize, 0);
    Some(stored)
}

/// Places of blkptrs in a block.
fn children(block: &Block) -> Vec<usize> {
    let (kind, level) = block.kind();
    if level > 0 {
        let all = (0..block.data.len()).step_by(BLKPTR_BYTES);
        let most = if is_data(kind) { DATA_BLOCKS_MAX } else { usize::MAX };
        return all.take(most).collect();
    }
    if kind == ObjectType::OBJSET {
        let dnodes = OBJSET_DNODES_AT.iter().filter(|&&at| at + DNODE_BYTES <= block.data.len());
        return dnodes.flat_map(|&at| of_dnode(at, &block.data[at..at + DNODE_BYTES])).collect();
    }
    if kind == ObjectType::DNODE {
        return dnodes_of_block(&block.data)
            .flat_map(|(slot, dnode)| of_dnode(slot * DNODE_BYTES, dnode))
            .collect();
    }
    Vec::new()
}

fn is_data(kind: ObjectType) -> bool {
    kind == ObjectType::PLAIN_FILE_CONTENTS || kind == ObjectType::ZVOL
}

fn of_dnode(at: usize, dnode: &[u8]) -> Vec<usize> {
    let count = usize::from(dnode[3]).min(3);
    let mut places: Vec<usize> = (0..count).map(|n| at + DNODE_CORE_BYTES + n * BLKPTR_BYTES).collect();
    if dnode[7] & SPILL_FLAG != 0 {
        places.push(at + dnode.len() - BLKPTR_BYTES);
    }
    let bonus_at = DNODE_CORE_BYTES + count * BLKPTR_BYTES;
    if dnode[4] == ObjectType::DSL_DATASET.raw() && bonus_at + DATASET_BP_AT + BLKPTR_BYTES <= dnode.len() {
        places.push(at + bonus_at + DATASET_BP_AT);
    }
    places
}

/// The places of the newest uberblock, and its slot.
fn newest(peek: &impl Fn(u64, usize) -> Vec<u8>, disk_bytes: u64) -> (Vec<(u64, usize)>, Vec<u8>) {
    let mut found: Vec<(u64, u64, Vec<u8>)> = Vec::new();
    for label in 0..LABELS {
        let start = label_offset(disk_bytes, label).expect("there is room").get() + UBERBLOCK_RING_OFFSET;
        for at in (start..start + UBERBLOCK_RING_BYTES).step_by(1024) {
            let slots = [1024, 2048, 4096, 8192].map(|len| peek(at, len));
            let sound = slots.into_iter().find(|slot| sealed_slot(slot.clone(), at) == *slot);
            if let Some((slot, uberblock)) =
                sound.and_then(|slot| UberblockPhys::decode(&slot).ok().map(|ub| (slot, ub)))
            {
                found.push((uberblock.txg().get(), at, slot));
            }
        }
    }
    let txg = found.iter().map(|(txg, ..)| *txg).max().expect("a pool has uberblocks");
    found.retain(|(of, ..)| *of == txg);
    let slots = found.iter().map(|(_, at, slot)| (*at, slot.len())).collect();
    (slots, found.swap_remove(0).2)
}

fn sealed_slot(mut slot: Vec<u8>, at: u64) -> Vec<u8> {
    ZioEck::seeded(label_verifier(LeafOffset::new(at))).put(&mut slot);
    let sum = codec::checksum_of(ByteOrder::Little, ChecksumKind::Label, &slot, None);
    ZioEck::seeded(sum.expect("known")).put(&mut slot);
    slot
}
