//! The blocks of a pool, and how one of them is replaced so that nobody can tell.

use ondisk::dnode::dnodes_of_block;
use ondisk::gang::{GANG_BLKPTRS, GANG_HEADER_BYTES, gang_verifier};
use ondisk::zil::ZIL_CHAIN_BYTES;
use ondisk::{Blkptr, ByteOrder, ChecksumKind, CompressionKind, ObjectType};

use crate::disks::Disks;
use crate::own::{self, Own};

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
/// Of the log's first blkptr in an objset.
const LOG_AT: usize = 512 + 16;
/// Of the next block's blkptr in the chain structure of a log block.
const NEXT_AT: usize = 8;
const SPILL_FLAG: u8 = 4;
/// Blocks of data that are taken along, of each file.
const DATA_BLOCKS_MAX: usize = 2;

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Uberblock,
    Label,
    GangHeader,
    Log,
    /// Of an object of that type, so far above its data.
    Of(u8, u8),
}

impl Kind {
    pub fn is_of_dnodes(self) -> bool {
        self == Self::Of(ObjectType::DNODE.raw(), 0)
    }
}

/// Where a block's checksum stands.
enum Seal {
    /// In another block, in the blkptr there.
    Above { block: usize, at: usize },
    /// In the block itself, at each of its places.
    Own(Vec<Own>),
}

/// A block, unpacked.
pub struct Block {
    seal: Seal,
    bp: Blkptr,
    pub kind: Kind,
    pub data: Vec<u8>,
}

impl Block {
    fn own(kind: Kind, (places, data): (Vec<Own>, Vec<u8>)) -> Self {
        Self { seal: Seal::Own(places), bp: Blkptr::HOLE, kind, data }
    }
}

/// Bytes to be put on disks.
pub type Patches = Vec<(usize, u64, Vec<u8>)>;

/// All blocks that can be reached; the first is the uberblock.
pub struct Forge<'a> {
    pub blocks: Vec<Block>,
    disks: Disks<'a>,
}

impl<'a> Forge<'a> {
    pub fn new(disks: Disks<'a>) -> Self {
        let root = Block::own(Kind::Uberblock, own::newest_uberblock(&disks));
        let labels = disks.numbers().map(|disk| Block::own(Kind::Label, own::label_config(&disks, disk)));
        let blocks = [root].into_iter().chain(labels).collect();
        let mut forge = Self { blocks, disks };
        forge.dig((0, ROOT_AT));
        forge
    }

    /// Takes along the block whose blkptr is there, and all below it.
    fn dig(&mut self, place: (usize, usize)) {
        let mut todo = vec![place];
        while let Some(place) = todo.pop() {
            if let Some(block) = self.read(place) {
                let children = children(&block);
                let number = self.blocks.len();
                self.blocks.push(block);
                todo.extend(children.into_iter().map(|at| (number, at)));
            }
        }
    }

    fn read(&self, (block, at): (usize, usize)) -> Option<Block> {
        let bp = Blkptr::decode(self.blocks[block].data.get(at..at + BLKPTR_BYTES)?).ok()?;
        if bp.is_hole() || bp.is_embedded() || bp.is_encrypted() {
            return None;
        }
        let (places, sum) = (self.disks.places(&bp)?, bp.checksum_kind().ok()?);
        let own = |seed, sum, len| {
            let places = places.iter().map(|&(disk, at)| Own { disk, at, seed, sum });
            own::sound(&self.disks, places.collect(), len)
        };
        if bp.is_gang() {
            let header = own(gang_verifier(&bp), ChecksumKind::GangHeader, GANG_HEADER_BYTES)?;
            return Some(Block::own(Kind::GangHeader, header));
        }
        if self.blocks[block].kind == Kind::GangHeader {
            // A piece of a block: the checksum of the whole, above the header, would tell.
            return None;
        }
        let psize = bp.psize().get() as usize;
        if let ChecksumKind::Zilog | ChecksumKind::Zilog2 = sum {
            return Some(Block { bp, ..Block::own(Kind::Log, own(bp.checksum(), sum, psize)?) });
        }
        let stored = self.disks.peek(places[0].0, places[0].1, psize);
        let found = codec::checksum_of(ByteOrder::Little, sum, &stored, None).ok()?;
        let data = codec::decompress(bp.compression().ok()?, &stored, bp.lsize().get() as usize).ok()?;
        let kind = Kind::Of(bp.object_type().raw(), bp.level().get());
        (found == bp.checksum()).then_some(Block { seal: Seal::Above { block, at }, bp, kind, data })
    }

    /// What is to be written so that the block holds `data`; nothing when that does not fit its place.
    pub fn seal(&self, block: usize, data: Vec<u8>) -> Option<Patches> {
        let mut patches = Patches::new();
        let (mut now, mut data) = (block, data);
        loop {
            let (parent, place) = match &self.blocks[now].seal {
                Seal::Above { block, at } => (*block, *at),
                Seal::Own(places) => {
                    for own in places {
                        patches.push((own.disk, own.at, own.sealed(data.clone())?));
                    }
                    return Some(patches);
                }
            };
            let bp = &self.blocks[now].bp;
            let stored = pack(bp, &data)?;
            let sum = codec::checksum_of(ByteOrder::Little, bp.checksum_kind().ok()?, &stored, None).ok()?;
            patches.extend(self.disks.places(bp)?.into_iter().map(|(disk, at)| (disk, at, stored.clone())));
            let mut above = self.blocks[parent].data.clone();
            for (n, word) in sum.iter().enumerate() {
                let from = place + CHECKSUM_AT + 8 * n;
                above[from..from + 8].copy_from_slice(&word.to_le_bytes());
            }
            (now, data) = (parent, above);
        }
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
    let (kind, level) = match block.kind {
        Kind::Log if block.bp.checksum_kind().is_ok_and(|sum| sum == ChecksumKind::Zilog2) => {
            return vec![NEXT_AT];
        }
        Kind::Log => return vec![block.data.len() - ZIL_CHAIN_BYTES + NEXT_AT],
        Kind::Of(..) => (block.bp.object_type(), block.bp.level().get()),
        Kind::GangHeader => return (0..GANG_BLKPTRS).map(|n| n * BLKPTR_BYTES).collect(),
        Kind::Uberblock | Kind::Label => return Vec::new(),
    };
    if level > 0 {
        let all = (0..block.data.len()).step_by(BLKPTR_BYTES);
        let most = if is_data(kind) { DATA_BLOCKS_MAX } else { usize::MAX };
        return all.take(most).collect();
    }
    if kind == ObjectType::OBJSET {
        let dnodes = OBJSET_DNODES_AT.iter().filter(|&&at| at + DNODE_BYTES <= block.data.len());
        let below = dnodes.flat_map(|&at| of_dnode(at, &block.data[at..at + DNODE_BYTES]));
        return below.chain([LOG_AT]).collect();
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
