//! What an objset has that an earlier one had not, in the order of a stream.
//!
//! ```text
//!  root ─► meta-dnode ─► blocks of dnodes ─► each dnode ─► its pointers ─► blocks of data, holes
//!            holes: numbers without objects   each free slot, too          then its spill block
//! ```
//! Only what is younger than the origin is gone into. A hole is new, too, if its pointer says when it was
//! made and that is later; one that does not say may be of an object that another had the number of before, so it
//! always counts. Of a block of dnodes that is new all objects are told: their dnodes do not say how old they are.
//!
//! Where the walk is stands in a stack of pointers still to be looked at, as deep as trees are high: its memory does
//! not depend on the objset's size.
//!
//! Invariants
//! - Levels strictly fall on the way down: a pointer cycle in a hostile image ends.
//! - Accounting objects are not seen: the receiver accounts for itself.

use std::sync::Arc;

use env::{IoBuf, boxed};
use ondisk::dnode::{DNODE_SLOT_BYTES, DNODES_PER_BLOCK, DnodeImage, DnodePhys};
use ondisk::objset::ObjsetPhys;
use ondisk::send::BLOCK_PAYLOAD_MAX_BYTES;
use ondisk::{BLKPTR_BYTES, BLKPTR_SHIFT, Blkptr, ObjectType, OndiskError};
use units::{BlockId, Level, ObjectId, ObjsetId, Txg};
use zio::{Ahead, Bookmark, Keep, Zio};

use crate::SendError;

/// The number that a spill block goes by.
const SPILL_BLOCK: BlockId = BlockId::new(u64::MAX);
/// Pointers looked at ahead of the walk, to have blocks read that lead to others.
const LOOK_AHEAD: usize = 8;

/// What the walk finds.
#[derive(Debug)]
pub(crate) enum Found {
    /// An object, new or not.
    Object {
        object: ObjectId,
        image: Box<DnodeImage>,
    },
    /// Numbers without objects.
    Free {
        first: u64,
        objects: u64,
    },
    Data(FoundBlock),
    Hole {
        object: ObjectId,
        block_bytes: u64,
        first_block: u64,
        /// `None`: to the end of all numbers.
        end_block: Option<u64>,
    },
    /// Blocks that are left out on purpose: the first, and the one behind the last.
    Redacted {
        object: ObjectId,
        block_bytes: u64,
        first_block: u64,
        end_block: u64,
    },
    Spill {
        block: FoundBlock,
        /// It is as the origin has it.
        is_old: bool,
    },
}

/// A block that is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundBlock {
    /// Of the object, not of the block.
    pub object_type: ObjectType,
    pub bookmark: Bookmark,
    pub bp: Blkptr,
}

/// Where a walk begins: what comes before is passed over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct From {
    pub object: u64,
    /// In bytes.
    pub offset: u64,
}

/// An object's tree.
#[derive(Clone, Copy, Debug)]
struct Tree {
    object: ObjectId,
    object_type: ObjectType,
    block_bytes: u64,
    max_block: u64,
    fan_shift: u32,
}

impl Tree {
    fn of(object: ObjectId, image: &DnodeImage) -> Self {
        Self {
            object,
            object_type: image.object_type,
            block_bytes: image.data_block_bytes(),
            max_block: image.max_block_id.get(),
            fan_shift: u32::from(image.indirect_shift).saturating_sub(BLKPTR_SHIFT),
        }
    }

    fn is_of_dnodes(&self) -> bool {
        self.object == ObjectId::META_DNODE
    }

    /// Data blocks below block `index` of `level`: the first, and the one behind the last; `None` beyond all
    /// numbers.
    fn covered(&self, level: u8, index: u64) -> (Option<u64>, Option<u64>) {
        let span = 1_u64.checked_shl(self.fan_shift * u32::from(level));
        let start = span.and_then(|span| span.checked_mul(index));
        let end = span.zip(start).and_then(|(span, start)| start.checked_add(span));
        (start, end)
    }
}

/// Things still to be looked at.
#[derive(Debug)]
enum Frame {
    /// Pointers to blocks `first` and on of `level`, from `next` on.
    Pointers {
        tree: Tree,
        level: u8,
        first: u64,
        pointers: Pointers,
        next: usize,
    },
    /// A block of dnodes that begins with object `first`, from `slot` on.
    Dnodes {
        block: Arc<IoBuf>,
        first: u64,
        slot: usize,
    },
    Spill(FoundBlock),
    /// The same, as the origin has it.
    OldSpill(FoundBlock),
}

#[derive(Clone, Debug)]
enum Pointers {
    InDnode(Vec<Blkptr>),
    InBlock(Arc<IoBuf>),
}

impl Pointers {
    fn len(&self) -> usize {
        match self {
            Self::InDnode(pointers) => pointers.len(),
            Self::InBlock(block) => block.len() / BLKPTR_BYTES,
        }
    }

    fn get(&self, at: usize) -> Option<Blkptr> {
        match self {
            Self::InDnode(pointers) => pointers.get(at).copied(),
            Self::InBlock(block) => Blkptr::decode(block.get(at * BLKPTR_BYTES..)?).ok(),
        }
    }
}

/// See the module.
pub(crate) struct Walk {
    zio: Arc<Zio>,
    objset: ObjsetId,
    born_after: Txg,
    from: From,
    /// Holes behind the ends of files are told of, too.
    beyond_ends: bool,
    stack: Vec<Frame>,
}

impl Walk {
    /// Begins a walk of the objset under `root`; gives the meta-dnode's highest block, too.
    #[boxed]
    pub async fn begin(
        zio: Arc<Zio>,
        objset: ObjsetId,
        root: &Blkptr,
        born_after: Txg,
        from: From,
    ) -> Result<(Self, u64), SendError> {
        let mut walk = Self { zio, objset, born_after, from, beyond_ends: false, stack: Vec::new() };
        if root.is_hole() {
            return Ok((walk, 0));
        }
        let bookmark = walk.bookmark(ObjectId::META_DNODE, 0, 0);
        let block = walk.read(root, &bookmark).await?;
        let damaged = |source| SendError::Damaged { objset, object: ObjectId::META_DNODE, source };
        let phys = ObjsetPhys::decode(&block).map_err(damaged)?;
        let image = ObjsetPhys::dnode(&phys.meta_dnode).map_err(damaged)?;
        let image = image.ok_or_else(|| damaged(missing("meta-dnode")))?;
        if root.birth() > born_after {
            walk.push_pointers(Tree::of(ObjectId::META_DNODE, &image), &image);
        }
        Ok((walk, image.max_block_id.get()))
    }

    /// The same with holes behind the ends of files, for which a stream has no word.
    pub fn with_holes_beyond_ends(mut self) -> Self {
        self.beyond_ends = true;
        self
    }

    /// What comes next; `None` at the end.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Found>, SendError> {
        while let Some(frame) = self.stack.pop() {
            let found = match frame {
                Frame::Spill(block) => Some(Found::Spill { block, is_old: false }),
                Frame::OldSpill(block) => Some(Found::Spill { block, is_old: true }),
                Frame::Dnodes { block, first, slot } => self.dnode(block, first, slot)?,
                Frame::Pointers { tree, level, first, pointers, next } => {
                    let Some(bp) = pointers.get(next) else { continue };
                    let index = first.saturating_add(next as u64);
                    let rest = Frame::Pointers { tree, level, first, pointers, next: next + 1 };
                    self.stack.push(rest);
                    self.pointer(&tree, level, index, &bp).await?
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn bookmark(&self, object: ObjectId, level: u8, index: u64) -> Bookmark {
        Bookmark::new(self.objset, object, Level::new(level), BlockId::new(index))
    }

    async fn read(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<Arc<IoBuf>, SendError> {
        let read = self.zio.read_as(bp, bookmark, Keep::InMemory).await;
        read.map_err(|source| SendError::Block { bookmark: *bookmark, source: Box::new(source) })
    }

    fn damaged(&self, object: ObjectId, source: OndiskError) -> SendError {
        SendError::Damaged { objset: self.objset, object, source }
    }

    /// Looks at the object in a slot, and goes on with what is behind it.
    fn dnode(&mut self, block: Arc<IoBuf>, first: u64, slot: usize) -> Result<Option<Found>, SendError> {
        let number = first + slot as u64;
        let object = ObjectId::new(number);
        let Some(bytes) = block.get(slot * DNODE_SLOT_BYTES..).filter(|bytes| !bytes.is_empty()) else {
            return Ok(None);
        };
        let header = DnodePhys::read(bytes).map_err(|source| self.damaged(object, source))?;
        let image = if header.is_allocated() && object != ObjectId::META_DNODE {
            Some(DnodeImage::decode(bytes).map_err(|source| self.damaged(object, source))?)
        } else {
            None
        };
        let slots = image.as_ref().map_or(1, DnodeImage::slots);
        self.stack.push(Frame::Dnodes { block, first, slot: slot + slots });
        if object == ObjectId::META_DNODE || number < self.from.object {
            return Ok(None);
        }
        let Some(image) = image else { return Ok(Some(Found::Free { first: number, objects: 1 })) };
        if let Some(spill) = image.spill.filter(|bp| bp.lsize().get() > BLOCK_PAYLOAD_MAX_BYTES) {
            return Err(self.damaged(object, bad_size("spill block", spill.lsize().get())));
        }
        self.push_object(object, &image);
        Ok(Some(Found::Object { object, image: Box::new(image) }))
    }

    /// What is below an object, to be looked at in this order: a spill block that the origin has, the
    /// object's blocks, a spill block that is new.
    fn push_object(&mut self, object: ObjectId, image: &DnodeImage) {
        let tree = Tree::of(object, image);
        let spill = image.spill.filter(|bp| !bp.is_hole()).map(|bp| FoundBlock {
            object_type: image.object_type,
            bookmark: Bookmark { block: SPILL_BLOCK, ..self.bookmark(object, 0, 0) },
            bp,
        });
        let (old, new): (Vec<_>, Vec<_>) =
            spill.into_iter().partition(|spill| spill.bp.birth() <= self.born_after);
        self.stack.extend(new.into_iter().map(Frame::Spill));
        self.push_pointers(tree, image);
        self.stack.extend(old.into_iter().map(Frame::OldSpill));
    }

    fn push_pointers(&mut self, tree: Tree, image: &DnodeImage) {
        let pointers = Pointers::InDnode(image.blkptrs.clone());
        self.push(Frame::Pointers { tree, level: image.levels - 1, first: 0, pointers, next: 0 });
    }

    fn push(&mut self, frame: Frame) {
        if let Frame::Pointers { tree, level, first, pointers, .. } = &frame {
            (0..pointers.len().min(LOOK_AHEAD))
                .for_each(|at| self.look_ahead(tree, *level, *first, pointers, at));
        }
        self.stack.push(frame);
    }

    /// Has a block read that leads to others, while others are still looked at.
    fn look_ahead(&self, tree: &Tree, level: u8, first: u64, pointers: &Pointers, at: usize) {
        let Some(bp) = pointers.get(at).filter(|bp| self.is_due(bp) && !bp.is_hole()) else { return };
        if level == 0 && !tree.is_of_dnodes() {
            return;
        }
        let (zio, bookmark) =
            (Arc::clone(&self.zio), self.bookmark(tree.object, level, first.saturating_add(at as u64)));
        let reading = async move { zio.read_ahead(&bp, &bookmark, Keep::InMemory, Ahead::Planned).await };
        self.zio.vdevs().env().spawn("send", Box::pin(reading));
    }

    fn is_due(&self, bp: &Blkptr) -> bool {
        bp.birth() > self.born_after || (bp.is_hole() && bp.birth() == Txg::ZERO)
    }

    /// Whether all that is below comes before the place where the walk begins.
    fn is_passed(&self, tree: &Tree, end_block: Option<u64>) -> bool {
        let Some(end) = end_block else { return false };
        if tree.is_of_dnodes() {
            return end.saturating_mul(DNODES_PER_BLOCK as u64) <= self.from.object;
        }
        tree.object.get() == self.from.object && end.saturating_mul(tree.block_bytes) <= self.from.offset
    }

    async fn pointer(
        &mut self,
        tree: &Tree,
        level: u8,
        index: u64,
        bp: &Blkptr,
    ) -> Result<Option<Found>, SendError> {
        if let Some(Frame::Pointers { level, first, pointers, next, .. }) = self.stack.last() {
            self.look_ahead(tree, *level, *first, pointers, *next + LOOK_AHEAD - 1);
        }
        let (start, end) = tree.covered(level, index);
        if !self.is_due(bp) || self.is_passed(tree, end) {
            return Ok(None);
        }
        if bp.is_hole() {
            return Ok(start.and_then(|start| hole(tree, start, end, self.beyond_ends)));
        }
        let bookmark = self.bookmark(tree.object, level, index);
        if level == 0 && index > tree.max_block {
            let source = OndiskError::BadValue { what: "block", field: "number", value: index };
            return Err(self.damaged(tree.object, source));
        }
        if level == 0 && !tree.is_of_dnodes() {
            return self.data(tree, bookmark, bp).map(Some);
        }
        let block = self.read(bp, &bookmark).await?;
        if level == 0 {
            let first = index.saturating_mul(DNODES_PER_BLOCK as u64);
            self.stack.push(Frame::Dnodes { block, first, slot: 0 });
            return Ok(None);
        }
        let fan_out = 1_usize << tree.fan_shift;
        if block.len() != fan_out * BLKPTR_BYTES {
            return Err(self.damaged(tree.object, bad_size("indirect block", block.len() as u64)));
        }
        let first = index.saturating_mul(fan_out as u64);
        let pointers = Pointers::InBlock(block);
        self.push(Frame::Pointers { tree: *tree, level: level - 1, first, pointers, next: 0 });
        Ok(None)
    }

    fn data(&self, tree: &Tree, bookmark: Bookmark, bp: &Blkptr) -> Result<Found, SendError> {
        if bp.is_embedded() && bp.embedded_type() != ondisk::blkptr::embedded::TYPE_DATA {
            let what = "blocks that were left out of a redacted send";
            return Err(SendError::Unsupported { objset: self.objset, what });
        }
        if bookmark.block.get() > tree.max_block {
            let source =
                OndiskError::BadValue { what: "block", field: "number", value: bookmark.block.get() };
            return Err(self.damaged(tree.object, source));
        }
        if bp.lsize().get() != tree.block_bytes {
            return Err(self.damaged(tree.object, bad_size("block", bp.lsize().get())));
        }
        Ok(Found::Data(FoundBlock { object_type: tree.object_type, bookmark, bp: *bp }))
    }
}

/// A hole, unless it is one that a stream has no word for: behind the end of a file there is nothing to free.
fn hole(tree: &Tree, start: u64, end: Option<u64>, beyond_ends: bool) -> Option<Found> {
    if tree.is_of_dnodes() {
        let of_block = DNODES_PER_BLOCK as u64;
        let first = start.saturating_mul(of_block);
        let objects = end.unwrap_or(u64::MAX).saturating_mul(of_block).saturating_sub(first);
        return Some(Found::Free { first, objects });
    }
    let is_behind = !beyond_ends && start > tree.max_block && !tree.object_type.is_metadata();
    let (object, block_bytes) = (tree.object, tree.block_bytes);
    (!is_behind).then_some(Found::Hole { object, block_bytes, first_block: start, end_block: end })
}

fn missing(name: &str) -> OndiskError {
    OndiskError::Missing { what: "objset", name: name.to_owned() }
}

fn bad_size(what: &'static str, bytes: u64) -> OndiskError {
    OndiskError::BadValue { what, field: "size", value: bytes }
}
