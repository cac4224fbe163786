//! Taking a destroyed objset apart: its blocks, each after those below it.
//!
//! ```text
//!  data, indirect blocks, spill of object 1 ─► … of object 31 ─► their block of dnodes ─► object 32 …
//!    ─► indirect blocks of dnodes as they are done ─► accounting objects ─► the root
//! ```
//! A block that leads to others goes after them, so what is left after a pause or a crash can still be
//! reached from the root. Where it goes on is said as OpenZFS does: the data block (or the block of
//! dnodes) that is next; all that comes before it in this order is gone.
//!
//! Invariants
//! - However often it pauses, every block is given once (test: `an_objset_is_taken_apart_in_any_steps`).
//! - Blocks that older snapshots have are passed over whole.
//! - Blocks below a damaged block are skipped. The damaged block itself and the rest of the objset
//!   are freed.
//!   (test: `a_damaged_block_costs_what_lies_below_it`)

use env::{BoxFuture, boxed, impatient};
use ondisk::Blkptr;
use ondisk::dnode::{DnodeImage, dnodes_of_block};
use ondisk::objset::{GROUPUSED_OBJECT, ObjsetPhys, PROJECTUSED_OBJECT, USERUSED_OBJECT};
use units::{ObjectId, ObjsetId, Txg};
use zio::{Keep, Zio};

use crate::dnode::shape_of;
use crate::objset::SLOTS_PER_BLOCK;
use crate::shape::Shape;
use crate::tree::{self, TreeName, pointer_at};
use crate::{DmuError, Objset, SyncRead};

/// Numbers of objects end here; accounting objects have higher ones.
const OBJECTS_END: u64 = 1 << 48;
/// The block number that a spill block goes by.
const SPILL: u64 = u64::MAX;

/// The data block that is next: object and block number. Object 0: a block of dnodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// The object.
    pub object: u64,
    /// The block in it.
    pub block: u64,
}

/// What is to be taken apart.
#[derive(Clone, Copy, Debug)]
pub struct DestroyedObjset {
    /// The objset's root.
    pub root: Blkptr,
    /// Blocks up to this age are others'.
    pub born_after: Txg,
    /// Where to go on; none: nothing was taken yet.
    pub from: Option<Remains>,
}

/// A step of the work.
#[derive(Debug, Default)]
pub struct Taken {
    /// Blocks that are the caller's to free, those that lie in their pointers too.
    pub blocks: Vec<Blkptr>,
    /// The number of objects that are finished, with or without blocks.
    pub objects: usize,
    /// Where to go on; none: that was all.
    pub next: Option<Remains>,
    /// The number of damaged blocks. The blocks below them cannot be returned.
    pub damaged: u64,
}

impl Taken {
    /// The amount of work, which includes the objects without blocks, because they must be read
    /// too.
    #[must_use]
    pub fn work(&self) -> usize {
        self.blocks.len() + self.objects
    }
}

/// A block's place in the order: object, last block below it, height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(u64, u64, u8);

impl Turn {
    fn of_dnodes(end_block: u64, level: u8) -> Self {
        Self(end_block.saturating_mul(SLOTS_PER_BLOCK).min(OBJECTS_END) - 1, SPILL, 1 + level)
    }

    fn of(remains: Remains) -> Self {
        match remains {
            Remains { object: 0, block } => Self::of_dnodes(block.saturating_add(1), 0),
            Remains { object, block } => Self(object, block, 0),
        }
    }
}

impl Objset {
    /// Returns the next blocks of a destroyed objset. Blocks and objects together number at least
    /// `limit`, unless fewer remain. A step ends before a data block or a block of dnodes, so it
    /// exceeds `limit` only by indirect blocks and by the objects of one block of dnodes.
    ///
    /// # Errors
    /// When a block that leads to others lies on a missing device.
    #[boxed]
    pub async fn take_apart(zio: &Zio, destroyed: &DestroyedObjset, limit: usize) -> Result<Taken, DmuError> {
        let from = destroyed.from.map_or(Turn(0, 0, 0), Turn::of);
        let mut work =
            Freeing { zio, born_after: destroyed.born_after, from, limit, taken: Taken::default() };
        work.objset(&destroyed.root).await?;
        Ok(work.taken)
    }
}

struct Freeing<'a> {
    zio: &'a Zio,
    born_after: Txg,
    from: Turn,
    limit: usize,
    taken: Taken,
}

#[derive(Clone, Copy)]
struct Tree {
    name: TreeName,
    shape: Shape,
}

impl Tree {
    fn is_of_dnodes(self) -> bool {
        self.name.object == ObjectId::META_DNODE
    }

    fn turn(self, level: u8, index: u64) -> Turn {
        let end = self.shape.covered(level, index).end;
        if self.is_of_dnodes() {
            Turn::of_dnodes(end, level)
        } else {
            Turn(self.name.object.get(), end - 1, level)
        }
    }
}

/// DestroyedObjset objsets have no number any more.
fn name(object: ObjectId) -> TreeName {
    TreeName { objset: ObjsetId::new(u64::MAX), object }
}

impl Freeing<'_> {
    async fn objset(&mut self, root: &Blkptr) -> Result<(), DmuError> {
        if !self.is_wanted(root) {
            return Ok(());
        }
        let meta = name(ObjectId::META_DNODE);
        let Some(phys) = self.or_lost(SyncRead::FreedRoot, self.read_root(root, meta).await)? else {
            self.taken.blocks.push(*root);
            return Ok(());
        };
        let objects = [
            (ObjectId::META_DNODE, &phys.meta_dnode),
            (PROJECTUSED_OBJECT, &phys.projectused_dnode),
            (GROUPUSED_OBJECT, &phys.groupused_dnode),
            (USERUSED_OBJECT, &phys.userused_dnode),
        ];
        for (object, dnode) in objects {
            let image = ObjsetPhys::dnode(dnode).map_err(|e| meta.damaged(e.to_string()));
            let Some(Some(image)) = self.or_lost(SyncRead::Freed, image)? else { continue };
            if !self.object(object, &image).await? {
                return Ok(());
            }
        }
        self.taken.blocks.push(*root);
        Ok(())
    }

    async fn read_root(&self, root: &Blkptr, meta: TreeName) -> Result<ObjsetPhys, DmuError> {
        let read = impatient(self.zio.read_as(root, &meta.bookmark(0, 0), Keep::InMemory)).await;
        let block = read.map_err(|error| meta.io_error(0, error))?;
        ObjsetPhys::decode(&block).map_err(|error| meta.damaged(error.to_string()))
    }

    /// Returns the result of a read, or `None` if the block is lost, and the blocks below it with
    /// it.
    fn or_lost<T>(&mut self, what: SyncRead, read: Result<T, DmuError>) -> Result<Option<T>, DmuError> {
        match read {
            Err(error) if what.can_lose(&error) => {
                tracing::error!(%error, "blocks below a damaged block of a destroyed dataset are never freed");
                self.taken.damaged += 1;
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    fn is_wanted(&self, bp: &Blkptr) -> bool {
        !bp.is_hole() && bp.birth() > self.born_after
    }

    /// Whether to go on after this object.
    async fn object(&mut self, object: ObjectId, image: &DnodeImage) -> Result<bool, DmuError> {
        let tree = Tree { name: name(object), shape: shape_of(image) };
        for (index, bp) in image.blkptrs.iter().enumerate() {
            if !self.block(tree, tree.shape.levels - 1, index as u64, *bp).await? {
                return Ok(false);
            }
        }
        if Turn(object.get(), SPILL, 0) >= self.from {
            self.taken.blocks.extend(image.spill.filter(|bp| self.is_wanted(bp)));
            self.taken.objects += 1;
        }
        Ok(true)
    }

    /// Takes what is below a block, then the block; whether to go on.
    fn block(
        &mut self,
        tree: Tree,
        level: u8,
        index: u64,
        bp: Blkptr,
    ) -> BoxFuture<'_, Result<bool, DmuError>> {
        Box::pin(async move {
            if !self.is_wanted(&bp) || tree.turn(level, index) < self.from {
                return Ok(true);
            }
            if level > 0 {
                if !self.pointers(tree, level, index, &bp).await? {
                    return Ok(false);
                }
            } else if tree.is_of_dnodes() {
                if !self.dnodes(tree, index, &bp).await? {
                    return Ok(false);
                }
                if self.taken.work() >= self.limit {
                    self.taken.next = Some(Remains { object: 0, block: index });
                    return Ok(false);
                }
            } else if self.taken.work() >= self.limit {
                self.taken.next = Some(Remains { object: tree.name.object.get(), block: index });
                return Ok(false);
            }
            self.taken.blocks.push(bp);
            Ok(true)
        })
    }

    async fn pointers(&mut self, tree: Tree, level: u8, index: u64, bp: &Blkptr) -> Result<bool, DmuError> {
        let read = tree::read_indirect(self.zio, tree.name, Keep::InMemory, tree.shape, level, index, bp);
        let Some(block) = self.or_lost(SyncRead::Freed, impatient(read).await)? else { return Ok(true) };
        let first = index << tree.shape.fan_shift();
        for slot in 0..tree.shape.fan_out() {
            let below = pointer_at(&block, slot).ok_or_else(|| tree.name.damaged("short indirect block"))?;
            if !self.block(tree, level - 1, first + slot as u64, below).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn dnodes(&mut self, tree: Tree, index: u64, bp: &Blkptr) -> Result<bool, DmuError> {
        let read = impatient(self.zio.read_as(bp, &tree.name.bookmark(0, index), Keep::InMemory)).await;
        let read = read.map_err(|source| tree.name.io_error(index, source));
        let Some(block) = self.or_lost(SyncRead::Freed, read)? else { return Ok(true) };
        for (slot, bytes) in dnodes_of_block(&block) {
            let object = ObjectId::new(index * SLOTS_PER_BLOCK + slot as u64);
            let image = DnodeImage::decode(bytes).map_err(|e| name(object).damaged(e.to_string()));
            let Some(image) = self.or_lost(SyncRead::Freed, image)? else { continue };
            if !self.object(object, &image).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
