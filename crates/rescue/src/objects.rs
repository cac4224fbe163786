//! The objects of an objset, read in spite of damage.

use std::ops::Range;

use ondisk::dnode::{DNODE_BLOCK_BYTES, DNODES_PER_BLOCK, dnodes_of_block};
use ondisk::{Blkptr, DnodeImage, ObjectType, ObjsetPhys, ObjsetType};
use units::{ObjectId, ObjsetId};
use zio::Zio;

use crate::tree::{BlockTree, TreeRun, chain};

/// The number of dnode slots in a block.
const SLOTS_PER_BLOCK: u64 = DNODES_PER_BLOCK as u64;

/// The state of one object number.
#[derive(Clone, Debug)]
pub enum ObjectSlot {
    /// An object.
    Found(Box<DnodeImage>),
    /// No object.
    Free,
    /// The dnode of the object cannot be read.
    Lost(String),
}

/// One block of dnodes, or a range of lost object numbers.
#[derive(Debug)]
pub enum TablePart {
    /// The objects of the block, without invalid dnodes.
    Objects(Vec<(u64, DnodeImage)>),
    /// Object numbers whose dnodes cannot be read.
    Lost(Range<u64>),
}

/// The objects of one objset.
pub struct ObjectTable<'a> {
    zio: &'a Zio,
    id: ObjsetId,
    meta: DnodeImage,
    kind: ObjsetType,
}

impl<'a> ObjectTable<'a> {
    /// Opens the objset under `root`.
    ///
    /// # Errors
    /// The reason why its root cannot be read.
    pub async fn open(zio: &'a Zio, id: ObjsetId, root: &Blkptr) -> Result<Self, String> {
        if root.is_hole() {
            return Err("an objset without a root".into());
        }
        let meta = DnodeImage::new(ObjectType::DNODE, 1, 1);
        let name = BlockTree::new(zio, id, ObjectId::META_DNODE, &meta).bookmark(0, 0);
        let block = zio.read(root, &name).await.map_err(|error| chain(&error))?;
        Self::of_block(zio, id, &block)
    }

    fn of_block(zio: &'a Zio, id: ObjsetId, block: &[u8]) -> Result<Self, String> {
        let phys = ObjsetPhys::decode(block).map_err(|error| error.to_string())?;
        let meta = ObjsetPhys::dnode(&phys.meta_dnode).map_err(|error| error.to_string())?;
        let is_table = |meta: &DnodeImage| {
            meta.object_type == ObjectType::DNODE && meta.data_block_bytes() == DNODE_BLOCK_BYTES as u64
        };
        let meta = meta.filter(is_table).ok_or("an objset without a meta-dnode")?;
        let kind = phys.kind().map_err(|error| error.to_string())?;
        Ok(Self { zio, id, meta, kind })
    }

    /// Returns the type of the objset.
    #[must_use]
    pub fn kind(&self) -> ObjsetType {
        self.kind
    }

    /// Returns the block tree of one of its objects.
    #[must_use]
    pub fn tree<'b>(&self, object: u64, image: &'b DnodeImage) -> BlockTree<'b>
    where
        'a: 'b,
    {
        BlockTree::new(self.zio, self.id, ObjectId::new(object), image)
    }

    fn meta_tree(&self) -> BlockTree<'_> {
        BlockTree::new(self.zio, self.id, ObjectId::META_DNODE, &self.meta)
    }

    /// Returns the object with this number.
    pub async fn get(&self, object: u64) -> ObjectSlot {
        let (block, slot) = (object / SLOTS_PER_BLOCK, object % SLOTS_PER_BLOCK);
        let tree = self.meta_tree();
        let bp = match tree.run_at(block).await {
            None | Some(TreeRun::Hole { .. }) => return ObjectSlot::Free,
            Some(TreeRun::Lost { why, .. }) => return ObjectSlot::Lost(why),
            Some(TreeRun::Data(bp)) => bp,
        };
        let bytes = match tree.read(block, &bp).await {
            Ok(bytes) => bytes,
            Err(why) => return ObjectSlot::Lost(why),
        };
        let Some((_, dnode)) = dnodes_of_block(&bytes).find(|(first, _)| *first as u64 == slot) else {
            return ObjectSlot::Free;
        };
        match DnodeImage::decode(dnode) {
            Ok(image) => ObjectSlot::Found(Box::new(image)),
            Err(error) => ObjectSlot::Lost(error.to_string()),
        }
    }

    /// Returns the objects from a block of dnodes on, and the block to continue with. `None` at the
    /// end.
    pub async fn part_at(&self, block: u64) -> Option<(TablePart, u64)> {
        let tree = self.meta_tree();
        let mut block = block;
        loop {
            match tree.run_at(block).await? {
                TreeRun::Hole { end } => block = end,
                TreeRun::Lost { end, .. } => return Some((TablePart::Lost(numbers(block..end)), end)),
                TreeRun::Data(bp) => {
                    let part = match tree.read(block, &bp).await {
                        Ok(bytes) => TablePart::Objects(decoded(block, &bytes)),
                        Err(_) => TablePart::Lost(numbers(block..block + 1)),
                    };
                    return Some((part, block + 1));
                }
            }
        }
    }
}

fn numbers(blocks: Range<u64>) -> Range<u64> {
    blocks.start.saturating_mul(SLOTS_PER_BLOCK)..blocks.end.saturating_mul(SLOTS_PER_BLOCK)
}

fn decoded(block: u64, bytes: &[u8]) -> Vec<(u64, DnodeImage)> {
    let first = block.saturating_mul(SLOTS_PER_BLOCK);
    let dnodes = dnodes_of_block(bytes);
    dnodes.filter_map(|(slot, bytes)| Some((first + slot as u64, DnodeImage::decode(bytes).ok()?))).collect()
}
