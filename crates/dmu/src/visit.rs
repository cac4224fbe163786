//! Every block below an objset's root, in an order that can be left and taken up again.
//!
//! ```text
//!  root ─► blocks of dnodes ─► objects ─► indirect blocks ─► data      then the accounting objects
//!            (0,0,…) (32·b,0,…)   (n, block + 1, …)   a block before those below it
//! ```
//! Who scrubs a pool that is in use must look each pointer up again shortly before it trusts it.
//! So a visit goes down from the root every time, and a [`Place`] says up to where earlier ones
//! came: nothing is kept but three numbers, which also survive a restart.
//!
//! Invariants
//! - Visits that begin where the last one stopped see every block once, whatever their limit.
//!   (test: `visits_of_any_size_see_every_block_once`)
//! - What is below a block that cannot be read is passed over, never the rest.

use std::sync::Arc;

use env::{BoxFuture, IoBuf, boxed};
use ondisk::Blkptr;
use ondisk::dnode::{DnodeImage, dnodes_of_block};
use ondisk::objset::{GROUPUSED_OBJECT, ObjsetPhys, PROJECTUSED_OBJECT, USERUSED_OBJECT};
use units::{BlockId, Level, ObjectId, ObjsetId, Txg};
use zio::{Bookmark, Keep, Zio};

use crate::dnode::shape_of;
use crate::objset::SLOTS_PER_BLOCK;
use crate::shape::Shape;
use crate::tree::{TreeName, pointer_at};
use crate::{DmuError, Objset};

/// A point in the order of an objset's blocks: the first block that is still to be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    object: u64,
    /// 0: the block of dnodes that begins with this object; `u64::MAX`: the spill block.
    block: u64,
    /// Counts down the levels: a block comes before those below it.
    rank: u8,
}

const RANK_OF_DATA: u8 = u8::MAX;
/// The number that a spill block goes by.
const SPILL_BLOCK: BlockId = BlockId::new(u64::MAX);

impl Place {
    /// Before the root.
    pub const START: Self = Self { object: 0, block: 0, rank: 0 };

    fn of_dnodes(level: u8, first_block: u64) -> Self {
        let object = first_block.saturating_mul(SLOTS_PER_BLOCK);
        Self { object, block: 0, rank: RANK_OF_DATA - level }
    }

    fn of_block(object: ObjectId, level: u8, first_block: u64) -> Self {
        Self { object: object.get(), block: first_block.saturating_add(1), rank: RANK_OF_DATA - level }
    }

    /// As the format's bookmarks name it: object, level, block.
    #[must_use]
    pub fn to_words(self) -> [u64; 3] {
        let block = if self.block == SPILL_BLOCK.get() { self.block } else { self.block.saturating_sub(1) };
        [self.object, 0, block]
    }

    /// From a bookmark: at or before the place that gave it, so that what leads there is seen
    /// again. Above the data, only the object counts.
    #[must_use]
    pub fn from_words([object, level, block]: [u64; 3]) -> Self {
        let block = match (level, block) {
            (0, 1..) => block.saturating_add(1),
            _ => 0,
        };
        Self { object, block, rank: 0 }
    }
}

/// A block whose contents should have led to others.
#[derive(Debug)]
pub struct Lost {
    /// Which block.
    pub bookmark: Bookmark,
    /// When it was written.
    pub birth: Txg,
    /// Why it cannot be followed.
    pub error: DmuError,
}

/// What one visit saw.
#[derive(Debug, Default)]
pub struct Visited {
    /// Blocks that are on disk, and where they belong.
    pub blocks: Vec<(Bookmark, Blkptr)>,
    /// Blocks that could not be followed.
    pub lost: Vec<Lost>,
    /// Where to go on; none at the end.
    pub next: Option<Place>,
}

/// How far one visit goes.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// Where to begin.
    pub from: Place,
    /// Only blocks younger than this: a subtree that is older is passed over whole.
    pub born_after: Txg,
    /// At most so many blocks.
    pub limit: usize,
}

impl Objset {
    /// Visits blocks of the objset `id` under `root`, beginning at a place. Holes and embedded
    /// blocks are not seen. `limit` is at least one.
    #[boxed]
    pub async fn visit(zio: &Zio, id: ObjsetId, root: &Blkptr, reach: Reach) -> Visited {
        let mut walk = Walk { zio, id, reach, seen: Visited::default() };
        walk.objset(root).await;
        walk.seen
    }
}

struct Walk<'a> {
    zio: &'a Zio,
    id: ObjsetId,
    reach: Reach,
    seen: Visited,
}

/// An object's tree.
#[derive(Clone, Copy)]
struct Tree {
    object: ObjectId,
    shape: Shape,
}

impl Tree {
    fn is_of_dnodes(self) -> bool {
        self.object == ObjectId::META_DNODE
    }

    fn place(self, level: u8, index: u64) -> Place {
        let first = self.shape.covered(level, index).start;
        if self.is_of_dnodes() {
            Place::of_dnodes(level, first)
        } else {
            Place::of_block(self.object, level, first)
        }
    }

    /// Whether all that is below block `index` of `level` comes before a place.
    fn ends_before(self, level: u8, index: u64, place: Place) -> bool {
        let end = self.shape.covered(level, index).end;
        if self.is_of_dnodes() {
            return end.saturating_mul(SLOTS_PER_BLOCK) <= place.object;
        }
        (self.object.get(), end) < (place.object, place.block)
    }
}

impl Walk<'_> {
    fn is_done(&self) -> bool {
        self.seen.next.is_some()
    }

    fn name(&self, object: ObjectId) -> TreeName {
        TreeName { objset: self.id, object }
    }

    /// Notes a block, unless it was seen before or the limit is reached.
    fn see(&mut self, place: Place, bookmark: Bookmark, bp: &Blkptr) {
        if self.is_done() || place < self.reach.from {
            return;
        }
        if self.seen.blocks.len() >= self.reach.limit.max(1) {
            self.seen.next = Some(place);
        } else {
            self.seen.blocks.push((bookmark, *bp));
        }
    }

    fn lose(&mut self, bookmark: Bookmark, bp: &Blkptr, error: DmuError) {
        self.seen.lost.push(Lost { bookmark, birth: bp.birth(), error });
    }

    async fn contents(&mut self, bookmark: Bookmark, bp: &Blkptr) -> Option<Arc<IoBuf>> {
        match self.zio.read_as(bp, &bookmark, Keep::InMemory).await {
            Ok(data) => Some(data),
            Err(source) => {
                let error = self.name(bookmark.object).io_error(bookmark.block.get(), source);
                self.lose(bookmark, bp, error);
                None
            }
        }
    }

    async fn objset(&mut self, root: &Blkptr) {
        if root.is_hole() || root.birth() <= self.reach.born_after {
            return;
        }
        let bookmark = self.name(ObjectId::META_DNODE).bookmark(0, 0);
        self.see(Place::START, bookmark, root);
        let Some(block) = self.contents(bookmark, root).await else { return };
        let phys = match ObjsetPhys::decode(&block) {
            Ok(phys) => phys,
            Err(error) => {
                let error = self.name(ObjectId::META_DNODE).damaged(error.to_string());
                return self.lose(bookmark, root, error);
            }
        };
        let dnodes = [
            (ObjectId::META_DNODE, phys.meta_dnode),
            (PROJECTUSED_OBJECT, phys.projectused_dnode),
            (GROUPUSED_OBJECT, phys.groupused_dnode),
            (USERUSED_OBJECT, phys.userused_dnode),
        ];
        for (object, slot) in dnodes {
            match ObjsetPhys::dnode(&slot) {
                Ok(Some(image)) => self.object(object, &image).await,
                Ok(None) => {}
                Err(error) => self.lose(bookmark, root, self.name(object).damaged(error.to_string())),
            }
        }
    }

    async fn object(&mut self, object: ObjectId, image: &DnodeImage) {
        let tree = Tree { object, shape: shape_of(image) };
        for (index, bp) in image.blkptrs.iter().enumerate() {
            self.block(tree, tree.shape.levels - 1, index as u64, *bp).await;
        }
        if let Some(spill) = image.spill.filter(|bp| self.is_due(bp)) {
            let place = Place { object: object.get(), block: u64::MAX, rank: RANK_OF_DATA };
            let bookmark = Bookmark { block: SPILL_BLOCK, ..self.name(object).bookmark(0, 0) };
            self.see(place, bookmark, &spill);
        }
    }

    fn is_due(&self, bp: &Blkptr) -> bool {
        !bp.is_hole() && bp.birth() > self.reach.born_after
    }

    fn block(&mut self, tree: Tree, level: u8, index: u64, bp: Blkptr) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.is_done() || !self.is_due(&bp) || tree.ends_before(level, index, self.reach.from) {
                return;
            }
            let bookmark = self.name(tree.object).bookmark(level, index);
            if !bp.is_embedded() {
                self.see(tree.place(level, index), bookmark, &bp);
            }
            match level {
                _ if self.is_done() => {}
                0 if tree.is_of_dnodes() => self.dnodes(bookmark, &bp).await,
                0 => {}
                _ => self.pointers(tree, bookmark, &bp).await,
            }
        })
    }

    async fn pointers(&mut self, tree: Tree, bookmark: Bookmark, bp: &Blkptr) {
        let Some(block) = self.contents(bookmark, bp).await else { return };
        let first = bookmark.block.get() << tree.shape.fan_shift();
        for slot in 0..tree.shape.fan_out() {
            match pointer_at(&block, slot) {
                Some(below) => self.block(tree, bookmark.level.get() - 1, first + slot as u64, below).await,
                None => {
                    let error = self.name(tree.object).damaged("short indirect block");
                    return self.lose(bookmark, bp, error);
                }
            }
        }
    }

    async fn dnodes(&mut self, bookmark: Bookmark, bp: &Blkptr) {
        let Some(block) = self.contents(bookmark, bp).await else { return };
        let first = bookmark.block.get().saturating_mul(SLOTS_PER_BLOCK);
        for (slot, bytes) in dnodes_of_block(&block) {
            let object = ObjectId::new(first + slot as u64);
            if self.is_done() {
                return;
            }
            if object.get() < self.reach.from.object {
                continue;
            }
            match DnodeImage::decode(bytes) {
                Ok(image) => self.object(object, &image).await,
                Err(error) => {
                    let bookmark = Bookmark { object, level: Level::new(0), ..bookmark };
                    self.lose(bookmark, bp, self.name(object).damaged(error.to_string()));
                }
            }
        }
    }
}
